// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// sizeOf is the size of a file in the directory of a log; -1 = there is none.
func sizeOf(dir, name string) int64 {
	st, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		return -1
	}
	return st.Size()
}

// settled waits until something is so.
func settled(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("did not happen: " + what)
		}
	}
}

// TestFilledAhead: a quiet log has little filled ahead of it, and a busy one continues in
// segments that were filled before; no record is lost to the zeros, an open log verifies
// and a closed one has none.
func TestFilledAhead(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	begin(t, l, vm.OpExec, "one")
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	settled(t, "zeros are filled in", func() bool { return sizeOf(dir, segmentName(0)) > 100<<10 })
	begin(t, l, vm.OpExec, "one")
	whole(t, dir, -1)
	if got := list(t, l, Filter{}); len(got) != 2 {
		t.Errorf("an open log lists %d records, want 2", len(got))
	}
	if size := sizeOf(dir, segmentName(0)); size > 300<<10 || sizeOf(dir, nextSegment) >= 0 {
		t.Errorf("a quiet log has a file of %d bytes, and a next one of %d, want 256 KiB ahead and none", size, sizeOf(dir, nextSegment))
	}
	mustClose(t, l)
	if data, err := os.ReadFile(filepath.Join(dir, segmentName(0))); err != nil || bytes.IndexByte(data, 0) >= 0 {
		t.Errorf("a closed log has zeros (%v)", err)
	}

	dir = t.TempDir()
	l = mustOpenSized(t, dir, 64<<10)
	next := false
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 300 {
				if err := l.End(begin(t, l, vm.OpExec, "one"), nil, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for done := false; !done; time.Sleep(time.Millisecond) {
		next = next || sizeOf(dir, nextSegment) > 0
		l.mu.Lock()
		done = l.point.Seq > 11_000
		l.mu.Unlock()
	}
	wg.Wait()
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	whole(t, dir, -1)
	if got := list(t, l, Filter{Op: vm.OpExec, Limit: 10_000}); len(got) != 6000 {
		t.Errorf("a busy log lists %d records, want 6000", len(got))
	}
	if !next {
		t.Error("a busy log never had its next segment filled ahead")
	}
	mustClose(t, l)
	if sizeOf(dir, nextSegment) >= 0 {
		t.Error("a closed log has a next segment")
	}
	whole(t, dir, -1)
}

// TestTornInZeros: a power cut while a write overwrites zeros leaves some of its blocks as
// zeros. The log opens without that write, and says so. What was signed cannot be taken for
// a torn write, and no more than one write can.
func TestTornInZeros(t *testing.T) {
	origin := t.TempDir()
	l := mustOpen(t, origin)
	for range 3 {
		begin(t, l, vm.OpExec, "one")
	}
	mustClose(t, l)
	zeros := make([]byte, 8192)
	tear := func(behind ...[]byte) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Join(append([][]byte{b}, behind...), nil) }
	}
	line := []byte(`{"hash":"","record":{}}` + "\n")
	for name, c := range map[string]struct {
		damage func([]byte) []byte
		note   bool
		fault  string // of a verification before the start
	}{
		"zeros":                {tear(zeros), false, ""},
		"a part of a line":     {tear(line[:9], zeros), true, ""},
		"zeros, then a part":   {tear(zeros, line[:9], zeros), true, ""},
		"zeros, then lines":    {tear(zeros, line, line, zeros), true, "record 4 is not a record"},
		"a hole in a line":     {tear(line[:9], zeros, line[9:], line, zeros), true, "record 4 is not a record"},
		"a very long hole":     {tear(make([]byte, 2<<20), line, line), true, "record 4 is not a record"},
		"more than one write":  {tear(zeros, bytes.Repeat(line, anchorEvery+1)), false, "record 4 is not a record"},
		"a signed record torn": {func(b []byte) []byte { clear(b[len(b)-200 : len(b)-100]); return b }, false, "record 3"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copied(t, origin)
			edit(t, filepath.Join(dir, segmentName(0)), c.damage)
			r, err := Verify(dir, "", Head{})
			if err != nil || !strings.Contains(r.Problem, c.fault) || c.fault == "" && r.Problem != "" || c.fault != "" && r.Code != CodeChanged {
				t.Errorf("before the start, the log verifies as %+v (%v), want the problem %q", r, err, c.fault)
			}
			l, err := Open(t.Context(), dir, Options{})
			if c.fault != "" && !c.note {
				if vm.KindOf(err) != vm.Corrupt {
					t.Errorf("the log opens with %v, want corrupt", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			begin(t, l, vm.OpExec, "two")
			if got := list(t, l, Filter{Op: vm.OpExec}); len(got) != 4 {
				t.Errorf("the log lists %d actions, want 4", len(got))
			}
			if got := list(t, l, Filter{Op: vm.OpAuditNote}); len(got) == 1 != c.note {
				t.Errorf("the log has the notes %+v, want one: %v", got, c.note)
			}
			mustClose(t, l)
			whole(t, dir, -1)
		})
	}
}

// TestFillDiskFull: a disk that is too full to fill ahead still takes records.
func TestFillDiskFull(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	l.mu.Lock()
	l.ahead.pause = time.Now().Add(time.Hour) // what a failure does
	l.mu.Unlock()
	for range 50 {
		begin(t, l, vm.OpExec, "one")
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	to, size := l.ahead.to, l.size
	l.mu.Unlock()
	if to != size {
		t.Errorf("the log has blocks up to %d, want %d, the end of its lines", to, size)
	}
	mustClose(t, l)
	whole(t, dir, 50)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, dir)
	good := swap(t, l, full)
	if err := l.fillAhead(); err == nil {
		t.Error("filling a full disk gives no error")
	}
	swap(t, l, good)
	begin(t, l, vm.OpExec, "one")
	mustClose(t, l)
	whole(t, dir, 51)
	full.Close()
}
