// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/policy"
	"github.com/warren-vm/warren/vm"
)

// TestWords: what a request says becomes rules in that order, and a mode.
func TestWords(t *testing.T) {
	_, e, c := site(t)
	if _, err := e.Policy.SetNamed(t.Context(), c, "db", "db.example.net:5432"); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		spec  vm.NetworkSpec
		mode  vm.NetworkMode
		named string
		rules []string
	}{
		{"closed", vm.NetClosed, "", nil},
		{"packages", vm.NetPackages, "", nil},
		{"api.example.com", vm.NetClosed, "", []string{"allow api.example.com"}},
		{"packages,API.example.com:443", vm.NetPackages, "", []string{"allow api.example.com:443"}},
		{" open , *.example.com:8443 ", vm.NetOpen, "", []string{"allow *.example.com:8443"}},
		{"policy:db,api.example.com,packages", vm.NetPackages, "db", []string{"allow db.example.net:5432", "allow api.example.com"}},
		{"db,udp:192.0.2.1:53", vm.NetClosed, "db", []string{"allow db.example.net:5432", "allow udp:192.0.2.1:53"}},
		{"policy:open", vm.NetOpen, "", nil},
		{
			`{"mode":"open","rules":[{"action":"deny","to":"*.example.com"},{"to":"10.1.2.3","ports":[{"first":5432,"last":5433}]}]}`, vm.NetOpen, "",
			[]string{"deny *.example.com", "allow 10.1.2.3:5432-5433"},
		},
		{
			`{"policies":["db"],"rules":[{"to":"api.example.com:443","methods":["get"],"paths":["/v1/**"]}]}`, vm.NetClosed, "db",
			[]string{"allow db.example.net:5432", "allow GET api.example.com:443 /v1/**"},
		},
	} {
		p, err := e.Policy.Compile(c, c.Actor.Account, k.spec)
		if err != nil || p.Mode != k.mode || strings.Join(p.Named, " ") != k.named || !slices.Equal(texts(p), append([]string{}, k.rules...)) {
			t.Errorf("%s: mode %s, policies %v, rules %q (%v); want %s, %s, %q", k.spec, p.Mode, p.Named, texts(p), err, k.mode, k.named, k.rules)
		}
		for _, r := range p.Rules {
			if !strings.HasPrefix(r.ID, "r-") || r.From != "" && r.From != "db" {
				t.Errorf("%s: the rule %s has the id %q and comes from %q", k.spec, r.Text(), r.ID, r.From)
			}
		}
	}
	agents, err := e.Policy.Compile(c, c.Actor.Account, "agents")
	if err != nil || !slices.Contains(texts(agents), "allow api.anthropic.com:443") || agents.Mode != vm.NetClosed {
		t.Errorf("agents is %v with the rules %q (%v), want closed with api.anthropic.com:443 among them", agents.Mode, texts(agents), err)
	}
}

// TestBadWords: what a network cannot be is refused with what to do.
func TestBadWords(t *testing.T) {
	_, e, c := site(t)
	other := user(t, e, c)
	if _, err := e.Policy.SetNamed(t.Context(), c, "moded", "packages,a.example.com"); err != nil {
		t.Fatal(err)
	}
	many := make([]string, 201)
	for i := range many {
		many[i] = fmt.Sprintf("h%d.example.com", i)
	}
	long := make([]string, 120)
	for i := range long {
		long[i] = strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + "." + strings.Repeat("c", 60) + fmt.Sprintf(".h%d.example.com", i)
	}
	for _, k := range []struct {
		who  *vm.Call
		spec string
		kind vm.Kind
		code string
	}{
		{c, "ajar", vm.Invalid, "INVALID_REQUEST"},
		{c, "packages,,a.example.com", vm.Invalid, "INVALID_REQUEST"},
		{c, "packages,open", vm.Invalid, "INVALID_REQUEST"},
		{c, "open,moded", vm.Invalid, "INVALID_REQUEST"},
		{c, "agents,agents", vm.Invalid, "INVALID_REQUEST"},
		{c, "a*.example.com", vm.Invalid, ""},
		{c, "exa mple.com", vm.Invalid, ""},
		{c, "api.example.com:0", vm.Invalid, ""},
		{c, "*.example.com,api.example.com", vm.Exists, "NETWORK_RULE_SHADOWED"},
		{c, `{"mode":"open","hosts":[]}`, vm.Invalid, ""},
		{c, `{"mode":"ajar"}`, vm.Invalid, "INVALID_REQUEST"},
		{c, `{"rules":[{"action":"let","to":"a.example.com"}]}`, vm.Invalid, ""},
		{c, `{"rules":[{"to":"a.example.com:443","ports":[{"first":80,"last":80}]}]}`, vm.Invalid, "INVALID_REQUEST"},
		{c, strings.Join(many, ","), vm.Limit, "LIMIT_EXCEEDED"},
		{c, strings.Join(long, ","), vm.Limit, "LIMIT_EXCEEDED"},
		{other, "10.0.0.0/8:5432", vm.Denied, "NETWORK_NEEDS_ADMIN"},
		{other, "169.254.169.254", vm.Denied, "NETWORK_NEEDS_ADMIN"},
		{other, "moded", vm.Invalid, "INVALID_REQUEST"}, // another account's
	} {
		_, err := e.Policy.Compile(k.who, k.who.Actor.Account, vm.NetworkSpec(k.spec))
		if vm.KindOf(err) != k.kind || k.code != "" && vm.AsError(err).Code != k.code {
			t.Errorf("%.60s: %v (code %s), want kind %s, code %s", k.spec, err, vm.AsError(err).Code, k.kind, k.code)
		}
	}
}

// TestRulesLive: rules are added, replaced and removed at once, in the machine and the
// record.
func TestRulesLive(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	box := create(t, e, c, "box", "closed")
	step := func(what string, err error, want ...string) {
		t.Helper()
		v, gerr := e.Get(ctx, c, "box")
		if err != nil || gerr != nil {
			t.Fatalf("step %s failed: %v; the VM could not be read: %v", what, err, gerr)
		}
		if got := texts(v.Network); !slices.Equal(got, want) {
			t.Errorf("after %s the record has the rules %q, want %q", what, got, want)
		}
		if got := texts(s.World.Policy(box.ID)); !slices.Equal(got, want) {
			t.Errorf("after %s the machine has the rules %q, want %q", what, got, want)
		}
	}
	_, err := e.Policy.Allow(ctx, c, "box", allow("api.example.com"))
	step("allow", err, "allow api.example.com")
	_, err = e.Policy.Allow(ctx, c, "box", []vm.NetRule{{To: "api.example.com", Limit: vm.NetLimit{Connections: 3}}})
	step("allow with a limit", err, "allow api.example.com")
	v, _ := e.Get(ctx, c, "box")
	if got := v.Network.Rules[0].Limit.Connections; got != 3 {
		t.Errorf("allow of the same host again leaves a limit of %d connections, want 3", got)
	}
	_, err = e.Policy.Deny(ctx, c, "box", allow("*.example.com"))
	step("deny of a wider one", err, "allow api.example.com", "deny *.example.com")
	_, err = e.Policy.Allow(ctx, c, "box", allow("www.example.com"))
	wants(t, "allow of what an earlier rule denies", err, vm.Exists, "NETWORK_RULE_SHADOWED")
	step("a refused change", nil, "allow api.example.com", "deny *.example.com")
	_, err = e.Policy.Change(ctx, c, "box", policy.Change{Allow: append(allow("www.example.com"), allow("ftp.example.com:21")...), First: true})
	step("allow --first", err, "allow www.example.com", "allow ftp.example.com:21", "allow api.example.com", "deny *.example.com")
	_, err = e.Policy.Deny(ctx, c, "box", allow("api.example.com"))
	step("deny of a host that was allowed", err, "allow www.example.com", "allow ftp.example.com:21", "deny api.example.com", "deny *.example.com")
	_, err = e.Policy.RemoveRule(ctx, c, "box", []string{"www.example.com", v.Network.Rules[0].ID})
	step("rm by host and by id", err, "allow ftp.example.com:21", "deny *.example.com")
	_, err = e.Policy.RemoveRule(ctx, c, "box", []string{"r-nosuch"})
	wants(t, "rm of no rule", err, vm.NotFound, "NETWORK_RULE_NOT_FOUND")
	_, err = e.Policy.Allow(ctx, c, "box", []vm.NetRule{{To: "asked.example.com", From: "ask-abcdefghijkl"}})
	step("an approved ask", err, "allow asked.example.com", "allow ftp.example.com:21", "deny *.example.com")
	_, err = e.Policy.Set(ctx, c, "box", []string{"packages"})
	step("set", err)
}

// TestRuleEnds: a rule may be for a time, and is gone after it.
func TestRuleEnds(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, "box", "closed")
	done, err := e.Policy.Change(ctx, c, "box", policy.Change{Allow: allow("a.example.com"), For: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(done.Policy.Rules[0].Until); left < 59*time.Minute || left > time.Hour {
		t.Errorf("a rule for an hour ends in %s", left)
	}
	if _, err := e.EditNetwork(ctx, c, "box", func(_ vm.VM, p *vm.NetworkPolicy) error {
		p.Rules[0].Until = time.Now().Add(-time.Minute)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	v, err := e.Policy.Allow(ctx, c, "box", allow("b.example.com"))
	if got := texts(v.Network); err != nil || !slices.Equal(got, []string{"allow b.example.com"}) {
		t.Errorf("after a change the rules are %q (%v), want only the one that has not ended", got, err)
	}
	_, err = e.Policy.Allow(ctx, c, "box", []vm.NetRule{{To: "c.example.com", Until: time.Now().Add(-time.Second)}})
	wants(t, "a rule that has ended already", err, vm.Invalid, "INVALID_REQUEST")
}

// TestWhoMayAllow: addresses that are not public need an admin, and a profile may forbid
// every rule that allows.
func TestWhoMayAllow(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	other := user(t, e, c)
	create(t, e, other, "box", "closed")
	_, err := e.Policy.Allow(ctx, other, "box", allow("192.168.1.7:5432"))
	wants(t, "a private address, by no admin", err, vm.Denied, "NETWORK_NEEDS_ADMIN")
	if _, err := e.Policy.Deny(ctx, other, "box", allow("192.168.1.7")); err != nil {
		t.Errorf("to deny a private address: %v", err)
	}
	create(t, e, c, "own", "closed")
	if _, err := e.Policy.Allow(ctx, c, "own", allow("192.168.1.7:5432")); err != nil {
		t.Errorf("a private address, by an admin: %v", err)
	}
	if _, err := e.Create(ctx, c, engine.CreateRequest{Name: "jail", Profile: vm.ProfileUntrusted}); err != nil {
		t.Fatal(err)
	}
	_, err = e.Policy.Allow(ctx, c, "jail", allow("a.example.com"))
	wants(t, "a rule in the profile untrusted", err, vm.Denied, "FORBIDDEN")
	_, err = e.Create(ctx, c, engine.CreateRequest{Profile: vm.ProfileUntrusted, Network: "a.example.com"})
	wants(t, "a VM of the profile untrusted with a rule", err, vm.Denied, "FORBIDDEN")
	_, err = e.Policy.Allow(ctx, &vm.Call{Actor: vm.Actor{Account: c.Actor.Account, Identity: "i"}}, "own", allow("a.example.com"))
	if vm.KindOf(err) != vm.Denied {
		t.Errorf("an identity that allows a host gets %v, want kind denied", err)
	}
}

// TestDryRun: it says what would change and which connections would be closed, and changes
// nothing; a change that would cut the caller's own connection is refused.
func TestDryRun(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, "box", "open")
	s.World.Connect(v.ID, vm.Connection{Proto: "tcp", Dest: "192.0.2.7:8787", Allowed: true})
	done, err := e.Policy.Change(ctx, c, "box", policy.Change{Set: "closed", DryRun: true})
	if err != nil || len(done.Cut) != 1 || done.Policy.Mode != vm.NetClosed || done.VM.Network.Mode != vm.NetOpen {
		t.Errorf("a dry run says %+v (%v), want one connection that would be cut, and the VM as it was", done, err)
	}
	if mode := s.World.Policy(v.ID).Mode; mode != vm.NetOpen {
		t.Errorf("after a dry run the machine's network is %s, want open", mode)
	}
	_, err = e.Policy.Change(ctx, c, "box", policy.Change{Set: "closed", Self: "192.0.2.7:8787"})
	wants(t, "a change that cuts the caller", err, vm.WrongState, "NETWORK_CUTS_CALLER")
	if mode := s.World.Policy(v.ID).Mode; mode != vm.NetOpen {
		t.Errorf("after a refused change the machine's network is %s, want open", mode)
	}
	done, err = e.Policy.Change(ctx, c, "box", policy.Change{Set: "closed", Self: "192.0.2.7:8787", Force: true})
	if err != nil || len(done.Cut) != 1 || s.World.Policy(v.ID).Mode != vm.NetClosed {
		t.Errorf("by force: %+v, %v, want one connection cut", done, err)
	}
	done, err = e.Policy.Change(ctx, c, "box", policy.Change{Allow: allow("api.example.com"), DryRun: true})
	if err != nil || len(done.Widens) != 1 || !strings.Contains(done.Widens[0], "api.example.com") {
		t.Errorf("what is newly allowed is %q (%v), want api.example.com", done.Widens, err)
	}
}

// TestFork: a fork keeps the parent's network, or gets a narrower one. A VM made from a
// snapshot gets what the request says, else the default.
func TestFork(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, "box", "api.example.com,www.example.com")
	fork := func(prefix string, network vm.NetworkSpec) (vm.VM, error) {
		f, err := e.Fork(ctx, c, "box", engine.ForkRequest{Prefix: prefix, Network: network})
		if err != nil {
			return vm.VM{}, err
		}
		return f.Children[0], nil
	}
	for network, want := range map[vm.NetworkSpec][]string{
		"":                    {"allow api.example.com", "allow www.example.com"},
		"closed":              {},
		"api.example.com:443": {"allow api.example.com:443"},
	} {
		kid, err := fork("k"+fmt.Sprint(len(network)), network)
		if err != nil {
			t.Errorf("fork with %q: %v", network, err)
			continue
		}
		if got := texts(s.World.Policy(kid.ID)); !slices.Equal(got, want) {
			t.Errorf("the machine of a fork with %q has the rules %q, want %q", network, got, want)
		}
	}
	for _, wider := range []vm.NetworkSpec{"open", "packages", "api.example.com,ftp.example.com", "*.example.com", "api.example.com:22"} {
		_, err := fork("wide", wider)
		wants(t, "a fork with the wider "+string(wider), err, vm.Denied, "NETWORK_WIDER")
	}
	g, err := e.Snapshot(ctx, c, "box", engine.SnapshotRequest{Name: "snap"})
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.Create(ctx, c, engine.CreateRequest{Image: string(g.Snapshot)})
	if err != nil || v.Network.Mode != vm.NetClosed || len(v.Network.Rules) != 0 {
		t.Errorf("a VM made from a snapshot has the network %+v (%v), want the default, closed", v.Network, err)
	}
	if _, err := e.Suspend(ctx, c, "box", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Policy.Allow(ctx, c, "box", allow("late.example.com")); err != nil {
		t.Errorf("allow on a suspended VM: %v", err)
	}
	v, err = e.Start(ctx, c, "box", engine.StartRequest{})
	if want := []string{"allow api.example.com", "allow www.example.com", "allow late.example.com"}; err != nil || !slices.Equal(texts(s.World.Policy(v.ID)), want) {
		t.Errorf("after suspend and start the machine has the rules %q (%v), want %q", texts(s.World.Policy(v.ID)), err, want)
	}
}

// TestExplain: refusals of the same place are one, and each comes with the rule that would
// allow it.
func TestExplain(t *testing.T) {
	_, e, c := site(t)
	v := create(t, e, c, "box", "now.example.com")
	at := time.Now()
	list := []vm.Connection{
		{Time: at, Proto: "dns", Dest: "api.example.com", Name: "api.example.com", Reason: "closed"},
		{Time: at, Proto: "tcp", Dest: "192.0.2.9:5432", Reason: "closed"},
		{Time: at, Proto: "tcp", Dest: "192.0.2.1:443", Name: "ok.example.com", Allowed: true},
		{Time: at, Proto: "icmp", Dest: "192.0.2.9", Reason: "closed"},
		{Time: at, Proto: "dns", Dest: "now.example.com", Name: "now.example.com", Reason: "closed then"},
		{Time: at, Proto: "dns", Dest: "api.example.com", Name: "api.example.com", Reason: "closed"},
	}
	got := map[string]vm.NetRefusal{}
	for _, r := range e.Policy.Refusals(v, list) {
		got[r.Proto+" "+r.Host] = r
	}
	for what, want := range map[string]string{"dns api.example.com": "api.example.com", "tcp 192.0.2.9": "192.0.2.9:5432", "icmp 192.0.2.9": "", "dns now.example.com": ""} {
		r, ok := got[what]
		if !ok || r.Rule != want {
			t.Errorf("the refusal of %s names the rule %q (known: %v), want %q", what, r.Rule, ok, want)
		}
	}
	if len(got) != 4 || got["dns api.example.com"].Count != 2 || !got["dns now.example.com"].Now.Allowed {
		t.Errorf("the refusals are %+v, want four, one of them counted twice and one allowed now", got)
	}
	a, err := e.Policy.Explain(t.Context(), c, "box", vm.NetQuestion{Host: "now.example.com"})
	if err != nil || !a.Allowed || a.Rule == nil || a.Rule.ID != v.Network.Rules[0].ID || a.Policy != v.Network.Digest() {
		t.Errorf("a check of an allowed host answers %+v (%v), want its rule and the digest of the policy", a, err)
	}
	inside := &vm.Call{Actor: vm.Actor{Account: c.Actor.Account, VM: v.ID}}
	if a, err := e.Policy.Explain(t.Context(), inside, string(v.ID), vm.NetQuestion{Host: "x.example.com"}); err != nil || a.Allowed {
		t.Errorf("a program of the VM that asks about its own network gets %+v, %v, want a refusal explained", a, err)
	}
	other := create(t, e, c, "other", "closed")
	if _, err := e.Policy.Explain(t.Context(), inside, string(other.ID), vm.NetQuestion{Host: "x.example.com"}); vm.KindOf(err) != vm.Denied {
		t.Errorf("a program of a VM that asks about another gets %v, want kind denied", err)
	}
}
