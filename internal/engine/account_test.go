// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"os"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func rotate(t *testing.T, path string) {
	t.Helper()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
}

// TestRemoveAccount: an account with VMs is only removed with force.
func TestRemoveAccount(t *testing.T) {
	s, e, admin := site(t)
	ctx := t.Context()
	own, secret := newAccount(t, e, admin, "a")
	create(t, e, own, engine.CreateRequest{Name: "box"})
	if err := e.RemoveAccount(ctx, admin, own.Actor.Account, false); vm.KindOf(err) != vm.Busy {
		t.Errorf("with a VM: %v", err)
	}
	snapshotOf(t, e, own, "box", "kept")
	if _, err := e.Delete(ctx, own, "box"); err != nil {
		t.Fatal(err)
	}
	if err := e.RemoveAccount(ctx, admin, own.Actor.Account, false); vm.KindOf(err) != vm.Busy {
		t.Errorf("with a snapshot: %v", err)
	}
	if err := e.RemoveAccount(ctx, admin, "a", true); err != nil { // by its name
		t.Fatal(err)
	}
	if _, err := e.Authenticate(ctx, secret); vm.KindOf(err) != vm.Unauthenticated {
		t.Errorf("its key: %v", err)
	}
	eventually(t, "its snapshot goes", func() bool {
		left, err := os.ReadDir(s.Dir.Generations())
		return err == nil && len(left) == 0
	})
	nothingLeft(t, s)
}

// TestNetwork: the policy changes in both the machine and the record, or in neither.
func TestNetwork(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	got, err := e.Policy.Set(ctx, c, "box", []string{"packages"})
	if err != nil || got.Network.Mode != vm.NetPackages || len(got.Network.Hosts) == 0 {
		t.Errorf("the VM's network is %+v (%v), want packages with its hosts", got.Network, err)
	}
	if mode := s.World.Policy(v.ID).Mode; mode != vm.NetPackages {
		t.Errorf("the machine's policy is %q, want %q", mode, vm.NetPackages)
	}
	_, err = e.Policy.Set(ctx, c, "box", []string{"ajar"})
	wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	s.World.Fail("network", vm.Errorf(vm.Unavailable, "", "no"))
	if _, err := e.Policy.Set(ctx, c, "box", []string{"open"}); err == nil {
		t.Error("succeeded though the machine was not told")
	}
	if now, _ := e.Get(ctx, c, "box"); now.Network.Mode != vm.NetPackages {
		t.Errorf("record says %s", now.Network.Mode)
	}
	s.World.Fail("network", nil)
	s.World.Fail("network taken", vm.Errorf(vm.GuestFault, "", "the guest's agent does not answer"))
	if _, err := e.Policy.Set(ctx, c, "box", []string{"open"}); err == nil {
		t.Error("succeeded though the machine's answer was an error")
	}
	if mode := s.World.Policy(v.ID).Mode; mode != vm.NetPackages {
		t.Errorf("after the failure the machine has the policy %s, want the one before", mode)
	}
}
