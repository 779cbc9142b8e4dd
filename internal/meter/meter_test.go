// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package meter_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/meter"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// room is a meter on a backend, with VMs that the test keeps.
type room struct {
	*meter.Meter
	backend *vmtest.Backend
	clock   *vmtest.Clock
	vms     map[vm.ID]vm.VM
	status  map[vm.ID]vm.MachineStatus // what machines that run answer

	close func()
}

// open opens a meter of a server on a backend; the test closes it at its end.
func open(t *testing.T, b *vmtest.Backend, clock *vmtest.Clock, host string, vms ...vm.VM) *room {
	t.Helper()
	r := &room{backend: b, clock: clock, vms: map[vm.ID]vm.VM{}, status: map[vm.ID]vm.MachineStatus{}}
	for _, v := range vms {
		r.vms[v.ID] = v
	}
	log := slog.New(slog.DiscardHandler)
	l := ledger.New(b, host, log)
	r.Meter = meter.New(l, clock, log)
	if err := l.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Open(t.Context(), r.source(), vms); err != nil {
		t.Fatal(err)
	}
	closed := false
	r.close = func() {
		if closed {
			return
		}
		closed = true
		if err := r.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		l.Close()
	}
	t.Cleanup(r.close)
	return r
}

func (r *room) source() meter.Source {
	return meter.Source{
		Find: func(_ *vm.Call, ref string) (vm.VM, error) {
			if v, ok := r.vms[vm.ID(ref)]; ok {
				return v, nil
			}
			return vm.VM{}, vm.Errorf(vm.NotFound, ref, "no such VM")
		},
		Account: func(id vm.AccountID) string { return "name of " + string(id) },
		Running: func() map[vm.ID]meter.Machine { return nil },
		Disk:    func(vm.ID) int64 { return 4096 },
	}
}

// change changes a VM's record, as the engine would.
func (r *room) change(id vm.ID, f func(*vm.VM)) vm.VM {
	before := r.vms[id]
	after := before
	f(&after)
	r.vms[id] = after
	r.Changed(before, after)
	return after
}

// start makes a VM that runs.
func (r *room) start(account vm.AccountID, name string) vm.VM {
	id := vm.NewID()
	r.vms[id] = vm.VM{ID: id, Account: account, Name: name, Size: vm.Size{MemoryMiB: 1024}, CreatedAt: r.clock.Now()}
	return r.change(id, func(v *vm.VM) { v.State, v.StartedAt = vm.Running, r.clock.Now() })
}

// answer is a machine with fixed counters.
type answer vm.MachineStatus

func (a answer) Status(context.Context) (vm.MachineStatus, error) { return vm.MachineStatus(a), nil }

// remove deletes a VM that has used one second of CPU.
func (r *room) remove(t *testing.T, v vm.VM) {
	t.Helper()
	r.Last(t.Context(), v.ID, answer{QEMUPID: 1, CPU: time.Second})
	v = r.change(v.ID, func(v *vm.VM) { v.State = vm.Stopped })
	r.Gone(t.Context(), v)
	delete(r.vms, v.ID)
}

func caller(account vm.AccountID) *vm.Call { return &vm.Call{Actor: vm.Actor{Account: account}} }

func stored(t *testing.T, b *vmtest.Backend) []vm.UsageRecord {
	t.Helper()
	list, err := vmtest.Stored[vm.UsageRecord](b, "usage")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func near(got, want float64) bool { return math.Abs(got-want) < 0.5 }

// TestBounded: the usage of the VMs that went first is kept in the sum only, and
// each counts once.
func TestBounded(t *testing.T) {
	b, clock := vmtest.NewBackend(), vmtest.NewClock()
	r := open(t, b, clock, "here")
	const n = 203
	for i := range n {
		v := r.start("a", fmt.Sprintf("b-%d", i))
		clock.Advance(time.Second)
		r.remove(t, v)
	}
	check := func(when string) {
		t.Helper()
		sums, vms, err := r.Usage(t.Context(), caller("a"), false)
		if err != nil {
			t.Fatalf("usage %s: %v", when, err)
		}
		if len(vms) != 200 {
			t.Errorf("%s: the usage of %d VMs is kept, want 200", when, len(vms))
		}
		if vms[0].Name != "b-202" {
			t.Errorf("%s: the newest is %s, want b-202", when, vms[0].Name)
		}
		if len(sums) != 1 {
			t.Fatalf("%s: %d sums, want 1", when, len(sums))
		}
		if sums[0].CPUSeconds != n {
			t.Errorf("%s: the sum has %v seconds of CPU, want %d", when, sums[0].CPUSeconds, n)
		}
		if !near(sums[0].RunningSeconds, n) {
			t.Errorf("%s: the sum has run for %v seconds, want %d", when, sums[0].RunningSeconds, n)
		}
		if sums[0].Name != "name of a" {
			t.Errorf("%s: the sum is called %q", when, sums[0].Name)
		}
	}
	check("at once")
	r.close()
	r = open(t, b, clock, "here")
	check("after a restart")
	if l := stored(t, b); len(l) != 201 {
		t.Errorf("%d records are stored, want 201", len(l))
	}
}

// TestOwn: an account sees its own usage only; an admin sees all.
func TestOwn(t *testing.T) {
	r := open(t, vmtest.NewBackend(), vmtest.NewClock(), "here")
	v := r.start("a", "box")
	if _, vms, err := r.Usage(t.Context(), caller("b"), false); err != nil || len(vms) != 0 {
		t.Errorf("another account's: %v, %v", vms, err)
	}
	if _, ok := r.Past("b", v.ID); ok {
		t.Error("another account's VM is shown")
	}
	if _, _, err := r.Usage(t.Context(), caller("b"), true); vm.KindOf(err) != vm.Denied {
		t.Errorf("everybody's: %v, want it denied", err)
	}
	admin := &vm.Call{Actor: vm.Actor{Account: "b", Admin: true}}
	if _, vms, err := r.Usage(t.Context(), admin, true); err != nil || len(vms) != 1 {
		t.Errorf("everybody's, for an admin: %v, %v", vms, err)
	}
}

// TestLostAnswer: a write whose answer was lost leaves nothing stale: the usage of
// the VM is stored with the next write, and counts once in the account's sum.
func TestLostAnswer(t *testing.T) {
	lost := vm.Errorf(vm.Unavailable, "", "the answer was lost")
	for _, c := range []struct {
		name string
		done bool // the write was made
	}{{"before the write", false}, {"after the write", true}} {
		t.Run(c.name, func(t *testing.T) {
			b, clock := vmtest.NewBackend(), vmtest.NewClock()
			var failing atomic.Bool
			b.Fault = func(done bool, _ []ledger.Op) error {
				if failing.Load() && done == c.done {
					return lost
				}
				return nil
			}
			r := open(t, b, clock, "here")
			for i := range 200 {
				v := r.start("a", fmt.Sprintf("b-%d", i))
				clock.Advance(time.Second)
				r.remove(t, v)
			}
			v := r.start("a", "last")
			clock.Advance(time.Second)
			failing.Store(true)
			r.remove(t, v)
			failing.Store(false)
			ended := func() bool {
				for _, u := range stored(t, b) {
					if u.VM == v.ID {
						return !u.Gone.IsZero()
					}
				}
				return false
			}
			for deadline := time.Now().Add(10 * time.Second); !ended(); clock.Advance(time.Minute) {
				if time.Now().After(deadline) {
					t.Fatal("the end of the VM's usage is not stored")
				}
				time.Sleep(time.Millisecond)
			}
			next := r.start("a", "next")
			r.remove(t, next)
			r.close()
			r = open(t, b, clock, "here")
			sums, vms, err := r.Usage(t.Context(), caller("a"), false)
			if err != nil || len(sums) != 1 {
				t.Fatalf("after the restart the usage is %v (%v), want one sum", sums, err)
			}
			if sums[0].CPUSeconds != 202 {
				t.Errorf("the sum has %v seconds of CPU, want 202", sums[0].CPUSeconds)
			}
			if len(vms) != 200 {
				t.Errorf("the usage of %d VMs is kept, want 200", len(vms))
			}
		})
	}
}

// TestServersApart: two servers on one store keep their own usage and sums.
func TestServersApart(t *testing.T) {
	b, clock := vmtest.NewBackend(), vmtest.NewClock()
	here, there := open(t, b, clock, "here"), open(t, b, clock, "there")
	for _, r := range []*room{here, there} {
		for i := range 202 {
			v := r.start("a", fmt.Sprintf("b-%d", i))
			clock.Advance(time.Second)
			r.remove(t, v)
		}
	}
	for name, r := range map[string]*room{"here": here, "there": there} {
		sums, vms, err := r.Usage(t.Context(), caller("a"), false)
		if err != nil || len(sums) != 1 {
			t.Fatalf("on host %s the usage is %v (%v), want one sum", name, sums, err)
		}
		if len(vms) != 200 {
			t.Errorf("%s: the usage of %d VMs is kept, want 200", name, len(vms))
		}
		if sums[0].CPUSeconds != 202 {
			t.Errorf("%s: the sum has %v seconds of CPU, want 202", name, sums[0].CPUSeconds)
		}
	}
}

// TestOlderSum: the sum that an older warren wrote grows further.
func TestOlderSum(t *testing.T) {
	b, clock := vmtest.NewBackend(), vmtest.NewClock()
	_, err := b.Write(t.Context(), ledger.Op{Kind: "usage", ID: "a", Value: []byte(`{"account":"a","cpuSeconds":40}`)})
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, b, clock, "here")
	for i := range 201 {
		v := r.start("a", fmt.Sprintf("b-%d", i))
		clock.Advance(time.Second)
		r.remove(t, v)
	}
	r.close()
	for _, u := range stored(t, b) {
		if u.VM == "" && u.CPUSeconds != 41 {
			t.Errorf("the sum has %v seconds of CPU, want 41", u.CPUSeconds)
		}
		if u.VM == "" && u.Key() != "a" {
			t.Errorf("the sum is now stored as %q, want %q", u.Key(), "a")
		}
	}
}
