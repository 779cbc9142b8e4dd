// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestAmend: the display name of a VM, and how long it is kept, are changed in one step that is
// recorded. What a change does not name stays. A fork has no display name.
func TestAmend(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box", DisplayName: "The box", TTL: vm.Some(vm.Seconds(time.Hour))})
	if v.DisplayName != "The box" {
		t.Errorf("a new VM is displayed as %q, want The box", v.DisplayName)
	}
	other := "Its \u00e4nderung"
	got, err := e.Amend(t.Context(), c, "box", engine.Amendment{DisplayName: &other, IdleTimeout: vm.Null[vm.Seconds]()})
	if err != nil {
		t.Fatalf("the VM is not amended: %v", err)
	}
	if got.DisplayName != other || got.IdleTimeout != nil || got.TTL != v.TTL || got.Persistence.Type != v.Persistence.Type {
		t.Errorf("amended it is %q, idle %v, TTL %v, %v", got.DisplayName, got.IdleTimeout, got.TTL, got.Persistence)
	}
	if last := records(t, s)[0]; last.Op != vm.OpAmend || last.VM != v.ID || last.Outcome != "ok" || last.Detail["displayName"] != other {
		t.Errorf("the change is recorded as %+v", last)
	}
	got, err = e.Amend(t.Context(), c, "box", engine.Amendment{TTL: vm.Some(vm.Seconds(2 * time.Hour)), Persistence: &vm.Persistence{Type: vm.Ephemeral, DeleteEvent: vm.OnStop}})
	if err != nil || !got.ExpiresAt.Equal(v.CreatedAt.Add(2*time.Hour)) || got.Persistence.Type != vm.Ephemeral || got.DisplayName != other {
		t.Errorf("amended again it expires at %v, is %v and is called %q (%v)", got.ExpiresAt, got.Persistence, got.DisplayName, err)
	}
	forked, err := e.Fork(t.Context(), c, "box", engine.ForkRequest{Count: 1})
	if err != nil || forked.Children[0].DisplayName != "" {
		t.Errorf("a fork is displayed as %q (%v), want none", forked.Children[0].DisplayName, err)
	}
	for what, bad := range map[string]engine.Amendment{
		"a long name": {DisplayName: ptr(strings.Repeat("x", vm.MaxDisplayName+1))}, "an escape sequence": {DisplayName: ptr("\x1b[2J")}, "a TTL of 0": {TTL: vm.Some(vm.Seconds(0))},
		"a type that is none": {Persistence: &vm.Persistence{Type: "forever"}},
	} {
		if _, err := e.Amend(t.Context(), c, "box", bad); vm.KindOf(err) != vm.Invalid {
			t.Errorf("an amendment with %s: %v, want kind invalid", what, err)
		}
	}
}

func ptr(s string) *string { return &s }

// TestClearName: without its name a VM is found by its id only, and another one may have the name.
func TestClearName(t *testing.T) {
	_, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box", UniqueName: true})
	if got, err := e.ClearName(t.Context(), c, "box"); err != nil || got.Name != "" || got.ID != v.ID {
		t.Fatalf("without its name the VM is %q %s (%v)", got.Name, got.ID, err)
	}
	_, err := e.Get(t.Context(), c, "box")
	wantCode(t, err, vm.NotFound, "VM_NOT_FOUND")
	create(t, e, c, engine.CreateRequest{Name: "box", UniqueName: true})
	if _, err := e.RenameVM(t.Context(), c, string(v.ID), "box"); vm.KindOf(err) != vm.Exists {
		t.Errorf("the name is given twice: %v", err)
	}
}
