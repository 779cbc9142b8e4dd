// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// refusedWhileDraining tries every verb that starts a machine.
func refusedWhileDraining(t *testing.T, e *vmtest.House, c *vm.Call) {
	t.Helper()
	for what, f := range map[string]func() error{
		"create": func() error { _, err := e.Create(t.Context(), c, engine.CreateRequest{Name: "late"}); return err },
		"start":  func() error { _, err := e.Start(t.Context(), c, "kept", engine.StartRequest{}); return err },
		"fork": func() error {
			_, err := e.Fork(t.Context(), c, "kept", engine.ForkRequest{Count: 1})
			return err
		},
		"exec": func() error {
			_, err := e.Exec(t.Context(), c, "sticky", vm.ExecSpec{Command: "true"})
			return err
		},
		"rollback": func() error {
			_, err := e.Rollback(t.Context(), c, "kept", engine.RollbackRequest{})
			return err
		},
	} {
		if err := f(); vm.KindOf(err) != vm.Unavailable || vm.AsError(err).Code != "SERVICE_UNAVAILABLE" || vm.AsError(err).Hint == "" {
			t.Errorf("%s while the host is drained: %v", what, err)
		}
	}
}

// A drain waits for VMs that are starting. Its end resumes all VMs that would have
// resumed after a restart.
func TestUndrain(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "kept", Persistence: &vm.Persistence{Type: vm.Persistent}})
	create(t, e, c, engine.CreateRequest{Name: "stays"})
	if _, err := e.Undrain(t.Context(), c); vm.KindOf(err) != vm.WrongState {
		t.Errorf("undrained without a drain: %v", err)
	}
	if _, err := e.Drain(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	other, _ := newAccount(t, e, c, "other")
	if _, err := e.Undrain(t.Context(), other); vm.KindOf(err) != vm.Denied {
		t.Errorf("undrained by an account that is no admin's: %v", err)
	}
	if n, err := e.Undrain(t.Context(), c); err != nil || n != 1 {
		t.Errorf("%d go on, %v", n, err)
	}
	eventually(t, "kept goes on", func() bool { return stateOf(t, e, c, "kept") == vm.Running })
	if got := stateOf(t, e, c, "stays"); got != vm.Suspended {
		t.Errorf("stays is %s", got)
	}
	if _, err := e.Start(t.Context(), c, "stays", engine.StartRequest{}); err != nil {
		t.Error(err)
	}
}

// VMs that start during a drain are either refused or suspended with the others: none
// runs after it.
func TestDrainMeetsCreates(t *testing.T) {
	_, e, c := site(t)
	const n = 12
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := e.Create(t.Context(), c, engine.CreateRequest{})
			errs <- err
		}()
	}
	if _, err := e.Drain(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	_, _, states, err := e.List(t.Context(), c, engine.Filter{})
	if err != nil || states[vm.Running]+states[vm.Starting] > 0 {
		t.Errorf("after a drain: %v, %v", states, err)
	}
	for range n {
		if err := <-errs; err != nil && vm.KindOf(err) != vm.Unavailable {
			t.Errorf("a create during the drain ends with %v, want success or unavailable", err)
		}
	}
	if _, _, states, err := e.List(t.Context(), c, engine.Filter{}); err != nil || states[vm.Running]+states[vm.Starting] > 0 {
		t.Errorf("once all creates have ended: %v, %v", states, err)
	}
}

// The setting of an existing VM can be changed in every resting state.
func TestSetOnBoot(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "a"})
	v, err := e.SetOnBoot(t.Context(), c, "a", "resume")
	if err != nil || v.BootSetting() != vm.OnBootResume {
		t.Errorf("the VM's setting is %q (%v), want resume", v.OnBoot, err)
	}
	if _, err := e.SetOnBoot(t.Context(), c, "a", "perhaps"); vm.KindOf(err) != vm.Invalid {
		t.Errorf("a setting that there is not: %v", err)
	}
	if _, err := e.Drain(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if v, err = e.SetOnBoot(t.Context(), c, "a", ""); err != nil || v.BootSetting() != vm.OnBootStay {
		t.Errorf("the VM's setting is %q (%v), want the default, stay", v.OnBoot, err)
	}
	if v, err = e.SetOnBoot(t.Context(), c, "a", "resume"); err != nil {
		t.Error(err)
	}
	closeEngine(t, e)
	e, c = open(t, s)
	eventually(t, "a goes on", func() bool { return stateOf(t, e, c, "a") == vm.Running })
	n := 0
	list, err := e.AuditList(t.Context(), c, vm.AuditFilter{})
	for _, r := range list {
		if r.Op == vm.OpOnBoot && r.VM == v.ID && r.Outcome == "ok" {
			n++
		}
	}
	if err != nil || n != 3 {
		t.Errorf("%d audit records of it, %v: %+v", n, err, list)
	}
}

// VMs that a shutdown of the host suspended resume after its start if the setting or the
// persistence type says so, and stay asleep otherwise.
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
		t.Fatalf("the drain names %+v (%v), want 5 VMs", list, err)
	}
	for _, d := range list {
		if d.Err != nil || d.VM.State != vm.Suspended || d.VM.Reason != "host-shutdown" {
			t.Errorf("the drain left %s %s because of %q (%v), want it suspended for the host's shutdown", d.VM.Name, d.VM.State, d.VM.Reason, d.Err)
		}
	}
	if list, err := e.Drain(t.Context(), c); err != nil || len(list) != 0 {
		t.Errorf("a second time: %+v, %v", list, err)
	}
	refusedWhileDraining(t, e, c)
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
