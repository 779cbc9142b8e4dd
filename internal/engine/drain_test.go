// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// What a shutdown of the host has suspended goes on after its start, where the
// setting or the persistence type says so, and sleeps where not.
//
// 004-31
func TestDrain(t *testing.T) {
	s, e, c := site(t)
	want := map[string]vm.State{"kept": vm.Running, "told": vm.Running, "sticky": vm.Suspended, "stays": vm.Suspended, "asleep": vm.Suspended}
	persistent := &vm.Persistence{Type: vm.Persistent}
	create(t, e, c, engine.CreateRequest{Name: "kept", Persistence: persistent})
	create(t, e, c, engine.CreateRequest{Name: "told", OnBoot: "resume"})
	create(t, e, c, engine.CreateRequest{Name: "sticky"})
	create(t, e, c, engine.CreateRequest{Name: "stays", Persistence: persistent, OnBoot: "stay"})
	create(t, e, c, engine.CreateRequest{Name: "asleep", OnBoot: "resume"})
	if _, err := e.Suspend(t.Context(), c, "asleep", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	other, _ := newAccount(t, e, c, "other")
	if _, err := e.Drain(t.Context(), other); vm.KindOf(err) != vm.Denied {
		t.Errorf("drained by an account that is no admin's: %v", err)
	}
	create(t, e, other, engine.CreateRequest{Name: "theirs", Persistence: persistent})
	list, err := e.Drain(t.Context(), c)
	if err != nil || len(list) != 5 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, d := range list {
		if d.Err != nil || d.VM.State != vm.Suspended || d.VM.Reason != "host-shutdown" {
			t.Errorf("%s: %s %s, %v", d.VM.Name, d.VM.State, d.VM.Reason, d.Err)
		}
	}
	if list, err := e.Drain(t.Context(), c); err != nil || len(list) != 0 {
		t.Errorf("a second time: %+v, %v", list, err)
	}
	closeEngine(t, e)
	e, c = open(t, s)
	for name, state := range want {
		if state == vm.Running {
			eventually(t, name+" goes on", func() bool { return stateOf(t, e, c, name) == vm.Running })
		}
	}
	for name, state := range want {
		if got := stateOf(t, e, c, name); got != state {
			t.Errorf("%s is %s, want %s", name, got, state)
		}
	}
	closeEngine(t, e)
	e, c = open(t, s) // what runs is adopted, what slept sleeps on
	for name, state := range want {
		if got := stateOf(t, e, c, name); got != state {
			t.Errorf("%s is %s after another start, want %s", name, got, state)
		}
	}
	_, err = e.Create(t.Context(), c, engine.CreateRequest{Name: "wrong", OnBoot: "perhaps"})
	wantCode(t, err, vm.Invalid, "CREATE_VM_BAD_REQUEST")
}
