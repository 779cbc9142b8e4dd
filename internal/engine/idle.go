// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// lastUseLocked is the time from which a VM counts as idle: its last activity, or the end
// of its last hold, which may be in the future.
func (s *slot) lastUseLocked() time.Time {
	last := s.rec.LastActive
	for _, h := range s.holds() {
		if h.Until.After(last) {
			last = h.Until
		}
	}
	return last
}

// idleDueLocked is when a VM will fall asleep if nothing changes; false = not
// foreseeable.
func (s *slot) idleDueLocked() (time.Time, bool) {
	idle := s.rec.IdleTimeout
	if idle == nil || *idle <= 0 || s.rec.State != vm.Running || s.rec.OneShot || s.attached+s.waiting > 0 {
		return time.Time{}, false
	}
	return s.lastUseLocked().Add(time.Duration(*idle)), true
}

// Idle reports since when a VM is idle, which activity was last, what keeps it awake and
// when it will fall asleep. The request itself neither wakes the VM nor keeps it awake.
func (e *Engine) Idle(_ context.Context, c *vm.Call, ref string) (vm.Idle, error) {
	s, err := e.lookup(c, ref)
	if err != nil {
		return vm.Idle{}, fail(vm.OpGet, ref, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	rec := s.rec
	out := vm.Idle{
		VM: rec.ID, Name: rec.Name, State: rec.State, LastActivity: rec.LastActive, LastKind: rec.LastKind,
		IdleTimeout: rec.IdleTimeout, OnIdle: onIdle(rec), Never: never(rec),
		Awake: s.keepersLocked(e.now()), Holds: s.holds(),
	}
	if c.Actor.Identity != "" { // an identity may not see the account's keys
		for i := range out.Holds {
			out.Holds[i].By = vm.Actor{}
		}
	}
	if asleep(rec.State) {
		out.AsleepFor, out.Asleep = rec.Reason, rec.Exit.Time
		return out, nil
	}
	if len(out.Awake) == 0 {
		out.IdleSince = rec.LastActive
	}
	out.SleepsAt, _ = s.idleDueLocked()
	return out, nil
}

// never returns the reason why a VM never falls asleep by itself; "" = it does.
func never(rec vm.VM) string {
	switch idle := rec.IdleTimeout; {
	case rec.OneShot:
		return "it belongs to a `warren run` and is deleted after it"
	case idle == nil:
		return "its idle timeout is null"
	case *idle == 0:
		return "its idle timeout is 0"
	case rec.State == vm.Lost:
		return "its files are lost"
	}
	return ""
}

// keepersLocked lists what keeps a running VM awake.
func (s *slot) keepersLocked(now time.Time) []vm.Keeper {
	list := []vm.Keeper{}
	if s.rec.State != vm.Running {
		return list
	}
	if s.op != nil {
		list = append(list, vm.Keeper{Op: s.op.verb, Why: fmt.Sprintf("%s is in progress", s.op.verb)})
	}
	for _, kind := range slices.Sorted(maps.Keys(s.calls)) {
		n := s.calls[kind]
		list = append(list, vm.Keeper{Kind: kind, Count: n, Why: inFlight(kind, n)})
	}
	for _, h := range s.holds() {
		if h.Until.After(now) {
			why := "held"
			if h.Reason != "" {
				why = "held: " + h.Reason
			}
			list = append(list, vm.Keeper{Kind: vm.ActivityHold, Hold: h.ID, Until: h.Until, Why: why})
		}
	}
	return list
}

// inFlight describes n open calls of a kind.
func inFlight(kind vm.ActivityKind, n int) string {
	what := map[vm.ActivityKind]string{
		vm.ActivityExec: "command", vm.ActivityFiles: "file transfer", vm.ActivityPTY: "terminal call",
		vm.ActivitySSH: "SSH call", vm.ActivityGateway: "connection attempt", vm.ActivityNone: "look",
	}[kind]
	if n > 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s in progress", n, what)
}
