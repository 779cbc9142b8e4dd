// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestNamedLive: a change of a named policy reaches the VMs that use it at once, and only
// its own rules of them.
func TestNamedLive(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	set := func(spec vm.NetworkSpec) {
		t.Helper()
		done, err := e.Policy.SetNamed(ctx, c, "ci", spec)
		if err != nil || len(done.Waiting) > 0 {
			t.Fatalf("policy set ci %s: %+v, %v", spec, done, err)
		}
	}
	set("a.example.com,b.example.com")
	box := create(t, e, c, "box", "packages,ci,own.example.com")
	create(t, e, c, "bare", "closed")
	step := func(what string, mode vm.NetworkMode, want ...string) {
		t.Helper()
		p := s.World.Policy(box.ID)
		if p.Mode != mode || !slices.Equal(texts(p), want) {
			t.Errorf("after %s the machine has %s and the rules %q, want %s and %q", what, p.Mode, texts(p), mode, want)
		}
		v, err := e.Get(ctx, c, "box")
		if err != nil || v.Network.Digest() != p.Digest() {
			t.Errorf("after %s the record and the machine differ: %+v, %+v (%v)", what, v.Network, p, err)
		}
	}
	step("create", vm.NetPackages, "allow a.example.com", "allow b.example.com", "allow own.example.com")
	kept := s.World.Policy(box.ID).Rules[1].ID
	set(`{"rules":[{"action":"deny","to":"z.example.com"},{"to":"b.example.com"}]}`)
	step("a change of the policy", vm.NetPackages, "deny z.example.com", "allow b.example.com", "allow own.example.com")
	if got := s.World.Policy(box.ID).Rules[1].ID; got != kept {
		t.Errorf("a rule that stays in a policy gets the id %s, want its old one, %s", got, kept)
	}
	if _, err := e.Policy.RemoveRule(ctx, c, "box", []string{"b.example.com"}); vm.AsError(err).Code != "NETWORK_RULE_NAMED" {
		t.Errorf("rm of a rule of the policy: %v", err)
	}
	_, err := e.Policy.SetNamed(ctx, c, "ci", "open,a.example.com")
	wants(t, "a policy in use that gains a mode", err, vm.Busy, "POLICY_IN_USE")
	err = e.Policy.RemoveNamed(ctx, c, "ci")
	wants(t, "policy rm of one in use", err, vm.Busy, "POLICY_IN_USE")
	if got := vm.AsError(err).Fields["vms"]; fmt.Sprint(got) != "[box]" {
		t.Errorf("policy rm names the VMs %v, want box", got)
	}
	if _, err := e.Policy.RemoveRule(ctx, c, "box", []string{"ci"}); err != nil {
		t.Fatal(err)
	}
	step("the end of its use", vm.NetPackages, "allow own.example.com")
	if err := e.Policy.RemoveNamed(ctx, c, "ci"); err != nil {
		t.Errorf("policy rm of one that no VM uses: %v", err)
	}
	_, _, err = e.Policy.Get(c, "ci")
	wants(t, "a policy that was removed", err, vm.NotFound, "POLICY_NOT_FOUND")
}

// TestNamedMode: a policy may say the mode, too.
func TestNamedMode(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	if _, err := e.Policy.SetNamed(ctx, c, "ci", "packages,a.example.com"); err != nil {
		t.Fatal(err)
	}
	v := create(t, e, c, "box", "ci")
	if p := s.World.Policy(v.ID); p.Mode != vm.NetPackages || len(p.Hosts) == 0 {
		t.Errorf("the VM of a policy with packages has %s and %d registries", p.Mode, len(p.Hosts))
	}
	s.World.Connect(v.ID, vm.Connection{Proto: "tcp", Dest: "192.0.2.1:443", Allowed: true})
	done, err := e.Policy.SetNamed(ctx, c, "ci", "closed")
	if err != nil || done.Cut != 1 || s.World.Policy(v.ID).Mode != vm.NetClosed || len(s.World.Policy(v.ID).Rules) != 0 {
		t.Errorf("tightening the policy: %+v, %v; the machine has %+v, want closed, and one connection cut", done, err, s.World.Policy(v.ID))
	}
}

// TestNamedFollows: a VM that was busy, or whose machine did not answer, gets the new rules
// soon.
func TestNamedFollows(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	if _, err := e.Policy.SetNamed(ctx, c, "ci", "a.example.com"); err != nil {
		t.Fatal(err)
	}
	v := create(t, e, c, "box", "ci")
	s.World.Fail("network", vm.Errorf(vm.Unavailable, "", "no"))
	done, err := e.Policy.SetNamed(ctx, c, "ci", "b.example.com")
	if err != nil || len(done.Waiting) != 1 || done.Waiting[0].VM.ID != v.ID {
		t.Fatalf("with a machine that does not answer: %+v, %v, want that VM among the waiting", done, err)
	}
	s.World.Fail("network", nil)
	want := []string{"allow b.example.com"}
	for end := time.Now().Add(30 * time.Second); !slices.Equal(texts(s.World.Policy(v.ID)), want); {
		if time.Now().After(end) {
			t.Fatalf("after 30 s the machine has the rules %q, want %q", texts(s.World.Policy(v.ID)), want)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
}

// TestNamedRefuses: what cannot be a policy is refused with what to do.
func TestNamedRefuses(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	other := user(t, e, c)
	for _, name := range []string{"closed", "packages", "agents", "open"} {
		_, err := e.Policy.SetNamed(ctx, c, name, "a.example.com")
		wants(t, "policy set "+name, err, vm.Denied, "POLICY_SHIPPED")
		wants(t, "policy rm "+name, e.Policy.RemoveNamed(ctx, c, name), vm.Denied, "POLICY_SHIPPED")
	}
	_, err := e.Policy.SetNamed(ctx, c, "Has.Dot", "a.example.com")
	wants(t, "a name with a dot", err, vm.Invalid, "POLICY_NAME_INVALID")
	wants(t, "policy rm of none", e.Policy.RemoveNamed(ctx, c, "none"), vm.NotFound, "POLICY_NOT_FOUND")
	if _, err := e.Policy.SetNamed(ctx, c, "one", "a.example.com"); err != nil {
		t.Fatal(err)
	}
	_, err = e.Policy.SetNamed(ctx, c, "two", "one,b.example.com")
	wants(t, "a policy that uses another", err, vm.Invalid, "INVALID_REQUEST")
	_, err = e.Policy.SetNamed(ctx, other, "lan", "192.168.0.0/16")
	wants(t, "a private range, by no admin", err, vm.Denied, "NETWORK_NEEDS_ADMIN")
	if l, err := e.Policy.List(other); err != nil || len(l) != 4 {
		t.Errorf("another account sees %d policies (%v), want the 4 shipped", len(l), err)
	}
	if v, err := e.Policy.SetNamed(ctx, c, "bots", "agents,b.example.com"); err != nil || len(v.Policy.Rules) < 5 {
		t.Errorf("a policy with the hosts of agents has %d rules (%v)", len(v.Policy.Rules), err)
	}
	if _, err := e.Create(ctx, c, engine.CreateRequest{Name: "jail", Profile: vm.ProfileUntrusted}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Policy.SetNamed(ctx, c, "nothing", "closed"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Policy.Set(ctx, c, "jail", []string{"nothing"}); err != nil {
		t.Fatalf("a closed policy in the profile untrusted: %v", err)
	}
	_, err = e.Policy.SetNamed(ctx, c, "nothing", "closed,a.example.com")
	wants(t, "a policy that would open a VM of the profile untrusted", err, vm.Denied, "FORBIDDEN")
	for i := len("ns"); i < vm.MaxNamedPolicies; i++ {
		_, err = e.Policy.SetNamed(ctx, other, fmt.Sprintf("p%d", i), "a.example.com")
	}
	for i := 0; err == nil && i < 3; i++ {
		_, err = e.Policy.SetNamed(ctx, other, fmt.Sprintf("q%d", i), "a.example.com")
	}
	wants(t, "the 101st policy", err, vm.Limit, "LIMIT_EXCEEDED")
}
