// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// fillPersistence records how long a VM is kept: as requested, else sticky with priority
// 5.
func fillPersistence(rec *vm.VM, r CreateRequest, _ vm.Image) error {
	rec.Persistence = vm.DefaultPersistence()
	if r.Persistence == nil {
		return nil
	}
	p := *r.Persistence
	switch p.Type {
	case vm.Persistent:
		p = vm.Persistence{Type: vm.Persistent}
	case vm.Ephemeral:
		p = vm.Persistence{Type: vm.Ephemeral, DeleteEvent: p.DeleteEvent}
		if p.DeleteEvent != "" && !isEvent(p.DeleteEvent, vm.OnStop, vm.OnSuspend, vm.OnIdleTimeout) {
			return badCreate(p.DeleteEvent, "not a delete event").WithHint("use onStop, onSuspend or onIdleTimeout")
		}
	case vm.Sticky:
		if p.Priority == nil {
			p.Priority = vm.DefaultPersistence().Priority
		}
		if *p.Priority < 0 || *p.Priority > vm.MaxPriority {
			return badCreate("persistence", "priority %d is not within 0 to %d", *p.Priority, vm.MaxPriority).
				WithHint("0 is evicted first, %d last; persistent is never evicted", vm.MaxPriority)
		}
		p.DeleteEvent = ""
	default:
		return badCreate(string(p.Type), "not a persistence type").WithHint("use sticky, ephemeral or persistent")
	}
	rec.Persistence = p
	return nil
}

// isEvent compares delete events, which clients spell in different cases.
func isEvent(got string, any ...string) bool {
	for _, event := range any {
		if strings.EqualFold(got, event) {
			return true
		}
	}
	return false
}

// fillTTL records when a VM is deleted in any case. null = never, absent = the profile's
// default. A fork does not inherit it.
func fillTTL(rec *vm.VM, ttl vm.Optional[vm.Seconds]) error {
	rec.TTL, rec.ExpiresAt = 0, time.Time{}
	if !ttl.Set {
		ttl.Value = vm.Seconds(profileOf(*rec).TTL)
		ttl.Null = ttl.Value == 0
	}
	if ttl.Null {
		return nil
	}
	if ttl.Value < vm.Seconds(time.Second) || ttl.Value > vm.Seconds(vm.MaxDuration) {
		return badCreate("ttlSeconds", "%s is not within 1 to %s", ttl.Value, vm.Seconds(vm.MaxDuration)).
			WithHint("leave it out for no limit")
	}
	rec.TTL = ttl.Value
	rec.ExpiresAt = rec.CreatedAt.Add(time.Duration(ttl.Value))
	return nil
}

// deleteOnStop reports whether a VM is deleted when it stops.
func deleteOnStop(rec vm.VM) bool {
	p := rec.Persistence
	return p.Type == vm.Ephemeral && (p.DeleteEvent == "" || isEvent(p.DeleteEvent, vm.OnStop) || endedIdle(rec))
}

// deleteOnSuspend reports whether a VM is deleted when it is suspended.
func deleteOnSuspend(rec vm.VM) bool {
	p := rec.Persistence
	return p.Type == vm.Ephemeral && (p.DeleteEvent == "" || isEvent(p.DeleteEvent, vm.OnSuspend) || endedIdle(rec))
}

// endedIdle reports whether a VM has ended because of its idle timeout.
func endedIdle(rec vm.VM) bool {
	return rec.Reason == "idle" && isEvent(rec.Persistence.DeleteEvent, vm.OnIdleTimeout)
}

// onIdle is the operation after the idle timeout. A VM that would be deleted on suspend
// is not captured first.
func onIdle(rec vm.VM) vm.Op {
	after, goes := vm.OpSuspend, deleteOnSuspend
	if rec.IdleStops {
		after, goes = vm.OpStop, deleteOnStop
	}
	if rec.Reason = "idle"; goes(rec) {
		return vm.OpDelete
	}
	return after
}
