// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/vm"
)

// Visit is one call into a running guest. While it is open, the VM counts as in use and
// does not fall asleep. It ends early if its caller loses the right to it or the machine
// ends. Its owner calls End.
type Visit struct {
	e    *Engine
	verb vm.Op
	kind vm.ActivityKind
	slot *slot
	rec  vm.VM
	run  *run
	call *vm.Call

	ctx       context.Context
	cancel    context.CancelCauseFunc
	rcpt      *journal.Receipt // nil for verbs without an audit record
	release   func()           // ends the watch on the caller's right
	once      sync.Once
	byTraffic bool // see CountTraffic; guarded by Engine.mu
}

// Visit enters a running guest as a Linux user; "" = root. It wakes a suspended or
// stopped VM, unless the verb only looks (OpStats, OpState). It waits while the VM is
// being created, started or suspended, and refuses while it is being stopped, killed or
// deleted. ctx bounds the wait and then the visit. Kinds: NotFound, Denied, WrongState,
// Busy, Unavailable.
func (e *Engine) Visit(ctx context.Context, c *vm.Call, ref string, verb vm.Op, user string) (*Visit, error) {
	outer, _ := e.patience(e.cfg.Settings.StartDeadline)
	limit, stop := context.WithTimeoutCause(ctx, outer+machineDeadline,
		vm.Errorf(vm.Unavailable, ref, "the VM is still starting").WithHint("try again"))
	defer stop()
	var queue *slot // the VM that the caller waits for
	defer func() { e.leaveQueue(queue) }()
	for {
		v, at, wait, err := e.tryVisit(c, ref, verb, user)
		if err != nil {
			return nil, fail(verb, ref, err)
		}
		if v != nil {
			v.ctx, v.cancel = joinContext(ctx, v.run.ctx)
			v.release = e.cfg.Access.Guard(access.Guarded{Actor: c.Actor, VM: v.slot.id, User: access.AsUser(verb, user), Cancel: v.cancel})
			return v, nil
		}
		if queue == nil && !looks(verb) {
			queue = e.joinQueue(at)
		}
		if wait == nil {
			if err := e.wakeUp(limit, c, at, kindOf(c, verb)); err != nil {
				return nil, fail(verb, ref, err)
			}
			continue
		}
		select {
		case <-wait:
		case <-limit.Done():
			return nil, fail(verb, ref, context.Cause(limit))
		case <-e.life.Done():
			return nil, fail(verb, ref, context.Cause(e.life))
		}
	}
}

// joinQueue counts a caller that waits for a VM, which does not fall asleep before the
// caller has entered.
func (e *Engine) joinQueue(s *slot) *slot {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.waiting++
	return s
}

func (e *Engine) leaveQueue(s *slot) {
	if s == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.waiting--
	e.poke()
}

// tryVisit returns a visit; or a VM and a channel that is closed when the caller should
// try again; or only a VM, which must be woken; or an error.
func (e *Engine) tryVisit(c *vm.Call, ref string, verb vm.Op, user string) (*Visit, *slot, <-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.lookupLocked(c.Actor, ref)
	if err == nil {
		err = e.cfg.Access.May(c.Actor, s.id, verb, user)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if s.waking != nil && s.rec.State != vm.Running && !looks(verb) {
		return nil, s, nil, nil
	}
	if s.op != nil {
		switch {
		case s.op.moves:
			return nil, s, s.op.done, nil
		case s.op.verb == vm.OpCreate || s.op.verb == vm.OpStart || s.op.verb == vm.OpSuspend || s.op.verb == vm.OpRollback:
			return nil, s, s.op.done, nil
		case s.op.own && (s.op.verb == vm.OpKill || s.op.verb == vm.OpStop || s.op.verb == vm.OpRecover):
			return nil, s, s.op.done, nil // being attached again, recorded as ended, or stopped for idleness
		case s.op.verb == vm.OpStop || s.op.verb == vm.OpKill || s.op.verb == vm.OpDelete:
			return nil, nil, nil, busy(s.id, s.op.verb)
		}
	}
	if !looks(verb) && asleep(s.rec.State) {
		return nil, s, nil, nil
	}
	if _, err := s.rec.State.Allow(verb); err != nil {
		return nil, nil, nil, notLegal(s.rec, err)
	}
	if s.run == nil {
		return nil, nil, nil, vm.Errorf(vm.Unavailable, string(s.id), "the VM's monitor does not answer").
			WithHint("try again, or end it: `warren kill %s`", label(s.rec))
	}
	kind := kindOf(c, verb)
	e.arriveLocked(s, kind)
	return &Visit{e: e, verb: verb, kind: kind, slot: s, rec: s.rec, run: s.run, call: c}, s, nil, nil
}

// Guest returns the guest's verbs, under the VM's path rules.
func (v *Visit) Guest() Guest {
	g := v.run.machine.Guest()
	if len(v.rec.Paths) > 0 {
		g = g.Under(v.rec.Paths)
	}
	return g
}

// Ports returns the machine's side of the guest's network, the same value for the same
// machine.
func (v *Visit) Ports() Ports { return v.run.machine }

// Record returns the VM's record at the beginning of the visit.
func (v *Visit) Record() vm.VM { return v.rec }

// Context returns the context of the visit. Its cause says why the visit ended.
func (v *Visit) Context() context.Context { return v.ctx }

// Cancel ends the visit's context with a cause. The caller must still call End.
func (v *Visit) Cancel(why error) { v.cancel(why) }

// Lost reports whether the machine has ended or the engine is closing.
func (v *Visit) Lost() bool { return v.run.ctx.Err() != nil }

// MayActAs fails with kind Denied if the caller may not act as a Linux user; "" = root.
func (v *Visit) MayActAs(user string) error {
	return v.e.cfg.Access.May(v.call.Actor, v.slot.id, vm.OpExec, user)
}

// Begin writes the visit's audit record. It sets the entry's verb and VM; End writes the
// outcome. After an error the caller must not proceed.
func (v *Visit) Begin(ctx context.Context, entry vm.AuditEntry) error {
	entry.Op, entry.VM = v.verb, v.slot.id
	r, err := v.e.record(ctx, v.call, entry)
	v.rcpt = r
	return err
}

// End ends the visit with its outcome; nil = success. Only the first call counts.
func (v *Visit) End(err error, detail map[string]any) {
	v.once.Do(func() {
		v.release()
		v.cancel(nil)
		v.rcpt.End(err, detail)
		e := v.e
		e.mu.Lock()
		if v.byTraffic {
			v.slot.byTraffic--
		} else {
			e.leaveLocked(v.slot, v.kind)
		}
		poke := v.slot.rec.OneShot || v.slot.rec.IdleTimeout != nil
		e.mu.Unlock()
		if poke {
			e.poke()
		}
	})
}

// Fail converts an error of the guest for the caller. If the machine or ctx has ended, it
// returns that reason instead of the broken link. It returns nil for nil.
func (v *Visit) Fail(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	switch vm.KindOf(err) {
	case vm.Cancelled, vm.Timeout, vm.Internal, vm.GuestFault, vm.Unavailable:
		if v.run.ctx.Err() != nil {
			err = context.Cause(v.run.ctx)
		} else if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if v.run.ctx.Err() == nil && vm.KindOf(err) != vm.Cancelled {
			v.e.checkPaused(v.slot, v.run)
		}
	}
	return fail(v.verb, string(v.slot.id), err)
}
