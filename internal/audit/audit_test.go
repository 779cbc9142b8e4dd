// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func mustOpen(t testing.TB, dir string) *Log { return mustOpenSized(t, dir, segmentBytes) }

func mustOpenSized(t testing.TB, dir string, size int64) *Log {
	t.Helper()
	l, err := openSized(t.Context(), dir, Options{}, size)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func begin(t testing.TB, l *Log, op vm.Op, account vm.AccountID) string {
	t.Helper()
	id, err := l.Begin(t.Context(), Entry{Op: op, VM: "v", Actor: vm.Actor{Account: account}, Subject: "box"})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func list(t testing.TB, l *Log, f Filter) []Record {
	t.Helper()
	out, err := l.List(f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// whole wants the log in dir to be without a problem, with that many lines (-1 = any).
func whole(t testing.TB, dir string, lines int64) Report {
	t.Helper()
	r, err := Verify(dir, "", Head{})
	if err != nil || r.Problem != "" || lines >= 0 && r.Records != lines {
		t.Errorf("verify: %+v, %v; want %d lines", r, err, lines)
	}
	return r
}

// TestRecords: an action is begun, ends, is listed and survives reopening; its
// receipt is the id it is found by.
func TestRecords(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
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
	check := func() {
		t.Helper()
		if p := l.Pending(); len(p) != 1 || p[0].ID != c || p[0].Op != vm.OpDelete {
			t.Errorf("pending: %v", p)
		}
		got := list(t, l, Filter{})
		if len(got) != 3 || got[0].ID != c || got[0].Outcome != Pending || got[1].Outcome != "timeout" || got[1].Error == "" ||
			got[2].Outcome != "ok" || got[2].Result["x"] == nil || got[2].EndedAt.IsZero() {
			t.Fatalf("list: %+v", got)
		}
		if own := list(t, l, Filter{Account: "one"}); len(own) != 2 {
			t.Errorf("of one account: %d", len(own))
		}
		if none := list(t, l, Filter{VM: "other"}); len(none) != 0 {
			t.Errorf("of another VM: %d", len(none))
		}
		if older := list(t, l, Filter{Before: got[1].Seq}); len(older) != 1 || older[0].ID != a {
			t.Errorf("older: %+v", older)
		}
		if first := list(t, l, Filter{Limit: 1}); len(first) != 1 || first[0].ID != c {
			t.Errorf("newest: %+v", first)
		}
	}
	check() // the outcomes may not be on disk yet
	mustClose(t, l)
	if _, err := l.Begin(t.Context(), Entry{}); !errors.Is(err, vm.Unavailable) {
		t.Errorf("begin after close: %v", err)
	}
	if err := l.End(c, nil, nil); !errors.Is(err, vm.Unavailable) {
		t.Errorf("end after close: %v", err)
	}
	l = mustOpen(t, dir)
	check()
	mustClose(t, l)
	if r := whole(t, dir, 5); r.Anchored != 5 {
		t.Errorf("signed up to %d", r.Anchored)
	}
}

// TestLinesAreJSON: what an operator finds with other tools is what was written.
func TestLinesAreJSON(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	id := begin(t, l, vm.OpExec, "one")
	mustClose(t, l)
	data, err := os.ReadFile(filepath.Join(dir, segmentName(0)))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Hash   string
		Record struct {
			ID, Prev, Subject string
			Actor             struct{ Account string }
		}
	}
	if err := json.Unmarshal(data, &got); err != nil || got.Record.ID != id || got.Record.Actor.Account != "one" || got.Record.Prev != genesis || len(got.Hash) != 64 {
		t.Errorf("the line %s is read as %+v (%v), want the first record of account one with its hash", data, got, err)
	}
}

// TestBounds: what a caller sends cannot blow up a line, and an outcome is
// recorded even if its detail cannot be.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	long := strings.Repeat("é\x00\n", 10000)
	id, err := l.Begin(t.Context(), Entry{Op: vm.OpExec, Subject: long})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Begin(t.Context(), Entry{Detail: map[string]any{"x": long}}); !errors.Is(err, vm.Limit) {
		t.Errorf("large detail: %v", err)
	}
	if _, err := l.Begin(t.Context(), Entry{Detail: map[string]any{"x": func() {}}}); !errors.Is(err, vm.Internal) {
		t.Errorf("detail that is no JSON: %v", err)
	}
	if err := l.End(id, errors.New(long), map[string]any{"x": long}); err != nil {
		t.Fatal(err)
	}
	got := list(t, l, Filter{})
	if len(got) != 1 || got[0].Outcome != "internal" || len(got[0].Subject) > maxSubject+3 || len(got[0].Error) > maxSubject+3 || got[0].Result["omitted"] == nil {
		t.Errorf("%d records, outcome %q, detail %v", len(got), got[0].Outcome, got[0].Result)
	}
	mustClose(t, l)
	whole(t, dir, 2)
}

// TestGroupCommit: every one of many concurrent Begins is on disk when it
// returns, whoever's write it went out with.
func TestGroupCommit(t *testing.T) {
	dir := t.TempDir()
	l := mustOpenSized(t, dir, 20<<10) // many segments
	onDisk := func(id string) bool {
		numbers, err := segments(dir)
		if err != nil {
			t.Error(err)
		}
		for i := len(numbers) - 1; i >= 0; i-- {
			data, err := os.ReadFile(filepath.Join(dir, segmentName(numbers[i])))
			if err == nil && bytes.Contains(data, []byte(id)) {
				return true
			}
		}
		return false
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 20 {
				id, err := l.Begin(t.Context(), Entry{Op: vm.OpExec})
				if err != nil {
					t.Error(err)
					return
				}
				if !onDisk(id) {
					t.Errorf("%s is not on disk", id)
				}
				errs := make(chan error, 2) // of two ends one counts
				for range 2 {
					go func() { errs <- l.End(id, nil, nil) }()
				}
				if a, b := <-errs, <-errs; (a == nil) == (b == nil) {
					t.Errorf("two ends: %v, %v", a, b)
				}
			}
		})
	}
	wg.Wait()
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	r := whole(t, dir, -1)
	if r.Anchored != r.Records {
		t.Errorf("after sync: %+v", r)
	}
	if got := list(t, l, Filter{Limit: 1000}); len(got) != 400 || got[399].Outcome != "ok" {
		t.Errorf("%d records", len(got))
	}
	mustClose(t, l)
	if n, err := segments(dir); err != nil || len(n) < 4 {
		t.Errorf("segments %v, %v", n, err)
	}
}

// TestAbandoned: a Begin whose caller goes away never stays open.
func TestAbandoned(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		if id, err := l.Begin(ctx, Entry{Op: vm.OpExec}); err == nil {
			if err := l.End(id, nil, nil); err != nil { // it was quick enough
				t.Error(err)
			}
		} else if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := l.Sync(); err != nil { // with the ends of the abandoned ones
		t.Fatal(err)
	}
	if p := l.Pending(); len(p) != 0 {
		t.Errorf("%d are open", len(p))
	}
	for _, r := range list(t, l, Filter{}) {
		if r.Outcome == Pending {
			t.Errorf("a record is pending after all have ended: %+v", r)
		}
	}
	mustClose(t, l)
	whole(t, dir, -1)
}

// TestOpenOverSegments: an action that was begun many segments ago is still
// open after a restart, and can be ended then.
func TestOpenOverSegments(t *testing.T) {
	dir := t.TempDir()
	l := mustOpenSized(t, dir, 4<<10)
	old := begin(t, l, vm.OpExec, "one")
	for range 100 {
		if err := l.End(begin(t, l, vm.OpExec, "two"), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	l = mustOpenSized(t, dir, 4<<10)
	if l.segment < 3 {
		t.Fatalf("only %d segments", l.segment)
	}
	if p := l.Pending(); len(p) != 1 || p[0].ID != old || p[0].Subject != "box" {
		t.Fatalf("pending: %+v", p)
	}
	if err := l.End(old, vm.Errorf(vm.Unavailable, "", "the host restarted"), nil); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	l = mustOpenSized(t, dir, 4<<10)
	if p := l.Pending(); len(p) != 0 {
		t.Errorf("pending: %+v", p)
	}
	if got := list(t, l, Filter{Account: "one"}); len(got) != 1 || got[0].Outcome != "unavailable" {
		t.Errorf("the records of account one are %+v, want one with outcome unavailable", got)
	}
	mustClose(t, l)
	whole(t, dir, -1)
}

// TestTornRotation: a crash while a segment is begun loses nothing of the ones
// before, in particular not what is open.
func TestTornRotation(t *testing.T) {
	for _, head := range []string{"", `{"hash":"0123`} {
		dir := t.TempDir()
		l := mustOpen(t, dir)
		id := begin(t, l, vm.OpExec, "one")
		mustClose(t, l)
		if err := os.WriteFile(filepath.Join(dir, segmentName(1)), []byte(head), 0o600); err != nil {
			t.Fatal(err)
		}
		l = mustOpen(t, dir)
		if p := l.Pending(); len(p) != 1 || p[0].ID != id {
			t.Errorf("pending: %+v", p)
		}
		mustClose(t, l)
		whole(t, dir, 1)
	}
}

// TestTornTail: a crash in the middle of a line loses that line only, and the
// chain says so.
func TestTornTail(t *testing.T) {
	for _, name := range []string{segmentName(0), anchorsFile} {
		dir := t.TempDir()
		l := mustOpen(t, dir)
		id := begin(t, l, vm.OpExec, "one")
		mustClose(t, l)
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(f, `{"hash":"0123abc`)
		f.Close()
		l = mustOpen(t, dir)
		if p := l.Pending(); len(p) != 1 || p[0].ID != id {
			t.Errorf("pending: %v", p)
		}
		begin(t, l, vm.OpExec, "one")
		mustClose(t, l)
		lines := int64(2)
		if name != anchorsFile {
			lines++ // the note
		}
		whole(t, dir, lines)
		l = mustOpen(t, dir)
		mustClose(t, l)
	}
}

// TestFullDisk: without a record there is no action; what was done is recorded
// as soon as there is space again, and what was refused never is.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	id := begin(t, l, vm.OpExec, "one")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	good := swap(t, l, full)
	for range 2 {
		if id, err := l.Begin(t.Context(), Entry{Op: vm.OpExec, Subject: "refused"}); id != "" || !errors.Is(err, vm.NoSpace) {
			t.Errorf("on a full disk: %q, %v", id, err)
		}
	}
	if err := l.End(id, nil, nil); err != nil {
		t.Errorf("end on a full disk: %v", err)
	}
	if err := l.Sync(); !errors.Is(err, vm.NoSpace) {
		t.Errorf("sync on a full disk: %v", err)
	}
	swap(t, l, good)
	begin(t, l, vm.OpDelete, "one")
	got := list(t, l, Filter{})
	if len(got) != 2 || got[1].ID != id || got[1].Outcome != "ok" {
		t.Errorf("after the disk had space again the records are %+v, want 2, the second of them %s with outcome ok", got, id)
	}
	mustClose(t, l)
	whole(t, dir, 3)
	if data, err := os.ReadFile(filepath.Join(dir, segmentName(0))); err != nil || bytes.Contains(data, []byte("refused")) {
		t.Errorf("a refused action is in the log, %v", err)
	}
}

// swap gives the idle writer another file.
func swap(t *testing.T, l *Log, f *os.File) *os.File {
	t.Helper()
	old := l.file
	l.file, l.broken = f, nil // /dev/full cannot be truncated either, which is another test's matter
	return old
}

// TestCrash kills a process that writes, and wants every acknowledged record;
// again and again on one log.
func TestCrash(t *testing.T) {
	if dir := os.Getenv("WARREN_AUDIT_CHILD"); dir != "" {
		crashing(t, dir)
		return
	}
	dir := t.TempDir()
	acked := map[string]bool{}
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCrash$")
		cmd.Env = append(os.Environ(), "WARREN_AUDIT_CHILD="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		n := 0
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if id, ok := strings.CutPrefix(sc.Text(), "begun "); ok {
				acked[id] = true
				n++
			}
			if n == 100+37*round {
				_ = cmd.Process.Kill() // it may be dead by the second line
			}
		}
		_ = cmd.Wait() // killed
		if n < 100 {
			t.Fatalf("the child began %d", n)
		}
	}
	l := mustOpenSized(t, dir, 8<<10)
	found := list(t, l, Filter{Limit: 1 << 20})
	for _, r := range found {
		delete(acked, r.ID)
	}
	if len(acked) > 0 {
		t.Errorf("%d acknowledged records are lost", len(acked))
	}
	open := 0
	for _, r := range found {
		if r.Outcome == Pending {
			open++
		}
	}
	if p := l.Pending(); len(p) != open {
		t.Errorf("%d pending, %d in the list", len(p), open)
	}
	for _, r := range l.Pending() {
		if err := l.End(r.ID, vm.Errorf(vm.Unavailable, "", "the host restarted"), nil); err != nil {
			t.Error(err)
		}
	}
	mustClose(t, l)
	whole(t, dir, -1)
}

func crashing(t *testing.T, dir string) {
	l := mustOpenSized(t, dir, 8<<10)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				id, err := l.Begin(context.WithoutCancel(t.Context()), Entry{Op: vm.OpExec, Subject: strings.Repeat("x", i%500)})
				if err != nil {
					fmt.Println("error", err)
					return
				}
				_, _ = io.WriteString(os.Stdout, "begun "+id+"\n") // one write: lines stay whole
				if i%3 != 0 {
					_ = l.End(id, nil, nil)
				}
			}
		})
	}
	wg.Wait()
}

// TestMany: 100,000 actions are verified, opened and listed in bearable time.
func TestMany(t *testing.T) {
	const n = 100_000
	dir := t.TempDir()
	l := mustOpen(t, dir)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			for range n / 200 {
				id, err := l.Begin(t.Context(), Entry{Op: vm.OpExec, VM: "abcdefghij0123456789", Subject: "sh -c true", Actor: vm.Actor{Account: "one"}})
				if err == nil {
					err = l.End(id, nil, nil)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	began := time.Now()
	wg.Wait()
	t.Logf("%d actions written in %v", n, time.Since(began))
	mustClose(t, l)

	began = time.Now()
	whole(t, dir, -1)
	verify := time.Since(began)
	began = time.Now()
	l = mustOpen(t, dir)
	defer l.Close()
	reopen := time.Since(began)
	began = time.Now()
	if got := list(t, l, Filter{}); len(got) != 100 {
		t.Errorf("%d records", len(got))
	}
	newest := time.Since(began)
	began = time.Now()
	begin(t, l, vm.OpExec, "one")
	t.Logf("verify %v, open %v, list of the newest 100 %v, one begin %v", verify, reopen, newest, time.Since(began))
	if verify > 20*time.Second || reopen > 2*time.Second || newest > 200*time.Millisecond { // room for a loaded machine
		t.Error("too slow")
	}
}
