// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestHold: a hold keeps a VM awake for its time, over a restart of the server, and no
// longer. It does not wake a VM, forks do not inherit it, and it ends with the VM.
func TestHold(t *testing.T) {
	s, e, c, clock := clocked(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box", IdleTimeout: vm.Some(vm.Seconds(60 * time.Second))})
	h, err := e.Hold(ctx, c, "box", engine.HoldRequest{For: time.Hour, Reason: "build"})
	if err != nil || !h.Until.Equal(clock.Now().Add(time.Hour)) || h.By.Account != c.Actor.Account {
		t.Fatalf("the hold is %+v (%v), want one for an hour by %s", h, err, c.Actor.Account)
	}
	i := idleOf(t, e, c, "box")
	if len(i.Awake) != 1 || i.Awake[0].Hold != h.ID || !strings.Contains(i.Awake[0].Why, "build") || !i.SleepsAt.Equal(h.Until.Add(time.Minute)) {
		t.Errorf("held: %+v", i)
	}
	pass(clock, 20*time.Minute)
	closeEngine(t, e)
	clock.Advance(time.Minute)
	e, c = open(t, s)
	pass(clock, 20*time.Minute)
	if list, err := e.Holds(ctx, c, "box"); err != nil || len(list) != 1 || list[0].ID != h.ID || stateOf(t, e, c, "box") != vm.Running {
		t.Fatalf("after a restart: %+v, %v, %s", list, err, stateOf(t, e, c, "box"))
	}
	f, err := e.Fork(ctx, c, "box", engine.ForkRequest{Count: 1, Prefix: "kid", IdleTimeout: vm.Null[vm.Seconds]()})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := e.Holds(ctx, c, f.Children[0].Name); err != nil || len(list) != 0 {
		t.Errorf("a child inherited %+v, %v", list, err)
	}
	pass(clock, 18*time.Minute)
	if st := stateOf(t, e, c, "box"); st != vm.Running {
		t.Fatalf("%s before the hold's end", st)
	}
	eventually(t, "the hold ends", func() bool {
		clock.Advance(5 * time.Second)
		list, _ := e.Holds(ctx, c, "box")
		return len(list) == 0
	})
	eventually(t, "it sleeps", func() bool { clock.Advance(time.Second); return stateOf(t, e, c, "box") == vm.Suspended })
	if i := idleOf(t, e, c, "box"); i.LastKind != vm.ActivityHold || !i.LastActivity.Equal(h.Until) || i.Asleep.Sub(h.Until) < time.Minute {
		t.Errorf("afterwards: %+v", i)
	}
	if _, err := e.Hold(ctx, c, "box", engine.HoldRequest{}); err != nil || stateOf(t, e, c, "box") != vm.Suspended {
		t.Errorf("a hold of a sleeping VM: %v, %s", err, stateOf(t, e, c, "box"))
	}
	if _, err := e.Delete(ctx, c, "box"); err != nil {
		t.Fatal(err)
	}
	if left, _ := vmtest.Stored[vm.Hold](s.Backend, "holds"); len(left) != 0 {
		t.Errorf("records left: %+v", left)
	}
	if held, released := eventsOf(s, "vm.held"), eventsOf(s, "vm.released"); held != 2 || released != 1 {
		t.Errorf("%d and %d events", held, released)
	}
}

// TestRelease: a released hold has no effect any more, and each step is audited.
func TestRelease(t *testing.T) {
	s, e, c, clock := clocked(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box", IdleTimeout: vm.Some(vm.Seconds(60 * time.Second))})
	h, err := e.Hold(ctx, c, "box", engine.HoldRequest{Reason: "a look"})
	if err != nil {
		t.Fatal(err)
	}
	pass(clock, 30*time.Minute)
	if err := e.Release(ctx, c, "box", h.ID); err != nil {
		t.Fatal(err)
	}
	i := idleOf(t, e, c, "box")
	if len(i.Awake) != 0 {
		t.Errorf("after the release the VM is kept awake by %+v", i.Awake)
	}
	if i.LastKind != vm.ActivityHold {
		t.Errorf("after the release the last use is %q, want the hold", i.LastKind)
	}
	if want := clock.Now().Add(time.Minute); !i.SleepsAt.Equal(want) {
		t.Errorf("after the release the VM sleeps at %v, want %v", i.SleepsAt, want)
	}
	if err := e.Release(ctx, c, "box", h.ID); vm.KindOf(err) != vm.NotFound {
		t.Errorf("twice: %v", err)
	}
	var ops []string
	for _, r := range records(t, s) {
		if r.Op == vm.OpHold || r.Op == vm.OpRelease {
			ops = append(ops, fmt.Sprint(r.Op, " ", r.Outcome, " ", r.Subject))
		}
	}
	if len(ops) != 2 || !strings.Contains(strings.Join(ops, "\n"), "hold ok a look") {
		t.Errorf("records: %v", ops)
	}
}

// TestHoldRefuses: bounds of time, number and text; other accounts.
func TestHoldRefuses(t *testing.T) {
	_, e, c, _ := clocked(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	for what, r := range map[string]engine.HoldRequest{
		"short": {For: time.Millisecond}, "negative": {For: -time.Hour}, "long": {For: vm.MaxHold + time.Second},
		"wordy": {Reason: strings.Repeat("x", vm.MaxReason+1)}, "escape": {Reason: "\x1b[2J"}, "no text": {Reason: "\xff"},
	} {
		if _, err := e.Hold(ctx, c, "box", r); vm.KindOf(err) != vm.Invalid {
			t.Errorf("the hold %q gives %v, want it invalid", what, err)
		}
	}
	for range vm.MaxHolds {
		if _, err := e.Hold(ctx, c, "box", engine.HoldRequest{For: vm.MaxHold}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Hold(ctx, c, "box", engine.HoldRequest{}); vm.KindOf(err) != vm.Limit {
		t.Errorf("one more: %v", err)
	}
	other := &vm.Call{Actor: vm.Actor{Account: "other"}}
	if _, err := e.Hold(ctx, other, "box", engine.HoldRequest{}); vm.KindOf(err) != vm.NotFound {
		t.Errorf("another account: %v", err)
	}
	if err := e.Release(ctx, other, "box", "hd-x"); vm.KindOf(err) != vm.NotFound {
		t.Errorf("another account: %v", err)
	}
}
