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

// operation is one verb being carried out on one VM. A VM has at most one.
type operation struct {
	verb   vm.Op
	own    bool        // started by the engine itself
	yields atomic.Bool // any other operation may end it
	moves  bool        // guest verbs wait for its end; guarded by Engine.mu
	slot   *slot
	next   vm.Next       // what it does to the state
	before vm.VM         // the record when it began
	done   chan struct{} // closed when it has ended
	ctx    context.Context
	cancel context.CancelCauseFunc
	unhook func() bool      // undoes cancelWith; nil = nothing to undo
	undo   undo             // undoes its steps
	rcpt   *journal.Receipt // its audit record; nil before it is written
	detail map[string]any   // additions to the outcome in the audit record; may be nil
}

// meeting says what a verb does when another operation has the VM.
type meeting int

const (
	refuse  meeting = iota // fail with Busy, naming the other
	await                  // wait for its end, then try again
	preempt                // cancel it, wait for its end, then try again
)

// meet decides between a running operation and a new verb. Guest verbs are not
// operations: see visit.
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

// brief reports whether a verb only writes the VM's record, which takes no time.
func brief(verb vm.Op) bool { return verb == vm.OpVMRename || verb == vm.OpLabel || verb == vm.OpAmend }

// captures reports whether a verb holds a VM only while it is captured.
func captures(verb vm.Op) bool {
	return verb == vm.OpFork || verb == vm.OpSnapshot || verb == vm.OpCapture || verb == vm.OpTurn || verb == vm.OpDiff || verb == vm.OpBundle
}

// begin takes the VM for a verb. While another operation has it, begin waits or refuses;
// then it checks that the VM's state allows the verb. The caller must end the operation
// with finish. Its context does not end with ctx, unless the caller uses cancelWith.
func (e *Engine) begin(ctx context.Context, c *vm.Call, ref string, verb vm.Op) (*operation, error) {
	if err := e.mayUse(c.Actor, ref, verb); err != nil {
		return nil, err
	}
	return e.beginWith(ctx, verb, false, func() (*slot, error) {
		return e.lookupLocked(c.Actor, ref)
	})
}

// mayUse refuses a verb of the account's owner to others. The programs of a VM may use what
// its profile grants, on that VM, which ref then names by its id. Kind Denied.
func (e *Engine) mayUse(who vm.Actor, ref string, verb vm.Op) error {
	switch {
	case who.Guest != "":
		return e.cfg.Access.May(who, vm.ID(ref), verb, "")
	case access.Granted(verb):
		return nil
	}
	return who.OwnerOnly(ref)
}

// beginSlot is begin for the engine's own operations on a known slot. They wait for any
// other operation.
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

// tryBegin returns a new operation, or the running one, or an error.
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

// attachLocked gives s a new operation. Close waits for its end.
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

// cancelWith makes the operation end when ctx does. Only the operation's own goroutine
// may call it, once.
func (op *operation) cancelWith(ctx context.Context) {
	op.unhook = context.AfterFunc(ctx, func() { op.cancel(context.Cause(ctx)) })
}

// finish ends an operation: if err is not nil it undoes the steps, writes the outcome to
// the audit record and releases the VM. After a simulated death it does nothing. It
// returns a *vm.Error about the VM.
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
			e.log.Error("could not undo every step", "op", op.verb, "vm", op.slot.id, "err", undoErr)
			err = errors.Join(err, undoErr)
		}
	}
	op.rcpt.End(err, op.detail)
	e.mu.Lock()
	op.slot.op = nil
	delete(e.creating, op)
	delete(e.promised, op)
	op.slot.touchLocked()
	seal := err != nil && e.openSeenLocked() // an opened generation may have been opened for the operation that failed
	e.mu.Unlock()
	close(op.done)
	if seal {
		e.collectLater()
	}
	e.poke()
	return fail(op.verb, string(op.slot.id), err)
}

// ambiguous refuses a name that several VMs have.
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
