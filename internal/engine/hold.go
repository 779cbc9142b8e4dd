// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// Hold keeps a running VM from falling asleep for a while; it does not wake a sleeping
// one. It ends by itself, by Release, or with the VM.
func (e *Engine) Hold(ctx context.Context, c *vm.Call, ref string, r HoldRequest) (h vm.Hold, err error) {
	defer func() { err = fail(vm.OpHold, ref, err) }()
	if r.For == 0 {
		r.For = vm.DefaultHold
	}
	if err := checkHold(r); err != nil {
		return h, err
	}
	s, err := e.lookup(c, ref)
	if err != nil {
		return h, err
	}
	entry := vm.AuditEntry{Op: vm.OpHold, VM: s.id, Subject: r.Reason, Detail: map[string]any{"seconds": int64(r.For / time.Second)}}
	rcpt, err := e.record(ctx, c, entry)
	if err != nil {
		return h, err
	}
	h, err = e.addHold(ctx, s, vm.Hold{VM: s.id, Reason: r.Reason, By: c.Actor}, r.For)
	rcpt.End(err, map[string]any{"hold": string(h.ID)})
	if err == nil {
		e.cfg.Journal.EmitVM(e.recordOf(s), "vm.held", map[string]any{"hold": string(h.ID), "until": h.Until, "reason": h.Reason})
	}
	return h, err
}

func checkHold(r HoldRequest) error {
	switch {
	case r.For < vm.MinHold || r.For > vm.MaxHold:
		return vm.Errorf(vm.Invalid, r.For.String(), "a hold lasts %v to %v", vm.MinHold, vm.MaxHold).
			WithCode("INVALID_REQUEST").WithHint("renew the hold before it ends, or turn the idle timeout off")
	case len(r.Reason) > vm.MaxReason || !utf8.ValidString(r.Reason):
		return vm.Errorf(vm.Invalid, "reason", "the reason is longer than %d bytes, or not text", vm.MaxReason).WithCode("INVALID_REQUEST")
	}
	for _, c := range r.Reason {
		if !unicode.IsPrint(c) {
			return vm.Errorf(vm.Invalid, "reason", "the reason contains an unprintable character").WithCode("INVALID_REQUEST")
		}
	}
	return nil
}

// addHold stores a hold.
func (e *Engine) addHold(ctx context.Context, s *slot, h vm.Hold, d time.Duration) (vm.Hold, error) {
	s.holding.Lock()
	defer s.holding.Unlock()
	if err := e.roomForHold(s); err != nil {
		return h, err
	}
	h.ID, h.CreatedAt = vm.NewHoldID(), e.now()
	h.Until = h.CreatedAt.Add(d)
	if err := e.tables.holds.Create(ctx, h); err != nil {
		return h, err
	}
	e.holdsChanged()
	return h, nil
}

func (e *Engine) roomForHold(s *slot) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch n := len(s.holds()); {
	case s.gone:
		return notFound(string(s.id))
	case n >= vm.MaxHolds:
		return vm.Errorf(vm.Limit, string(s.id), "the VM has %d holds already", n).
			WithCode("VM_LIMIT_EXCEEDED").WithHint("release one: `warren hold ls %s`", label(s.rec))
	}
	return nil
}

// holdsChanged wakes expireHolds and the reaper.
func (e *Engine) holdsChanged() {
	select {
	case e.holdWake <- struct{}{}:
	default:
	}
	e.poke()
}

// Holds lists a VM's holds, the first to end first.
func (e *Engine) Holds(_ context.Context, c *vm.Call, ref string) ([]vm.Hold, error) {
	s, err := e.lookup(c, ref)
	if err != nil {
		return nil, fail(vm.OpList, ref, err)
	}
	return s.holds(), nil
}

// holdsOf returns the holds of a VM, the first to end first.
func (e *Engine) holdsOf(id vm.ID) []vm.Hold {
	list := e.tables.holds.By(byVM, string(id))
	slices.SortFunc(list, func(a, b vm.Hold) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.ID, b.ID)) })
	return list
}

// Release ends a hold early.
func (e *Engine) Release(ctx context.Context, c *vm.Call, ref string, id vm.HoldID) (err error) {
	defer func() { err = fail(vm.OpRelease, ref, err) }()
	s, err := e.lookup(c, ref)
	if err != nil {
		return err
	}
	h, ok := e.tables.holds.Get(id)
	if !ok || h.VM != s.id {
		return noHold(id)
	}
	return e.endHold(ctx, c, s, h, "released")
}

func noHold(id vm.HoldID) error {
	return vm.Errorf(vm.NotFound, string(id), "no such hold").WithCode("NOT_FOUND").WithHint("`warren hold ls NAME` lists holds")
}

// endHold ends a hold that was released or has expired. The VM's idle time starts then.
func (e *Engine) endHold(ctx context.Context, c *vm.Call, s *slot, h vm.Hold, why string) error {
	entry := vm.AuditEntry{Op: vm.OpRelease, VM: s.id, Subject: string(h.ID), Detail: map[string]any{"reason": why}}
	rcpt, err := e.record(ctx, c, entry)
	if err != nil {
		return err
	}
	err = e.dropHold(ctx, s, h)
	rcpt.End(err, nil)
	if err != nil {
		return err
	}
	e.holdsChanged()
	e.cfg.Journal.EmitVM(e.recordOf(s), "vm.released", map[string]any{"hold": string(h.ID), "reason": why})
	return nil
}

// dropHold removes a hold. Kind NotFound when it is gone already.
func (e *Engine) dropHold(ctx context.Context, s *slot, h vm.Hold) error {
	s.holding.Lock()
	defer s.holding.Unlock()
	if _, ok := e.tables.holds.Get(h.ID); !ok {
		return noHold(h.ID)
	}
	e.holdEnds(s, h)
	return e.tables.holds.Drop(ctx, h.ID)
}

// holdEnds counts the end of a hold as use. It must run before the hold is removed, or
// the reaper may suspend the VM in between.
func (e *Engine) holdEnds(s *slot, h vm.Hold) {
	e.mu.Lock()
	defer e.mu.Unlock()
	end := e.now()
	if h.Until.Before(end) {
		end = h.Until
	}
	if end.After(s.rec.LastActive) {
		s.rec.LastActive, s.rec.LastKind = end, vm.ActivityHold
	}
}

// dropHolds removes every hold of a VM that is being forgotten. The caller
// holds s.holding.
func (e *Engine) dropHolds(ctx context.Context, s *slot) error {
	for _, h := range s.holds() {
		if err := e.tables.holds.Drop(ctx, h.ID); err != nil {
			return err
		}
	}
	return nil
}

// sweepHolds removes the holds of VMs that a crash left without a record.
func (e *Engine) sweepHolds(ctx context.Context) error {
	for _, h := range e.tables.holds.All() {
		if e.vms[h.VM] != nil { // nothing else runs yet
			continue
		}
		if err := e.tables.holds.Drop(ctx, h.ID); err != nil {
			return err
		}
	}
	return nil
}

// expireHolds is the task that ends expired holds.
func (e *Engine) expireHolds(ctx context.Context) {
	for {
		wait := reapEvery
		for s, list := range e.allHolds() {
			for _, h := range list {
				left := h.Until.Sub(e.now())
				if left <= 0 && !e.expireHold(ctx, s, h) {
					left = retryAfter
				}
				if left > 0 {
					wait = min(wait, left)
				}
			}
		}
		after, stop := e.cfg.Clock.After(wait)
		select {
		case <-after:
		case <-e.holdWake:
		case <-ctx.Done():
			stop()
			return
		}
		stop()
	}
}

// expireHold ends an expired hold. It reports whether the hold is gone.
func (e *Engine) expireHold(ctx context.Context, s *slot, h vm.Hold) bool {
	c := &vm.Call{Actor: vm.Actor{Account: s.account, System: "reaper"}}
	err := e.endHold(ctx, c, s, h, "expired")
	if err == nil || vm.KindOf(err) == vm.NotFound {
		return true
	}
	if ctx.Err() == nil && !died(err) {
		e.log.Warn("a hold could not be ended", "vm", s.id, "hold", h.ID, "err", err)
	}
	return false
}

func (e *Engine) allHolds() map[*slot][]vm.Hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[*slot][]vm.Hold{}
	for _, s := range e.vms {
		if list := s.holds(); len(list) > 0 {
			all[s] = list
		}
	}
	return all
}
