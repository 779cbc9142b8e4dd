// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/vm"
)

// operation is one verb at work on one VM; a VM has at most one.
type operation struct {
	verb   vm.Op
	own    bool        // the engine's own doing
	yields atomic.Bool // it is ended for any other that comes
	moves  bool        // guest verbs wait for its end; guarded by Engine.mu
	slot   *slot
	next   vm.Next       // what it does to the state
	before vm.VM         // the record when it began
	done   chan struct{} // closed when it has ended
	ctx    context.Context
	cancel context.CancelCauseFunc
	unhook func() bool      // undoes cancelWith; nil = nothing to undo
	undo   undo             // takes back what it has made
	rcpt   *journal.Receipt // its audit record; nil before it was written
	detail map[string]any   // what its outcome says beyond that; may be nil
}

// meeting says what a verb does when it finds another one at work.
type meeting int

const (
	refuse  meeting = iota // Busy, naming the one at work
	await                  // wait for its end, then look again
	preempt                // cancel it, wait for its end, then look again
)

// meet is the table of meetings. Guest verbs are not operations: see visit.
func meet(running, verb vm.Op, own bool) meeting {
	switch {
	case (verb == vm.OpDelete || verb == vm.OpKill) && (running == vm.OpStart || running == vm.OpStop || running == vm.OpRecover):
		return preempt
	case verb == vm.OpDelete && running == vm.OpCreate:
		return preempt
	case verb == vm.OpDelete, own, brief(running), brief(verb):
		return await
	case verb == vm.OpStart && (running == vm.OpStart || running == vm.OpCreate || running == vm.OpSuspend || running == vm.OpRollback):
		return await
	case captures(running):
		return await
	}
	return refuse
}

// brief reports whether a verb only writes the record of a VM, whatever that does.
func brief(verb vm.Op) bool { return verb == vm.OpVMRename || verb == vm.OpLabel }

// captures reports whether a verb holds a VM only for the moment of a capture.
func captures(verb vm.Op) bool {
	return verb == vm.OpFork || verb == vm.OpSnapshot || verb == vm.OpCapture
}

// begin takes the VM for a verb: it waits or refuses while another operation
// has it, and checks that the verb is legal in the VM's state. The operation
// must be ended with finish. Its context does not end with ctx: the caller
// chooses with cancelWith.
func (e *Engine) begin(ctx context.Context, c *vm.Call, ref string, verb vm.Op) (*operation, error) {
	if !access.Granted(verb) {
		if err := c.Actor.OwnerOnly(ref); err != nil {
			return nil, err
		}
	}
	return e.beginWith(ctx, verb, false, func() (*slot, error) {
		return e.lookupLocked(c.Actor, ref)
	})
}

// beginSlot is begin for the engine's own doings on a slot it knows. They wait
// for whatever is at work.
func (e *Engine) beginSlot(ctx context.Context, s *slot, verb vm.Op) (*operation, error) {
	return e.beginWith(ctx, verb, true, func() (*slot, error) {
		if s.gone {
			return nil, notFound(string(s.id))
		}
		return s, nil
	})
}

func (e *Engine) beginWith(ctx context.Context, verb vm.Op, own bool, find func() (*slot, error)) (*operation, error) {
	for {
		op, running, err := e.tryBegin(verb, own, find)
		if op != nil || err != nil {
			return op, err
		}
		if running.yields.Load() {
			running.cancel(vm.Errorf(vm.Cancelled, string(running.slot.id), "%s was asked for meanwhile", verb))
		} else if !own {
			switch meet(running.verb, verb, running.own) {
			case refuse:
				return nil, busy(running.slot.id, running.verb)
			case preempt:
				running.cancel(vm.Errorf(vm.Cancelled, string(running.slot.id), "%s was asked for meanwhile", verb))
			case await:
			}
		}
		select {
		case <-running.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-e.life.Done():
			return nil, context.Cause(e.life)
		}
	}
}

// tryBegin returns a new operation, or the one that is at work, or an error.
func (e *Engine) tryBegin(verb vm.Op, own bool, find func() (*slot, error)) (op, running *operation, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := find()
	if err != nil {
		return nil, nil, err
	}
	if s.op != nil {
		return nil, s.op, nil
	}
	next, err := s.rec.State.Allow(verb)
	if err != nil {
		return nil, nil, notLegal(s.rec, err)
	}
	op, err = e.attachLocked(verb, s)
	if err != nil {
		return nil, nil, err
	}
	op.next, op.own = next, own
	return op, nil, nil
}

// attachLocked gives s a new operation. Close waits for it.
func (e *Engine) attachLocked(verb vm.Op, s *slot) (*operation, error) {
	if e.closed {
		return nil, errClosed
	}
	e.tasks.Add(1)
	op := &operation{verb: verb, slot: s, before: s.rec, done: make(chan struct{})}
	op.ctx, op.cancel = context.WithCancelCause(e.life)
	s.op = op
	return op, nil
}

// cancelWith makes the operation end when ctx does. It is called once, by the
// operation's own goroutine.
func (op *operation) cancelWith(ctx context.Context) {
	op.unhook = context.AfterFunc(ctx, func() { op.cancel(context.Cause(ctx)) })
}

// finish ends an operation: it takes back what was made when err is not nil,
// writes the outcome to the audit record and lets go of the VM. After a played
// death it does none of it. The result is a *vm.Error about the VM.
func (e *Engine) finish(op *operation, err error) error {
	defer e.tasks.Done()
	if op.unhook != nil {
		op.unhook()
	}
	op.cancel(nil)
	if e.dead.Load() {
		return ErrDied
	}
	err = fail(op.verb, string(op.slot.id), err)
	if err != nil {
		if undoErr := op.undo.run(e.life); undoErr != nil {
			e.log.Error("could not take everything back", "op", op.verb, "vm", op.slot.id, "err", undoErr)
			err = errors.Join(err, undoErr)
		}
	}
	op.rcpt.End(err, op.detail)
	e.mu.Lock()
	op.slot.op = nil
	delete(e.creating, op)
	delete(e.promised, op)
	op.slot.touchLocked()
	seal := err != nil && e.openSeenLocked() // it may have been opened for what failed
	e.mu.Unlock()
	close(op.done)
	if seal {
		e.collectLater()
	}
	e.poke()
	return fail(op.verb, string(op.slot.id), err)
}

// ambiguous refuses a name that several VMs carry.
func ambiguous(name string, found []*slot) error {
	ids := make([]string, 0, len(found))
	for _, s := range found {
		ids = append(ids, string(s.id))
	}
	slices.Sort(ids)
	return vm.Errorf(vm.Invalid, name, "%d VMs have this name: %s", len(ids), strings.Join(ids, ", ")).
		WithCode("INVALID_VM_ID", "vmId", name, "details", "ambiguous name", "ids", ids).
		WithHint("use an id")
}
