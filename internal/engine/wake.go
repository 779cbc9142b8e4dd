// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// waking is one start of a sleeping VM, shared by all who wait for it.
type waking struct {
	done    chan struct{}
	err     error // set before done is closed
	waiters int   // guarded by Engine.mu
}

// asleep reports whether a call into a VM in that state wakes it.
func asleep(s vm.State) bool { return s == vm.Suspended || s == vm.Stopped }

// wakeUp starts a sleeping VM and waits for it. Concurrent callers wait for the same
// start and get the same error if it fails. The start continues when ctx ends, for the
// other callers and for later ones.
func (e *Engine) wakeUp(ctx context.Context, c *vm.Call, s *slot, kind vm.ActivityKind) error {
	w, err := e.wakingOf(c, s, kind)
	if err != nil {
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.life.Done():
		return context.Cause(e.life)
	}
}

// wakingOf returns the start in progress, or begins one for the caller.
func (e *Engine) wakingOf(c *vm.Call, s *slot, kind vm.ActivityKind) (*waking, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.waking != nil {
		s.waking.waiters++
		return s.waking, nil
	}
	w := &waking{done: make(chan struct{}), waiters: 1}
	by := vm.Call{Actor: c.Actor, Request: c.Request}
	ok := e.spawnLocked(func(ctx context.Context) {
		w.err = e.wakeNow(ctx, &by, s, kind, w)
		e.mu.Lock()
		s.waking = nil
		e.mu.Unlock()
		close(w.done)
	})
	if !ok {
		return nil, errClosed
	}
	s.waking = w
	return w, nil
}

// wakeNow starts a sleeping VM. It waits for an operation in progress.
func (e *Engine) wakeNow(ctx context.Context, c *vm.Call, s *slot, kind vm.ActivityKind, w *waking) error {
	op, err := e.beginSlot(ctx, s, vm.OpStart)
	if err != nil {
		return err
	}
	before := op.before.State
	rec, err := e.startOp(op, c, vm.AuditEntry{Subject: "woken", Detail: map[string]any{"by": string(kind)}}, StartRequest{})
	if err = e.finish(op, err); err != nil {
		return err
	}
	if asleep(before) {
		e.mu.Lock()
		n := w.waiters
		e.mu.Unlock()
		e.cfg.Journal.EmitVM(rec, "vm.woken", map[string]any{"by": string(kind), "from": string(before), "waiting": n})
	}
	return nil
}
