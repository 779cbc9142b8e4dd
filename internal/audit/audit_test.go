// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/warren-vm/warren/vm"
)

func open(t *testing.T, dir string) *Log {
	t.Helper()
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func begin(t *testing.T, l *Log, op vm.Op, account vm.AccountID) string {
	t.Helper()
	id, err := l.Begin(t.Context(), Entry{Op: op, VM: "v", Actor: vm.Actor{Account: account}, Subject: "box"})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestRecords: an action is begun, ends, is listed and survives reopening.
//
// 001-09, 003-40
func TestRecords(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	a := begin(t, l, vm.OpCreate, "one")
	b := begin(t, l, vm.OpExec, "two")
	c := begin(t, l, vm.OpDelete, "one")
	if err := l.End(a, nil, map[string]any{"x": 1}); err != nil {
		t.Fatal(err)
	}
	if err := l.End(b, vm.Errorf(vm.Timeout, "box", "too slow"), nil); err != nil {
		t.Fatal(err)
	}
	if err := l.End(a, nil, nil); !errors.Is(err, vm.NotFound) {
		t.Errorf("second end: %v", err)
	}
	if p := l.Pending(); len(p) != 1 || p[0].ID != c {
		t.Errorf("pending: %v", p)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Begin(t.Context(), Entry{}); !errors.Is(err, vm.Unavailable) {
		t.Errorf("begin after close: %v", err)
	}
	l = open(t, dir)
	defer l.Close()
	got := l.List(Filter{})
	if len(got) != 3 || got[0].ID != c || got[1].Outcome != "timeout" || got[2].Outcome != "ok" {
		t.Fatalf("after reopening: %+v", got)
	}
	if own := l.List(Filter{Account: "one"}); len(own) != 2 {
		t.Errorf("of one account: %d", len(own))
	}
	if older := l.List(Filter{Before: got[1].Seq}); len(older) != 1 || older[0].ID != a {
		t.Errorf("older: %+v", older)
	}
	if r, err := Verify(dir, ""); err != nil || r.Problem != "" || r.Records != 5 {
		t.Errorf("verify: %+v, %v", r, err)
	}
}

// TestGroupCommit: every one of many concurrent Begins is on disk when it returns.
func TestGroupCommit(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	defer l.Close()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 20 {
				id, err := l.Begin(t.Context(), Entry{Op: vm.OpExec})
				if err != nil {
					t.Error(err)
					return
				}
				data, err := os.ReadFile(filepath.Join(dir, segmentName(0)))
				if err != nil || !bytes.Contains(data, []byte(id)) {
					t.Errorf("%s is not on disk: %v", id, err)
				}
				if err := l.End(id, nil, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(dir, ""); err != nil || r.Problem != "" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestTampering: what somebody does to the file is found, and where.
func TestTampering(t *testing.T) {
	lines := func(data []byte) [][]byte { return bytes.SplitAfter(data, []byte("\n")) }
	cases := []struct {
		name   string
		damage func([][]byte) [][]byte
		want   string
	}{
		{"changed", func(l [][]byte) [][]byte { l[4] = bytes.Replace(l[4], []byte(`"box"`), []byte(`"bax"`), 1); return l }, "record 5"},
		{"removed", func(l [][]byte) [][]byte { return append(l[:4:4], l[5:]...) }, "record 5"},
		{"inserted", func(l [][]byte) [][]byte { return append(l[:4:4], append([][]byte{l[2]}, l[4:]...)...) }, "record 5"},
		{"reordered", func(l [][]byte) [][]byte { l[4], l[5] = l[5], l[4]; return l }, "record 5"},
		{"cut tail", func(l [][]byte) [][]byte { return l[:6] }, "the tail is cut"},
		{"emptied", func(l [][]byte) [][]byte { return nil }, "the tail is cut"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir)
			for range 10 {
				begin(t, l, vm.OpExec, "one")
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(dir, segmentName(0))
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, bytes.Join(c.damage(lines(data)), nil), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Verify(dir, "")
			if err != nil || !strings.Contains(r.Problem, c.want) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestForgedAnchors: a chain rewritten as a whole needs the key.
func TestForgedAnchors(t *testing.T) {
	dir, forged := t.TempDir(), t.TempDir()
	for i, d := range []string{dir, forged} {
		l := open(t, d)
		for range 3 + i {
			begin(t, l, vm.OpExec, "one")
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	pub, err := os.ReadFile(filepath.Join(dir, publicFile))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(forged, string(pub)); err != nil || !strings.Contains(r.Problem, "signature") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestTornTail: a crash in the middle of a line loses that line only.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	id := begin(t, l, vm.OpExec, "one")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, segmentName(0)), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `0123abc {"seq":2,"id`)
	f.Close()
	l = open(t, dir)
	if p := l.Pending(); len(p) != 1 || p[0].ID != id {
		t.Errorf("pending: %v", p)
	}
	begin(t, l, vm.OpExec, "one")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(dir, ""); err != nil || r.Problem != "" || r.Records != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFullDisk: without a record there is no action; with space again there is.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	begin(t, l, vm.OpExec, "one")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	good := l.file
	l.file = full
	for range 3 {
		if id, err := l.Begin(t.Context(), Entry{Op: vm.OpExec}); !errors.Is(err, vm.NoSpace) {
			t.Errorf("on a full disk: %q, %v", id, err)
		}
	}
	l.file = good
	begin(t, l, vm.OpExec, "one")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(dir, ""); err != nil || r.Problem != "" || r.Records != 5 {
		t.Errorf("%+v, %v", r, err)
	}
}
