// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	l, err := open(dir, 500, 100)
	must(t, l, err)
	put(t, l, 40)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = open(dir, 500, 100)
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
			t.Fatalf("want %d, got %d, %v", want, e.ID, err)
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
	l, err := open(t.TempDir(), 300, 3)
	must(t, l, err)
	defer l.Close()
	slow, err := l.Subscribe(0)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	put(t, l, 100)
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
		t.Errorf("%+v, %v", e, err)
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
		t.Errorf("%+v, %v", e, err)
	}
	s, err := l.Subscribe(0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for want := int64(1); want <= 4; want++ {
		if e, err := s.Next(t.Context()); err != nil || e.ID != want {
			t.Errorf("want %d, got %+v, %v", want, e, err)
		}
	}
}

// TestManyReaders: readers and a writer at once; each reader sees all, in order.
func TestManyReaders(t *testing.T) {
	l, err := open(t.TempDir(), 2000, 1000)
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
