// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"math"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

func usageOf(t *testing.T, e *vmtest.House, c *vm.Call, ref string) vm.Usage {
	t.Helper()
	u, err := e.UsageOf(t.Context(), c, ref)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func near(got, want float64) bool { return math.Abs(got-want) < 0.5 }

// stay makes a VM without a timeout.
func stay(t *testing.T, e *vmtest.House, c *vm.Call, name string) vm.VM {
	t.Helper()
	return create(t, e, c, engine.CreateRequest{Name: name, IdleTimeout: vm.Null[vm.Seconds](), Size: vm.Size{MemoryMiB: 1024}})
}

// TestUsage: time, memory, CPU and network are counted while there is a machine, over
// stops, suspends and restarts of the server, and kept after the VM is deleted.
func TestUsage(t *testing.T) {
	s, e, c, clock := clocked(t)
	v := stay(t, e, c, "box")
	id := string(v.ID)
	clock.Advance(100 * time.Second)
	s.World.Spend(v.ID, vmtest.Spent{CPU: 7 * time.Second, FromGuest: 1000, ToGuest: 50})
	if _, err := e.Inspect(t.Context(), c, id); err != nil {
		t.Fatal(err)
	}
	if u := usageOf(t, e, c, "box"); !near(u.RunningSeconds, 100) || !near(u.MemorySeconds, 102400) || u.CPUSeconds != 7 || u.BytesOut != 1000 || u.BytesIn != 50 || u.DiskBytes == 0 {
		t.Errorf("running: %+v", u)
	}
	if _, err := e.Suspend(t.Context(), c, id, engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Hour)
	if u := usageOf(t, e, c, id); !near(u.RunningSeconds, 100) {
		t.Errorf("asleep: %+v", u)
	}
	if _, err := e.Start(t.Context(), c, id, engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	s.World.Spend(v.ID, vmtest.Spent{CPU: 2 * time.Second, FromGuest: 10, ToGuest: 5}) // a new machine counts from 0
	clock.Advance(10 * time.Second)
	closeEngine(t, e)
	clock.Advance(20 * time.Second) // no server; the machine keeps running
	e, c = open(t, s)
	if u := usageOf(t, e, c, id); !near(u.RunningSeconds, 130) {
		t.Errorf("after a restart of the server: %+v", u)
	}
	if _, err := e.Stop(t.Context(), c, id); err != nil {
		t.Fatal(err)
	}
	want := usageOf(t, e, c, id)
	if !near(want.RunningSeconds, 130) || want.CPUSeconds != 9 || want.BytesOut != 1010 || want.BytesIn != 55 {
		t.Errorf("stopped: %+v", want)
	}
	if _, err := e.Delete(t.Context(), c, id); err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	e, c = open(t, s)
	got := usageOf(t, e, c, id)
	if got.Gone.IsZero() || got.Name != "box" || got.DiskBytes != 0 || got.DiskPeakBytes == 0 || got.CPUSeconds != 9 || got.RunningSeconds != want.RunningSeconds {
		t.Errorf("gone: %+v", got)
	}
	sums, vms, err := e.Usage(t.Context(), c, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(vms) != 1 {
		t.Errorf("the usage shows the VMs %+v, want the deleted one", vms)
	}
	if len(sums) != 1 || sums[0].CPUSeconds != 9 || sums[0].Account != c.Actor.Account || sums[0].Name == "" {
		t.Errorf("the usage shows the accounts %+v, want %s by name with 9 s of CPU", sums, c.Actor.Account)
	}
}

// TestUsageUnseen: unobserved use is not counted: a machine that was gone when the server
// came back, a clock that was set back.
func TestUsageUnseen(t *testing.T) {
	s, e, c, clock := clocked(t)
	v := stay(t, e, c, "box")
	stored := func() (u vm.UsageRecord) {
		if l, err := vmtest.Stored[vm.UsageRecord](s.Backend, "usage"); err == nil && len(l) == 1 {
			u = l[0]
		}
		return u
	}
	eventually(t, "it is counted", func() bool {
		clock.Advance(30 * time.Second)
		return stored().RunningSeconds > 0
	})
	now := usageOf(t, e, c, "box")
	clock.Advance(-time.Hour)
	if u := usageOf(t, e, c, "box"); u.RunningSeconds > now.RunningSeconds || u.RunningSeconds < stored().RunningSeconds {
		t.Errorf("a clock set back: %+v, was %+v", u, now)
	}
	clock.Advance(time.Hour)
	closeEngine(t, e)
	last := stored()
	s.World.Reboot()
	clock.Advance(24 * time.Hour)
	e, c = open(t, s)
	if u := usageOf(t, e, c, string(v.ID)); u.RunningSeconds != last.RunningSeconds || u.DaySeconds != 0 || u.CPUSeconds != last.CPUSeconds {
		t.Errorf("after a day without the host: %+v, was %+v", u, last)
	}
}
