// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// storeSite is a site whose records are in an embedded etcd.
func storeSite(t testing.TB) *vmtest.Site {
	t.Helper()
	dir, err := os.MkdirTemp("", "we") // short: the sockets' paths are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := vmtest.NewSite(dir)
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{Dir: s.Dir.Etcd(), SocketDir: filepath.Join(dir, "s"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("store: %v", err)
		}
	})
	s.Records, s.Backend.Over = engine.StoredRecords(st), store.Backend{Store: st}
	return s
}

// TestOnStore repeats the life of a VM, and a death at the steps between which
// records change, on the real store.
func TestOnStore(t *testing.T) {
	s := storeSite(t)
	for _, label := range []string{"", "create:warm", "create:done", "start:launch", "start:done", "stop:commit", "kill:commit", "delete:machine", "delete:forget"} {
		verb, _, _ := strings.Cut(label, ":")
		if label == "" {
			verb = "create"
		}
		e, c := open(t, s)
		prepare(t, e, c, verb)
		closeEngine(t, e)
		hit := false
		s.Fault = nil
		if label != "" {
			s.Fault = faultAt(label, engine.ErrDied, &hit)
		}
		e, c = open(t, s)
		if err := doVerb(t, e, c, verb); label != "" && !errors.Is(err, engine.ErrDied) {
			t.Fatalf("%s: %v", label, err)
		}
		closeEngine(t, e)
		s.Fault = nil
		e, c = open(t, s)
		consistent(t, s)
		afterwards(t, e, c)
		nothingLeft(t, s)
		closeEngine(t, e)
	}
}

// TestOverheadOfCreate: what create costs beside the machine's own start stays
// below the budget, in the median.
func TestOverheadOfCreate(t *testing.T) {
	s := storeSite(t)
	e, c := open(t, s)
	const n = 21
	took := make([]time.Duration, 0, n)
	for range n {
		begin := time.Now()
		v := create(t, e, c, engine.CreateRequest{})
		took = append(took, time.Since(begin))
		if _, err := e.Delete(t.Context(), c, string(v.ID)); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(took)
	t.Logf("median %v, worst %v", took[n/2], took[n-1])
	if took[n/2] > 100*time.Millisecond { // the budget is 15 ms; a loaded machine gets some room
		t.Errorf("median %v", took[n/2])
	}
}

// TestListOfMany: 1,000 records are listed from memory.
func TestListOfMany(t *testing.T) {
	s, e, c := site(t)
	closeEngine(t, e)
	for range 1000 {
		id := vm.NewID()
		rec := vm.VM{ID: id, Account: c.Actor.Account, Name: "n", State: vm.Stopped, CreatedAt: time.Now()}
		if _, err := s.Records.VMs.Create(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(s.Dir.VM(id), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.Dir.Overlay(id), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	e, c = open(t, s)
	t.Logf("open with 1000 records: %v", time.Since(begin))
	begin = time.Now()
	vms, n, _, err := e.List(t.Context(), c, engine.Filter{})
	took := time.Since(begin)
	t.Logf("list of 1000: %v", took)
	if err != nil || len(vms) != 1000 || n != 1000 || took > 50*time.Millisecond {
		t.Errorf("%d of %d in %v, %v", len(vms), n, took, err)
	}
}
