// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// ParseRule is a stand-in.
func ParseRule(s string) (r vm.NetRule, err error) {
	if p, rest, ok := strings.Cut(s, ":"); ok && (p == "udp" || p == "tcp") {
		r.Proto, s = p, rest
		if p == "tcp" {
			r.Proto = ""
		}
	}
	if i := strings.LastIndex(s, ":"); i > 0 && strings.Count(s, ":") == 1 {
		n, err := strconv.Atoi(s[i+1:])
		if err != nil {
			return r, vm.Errorf(vm.Invalid, s, "is not a rule")
		}
		r.Ports = []vm.PortRange{{First: n, Last: n}}
		s = s[:i]
	}
	r.Action, r.To = vm.NetAllow, Normal(s)
	return r, CheckRule(r)
}

// CheckRule is a stand-in.
func CheckRule(r vm.NetRule) error {
	if r.To == "" || strings.ContainsAny(r.To, " /?#") && !strings.Contains(r.To, "/") || strings.Contains(strings.TrimPrefix(r.To, "*"), "*") {
		return vm.Errorf(vm.Invalid, r.To, "is not a host, address or CIDR").WithHint("use example.com, *.example.com, 192.0.2.1 or 192.0.2.0/24")
	}
	return nil
}

// NeedsAdmin is a stand-in.
func NeedsAdmin(r vm.NetRule) bool {
	if p, err := netip.ParsePrefix(r.To); err == nil {
		return Private(p.Addr(), nil) != ""
	}
	ip, err := netip.ParseAddr(r.To)
	return err == nil && Private(ip, nil) != ""
}

// Widens is a stand-in.
func Widens(old, now vm.NetworkPolicy) (out []string) {
	for _, r := range now.Rules {
		if r.Action != vm.NetAllow {
			continue
		}
		if a := Answer(old, vm.NetQuestion{Host: strings.TrimPrefix(r.To, "*.")}, nil); !a.Allowed {
			out = append(out, r.To)
		}
	}
	rank := map[vm.NetworkMode]int{vm.NetClosed: 0, vm.NetPackages: 1, vm.NetOpen: 2}
	if rank[now.Mode] > rank[old.Mode] {
		out = append(out, "mode "+string(now.Mode))
	}
	return out
}

// Answer is a stand-in.
func Answer(p vm.NetworkPolicy, q vm.NetQuestion, _ []netip.Addr) vm.NetAnswer {
	a := vm.NetAnswer{Policy: p.Digest(), How: vm.NetRefused, Reason: "the network policy is " + string(p.Mode)}
	for _, r := range p.Rules {
		domain, wild := strings.CutPrefix(r.To, "*")
		if r.To == q.Host || wild && strings.HasSuffix(q.Host, domain) {
			a.Rule, a.Allowed = &r, r.Action == vm.NetAllow
			break
		}
	}
	if a.Rule == nil {
		a.Allowed = p.Mode == vm.NetOpen
	}
	if a.Allowed {
		a.How = vm.NetPassed
	}
	return a
}
