// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestDeleteEvents: an ephemeral VM is deleted on its event and on no other; without one,
// on the first of any.
//
// 004-02, 004-03, 004-04
func TestDeleteEvents(t *testing.T) {
	for event, want := range map[string]map[string]vm.State{
		"":              {"suspend": "", "stop": "", "idle": "", "idle stop": ""},
		"onSuspend":     {"suspend": "", "stop": vm.Stopped, "idle": "", "idle stop": vm.Stopped},
		"OnStop":        {"suspend": vm.Suspended, "stop": "", "idle": vm.Suspended, "idle stop": ""},
		"onIdleTimeout": {"suspend": vm.Suspended, "stop": vm.Stopped, "idle": "", "idle stop": ""},
	} {
		for how, state := range want {
			t.Run(event+" "+how, func(t *testing.T) {
				s, e, c, clock := clocked(t)
				create(t, e, c, engine.CreateRequest{
					Name: "box", StopOnIdle: how == "idle stop",
					Persistence: &vm.Persistence{Type: vm.Ephemeral, DeleteEvent: event},
				})
				ends(t, e, c, how, func() { pass(clock, 302*time.Second) })
				eventually(t, "it is "+string(state), func() bool {
					if strings.HasPrefix(how, "idle") {
						clock.Advance(time.Second) // the reaper may have looked just before
					}
					return stateOf(t, e, c, "box") == state
				})
				if state == "" {
					nothingLeft(t, s)
					// The record is dropped first, and its slot right after it.
					eventually(t, "no VM is charged for", func() bool {
						out, err := e.Storage(t.Context(), c)
						return err == nil && !slices.ContainsFunc(out.Items, func(it vm.StorageItem) bool { return it.Kind == "vm" })
					})
					if how == "idle" && eventsOf(s, "vm.suspended") != 0 {
						t.Error("its memory was written before it was deleted")
					}
					return
				}
				pass(clock, time.Hour)
				if st := stateOf(t, e, c, "box"); st != state {
					t.Errorf("an hour later it is %q", st)
				}
			})
		}
	}
}

// ends suspends or stops the VM, or does nothing.
func ends(t *testing.T, e *vmtest.House, c *vm.Call, how string, idle func()) {
	t.Helper()
	var err error
	switch how {
	case "suspend":
		_, err = e.Suspend(t.Context(), c, "box", engine.SuspendRequest{})
	case "stop":
		_, err = e.Stop(t.Context(), c, "box")
	default:
		if i := idleOf(t, e, c, "box"); i.OnIdle == "" {
			t.Errorf("the VM has nothing to do when idle: %+v", i)
		}
		idle()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPersistenceInherited: forks inherit the parent's persistence unless the request
// names another; they do not inherit its TTL.
func TestPersistenceInherited(t *testing.T) {
	_, e, c := site(t)
	nine := 9
	create(t, e, c, engine.CreateRequest{
		Name: "box", Persistence: &vm.Persistence{Type: vm.Sticky, Priority: &nine}, IdleTimeout: vm.Some(vm.Seconds(77 * time.Second)), TTL: vm.Some(vm.Seconds(900 * time.Second)),
	})
	plain := create(t, e, c, engine.CreateRequest{})
	if p := plain.Persistence; p.Type != vm.Sticky || p.Priority == nil || *p.Priority != 5 {
		t.Errorf("unless said: %+v", p)
	}
	fork := func(r engine.ForkRequest) vm.VM {
		t.Helper()
		f, err := e.Fork(t.Context(), c, "box", r)
		if err != nil {
			t.Fatal(err)
		}
		return f.Children[0]
	}
	same := fork(engine.ForkRequest{})
	if p := same.Persistence; p.Type != vm.Sticky || *p.Priority != 9 || *same.IdleTimeout != vm.Seconds(77*time.Second) || same.TTL != 0 || !same.ExpiresAt.IsZero() {
		t.Errorf("a fork: %+v", same)
	}
	other := fork(engine.ForkRequest{Persistence: &vm.Persistence{Type: vm.Ephemeral, DeleteEvent: "onSuspend"}, TTL: vm.Some(vm.Seconds(60 * time.Second))})
	if p := other.Persistence; p.Type != vm.Ephemeral || p.DeleteEvent != "onSuspend" || other.TTL != vm.Seconds(time.Minute) || !other.ExpiresAt.Equal(other.CreatedAt.Add(time.Minute)) {
		t.Errorf("a fork that says otherwise: %+v", other)
	}
	for name, r := range map[string]engine.ForkRequest{
		"priority": {Persistence: &vm.Persistence{Type: vm.Sticky, Priority: new(int)}, TTL: vm.Some(vm.Seconds(0 * time.Second))},
		"type":     {Persistence: &vm.Persistence{Type: "eternal"}},
	} {
		if _, err := e.Fork(t.Context(), c, "box", r); vm.KindOf(err) != vm.Invalid {
			t.Errorf("a fork with a wrong %s gives %v, want it invalid", name, err)
		}
	}
	if l, _, _, err := e.List(t.Context(), c, engine.Filter{}); err != nil || len(l) != 4 {
		t.Errorf("%d VMs, %v: a refused fork left something", len(l), err)
	}
}

// TestTTLAsleep: a TTL ends a sleeping VM, and one whose TTL ended while no server ran.
func TestTTLAsleep(t *testing.T) {
	s, e, c, clock := clocked(t)
	for _, n := range []string{"asleep", "off", "later"} {
		ttl := vm.Some(vm.Seconds(1000 * time.Second))
		if n == "later" {
			ttl.Value *= 5
		}
		create(t, e, c, engine.CreateRequest{Name: n, TTL: ttl, Persistence: &vm.Persistence{Type: vm.Persistent}, IdleTimeout: vm.Null[vm.Seconds]()})
	}
	sleep := func(e *vmtest.House, c *vm.Call, n string) {
		t.Helper()
		if _, err := e.Suspend(context.Background(), c, n, engine.SuspendRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	sleep(e, c, "asleep")
	pass(clock, 1001*time.Second)
	for _, n := range []string{"asleep", "off"} {
		inTime(t, clock, n+" is gone", func() bool { return stateOf(t, e, c, n) == "" })
	}
	if st := stateOf(t, e, c, "later"); st != vm.Running {
		t.Errorf("later is %q before its time", st)
	}
	sleep(e, c, "later")
	closeEngine(t, e)
	clock.Advance(2 * time.Hour)
	e, c = open(t, s)
	inTime(t, clock, "later is gone", func() bool { return stateOf(t, e, c, "later") == "" })
	// An event comes after its VM is gone.
	eventually(t, "each has an event vm.expired", func() bool { return eventsOf(s, "vm.expired") == 3 })
}
