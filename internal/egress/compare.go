// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Shadow says that a rule never decides: an earlier one covers all that it is about.
type Shadow struct {
	Rule, By int // indexes of the list
}

// Shadowed returns the rules of a list that never decide. Rules that end are not counted as
// covering others.
func Shadowed(rules []vm.NetRule) []Shadow {
	var out []Shadow
	for i := range rules {
		for j := range i {
			if rules[j].Until.IsZero() && contains(rules[j], rules[i]) {
				out = append(out, Shadow{Rule: i, By: j})
				break
			}
		}
	}
	return out
}

// CheckRules checks each rule of a list, and that each can decide. Errors are Invalid.
func CheckRules(rules []vm.NetRule) error {
	for _, r := range rules {
		if err := CheckRule(r); err != nil {
			return err
		}
	}
	for _, s := range Shadowed(rules) {
		a, b := rules[s.Rule], rules[s.By]
		return vm.Errorf(vm.Invalid, said(a), "the rule to %s it never decides: an earlier rule to %s %s covers it", a.Action, b.Action, said(b)).
			WithHint("remove one of the two, or put the narrower one first")
	}
	return nil
}

// contains reports whether every request that b matches is matched by a.
func contains(a, b vm.NetRule) bool {
	pa, pb := protoOf(a), protoOf(b)
	return (pa == pb || pa == anyProto) && coversTo(a.To, b.To) && coversPorts(portsOf(a), portsOf(b)) &&
		coversMethods(a.Methods, b.Methods) && coversPaths(a, b)
}

func coversTo(a, b string) bool {
	pa, addrA := prefixOf(a)
	pb, addrB := prefixOf(b)
	switch {
	case a == b:
		return true
	case addrA && addrB:
		return pa.Bits() <= pb.Bits() && pa.Contains(pb.Addr())
	case addrA:
		return false
	case a == Any:
		return !addrB || publicOnly(pb) // "*" is about public addresses
	case addrB || b == Any:
		return false
	}
	return matchesName(a, strings.TrimPrefix(b, "*.")) && strings.HasPrefix(a, "*.")
}

func publicOnly(p netip.Prefix) bool {
	return Private(p.Addr(), nil) == "" && !slices.ContainsFunc(specials, func(s special) bool { return s.prefix.Overlaps(p) })
}

func coversPorts(a, b []vm.PortRange) bool {
	for _, g := range b {
		next := g.First
		for again := true; again && next <= g.Last; {
			again = false
			for _, r := range a {
				if r.First <= next && next <= r.Last {
					next, again = r.Last+1, true
				}
			}
		}
		if next <= g.Last {
			return false
		}
	}
	return true
}

func coversMethods(a, b []string) bool {
	if len(a) == 0 {
		return true
	}
	return len(b) > 0 && !slices.ContainsFunc(b, func(m string) bool { return !slices.Contains(a, m) })
}

func coversPaths(a, b vm.NetRule) bool {
	if len(a.Paths) == 0 {
		return true
	}
	return len(b.Paths) > 0 && !slices.ContainsFunc(b.Paths, func(p string) bool {
		return !slices.ContainsFunc(a.Paths, func(q string) bool { return coversPattern(q, p) })
	})
}

// coversPattern reports whether the pattern a covers all that the pattern b does. It may
// miss some that it does.
func coversPattern(a, b string) bool {
	if a == b {
		return true
	}
	head, all := strings.CutSuffix(a, "/**")
	if !all {
		return !strings.Contains(b, "*") && matchPath(a, strings.Split(strings.TrimPrefix(b, "/"), "/"), false)
	}
	return !strings.Contains(head, "*") && (b == head || strings.HasPrefix(b, head+"/"))
}

// Widens says in words what a policy newly allows compared with an old one; nil = nothing.
func Widens(old, new vm.NetworkPolicy) []string {
	var out []string
	if rank(new.Mode) > rank(old.Mode) {
		out = append(out, map[vm.NetworkMode]string{
			vm.NetPackages: "the package registries of the image",
			vm.NetOpen:     "every public address, on every port",
		}[new.Mode])
	}
	if new.Mode == vm.NetPackages && old.Mode == vm.NetPackages {
		for _, h := range new.Hosts {
			if !slices.ContainsFunc(old.Hosts, func(o vm.Registry) bool { return Normal(o.Host) == Normal(h.Host) && o.Port == h.Port }) {
				out = append(out, fmt.Sprintf("the package registry %s on port %d", h.Host, h.Port))
			}
		}
	}
	for i, r := range new.Rules {
		if r.Action == vm.NetAllow && !allows(old, new.Rules[:i], r) {
			out = append(out, widened(r))
		}
	}
	for i, r := range old.Rules {
		if r.Action == vm.NetDeny && !stillDenied(old, new, i) {
			out = append(out, "no longer denied: "+said(r))
		}
	}
	return out
}

func rank(m vm.NetworkMode) int {
	return slices.Index([]vm.NetworkMode{vm.NetClosed, vm.NetPackages, vm.NetOpen}, m)
}

// allows reports whether an old policy allows all that a rule does. before are the rules
// that stand before it in the new policy.
func allows(old vm.NetworkPolicy, before []vm.NetRule, r vm.NetRule) bool {
	for _, o := range old.Rules {
		if o.Action == vm.NetDeny {
			if overlaps(o, r) && !slices.ContainsFunc(before, func(b vm.NetRule) bool { return b.Action == vm.NetDeny && lasts(b, o) && contains(b, o) }) {
				return false
			}
			continue
		}
		if contains(o, r) && lasts(o, r) && within(r.Limit, o.Limit) {
			return true
		}
	}
	if old.Mode != vm.NetOpen {
		return false
	}
	p, byAddress := prefixOf(r.To)
	return !byAddress || publicOnly(p)
}

// stillDenied reports whether what old's rule i denies is denied by new, too, or was never
// allowed to begin with.
func stillDenied(old, new vm.NetworkPolicy, i int) bool {
	r := old.Rules[i]
	for _, n := range new.Rules {
		if n.Action == vm.NetDeny && contains(n, r) && lasts(n, r) {
			return true
		}
		if n.Action == vm.NetAllow && overlaps(n, r) && !slices.ContainsFunc(old.Rules[:i], func(o vm.NetRule) bool { return o.Action == vm.NetAllow && contains(o, n) }) {
			return false
		}
	}
	return new.Mode == vm.NetClosed || new.Mode == vm.NetPackages && !slices.ContainsFunc(new.Hosts, func(h vm.Registry) bool {
		return overlaps(r, vm.NetRule{Action: vm.NetAllow, To: Normal(h.Host), Ports: []vm.PortRange{{First: h.Port, Last: h.Port}}})
	})
}

// overlaps reports whether some request may be matched by both rules.
func overlaps(a, b vm.NetRule) bool {
	pa, pb := protoOf(a), protoOf(b)
	if pa != pb && pa != anyProto && pb != anyProto {
		return false
	}
	if !slices.ContainsFunc(portsOf(a), func(g vm.PortRange) bool {
		return slices.ContainsFunc(portsOf(b), func(h vm.PortRange) bool { return g.First <= h.Last && h.First <= g.Last })
	}) {
		return false
	}
	if len(a.Methods) > 0 && len(b.Methods) > 0 && !slices.ContainsFunc(a.Methods, func(m string) bool { return slices.Contains(b.Methods, m) }) {
		return false
	}
	xa, addrA := prefixOf(a.To)
	xb, addrB := prefixOf(b.To)
	if addrA && addrB {
		return xa.Overlaps(xb)
	}
	return addrA || addrB || coversTo(a.To, b.To) || coversTo(b.To, a.To) // a name may lead to any address
}

// lasts reports whether a ends no earlier than b.
func lasts(a, b vm.NetRule) bool {
	return a.Until.IsZero() || !b.Until.IsZero() && !a.Until.Before(b.Until)
}

// within reports whether a limit is at least as narrow as another.
func within(a, b vm.NetLimit) bool {
	ok := func(a, b int64) bool { return b == 0 || a > 0 && a <= b }
	return ok(int64(a.Connections), int64(b.Connections)) && ok(a.Bytes, b.Bytes) && ok(a.Rate, b.Rate)
}

// widened says what an allow rule newly allows.
func widened(r vm.NetRule) string {
	var b strings.Builder
	if len(r.Methods) > 0 {
		b.WriteString(strings.Join(r.Methods, ", ") + " requests to ")
	}
	prefix, byAddress := prefixOf(r.To)
	domain, below := strings.CutPrefix(r.To, "*.")
	switch {
	case r.To == Any:
		b.WriteString("every public address")
	case below:
		b.WriteString("every name below " + domain)
		if !strings.Contains(domain, ".") {
			b.WriteString(", a whole top-level domain")
		}
	case byAddress && !prefix.IsSingleIP():
		fmt.Fprintf(&b, "the %s addresses of %s, by any protocol", count(prefix), r.To)
	case byAddress:
		fmt.Fprintf(&b, "the address %s, by any protocol", r.To)
	default:
		b.WriteString(r.To)
	}
	if len(r.Paths) > 0 {
		b.WriteString(" with the path " + strings.Join(r.Paths, " or "))
	}
	switch gs := portsOf(r); {
	case byAddress && len(r.Ports) == 0:
		b.WriteString(" on every port")
	default:
		b.WriteString(" on port " + ports(gs))
	}
	if r.Proto == UDP {
		b.WriteString(" of UDP")
	}
	if byAddress && NeedsAdmin(r) {
		b.WriteString(", which is not public")
	}
	if !r.Until.IsZero() {
		b.WriteString(" until " + r.Until.UTC().Format("2006-01-02 15:04 UTC"))
	}
	return b.String()
}

// count is the number of addresses of a prefix.
func count(p netip.Prefix) string {
	n := p.Addr().BitLen() - p.Bits()
	if n > 32 {
		return fmt.Sprintf("2^%d", n)
	}
	return fmt.Sprint(uint64(1) << n)
}

// Answer says what a policy does with a question, without a connection. host holds the
// addresses of the machine's own interfaces.
func Answer(p vm.NetworkPolicy, q vm.NetQuestion, host []netip.Addr) vm.NetAnswer {
	r := Request{Proto: q.Proto, Port: uint16(q.Port), Method: q.Method, Path: q.Path, Host: host}
	if r.Proto == "" {
		r.Proto = TCP
	}
	if q.Port == 0 {
		r.Port = 443
	}
	if !r.whole() {
		if r.Method == "" {
			r.Method = "GET"
		}
		if r.Path == "" {
			r.Path = "/"
		}
	}
	if ip, err := netip.ParseAddr(strings.Trim(q.Host, "[]")); err == nil {
		r.IP = ip.Unmap()
	} else {
		r.Name = Normal(q.Host)
	}
	a := vm.NetAnswer{How: vm.NetRefused, Policy: p.Digest()}
	switch {
	case q.Port < 0 || q.Port > 65535:
		a.Reason = "there is no such port"
		return a
	case !r.IP.IsValid() && !ValidName(r.Name):
		a.Reason = "it is not a host name or an address"
		return a
	}
	if r.Name == vm.InsideDomain || strings.HasSuffix(r.Name, "."+vm.InsideDomain) {
		return vm.NetAnswer{Allowed: true, How: vm.NetPassed, Policy: a.Policy, Reason: "the VM's own network answers it under every policy"}
	}
	v, rule := decide(p, r)
	a.Allowed, a.Reason = v.Allow, v.Reason
	if rule != nil {
		decided := *rule
		a.Rule = &decided
	}
	if v.Allow {
		a.How = vm.NetPassed
		if r.Proto == TCP && r.Name != "" && Inspects(p, r.Name, int(r.Port)) {
			a.How = vm.NetIntercepted
		}
		return a
	}
	a.Next = Next(q.Host)
	return a
}

// Next is what a program in the guest can do about a refusal of a host.
func Next(host string) string { return "warren-agent ask " + host }
