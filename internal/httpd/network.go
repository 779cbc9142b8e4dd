// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"net"
	"net/http"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/policy"
	"github.com/warren-vm/warren/vm"
)

func (s *server) networkRoutes() []route {
	return []route{
		{"GET", "/v1/vms/{vm}/network", key, s.network, "What the guest may reach.", nil, api.Network{}, false, ""},
		{"PUT", "/v1/vms/{vm}/network", key, s.setNetwork, "Replace the guest's network policy, at once. Connections that it does not allow are closed.", api.SetNetwork{}, api.ChangedNetwork{}, false, ""},
		{"PATCH", "/v1/vms/{vm}/network", key, s.changeNetwork, "Add and remove rules of the guest's network policy, at once.", api.ChangeNetwork{}, api.ChangedNetwork{}, false, ""},
		{"POST", "/v1/vms/{vm}/network/check", key, s.checkNetwork, "What the policy says of a request, without making it.", vm.NetQuestion{}, vm.NetAnswer{}, false, ""},
		{"GET", "/v1/vms/{vm}/network/refusals", key, s.networkRefusals, "What the policy refused lately, with the rule that would allow it.", nil, api.NetRefusals{}, false, ""},
		{"GET", "/v1/vms/{vm}/connections", key, s.connections, "The guest's latest outbound connections, with the verdict of its network policy.", nil, api.Connections{}, false, ""},
		{"GET", "/v1/policies", key, s.policies, "Network policies: those that come with Warren, then the account's own.", nil, api.PolicyList{}, false, ""},
		{"GET", "/v1/policies/{policy}", key, s.policy, "One network policy, with the VMs that use it.", nil, api.Policy{}, false, ""},
		{"PUT", "/v1/policies/{policy}", key, s.setPolicy, "Make or replace a network policy. VMs that use it get its rules at once.", api.SetPolicy{}, api.ChangedPolicy{}, false, ""},
		{"DELETE", "/v1/policies/{policy}", key, s.removePolicy, "Remove a network policy that no VM uses.", nil, okBody{}, false, ""},
	}
}

func (s *server) network(q *request) error {
	v, err := s.Policy.Shown(q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(shownNetwork(v.Network))
}

// shownNetwork converts a policy, without the placeholders of its secrets.
func shownNetwork(p vm.NetworkPolicy) api.Network {
	out := api.Network{
		Mode: p.Mode, Rules: orEmpty(p.Rules), Policies: orEmpty(p.Named), Registries: orEmpty(p.Hosts), Secrets: []api.NetworkUse{}, Digest: p.Digest(),
	}
	for _, u := range p.Secrets {
		out.Secrets = append(out.Secrets, api.NetworkUse{Name: u.Name, Host: u.Host, Port: u.Port, Header: u.Header, Methods: u.Methods, Paths: u.Paths})
	}
	return out
}

// orEmpty returns a list that is written as [] if it is nil.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (s *server) setNetwork(q *request) error {
	var in api.SetNetwork
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	long := vm.NetworkRequest{Mode: in.Mode, Policies: in.Policies, Rules: in.Rules}
	spec := in.Network
	switch given := in.Mode != "" || len(in.Policies)+len(in.Rules) > 0; {
	case given && spec != "":
		return vm.Errorf(vm.Invalid, "network", "it is said twice").WithCode("INVALID_REQUEST").WithHint("send network, or mode, policies and rules")
	case !given && spec == "":
		_, err := vm.ParseNetworkMode("")
		return vm.AsError(err).WithCode("INVALID_REQUEST")
	case given:
		spec = long.Spec()
	}
	return s.sendChange(q, policy.Change{Set: spec, DryRun: in.DryRun, Force: in.Force})
}

func (s *server) changeNetwork(q *request) error {
	var in api.ChangeNetwork
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	if in.For < 0 || in.For > vm.Seconds(vm.MaxDuration) {
		return vm.Errorf(vm.Invalid, "forSeconds", "%s is out of range", in.For).WithCode("INVALID_REQUEST")
	}
	if in.Mode == "" && len(in.Allow)+len(in.Deny)+len(in.Remove) == 0 {
		return vm.Errorf(vm.Invalid, "network", "the request changes nothing").WithCode("INVALID_REQUEST").WithHint("send mode, allow, deny or remove")
	}
	return s.sendChange(q, policy.Change{
		Mode: in.Mode, Allow: in.Allow, Deny: in.Deny, Remove: in.Remove, First: in.First, For: time.Duration(in.For), DryRun: in.DryRun, Force: in.Force,
	})
}

func (s *server) sendChange(q *request, ch policy.Change) error {
	if at, ok := q.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		ch.Self = at.String()
	}
	done, err := s.Policy.Change(q.Context(), q.call, q.ref(), ch)
	if err != nil {
		return err
	}
	return q.ok(api.ChangedNetwork{
		VM: shown(&done.VM), Policy: shownNetwork(done.Policy), Widens: orEmpty(done.Widens), Cut: len(done.Cut), Connections: orEmpty(done.Cut), DryRun: done.DryRun,
	})
}

func (s *server) checkNetwork(q *request) error {
	var in vm.NetQuestion
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	a, err := s.Policy.Explain(q.Context(), q.call, q.ref(), in)
	if err != nil {
		return err
	}
	return q.ok(a)
}

func (s *server) networkRefusals(q *request) error {
	v, err := s.Policy.Shown(q.call, q.ref())
	if err != nil {
		return err
	}
	l, err := s.Inside.Connections(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(api.NetRefusals{Refusals: s.Policy.Refusals(v, l)})
}

func (s *server) connections(q *request) error {
	l, err := s.Inside.Connections(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(api.Connections{Connections: orEmpty(l)})
}

// shownPolicy converts a named policy.
func shownPolicy(n vm.NamedPolicy, users []vm.VM) api.Policy {
	out := api.Policy{
		Name: n.Name, Mode: n.Mode, Rules: orEmpty(n.Rules), Shipped: n.Shipped, About: n.About, CreatedAt: n.CreatedAt, UpdatedAt: n.UpdatedAt, VMs: []api.PolicyVM{},
	}
	for _, v := range users {
		out.VMs = append(out.VMs, api.PolicyVM{ID: v.ID, Name: v.Name})
	}
	return out
}

func (s *server) policies(q *request) error {
	list, err := s.Policy.List(q.call)
	if err != nil {
		return err
	}
	out := api.PolicyList{Policies: []api.Policy{}}
	for _, n := range list {
		out.Policies = append(out.Policies, shownPolicy(n, nil))
	}
	return q.ok(out)
}

func (s *server) policy(q *request) error {
	n, users, err := s.Policy.Get(q.call, q.values["policy"])
	if err != nil {
		return err
	}
	return q.ok(shownPolicy(n, users))
}

func (s *server) setPolicy(q *request) error {
	var in api.SetPolicy
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	done, err := s.Policy.SetNamed(q.Context(), q.call, q.values["policy"], in.Network)
	if err != nil {
		return err
	}
	out := api.ChangedPolicy{Policy: shownPolicy(done.Policy, done.Changed), Cut: done.Cut}
	for _, v := range done.Waiting {
		out.VMs = append(out.VMs, api.PolicyVM{ID: v.VM.ID, Name: v.VM.Name, Why: vm.AsError(v.Err).Error()})
	}
	return q.ok(out)
}

func (s *server) removePolicy(q *request) error {
	if err := s.Policy.RemoveNamed(q.Context(), q.call, q.values["policy"]); err != nil {
		return err
	}
	return q.ok(okBody{})
}
