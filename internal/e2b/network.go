// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/policy"
	"github.com/warren-vm/warren/vm"
)

// networkRules is the network of a request.
type networkRules struct {
	AllowOut     []string        `json:"allowOut,omitempty"`
	DenyOut      []string        `json:"denyOut,omitempty"`
	Public       *bool           `json:"allowPublicTraffic,omitempty"`
	MaskHost     string          `json:"maskRequestHost,omitempty"`
	HTTPSPorts   []uint16        `json:"httpsPorts,omitempty"`
	EgressProxy  json.RawMessage `json:"egressProxy,omitempty"`
	Rules        json.RawMessage `json:"rules,omitempty"`
	OpenInternet *bool           `json:"allow_internet_access,omitempty"` // in an update only
}

// set reports whether JSON holds more than null, {} or [].
func set(raw json.RawMessage) bool {
	text := strings.TrimSpace(string(raw))
	return text != "" && text != "null" && text != "{}" && text != "[]"
}

// apply puts the rules of a request into a sandbox.
func (n *networkRules) apply(s *vm.Sandbox, internet *bool) error {
	s.NoInternet, s.HasInternet = internet != nil && !*internet, internet != nil && *internet
	s.AllowOut, s.DenyOut = nil, nil
	if n == nil {
		return nil
	}
	switch {
	case set(n.EgressProxy):
		return invalid("egressProxy", "an egress proxy is not supported")
	case set(n.Rules):
		return invalid("rules", "headers that the network puts in are not supported here").WithHint("use `warren secret`, which puts credentials into requests")
	}
	s.AllowOut, s.DenyOut = n.AllowOut, n.DenyOut
	s.Private = n.Public != nil && !*n.Public
	s.MaskHost, s.HTTPSPorts = n.MaskHost, n.HTTPSPorts
	return nil
}

// everything are the ways to write all addresses.
func everything(to string) bool { return to == "0.0.0.0/0" || to == "::/0" || to == "*" }

// networkOf is the network policy that a sandbox asks for; "" = the server's default. What is
// allowed is first, because it wins over what is denied.
func (d *Door) networkOf(s *vm.Sandbox) vm.NetworkSpec {
	if !s.NoInternet && len(s.AllowOut)+len(s.DenyOut) == 0 {
		return ""
	}
	return d.networkRequest(s).Spec()
}

func (d *Door) networkRequest(s *vm.Sandbox) vm.NetworkRequest {
	out := vm.NetworkRequest{Mode: d.DefaultNetwork}
	if s.NoInternet || slices.ContainsFunc(s.DenyOut, everything) {
		out.Mode = vm.NetClosed
	}
	if slices.ContainsFunc(s.AllowOut, everything) {
		out.Mode = vm.NetOpen
	}
	for action, list := range map[vm.NetAction][]string{vm.NetAllow: s.AllowOut, vm.NetDeny: s.DenyOut} {
		for _, to := range list {
			if everything(to) {
				continue
			}
			rule := vm.NetRule{Action: action, To: to}
			if action == vm.NetAllow {
				out.Rules = slices.Insert(out.Rules, 0, rule)
			} else {
				out.Rules = append(out.Rules, rule)
			}
		}
	}
	return out
}

func shownNetwork(s *vm.Sandbox) *networkRules {
	public := !s.Private
	return &networkRules{AllowOut: s.AllowOut, DenyOut: s.DenyOut, Public: &public, MaskHost: s.MaskHost, HTTPSPorts: s.HTTPSPorts}
}

// network replaces the rules of a sandbox for connections to the outside.
func (c *caller) network() error {
	var in networkRules
	if err := c.decode(&in); err != nil {
		return err
	}
	rec, err := c.sandbox()
	if err != nil {
		return err
	}
	next := rec.Sandbox.Clone()
	private, mask, ports := next.Private, next.MaskHost, next.HTTPSPorts
	if err := in.apply(next, in.OpenInternet); err != nil {
		return err
	}
	next.Private, next.MaskHost, next.HTTPSPorts = private, mask, ports
	if err := next.Check(); err != nil {
		return err
	}
	if _, err = c.d.Policy.Change(c.Context(), c.call, string(rec.ID), policy.Change{Set: c.d.networkRequest(next).Spec(), Force: true}); err != nil {
		return err
	}
	if _, err = c.d.Engine.ChangeSandbox(c.Context(), c.call, string(rec.ID), func(s *vm.Sandbox) {
		s.AllowOut, s.DenyOut, s.NoInternet, s.HasInternet = next.AllowOut, next.DenyOut, next.NoInternet, next.HasInternet
	}); err != nil {
		return err
	}
	return c.done()
}
