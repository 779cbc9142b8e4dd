// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package powercut_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/powercut"
	"github.com/warren-vm/warren/vm"
)

// TestCutInZeros cuts the power while the audit log overwrites the zeros that it filled in
// ahead. Each cut leaves every record that was acknowledged, and a log that opens, verifies
// and takes records, also where only the later blocks of the write are on the disk.
func TestCutInZeros(t *testing.T) {
	d := powercut.Mount(t)
	name := filepath.Join(d.Dir, "audit", "000000.jsonl")
	must(t, os.Mkdir(filepath.Dir(name), 0o700))
	d.SyncAll()
	log, err := audit.Open(t.Context(), filepath.Dir(name), audit.Options{})
	must(t, err)
	const acked = 5
	for i := range acked {
		_, err := log.Begin(t.Context(), audit.Entry{Op: vm.OpExec, Subject: "acked " + strconv.Itoa(i)})
		must(t, err)
	}
	must(t, log.Sync())
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) { // the zeros, on the disk
		if st, err := os.Stat(name); err == nil && st.Size() > 200<<10 && len(d.Syncs()) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no zeros were filled in")
		}
	}
	var mu sync.Mutex
	cuts := map[powercut.Loss][]string{}
	d.BeforeSync(func(path string) {
		if !strings.HasSuffix(path, "000000.jsonl") {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, l := range append([]powercut.Loss{powercut.Holed}, powercut.Losses...) {
			cuts[l] = append(cuts[l], d.Cut(t, l))
		}
	})
	many := make([]audit.Entry, 100) // a write of many blocks
	for i := range many {
		many[i] = audit.Entry{Op: vm.OpExec, Subject: strings.Repeat("x", 500), Outcome: "ok"}
	}
	must(t, log.Record(t.Context(), many))
	d.BeforeSync(nil)
	must(t, log.Close())
	mu.Lock()
	defer mu.Unlock()
	if len(cuts) == 0 {
		t.Fatal("the write was not synced")
	}
	for loss, dirs := range cuts {
		for _, dir := range dirs {
			dir = filepath.Join(dir, "audit")
			log, err := audit.Open(t.Context(), dir, audit.Options{})
			if err != nil {
				t.Errorf("%s: the log opens with %v", loss, err)
				continue
			}
			_, err = log.Begin(t.Context(), audit.Entry{Op: vm.OpExec, Subject: "after"})
			must(t, err)
			list, err := log.List(audit.Filter{Op: vm.OpExec, Limit: 1000})
			must(t, err)
			found := 0
			for _, r := range list {
				if strings.HasPrefix(r.Subject, "acked ") {
					found++
				}
			}
			if found != acked {
				t.Errorf("%s: %d acknowledged records are left, want %d", loss, found, acked)
			}
			must(t, log.Close())
			if r, err := audit.Verify(dir, "", audit.Head{}); err != nil || r.Problem != "" {
				t.Errorf("%s: the log verifies as %+v (%v), want no problem", loss, r, err)
			}
		}
	}
}
