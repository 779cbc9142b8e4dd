// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/warren-vm/warren/vm"
)

// chore is an action of the reaper on a VM at a given time.
type chore struct {
	slot   *slot
	verb   vm.Op // OpDelete, OpStop, OpSuspend, OpCapture or OpRecover
	reason string
	due    time.Time
}

// outcome is the result of a chore.
type outcome struct {
	slot  *slot
	retry time.Duration // how long to leave the VM alone; 0 = not at all
}

// reapEvery is the longest time between two checks of the deadlines, in case the clock
// jumps.
const reapEvery = time.Minute

// retryAfter is how long the reaper leaves a VM alone after a failure.
const retryAfter = 30 * time.Second

// reap is the task that acts on VMs at their deadlines: TTL, idle timeout, ephemeral VMs
// that stopped, one-shot VMs without a runner. Each chore is a task of its own; a VM has
// at most one.
func (e *Engine) reap(ctx context.Context) {
	notBefore := map[*slot]time.Time{} // used by this task only
	done := make(chan outcome)
	busy := map[*slot]bool{}
	for {
		now := e.now()
		wait := reapEvery
		for _, ch := range e.chores() {
			due := ch.due
			if t := notBefore[ch.slot]; t.After(due) {
				due = t
			}
			switch left := due.Sub(now); {
			case busy[ch.slot]:
			case left > 0:
				wait = min(wait, left)
			default:
				busy[ch.slot] = true
				e.spawn(func(ctx context.Context) {
					o := outcome{slot: ch.slot}
					switch {
					case e.do(ctx, ch):
					case ch.verb == vm.OpRecover: // callers wait for it
						o.retry = insistEvery
					default:
						o.retry = retryAfter
					}
					select {
					case done <- o:
					case <-ctx.Done():
					}
				})
			}
		}
		after, stop := e.cfg.Clock.After(wait)
		select {
		case <-after:
		case <-e.wake:
		case o := <-done:
			delete(busy, o.slot)
			notBefore[o.slot] = e.now().Add(o.retry)
			maps.DeleteFunc(notBefore, func(s *slot, _ time.Time) bool { return e.isGone(s) })
		case <-ctx.Done():
			stop()
			return
		}
		stop()
	}
}

func (e *Engine) isGone(s *slot) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.gone
}

// chores lists the chores for all VMs, due now or later, except VMs with an operation in
// progress.
func (e *Engine) chores() []chore {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []chore
	for _, s := range e.vms {
		if s.op != nil {
			continue
		}
		if ch, ok := e.choreLocked(s); ok {
			list = append(list, ch)
		}
	}
	return list
}

// before reports whether ch runs before other. Among due chores, one that ends the VM
// runs first: a chore that keeps failing must not keep the VM alive.
func (ch chore) before(other chore, now time.Time) bool {
	if due, otherDue := !ch.due.After(now), !other.due.After(now); due && otherDue {
		rank := map[vm.Op]int{vm.OpDelete: 1, vm.OpStop: 2, vm.OpSuspend: 2, vm.OpCapture: 3}
		if a, b := rank[ch.verb], rank[other.verb]; a != b {
			return a < b
		}
	}
	return ch.due.Before(other.due)
}

// choreLocked returns the first chore for one VM.
func (e *Engine) choreLocked(s *slot) (chore, bool) {
	rec, now := s.rec, e.now()
	var first chore
	add := func(verb vm.Op, reason string, due time.Time) {
		if ch := (chore{s, verb, reason, due}); first.slot == nil || ch.before(first, now) {
			first = ch
		}
	}
	if s.doubt != nil { // everything but its end waits for the recovery
		if !rec.ExpiresAt.IsZero() && rec.State != vm.Lost {
			add(vm.OpDelete, "expired", rec.ExpiresAt)
		}
		return first, first.slot != nil
	}
	switch rec.State {
	case vm.Building, vm.Starting, vm.Suspending: // with no operation in progress
		return chore{s, vm.OpRecover, "recover", time.Time{}}, true
	}
	if !rec.ExpiresAt.IsZero() {
		add(vm.OpDelete, "expired", rec.ExpiresAt)
	}
	if sb := rec.Sandbox; sb != nil && rec.State == vm.Running {
		add(sb.OnEnd, "timeout", sb.EndsAt)
	}
	if rec.State == vm.Stopped && deleteOnStop(rec) {
		add(vm.OpDelete, "stopped", time.Time{}) // due at any time
	}
	if rec.OneShot && s.attached == 0 {
		add(vm.OpDelete, "runner-gone", rec.LastActive.Add(e.cfg.Settings.RunnerGrace))
	}
	if rec.State == vm.Suspended && deleteOnSuspend(rec) {
		add(vm.OpDelete, "suspended", time.Time{})
	}
	if due, ok := s.idleDueLocked(); ok {
		add(onIdle(rec), "idle", due)
	}
	if g := e.gens[rec.Generation]; rec.State == vm.Suspended && g != nil && g.info.Durable && !g.info.Sealed {
		after := e.cfg.Settings.ColdAfter
		if len(g.info.VolumesSeen) > 0 {
			after = 0 // the server died before sealing it
		}
		add(vm.OpCapture, "cold", rec.Exit.Time.Add(after))
	}
	if n := e.depthLocked(rec); rec.State == vm.Running && n > maxLayers {
		add(vm.OpCapture, "flatten", rec.LastActive.Add(flattenAfter))
		if n > busyLayers {
			add(vm.OpCapture, "shorten", time.Time{})
		}
	}
	if rec.State == vm.Running && s.private > e.cfg.Settings.ReseatAbove && s.attached+s.byTraffic == 0 && len(rec.VolumesSeen) == 0 {
		quiet := rec.LastActive
		if s.weighed.After(quiet) { // do not pause a VM in between that is being forked repeatedly
			quiet = s.weighed
		}
		add(vm.OpCapture, "reseat", quiet.Add(reseatAfter))
	}
	if every := rec.CaptureEvery; every > 0 && rec.State == vm.Running {
		add(vm.OpCapture, "schedule", e.lastCaptureLocked(rec).Add(time.Duration(every)))
	}
	return first, first.slot != nil
}

// lastCaptureLocked is when the schedule last captured the VM, or when the VM was
// started.
func (e *Engine) lastCaptureLocked(rec vm.VM) time.Time {
	last := rec.StartedAt
	for _, g := range e.gens {
		if g.info.VM == rec.ID && g.info.Why == vm.WhySchedule && g.info.CreatedAt.After(last) {
			last = g.info.CreatedAt
		}
	}
	return last
}

// do carries out one chore, unless it is no longer due. It returns false if the chore
// must be tried again later.
func (e *Engine) do(ctx context.Context, ch chore) bool {
	c := &vm.Call{Actor: vm.Actor{Account: ch.slot.account, System: "reaper"}}
	op, err := e.beginSlot(ctx, ch.slot, ch.verb)
	if err != nil {
		return false // gone, or in a state that no longer allows it
	}
	if !e.stillDue(ch) {
		_ = e.finish(op, nil)
		return ch.reason == "idle" // it was used meanwhile
	}
	if ch.verb == vm.OpDelete {
		if _, err = e.deleteSlot(op, c, ch.reason); err == nil && ch.reason == "expired" {
			e.cfg.Journal.EmitVM(op.before, "vm.expired", nil)
		}
	} else if err = e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: ch.reason}); err == nil {
		err = e.carryOut(op, ch)
	}
	if err = e.finish(op, err); err != nil && !died(err) && !isCancel(err) {
		e.log.Error("a chore failed", "vm", ch.slot.id, "why", ch.reason, "err", err)
	}
	return err == nil && ch.reason == "idle"
}

// carryOut carries out a chore other than a delete.
func (e *Engine) carryOut(op *operation, ch chore) (err error) {
	switch ch.verb {
	case vm.OpSuspend:
		_, err = e.suspendMachine(op, ch.reason)
	case vm.OpRecover:
		e.letGo(op.slot, errors.New("the VM is being recovered"))
		return e.recoverAgain(op.ctx, op.slot)
	case vm.OpCapture:
		switch ch.reason {
		case "cold":
			return e.sealSuspended(op)
		case "flatten", "shorten":
			return e.flatten(op, ch.reason == "shorten")
		case "reseat":
			return e.reseat(op)
		}
		_, err = e.take(op, captureOptions{why: vm.WhySchedule, diskOnly: len(op.before.VolumesSeen) > 0})
		e.collectLater()
	default:
		_, err = e.stopMachine(op, ch.reason)
	}
	return err
}

// stillDue checks again, now that the operation holds the VM.
func (e *Engine) stillDue(ch chore) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	again, ok := e.choreLocked(ch.slot)
	return ok && again.verb == ch.verb && !again.due.After(e.now())
}
