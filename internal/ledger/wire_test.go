// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"sync"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// wire is what lies between a ledger and its backend, and what goes wrong there.
type wire struct {
	ledger.Backend

	mu     sync.Mutex
	fault  fault
	silent bool        // reads fail, too
	late   []ledger.Op // of the last write that did not get there
	held   chan struct{}
	broken chan struct{} // closed when what is followed breaks
}

// fault is what happens to the next write.
type fault int

const (
	none       fault = iota
	lostAnswer       // it is made, and its answer is lost
	lostWrite        // it does not get there; see wire.lost
)

func newWire(b ledger.Backend) *wire {
	open := make(chan struct{})
	close(open)
	return &wire{Backend: b, held: open, broken: make(chan struct{})}
}

// next says what happens to the next write, and whether reads fail until heal.
func (w *wire) next(f fault, silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault, w.silent = f, silent
}

func (w *wire) heal() { w.next(none, false) }

// lost is the last write that did not get there.
func (w *wire) lost() []ledger.Op {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late
}

// hold keeps changes back from the follower until release.
func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = make(chan struct{})
}

func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.held)
}

func (w *wire) gate() (held, broken <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held, w.broken
}

func noAnswer(id string) error { return vm.Errorf(vm.Unavailable, id, "the store does not answer") }

func (w *wire) Write(ctx context.Context, ops ...ledger.Op) (int64, error) {
	w.mu.Lock()
	f := w.fault
	if w.fault = none; f == lostWrite {
		w.late = ops
	}
	w.mu.Unlock()
	if f == lostWrite {
		return 0, noAnswer(ops[0].ID)
	}
	rev, err := w.Backend.Write(ctx, ops...)
	if err == nil && f == lostAnswer {
		return 0, noAnswer(ops[0].ID)
	}
	return rev, err
}

func (w *wire) Read(ctx context.Context, kind, id string) (ledger.Entry, error) {
	w.mu.Lock()
	silent := w.silent
	w.mu.Unlock()
	if silent {
		return ledger.Entry{}, noAnswer(id)
	}
	return w.Backend.Read(ctx, kind, id)
}

func (w *wire) Follow(ctx context.Context, after int64) ledger.Follower {
	held, broken := w.gate()
	select { // nothing is followed while changes are held back
	case <-held:
	case <-ctx.Done():
	}
	return &wireFollower{w.Backend.Follow(ctx, after), w, broken}
}

type wireFollower struct {
	ledger.Follower
	w      *wire
	broken <-chan struct{}
}

func (f *wireFollower) Next(ctx context.Context) (ledger.Event, error) {
	live, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-f.broken:
			stop()
		case <-live.Done():
		}
	}()
	ev, err := f.Follower.Next(live)
	if err != nil {
		if ctx.Err() == nil && live.Err() != nil {
			return ev, noAnswer("records")
		}
		return ev, err
	}
	held, _ := f.w.gate()
	select {
	case <-held:
	case <-ctx.Done():
		return ev, ctx.Err()
	}
	return ev, nil
}
