// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func must(t *testing.T, l *Log, err error) *Log {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func put(t *testing.T, l *Log, n int) {
	t.Helper()
	for range n {
		if _, err := l.Append(vm.Event{Type: "vm.running", VM: "v"}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestResume: a reader that comes back with the last id it saw gets every event
// once, over restarts and segments, and then the live ones.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	l, err := openWith(dir, 500, 100, "boot")
	must(t, l, err)
	put(t, l, 40)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = openWith(dir, 500, 100, "boot")
	must(t, l, err)
	defer l.Close()
	put(t, l, 10)
	s, err := l.Subscribe(7)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for want := int64(8); want <= 50; want++ {
		e, err := s.Next(t.Context())
		if err != nil || e.ID != want {
			t.Fatalf("the next event should be %d, but is %d (%v)", want, e.ID, err)
		}
	}
	got := make(chan vm.Event, 1)
	go func() {
		e, err := s.Next(t.Context())
		if err != nil {
			e.Type = err.Error()
		}
		got <- e
	}()
	put(t, l, 1)
	if e := <-got; e.ID != 51 {
		t.Errorf("live: %+v", e)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without an event: %v", err)
	}
}

// TestTooOld: what is no longer kept is said to be gone, at once or to a slow reader.
func TestTooOld(t *testing.T) {
	l, err := openWith(t.TempDir(), 300, 3, "boot")
	must(t, l, err)
	defer l.Close()
	put(t, l, 1)
	slow, err := l.Subscribe(0)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	put(t, l, 99)
	if _, err := l.Subscribe(0); vm.AsError(err).Code != "EVENTS_GONE" {
		t.Errorf("subscribe: %v", err)
	}
	if _, err := slow.Next(t.Context()); vm.AsError(err).Code != "EVENTS_GONE" {
		t.Errorf("slow reader: %v", err)
	}
	live, err := l.Subscribe(-1)
	if err != nil {
		t.Fatal(err)
	}
	put(t, l, 1)
	if e, err := live.Next(t.Context()); err != nil || e.ID != 101 {
		t.Errorf("the event after the gap is %+v (%v), want number 101", e, err)
	}
}

// TestTorn: half a line after a crash is cut off and its id is given again only
// because nobody has seen it.
func TestTorn(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir)
	must(t, l, err)
	put(t, l, 3)
	name := l.name(1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"id":4,"ty`)
	f.Close()
	l, err = Open(dir)
	must(t, l, err)
	defer l.Close()
	if e, err := l.Append(vm.Event{Type: "x"}); err != nil || e.ID != 4 {
		t.Errorf("the event after a torn line is %+v (%v), want number 4", e, err)
	}
	s, err := l.Subscribe(0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for want := int64(1); want <= 4; want++ {
		if e, err := s.Next(t.Context()); err != nil || e.ID != want {
			t.Errorf("the next event should be %d, but is %+v (%v)", want, e, err)
		}
	}
}

// TestDamaged: lines that a power cut left unreadable, at the end and in the
// middle, cost these events, not the server's start, nor those after them.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir)
	must(t, l, err)
	put(t, l, 4)
	name := l.name(1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	clear(lines[1][:len(lines[1])-1])
	clear(lines[3][:len(lines[3])-1])
	if err := os.WriteFile(name, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err = Open(dir)
	must(t, l, err)
	defer l.Close()
	next, err := l.Append(vm.Event{Type: "x"})
	if err != nil || next.ID <= 4 {
		t.Errorf("the id of one that was lost is given again: %+v, %v", next, err)
	}
	s, err := l.Subscribe(0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, want := range []int64{1, 3, next.ID} {
		if e, err := s.Next(t.Context()); err != nil || e.ID != want {
			t.Errorf("the next event should be %d, but is %+v (%v)", want, e, err)
		}
	}
}

// TestManyReaders: readers and a writer at once; each reader sees all, in order.
func TestManyReaders(t *testing.T) {
	l, err := openWith(t.TempDir(), 2000, 1000, "boot")
	must(t, l, err)
	defer l.Close()
	const n = 500
	errs := make(chan error, 4)
	for range 4 {
		s, err := l.Subscribe(0)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer s.Close()
			for want := int64(1); want <= n; want++ {
				if e, err := s.Next(t.Context()); err != nil || e.ID != want {
					errs <- fmt.Errorf("want %d, got %d: %w", want, e.ID, err)
					return
				}
			}
			errs <- nil
		}()
	}
	put(t, l, n)
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestSlowReaderOfDroppedSegment: a reader whose open segment is dropped is told
// so when it comes to the end of it; it neither hangs nor skips.
func TestSlowReaderOfDroppedSegment(t *testing.T) {
	l, err := openWith(t.TempDir(), 300, 3, "boot")
	must(t, l, err)
	defer l.Close()
	put(t, l, 2)
	s, err := l.Subscribe(0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := int64(1)
	next := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		e, err := s.Next(ctx)
		if err == nil && e.ID != want {
			t.Fatalf("the next event should be %d, but is %d", want, e.ID)
		}
		want++
		return err
	}
	if err := next(); err != nil { // its segment is open now
		t.Fatal(err)
	}
	put(t, l, 100)
	for err = next(); err == nil; err = next() {
	}
	if vm.AsError(err).Code != "EVENTS_GONE" || want > 20 {
		t.Errorf("after %d events: %v", want-1, err)
	}
}

// TestPowerCut: ids that somebody may have seen are not given again, though the
// events are lost; readers go over the gap.
func TestPowerCut(t *testing.T) {
	dir := t.TempDir()
	l, err := openWith(dir, 500, 100, "boot 1")
	must(t, l, err)
	put(t, l, 10)
	// The host goes down: no Close, and events 8 to 10 are lost.
	name := l.name(l.segments[len(l.segments)-1])
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	kept := strings.Join(lines[:len(lines)-4], "")
	if err := os.WriteFile(name, []byte(kept), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err = openWith(dir, 500, 100, "boot 2")
	must(t, l, err)
	live, err := l.Subscribe(10) // had seen the lost ones
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	e, err := l.Append(vm.Event{Type: "x"})
	if err != nil || e.ID <= 10 {
		t.Fatalf("the event after the lost ones is %+v (%v), want a number over 10", e, err)
	}
	if got, err := live.Next(t.Context()); err != nil || got.ID != e.ID {
		t.Errorf("live: %+v, %v", got, err)
	}
	all, err := l.Subscribe(5)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	for _, want := range []int64{6, 7, e.ID} {
		if got, err := all.Next(t.Context()); err != nil || got.ID != want {
			t.Errorf("the next event should be %d, but is %+v (%v)", want, got, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, boot := range []string{"boot 2", "boot 3"} { // it was closed: no gap
		if l, err = openWith(dir, 500, 100, boot); err != nil || l.next != e.ID+1 {
			t.Fatalf("%s: next is %d, %v", boot, l.next, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOld: segments are dropped by age too, the last one never.
func TestOld(t *testing.T) {
	dir := t.TempDir()
	l, err := openWith(dir, 300, 100, "boot")
	must(t, l, err)
	put(t, l, 20)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ago := time.Now().Add(-keepFor - time.Hour)
	for _, first := range l.segments {
		if err := os.Chtimes(l.name(first), ago, ago); err != nil {
			t.Fatal(err)
		}
	}
	l, err = openWith(dir, 300, 100, "boot")
	must(t, l, err)
	defer l.Close()
	if e, err := l.Append(vm.Event{Type: "x"}); err != nil || e.ID != 21 || len(l.segments) > 2 {
		t.Errorf("%+v, %v, %d segments", e, err, len(l.segments))
	}
	if _, err := l.Subscribe(3); vm.AsError(err).Code != "EVENTS_GONE" {
		t.Errorf("subscribe: %v", err)
	}
}

// TestFullDisk: an event that cannot be written gets no id, and the next one
// that can be is whole.
func TestFullDisk(t *testing.T) {
	l, err := Open(t.TempDir())
	must(t, l, err)
	defer l.Close()
	put(t, l, 1)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	good := l.file
	l.file = full
	if _, err := l.Append(vm.Event{Type: "x"}); !errors.Is(err, vm.NoSpace) {
		t.Errorf("on a full disk: %v", err)
	}
	l.file = good
	if e, err := l.Append(vm.Event{Type: "x"}); err != nil || e.ID != 2 {
		t.Errorf("the event after the full disk is %+v (%v), want number 2", e, err)
	}
	if _, err := l.Append(vm.Event{Type: "x", Data: map[string]any{"x": strings.Repeat("x", maxEvent)}}); !errors.Is(err, vm.Limit) {
		t.Errorf("a large event: %v", err)
	}
}

// TestClose: streams of a closed log deliver what there is and then end.
func TestClose(t *testing.T) {
	l, err := Open(t.TempDir())
	must(t, l, err)
	s, err := l.Subscribe(-1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, l, 1)
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Next(t.Context()); err != nil || e.ID != 1 {
		t.Errorf("the event before the log closed is %+v (%v), want number 1", e, err)
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, vm.Unavailable) {
		t.Errorf("after close: %v", err)
	}
	if _, err := l.Append(vm.Event{Type: "x"}); !errors.Is(err, vm.Unavailable) {
		t.Errorf("append after close: %v", err)
	}
}

// TestCrash kills a process that writes, again and again, and wants every event
// that it had announced, under its id.
func TestCrash(t *testing.T) {
	if dir := os.Getenv("WARREN_EVENTS_CHILD"); dir != "" {
		l, err := openWith(dir, 4000, 1000, "boot")
		must(t, l, err)
		for {
			e, err := l.Append(vm.Event{Type: "x", Data: map[string]any{"pid": os.Getpid()}})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println("event", e.ID, os.Getpid())
		}
	}
	dir, seen := t.TempDir(), map[int64]int{}
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCrash$")
		cmd.Env = append(os.Environ(), "WARREN_EVENTS_CHILD="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		n := 0
		for sc := bufio.NewScanner(out); sc.Scan(); n++ {
			f := strings.Fields(sc.Text())
			if len(f) != 3 || f[0] != "event" {
				continue
			}
			id, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if pid, ok := seen[id]; ok {
				t.Fatalf("event %d was given twice, by %d and %s", id, pid, f[2])
			}
			if seen[id], err = strconv.Atoi(f[2]); err != nil {
				t.Fatal(err)
			}
			if n == 200+31*round {
				_ = cmd.Process.Kill() // it may be dead by the second line
			}
		}
		_ = cmd.Wait() // killed
	}
	l, err := openWith(dir, 4000, 1000, "boot")
	must(t, l, err)
	defer l.Close()
	s, err := l.Subscribe(0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for want := int64(1); want <= l.last; want++ {
		e, err := s.Next(t.Context())
		if err != nil || e.ID != want {
			t.Fatalf("the next event should be %d, but is %d (%v)", want, e.ID, err)
		}
		if pid, ok := seen[want]; ok && e.Data["pid"] != float64(pid) {
			t.Errorf("event %d is of %v, announced by %d", want, e.Data["pid"], pid)
		}
		delete(seen, want)
	}
	if len(seen) > 0 {
		t.Errorf("%d announced events are lost", len(seen))
	}
}
