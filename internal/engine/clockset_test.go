// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestClockSetBack: if the clock was a year ahead and is correct at the next start, no VM
// stays awake or alive for that year.
func TestClockSetBack(t *testing.T) {
	s, e, c, clock := clocked(t)
	clock.Advance(365 * 24 * time.Hour)
	create(t, e, c, engine.CreateRequest{Name: "idle", IdleTimeout: vm.Some(vm.Seconds(100 * time.Second))})
	create(t, e, c, engine.CreateRequest{Name: "short", TTL: vm.Some(vm.Seconds(1000 * time.Second))})
	closeEngine(t, e)
	clock.Advance(-365 * 24 * time.Hour)
	e, c = open(t, s)
	pass(clock, 99*time.Second)
	if st := stateOf(t, e, c, "idle"); st != vm.Running {
		t.Fatalf("idle is %q before its time", st)
	}
	eventually(t, "it falls asleep", func() bool {
		clock.Advance(time.Second)
		return stateOf(t, e, c, "idle") == vm.Suspended
	})
	if st := stateOf(t, e, c, "short"); st != vm.Running {
		t.Fatalf("short is %q before its time", st)
	}
	pass(clock, 1000*time.Second)
	eventually(t, "its time is up", func() bool { clock.Advance(time.Second); return stateOf(t, e, c, "short") == "" })
}

// TestClockSetForward: if the clock is set a year ahead while no server runs, the next
// start suspends no VM, since time without a server does not count as idle. VMs whose TTL
// has passed are deleted.
func TestClockSetForward(t *testing.T) {
	s, e, c, clock := clocked(t)
	create(t, e, c, engine.CreateRequest{Name: "idle", IdleTimeout: vm.Some(vm.Seconds(100 * time.Second))})
	create(t, e, c, engine.CreateRequest{Name: "short", TTL: vm.Some(vm.Seconds(1000 * time.Second))})
	if _, err := e.Hold(t.Context(), c, "idle", engine.HoldRequest{For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	clock.Advance(365 * 24 * time.Hour)
	e, c = open(t, s)
	inTime(t, clock, "its time is up", func() bool { return stateOf(t, e, c, "short") == "" })
	pass(clock, 99*time.Second)
	if st := stateOf(t, e, c, "idle"); st != vm.Running {
		t.Fatalf("idle is %q before its time", st)
	}
	eventually(t, "the hold is over, it falls asleep", func() bool {
		clock.Advance(time.Second)
		return stateOf(t, e, c, "idle") == vm.Suspended
	})
}
