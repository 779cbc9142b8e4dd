// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Any is the To of a rule about every public address.
const Any = "*"

// over reports whether a rule has ended.
func over(r vm.NetRule, now time.Time) bool { return !r.Until.IsZero() && !now.Before(r.Until) }

// prefixOf returns the addresses that a rule is about; ok is false if it names hosts.
// IPv4 addresses in IPv6 form count as IPv4. It is called for every rule of each request,
// and the parsers' errors are slow, so that it sorts out most names first.
func prefixOf(to string) (p netip.Prefix, ok bool) {
	if to == "" || !strings.Contains(to, ":") && (to[len(to)-1] < '0' || to[len(to)-1] > '9') {
		return netip.Prefix{}, false
	}
	if !strings.Contains(to, "/") {
		a, err := netip.ParseAddr(to)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, false
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(to)
	if err != nil {
		return netip.Prefix{}, false
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}

// matchesName reports whether a rule's To, a name or "*." and a domain, covers a name in
// normal form.
func matchesName(to, name string) bool {
	if strings.HasPrefix(to, "*.") {
		return strings.HasSuffix(name, to[1:])
	}
	return name != "" && name == to
}

// protoOf is the protocol of a rule. A deny rule that names no protocol and no port is
// about all of them: anyProto.
func protoOf(r vm.NetRule) string {
	if r.Proto == "" && r.Action == vm.NetDeny && len(r.Ports) == 0 && !r.HTTP() {
		return anyProto
	}
	if r.Proto == "" {
		return TCP
	}
	return r.Proto
}

const anyProto = "any"

// portsOf returns the ports that a rule is about.
func portsOf(r vm.NetRule) []vm.PortRange {
	if len(r.Ports) > 0 {
		return r.Ports
	}
	if _, addr := prefixOf(r.To); addr || r.Action == vm.NetDeny {
		return []vm.PortRange{{First: 0, Last: 65535}}
	}
	return []vm.PortRange{{First: 80, Last: 80}, {First: 443, Last: 443}}
}

// covers reports whether a rule is about a port of a protocol, TCP or UDP.
func covers(r vm.NetRule, proto string, port uint16) bool {
	if p := protoOf(r); p != proto && p != anyProto {
		return false
	}
	return slices.ContainsFunc(portsOf(r), func(g vm.PortRange) bool { return g.First <= int(port) && int(port) <= g.Last })
}

// apply judges a request by one rule. decided is false if the rule does not match.
func apply(p vm.NetworkPolicy, rule vm.NetRule, r Request) (v Verdict, decided bool) {
	if r.Proto == DNS {
		return applyLookup(rule, r)
	}
	if !covers(rule, r.Proto, r.Port) {
		return Verdict{}, false
	}
	prefix, byAddress := prefixOf(rule.To)
	switch {
	case byAddress:
		if !r.IP.IsValid() || !prefix.Contains(r.IP.Unmap()) || !reaches(rule, r) {
			return Verdict{}, false
		}
	case rule.To == Any:
	case !matchesName(rule.To, r.Name):
		return Verdict{}, false
	}
	if rule.HTTP() {
		if r.whole() && rule.Action == vm.NetDeny {
			return Verdict{}, false // another request of the connection may be allowed
		}
		if !r.whole() {
			if v, decided = applyHTTP(rule, r); !decided || !v.Allow {
				return v, decided
			}
		}
	}
	if rule.Action != vm.NetAllow {
		return deny("a rule of the network policy denies %s", said(rule)), true
	}
	v = allow("a rule of the network policy allows %s", said(rule))
	if byAddress {
		v.Addressed = true
		return v, true
	}
	v.Addressed = rule.To == Any
	if no := inward(p, r); no.Reason != "" {
		if rule.To == Any {
			return Verdict{}, false // it is about public addresses only
		}
		return no, true
	}
	return v, true
}

// reaches reports whether an allow rule about addresses covers the request's one. The
// host's own public address is covered only by a rule that names exactly it.
func reaches(rule vm.NetRule, r Request) bool {
	if rule.Action == vm.NetDeny {
		return true
	}
	ip := r.IP.Unmap()
	if Private(ip, nil) != "" || Private(ip, r.Host) == "" {
		return true
	}
	prefix, _ := prefixOf(rule.To)
	return prefix.IsSingleIP()
}

// opened reports whether a rule about addresses allows the request's address, which is
// not public.
func opened(p vm.NetworkPolicy, r Request) bool {
	now := r.Now
	if now.IsZero() {
		now = time.Now()
	}
	for _, rule := range p.Rules {
		prefix, byAddress := prefixOf(rule.To)
		if byAddress && !over(rule, now) && prefix.Contains(r.IP.Unmap()) && covers(rule, r.Proto, r.Port) && reaches(rule, r) {
			return rule.Action == vm.NetAllow
		}
	}
	return false
}

// applyLookup judges the lookup of a name by one rule. An allow rule about any port of the
// name allows it. A deny rule decides only if it is about the whole name.
func applyLookup(rule vm.NetRule, r Request) (v Verdict, decided bool) {
	if r.Name == "" || rule.To != Any && !matchesName(rule.To, r.Name) {
		return Verdict{}, false
	}
	if rule.Action == vm.NetAllow {
		return allow("a rule of the network policy allows %s", said(rule)), true
	}
	if protoOf(rule) != anyProto {
		return Verdict{}, false
	}
	return deny("a rule of the network policy denies %s", said(rule)), true
}

// Answerable reports whether a lookup of a name may be answered with an address: a public
// one, or one that a rule about addresses allows on some port.
func Answerable(p vm.NetworkPolicy, r Request) bool {
	if Private(r.IP, r.Host) == "" {
		return true
	}
	now := r.Now
	if now.IsZero() {
		now = time.Now()
	}
	for _, rule := range p.Rules {
		prefix, byAddress := prefixOf(rule.To)
		if !byAddress || over(rule, now) || !prefix.Contains(r.IP.Unmap()) || !reaches(rule, r) {
			continue
		}
		if rule.Action == vm.NetAllow {
			return true
		}
		if protoOf(rule) == anyProto {
			return false
		}
	}
	return false
}

// Broad reports whether the lookup of a name is allowed because many names are: by the mode
// open, or by a rule about every name or all below a domain.
func Broad(p vm.NetworkPolicy, name string) bool {
	v, rule := decide(p, Request{Proto: DNS, Name: name})
	if rule == nil {
		return v.Allow && p.Mode == vm.NetOpen
	}
	return v.Allow && (rule.To == Any || strings.HasPrefix(rule.To, "*."))
}

// Looks reports whether connections to a TCP port must be read for the host that they
// name. With strict, a connection that names none is refused there: a rule denies a host
// by its name, or is about its requests.
func Looks(p vm.NetworkPolicy, port uint16) (names, strict bool) {
	names = slices.ContainsFunc(p.Secrets, func(s vm.SecretUse) bool { return s.Port == int(port) })
	now := time.Now()
	for _, rule := range p.Rules {
		if _, byAddress := prefixOf(rule.To); byAddress || rule.To == Any || over(rule, now) || !covers(rule, TCP, port) {
			continue
		}
		names = true
		strict = strict || rule.Action == vm.NetDeny || rule.HTTP()
	}
	return names || p.Mode == vm.NetPackages, strict
}

// Inspects reports whether the requests of TLS connections to a name and a port must be
// read: a rule about methods or paths may decide them, or a secret is put into them.
func Inspects(p vm.NetworkPolicy, name string, port int) bool {
	name = Normal(name)
	if slices.ContainsFunc(p.Secrets, func(s vm.SecretUse) bool { return Normal(s.Host) == name && s.Port == port }) {
		return true
	}
	return Requests(p, name, port)
}

// Requests reports whether a rule about methods or paths may decide the requests to a
// name and a port.
func Requests(p vm.NetworkPolicy, name string, port int) bool {
	name = Normal(name)
	if port < 0 || port > 65535 {
		return false
	}
	now := time.Now()
	for _, rule := range p.Rules {
		_, byAddress := prefixOf(rule.To)
		if byAddress || over(rule, now) || !covers(rule, TCP, uint16(port)) || rule.To != Any && !matchesName(rule.To, name) {
			continue
		}
		return rule.HTTP()
	}
	return false
}

// Sight says what must be known of a TCP connection before it is judged.
type Sight struct {
	// Names reports that the name in the connection's greeting may decide.
	Names bool
	// Strict reports that a greeting without a name is refused: a rule denies a host by its
	// name, or is about its requests.
	Strict bool
	// Wild reports that a rule allows names that cannot be listed, so that any address may
	// belong to one of them.
	Wild bool
	// Exact are the names that the policy allows on the port, Denied those that it denies.
	Exact, Denied []string
}

// Look judges a TCP connection to an address by the address alone, and says what else must
// be known of it. A verdict that allows holds for a connection that names no host, unless
// the Sight is strict.
func Look(p vm.NetworkPolicy, r Request) (Verdict, Sight) {
	now := r.Now
	if now.IsZero() {
		now = time.Now()
	}
	r.Name, r.Proto = "", TCP
	v, by := decide(p, r)
	var s Sight
	for i := range p.Rules {
		rule := &p.Rules[i]
		if rule == by {
			break // it decides for every name that the rules before it leave
		}
		if _, byAddress := prefixOf(rule.To); byAddress || rule.To == Any || over(*rule, now) || !covers(*rule, TCP, r.Port) {
			continue
		}
		below := strings.HasPrefix(rule.To, "*.")
		switch rule.Action {
		case vm.NetAllow:
			s.Names = s.Names || !v.Allow
			s.Strict = s.Strict || rule.HTTP()
			s.Wild = s.Wild || below
			if !below {
				s.Exact = append(s.Exact, rule.To)
			}
		default:
			s.Strict = true
			if !below && !rule.HTTP() {
				s.Denied = append(s.Denied, rule.To)
			}
		}
	}
	if by == nil && p.Mode == vm.NetPackages {
		for _, h := range p.Hosts {
			if h.Port == int(r.Port) {
				s.Names = true
				s.Exact = append(s.Exact, Normal(h.Host))
			}
		}
	}
	if slices.ContainsFunc(p.Secrets, func(u vm.SecretUse) bool { return u.Port == int(r.Port) }) {
		s.Names = true
	}
	s.Names = s.Names || s.Strict
	return v, s
}

// NextEnd returns when the next rule of a policy ends after now; zero = none does.
func NextEnd(p vm.NetworkPolicy, now time.Time) (next time.Time) {
	for _, rule := range p.Rules {
		if !rule.Until.IsZero() && rule.Until.After(now) && (next.IsZero() || rule.Until.Before(next)) {
			next = rule.Until
		}
	}
	return next
}

// Denied returns the names of the rules that deny exactly one host, and all of its requests.
func Denied(p vm.NetworkPolicy) (names []string) {
	now := time.Now()
	for _, r := range p.Rules {
		if r.Action == vm.NetDeny && namesOne(r) && !over(r, now) {
			names = append(names, r.To)
		}
	}
	return names
}

// namesOne reports whether a rule is about exactly one host, and all of its requests.
func namesOne(r vm.NetRule) bool {
	_, byAddress := prefixOf(r.To)
	return !byAddress && r.To != Any && !strings.HasPrefix(r.To, "*.") && !r.HTTP()
}

// Exact returns the names of the rules of an action that name exactly one host, and all of
// its requests, on a port.
func Exact(p vm.NetworkPolicy, proto string, port uint16, action vm.NetAction) (names []string) {
	now := time.Now()
	for _, r := range p.Rules {
		if r.Action == action && namesOne(r) && !over(r, now) && covers(r, proto, port) {
			names = append(names, r.To)
		}
	}
	return names
}
