// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// activityInterval is the time over which a VM's traffic is summed and compared with its
// threshold.
const activityInterval = 10 * time.Second

// looks reports whether a verb only reads a VM's state. Such a verb does not wake the VM
// and does not count as activity.
func looks(verb vm.Op) bool { return verb == vm.OpStats || verb == vm.OpState }

// kindOf returns the kind of activity that a call counts as.
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

// arriveLocked counts a call into a guest. The VM does not fall asleep before
// leaveLocked.
func (e *Engine) arriveLocked(s *slot, kind vm.ActivityKind) {
	s.attached++
	if s.calls == nil {
		s.calls = map[vm.ActivityKind]int{}
	}
	s.calls[kind]++
	e.activeLocked(s, kind)
}

// leaveLocked ends a call that arriveLocked counted.
func (e *Engine) leaveLocked(s *slot, kind vm.ActivityKind) {
	s.attached--
	if s.calls[kind]--; s.calls[kind] == 0 {
		delete(s.calls, kind)
	}
	e.activeLocked(s, kind)
}

// CountAs changes the kind of activity that the visit counts as.
func (v *Visit) CountAs(kind vm.ActivityKind) {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	v.e.leaveLocked(v.slot, v.kind)
	v.kind = kind
	v.e.arriveLocked(v.slot, kind)
}

// CountTraffic is for a stream that may be silent for days. From now on only Moved and Touch
// keep the VM awake, not the visit itself.
func (v *Visit) CountTraffic() {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	v.byTraffic = true
	v.slot.byTraffic++
	v.e.leaveLocked(v.slot, v.kind)
	v.e.poke()
}

// Touch records activity of a visit after CountTraffic.
func (v *Visit) Touch() {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	v.e.activeLocked(v.slot, v.kind)
}

// Moved reports n bytes that went through such a visit. They count as activity once
// the VM's traffic in the interval reaches its threshold.
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
