// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// chore is something that the reaper does to a VM at a time.
type chore struct {
	slot   *slot
	verb   vm.Op // OpDelete or OpStop
	reason string
	due    time.Time
}

// reapEvery is the longest time between two looks at the deadlines, a guard
// against clocks that jump.
const reapEvery = time.Minute

// retryAfter is how long the reaper leaves a VM alone on which it failed.
const retryAfter = 30 * time.Second

// reap is the task that ends VMs when their time has come: TTL, idle timeout,
// ephemeral VMs that stopped, one-shot VMs without a runner. Each chore is a
// task of its own; one VM has at most one.
func (e *Engine) reap(ctx context.Context) {
	notBefore := map[*slot]time.Time{} // touched by this task only
	done := make(chan *slot)
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
				notBefore[ch.slot] = now.Add(retryAfter)
				e.spawn(func(ctx context.Context) {
					e.do(ctx, ch)
					select {
					case done <- ch.slot:
					case <-ctx.Done():
					}
				})
			}
		}
		after, stop := e.cfg.Clock.After(wait)
		select {
		case <-after:
		case <-e.wake:
		case s := <-done:
			delete(busy, s)
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

// chores lists what is to be done to VMs, now or later; VMs on which an
// operation is at work are left alone.
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

// choreLocked returns the first thing to do to one VM.
func (e *Engine) choreLocked(s *slot) (chore, bool) {
	rec := s.rec
	var first chore
	add := func(verb vm.Op, reason string, due time.Time) {
		if first.slot == nil || due.Before(first.due) {
			first = chore{s, verb, reason, due}
		}
	}
	if !rec.ExpiresAt.IsZero() {
		add(vm.OpDelete, "expired", rec.ExpiresAt)
	}
	if rec.State == vm.Stopped && deleteOnStop(rec) {
		add(vm.OpDelete, "stopped", rec.Exit.Time)
	}
	if rec.OneShot && s.attached == 0 {
		add(vm.OpDelete, "runner-gone", rec.LastActive.Add(e.cfg.Settings.RunnerGrace))
	}
	if rec.IdleStops && rec.State == vm.Running && s.attached == 0 {
		add(vm.OpStop, "idle", rec.LastActive.Add(time.Duration(*rec.IdleTimeoutSeconds)*time.Second))
	}
	return first, first.slot != nil
}

// deleteOnStop reports whether a VM is deleted once it has stopped.
func deleteOnStop(rec vm.VM) bool {
	return rec.Persistence.Type == vm.Ephemeral &&
		(rec.Persistence.DeleteEvent == "" || strings.EqualFold(rec.Persistence.DeleteEvent, "onStop"))
}

// do carries out one chore, unless it has become pointless meanwhile.
func (e *Engine) do(ctx context.Context, ch chore) {
	c := &vm.Call{Actor: vm.Actor{Account: ch.slot.account, System: "reaper"}}
	op, err := e.beginSlot(ctx, ch.slot, ch.verb)
	if err != nil {
		return // gone, or no longer in a state for it
	}
	if !e.stillDue(ch) {
		_ = e.finish(op, nil)
		return
	}
	if ch.verb == vm.OpDelete {
		if ch.reason == "expired" {
			e.emit(op.before, "vm.expired", nil)
		}
		_, err = e.deleteSlot(op, c, ch.reason)
	} else if err = e.receiptFor(op.ctx, op, c, AuditEntry{Subject: ch.reason}); err == nil {
		_, err = e.stopMachine(op, ch.reason)
	}
	if err = e.finish(op, err); err != nil && !died(err) && !isCancel(err) {
		e.log.Error("a VM could not be ended", "vm", ch.slot.id, "why", ch.reason, "err", err)
	}
}

// stillDue looks again, now that the VM is held.
func (e *Engine) stillDue(ch chore) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	again, ok := e.choreLocked(ch.slot)
	return ok && again.verb == ch.verb && !again.due.After(e.now())
}
