// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestProfiles: a VM gets its profile's values if the request names none, and never what
// the profile forbids, nor do its forks.
//
// 003-22
func TestProfiles(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	for _, p := range vm.Profiles {
		v := create(t, e, c, engine.CreateRequest{Name: p.Name, Profile: p.Name})
		if v.Profile != p.Name || p.Network != "" && v.Network.Mode != p.Network || v.TTL != vm.Seconds(p.TTL) || v.ExpiresAt.IsZero() != (p.TTL == 0) {
			t.Errorf("%s: network %s, ttl %s", p.Name, v.Network.Mode, v.TTL)
		}
	}
	if v := create(t, e, c, engine.CreateRequest{Profile: vm.ProfileUntrusted, TTL: vm.Some(vm.Seconds(7200 * time.Second))}); v.TTL != vm.Seconds(2*time.Hour) {
		t.Errorf("the time that was asked for: %s", v.TTL)
	}
	_, err := e.Create(ctx, c, engine.CreateRequest{Profile: "admin"})
	refused(t, err, vm.Invalid, "CREATE_VM_BAD_REQUEST")
	_, err = e.Create(ctx, c, engine.CreateRequest{Profile: vm.ProfileUntrusted, Network: "open"})
	refused(t, err, vm.Denied, "FORBIDDEN")
	_, err = e.Policy.Set(ctx, c, vm.ProfileUntrusted, []string{"packages"})
	refused(t, err, vm.Denied, "FORBIDDEN")
	if _, err := e.Policy.Set(ctx, c, vm.ProfileAgent, []string{"packages"}); err != nil {
		t.Error(err)
	}
	f, err := e.Fork(ctx, c, vm.ProfileUntrusted, engine.ForkRequest{Prefix: "kid"})
	if err != nil || f.Children[0].Profile != vm.ProfileUntrusted || f.Children[0].TTL == 0 {
		t.Fatalf("a fork: %+v, %v", f.Children, err)
	}
	newVolume(t, e, c, "work")
	unlock(t, e, c, "work")
	for _, name := range []string{vm.ProfileUntrusted, "kid-1"} {
		_, err = e.Mount(ctx, c, name, mountOf("work", "/data"))
		refused(t, err, vm.Denied, "FORBIDDEN")
	}
	mount(t, e, c, vm.ProfileDev, mountOf("work", "/data"))
}
