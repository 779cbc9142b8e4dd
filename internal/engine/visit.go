// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"path"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/vm"
)

// visit is one call into a running guest. It counts as activity of the VM from
// its begin to its end, and ends when its caller loses the right to it.
type visit struct {
	e     *Engine
	verb  vm.Op
	kind  vm.ActivityKind
	slot  *slot
	rec   vm.VM
	run   *run
	guest Guest

	ctx    context.Context // the caller's, ended early by the machine's end
	cancel context.CancelCauseFunc
	rcpt   *journal.Receipt // nil for verbs that leave no record
	hold   *session
	once   sync.Once
	loose  bool // it no longer counts as activity by being there; guarded by Engine.mu

	loopback bool // it has one of run.loopback
}

// visit finds a running guest. It wakes a VM that is suspended or stopped, when
// the verb is one that does; it waits while the VM is being created, started or
// suspended, and refuses while it is being stopped, killed or deleted.
func (e *Engine) visit(ctx context.Context, c *vm.Call, ref string, verb vm.Op) (*visit, error) {
	return e.visitFor(ctx, ctx, c, ref, verb)
}

// visitFor is visit for what outlives the context that its caller waits with.
func (e *Engine) visitFor(ctx, life context.Context, c *vm.Call, ref string, verb vm.Op) (*visit, error) {
	outer, _ := e.patience(e.cfg.Settings.StartDeadline)
	limit, stop := context.WithTimeoutCause(ctx, outer+machineDeadline,
		vm.Errorf(vm.Unavailable, ref, "the VM is still starting").WithHint("try again"))
	defer stop()
	var queue *slot // where the caller is counted as waiting
	defer func() { e.leaveQueue(queue) }()
	for {
		v, at, wait, err := e.tryVisit(c, ref, verb)
		if err != nil {
			return nil, fail(verb, ref, err)
		}
		if v != nil {
			v.ctx, v.cancel = joinContext(life, v.run.ctx)
			v.hold = &session{actor: c.Actor, vm: v.slot.id, user: asUser(verb, c.User), cancel: v.cancel}
			e.hold(v.hold)
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

// joinQueue counts a caller that waits to get into a VM, which does not fall
// asleep before it was in.
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

// tryVisit returns a visit, or the VM and a channel that is closed when it is
// worth to look again, or an error; the VM alone is to be woken.
func (e *Engine) tryVisit(c *vm.Call, ref string, verb vm.Op) (*visit, *slot, <-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.lookupLocked(c.Actor, ref)
	if err == nil {
		err = e.mayActLocked(c.Actor, s.id, verb, c.User)
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
		return nil, nil, nil, vm.Errorf(vm.Unavailable, string(s.id), "its monitor does not answer").
			WithHint("try again, or end it: `warren kill %s`", label(s.rec))
	}
	kind := kindOf(c, verb)
	e.arriveLocked(s, kind)
	return &visit{e: e, verb: verb, kind: kind, slot: s, rec: s.rec, run: s.run, guest: s.run.machine.Guest()}, s, nil, nil
}

// end ends the visit, once, with its outcome.
func (v *visit) end(err error, detail map[string]any) {
	v.once.Do(func() {
		v.e.unhold(v.hold)
		v.cancel(nil)
		v.rcpt.End(err, detail)
		if v.loopback {
			<-v.run.loopback
		}
		e := v.e
		e.mu.Lock()
		if v.loose {
			v.slot.loose--
		} else {
			e.leaveLocked(v.slot, v.kind)
		}
		poke := v.slot.rec.OneShot || v.slot.rec.IdleTimeoutSeconds != nil
		e.mu.Unlock()
		if poke {
			e.poke()
		}
	})
}

// fail explains an error of the guest: when the call's context has ended, or
// the machine has, that is the reason, not the broken link that came of it.
func (v *visit) fail(ctx context.Context, err error) error {
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
			v.e.maybeStands(v.slot, v.run)
		}
	}
	return fail(v.verb, string(v.slot.id), err)
}

// bounded returns the visit's context with the deadline of one short answer.
func (v *visit) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(v.ctx, v.e.cfg.Settings.GuestDeadline, v.noAnswer(v.e.cfg.Settings.GuestDeadline))
}

func (v *visit) noAnswer(d time.Duration) error {
	return vm.Errorf(vm.Timeout, string(v.slot.id), "the guest did not answer within %v", d).
		WithHint("look at the console: `warren logs %s`; end it with `warren kill %s`", label(v.rec), label(v.rec))
}

// path is where every path of a call leads, of a command's directory as of a
// file: a relative one begins at the VM's working directory, and "" is that
// directory. In a VM that has none it stays as it is: the guest lets it begin at
// the Linux user's home.
func (v *visit) path(p string) string {
	if v.rec.Workdir == "" || path.IsAbs(p) {
		return p
	}
	return path.Join(v.rec.Workdir, p)
}

// ask is one short call into a guest without an audit record.
func ask[T any](ctx context.Context, e *Engine, c *vm.Call, ref string, verb vm.Op, f func(ctx context.Context, v *visit) (T, error)) (T, error) {
	var none T
	v, err := e.visit(ctx, c, ref, verb)
	if err != nil {
		return none, err
	}
	bounded, stop := v.bounded()
	defer stop()
	out, err := f(bounded, v)
	err = v.fail(bounded, err)
	v.end(err, nil)
	if err != nil {
		return none, err
	}
	return out, nil
}

// act is one short call that leaves an audit record about a subject.
func act[T any](ctx context.Context, e *Engine, c *vm.Call, ref string, entry vm.AuditEntry, f func(ctx context.Context, v *visit) (T, error)) (T, error) {
	return ask(ctx, e, c, ref, entry.Op, func(ctx context.Context, v *visit) (T, error) {
		if err := v.recordAs(ctx, c, entry); err != nil {
			var none T
			return none, err
		}
		return f(ctx, v)
	})
}

// recordAs writes the visit's audit record; end writes its outcome.
func (v *visit) recordAs(ctx context.Context, c *vm.Call, entry vm.AuditEntry) error {
	entry.Op, entry.VM = v.verb, v.slot.id
	r, err := v.e.record(ctx, c, entry)
	v.rcpt = r
	return err
}

// nothing is the result of verbs that have none.
type nothing struct{}
