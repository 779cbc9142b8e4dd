// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// activityInterval is the time over which traffic is added up and compared with a
// VM's threshold.
const activityInterval = 10 * time.Second

// looks reports whether a verb only looks at a VM: such a verb does not wake the VM
// and is no activity.
func looks(verb vm.Op) bool { return verb == vm.OpStats || verb == vm.OpState }

// kindOf is the activity that a call is.
func kindOf(c *vm.Call, verb vm.Op) vm.ActivityKind {
	switch {
	case looks(verb):
		return vm.ActivityNone
	case c.Via != vm.ActivityNone:
		return c.Via
	}
	switch verb {
	case vm.OpExec, vm.OpSignal, vm.OpService:
		return vm.ActivityExec
	case vm.OpTerminal:
		return vm.ActivityPTY
	case vm.OpDial, vm.OpSocket:
		return vm.ActivityGateway
	}
	return vm.ActivityFiles
}

// activeLocked notes that a VM was used.
func (e *Engine) activeLocked(s *slot, kind vm.ActivityKind) {
	if kind != vm.ActivityNone {
		s.rec.LastActive, s.rec.LastKind = e.now(), kind
	}
}

// arriveLocked counts a call into a guest. Until leaveLocked the VM does not fall
// asleep.
func (e *Engine) arriveLocked(s *slot, kind vm.ActivityKind) {
	s.attached++
	if s.calls == nil {
		s.calls = map[vm.ActivityKind]int{}
	}
	s.calls[kind]++
	e.activeLocked(s, kind)
}

// leaveLocked ends what arriveLocked began.
func (e *Engine) leaveLocked(s *slot, kind vm.ActivityKind) {
	s.attached--
	if s.calls[kind]--; s.calls[kind] == 0 {
		delete(s.calls, kind)
	}
	e.activeLocked(s, kind)
}

// CountAs changes the kind of activity that the visit is.
func (v *Visit) CountAs(kind vm.ActivityKind) {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	v.e.leaveLocked(v.slot, v.kind)
	v.kind = kind
	v.e.arriveLocked(v.slot, kind)
}

// Loosen is for a stream that may be silent for days. From now on the visit keeps the
// VM awake by what is reported to Moved and Touch, and no longer by lasting.
func (v *Visit) Loosen() {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	v.loose = true
	v.slot.loose++
	v.e.leaveLocked(v.slot, v.kind)
	v.e.poke()
}

// Touch notes activity of a loosened visit.
func (v *Visit) Touch() {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	v.e.activeLocked(v.slot, v.kind)
}

// Moved notes bytes that went through a loosened visit. They are no activity while
// they are fewer, within the interval, than the VM's threshold.
func (v *Visit) Moved(n int64) {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	s := v.slot
	if s.rec.ActivityThreshold > 0 {
		now := v.e.now()
		if now.Sub(s.trafficFrom) >= activityInterval || now.Before(s.trafficFrom) {
			s.trafficFrom, s.traffic = now, 0
		}
		if s.traffic += n; s.traffic < s.rec.ActivityThreshold {
			return
		}
	}
	v.e.activeLocked(s, v.kind)
}
