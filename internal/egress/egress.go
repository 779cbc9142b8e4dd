// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package egress decides what a guest may reach. Evaluate is a function of a policy and
// one request; it opens no connection, resolves no name and keeps no state. The user
// network asks it before every lookup, before every dial (with the resolved address),
// before every HTTP request that it reads, and again for every live connection when the
// policy changes. internal/usernet, the monitor and the engine may call it.
//
// The rules of a policy are tried in their order. The first one that matches decides. If
// none does, the mode decides. In mode packages only the named hosts are reachable. A
// registry that redirects to another host (a download mirror, an object store) works
// only if that host is named, too: a redirect is a request for another name.
package egress

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// The protocols of a Request.
const (
	TCP = "tcp"
	UDP = "udp"
	DNS = "dns" // a lookup of a name; there is no address yet
)

// Request is one thing for which a guest asks.
type Request struct {
	Proto string     // TCP, UDP or DNS
	IP    netip.Addr // the address to dial; invalid = not resolved yet
	Port  uint16     // 0 for DNS
	// Name is the host name that the guest asked for, as it was looked up or
	// named in the TLS or HTTP greeting; "" = a raw address.
	Name string
	// Method and Path are those of an HTTP request, as they stand in the request line and
	// without the query. Both empty = the whole connection, which is allowed if a request
	// could be.
	Method, Path string
	// Host holds the addresses of this machine's own interfaces; see
	// HostAddresses.
	Host []netip.Addr
	// Now is the time of the request; zero = the present. Rules that have ended by then
	// do not count.
	Now time.Time
}

// whole reports whether the request is about a connection, not one HTTP request.
func (r Request) whole() bool { return r.Method == "" && r.Path == "" }

// Verdict is the answer, with the reason in plain words.
type Verdict struct {
	Allow bool
	// Reason may be shown to the guest: it names no address that the guest did not
	// name itself.
	Reason string
	// Detail is only for the host's record: the address behind a name, and its
	// kind; "" = nothing to add.
	Detail string
	// Rule is the id of the rule that decided; "" = the mode did.
	Rule string
	// Limit is that of the rule.
	Limit vm.NetLimit
	// Addressed reports that the address itself is allowed, whatever name leads to it: the
	// guest may connect to it without naming a host.
	Addressed bool
}

// Record is the whole reason, for the operator of the host.
func (v Verdict) Record() string {
	if v.Detail == "" {
		return v.Reason
	}
	return v.Reason + ": " + v.Detail
}

// NotPublic refuses a name that leads to an address that is not public. why is
// Private's text.
func NotPublic(name string, ip netip.Addr, why string) Verdict {
	v := deny("%s leads to an address that is not public", Normal(name))
	v.Detail = ip.String() + ", " + why
	return v
}

func allow(format string, args ...any) Verdict {
	return Verdict{Allow: true, Reason: fmt.Sprintf(format, args...)}
}

func deny(format string, args ...any) Verdict {
	return Verdict{Reason: fmt.Sprintf(format, args...)}
}

// Evaluate judges one request under one policy. An unknown mode counts as closed.
// With an invalid IP it judges only the name, and the caller must ask again with
// the resolved address before it dials.
func Evaluate(p vm.NetworkPolicy, r Request) Verdict {
	v, _ := decide(p, r)
	return v
}

// decide is Evaluate with the rule that decided; nil = the mode.
func decide(p vm.NetworkPolicy, r Request) (Verdict, *vm.NetRule) {
	r.Name = Normal(r.Name)
	now := r.Now
	if now.IsZero() {
		now = time.Now()
	}
	if r.Proto == TCP || r.Proto == UDP || r.Proto == DNS {
		for i := range p.Rules {
			rule := &p.Rules[i]
			if over(*rule, now) {
				continue
			}
			if v, decided := apply(p, *rule, r); decided {
				v.Rule = rule.ID
				if v.Allow {
					v.Limit = rule.Limit
				}
				return v, rule
			}
		}
	}
	switch p.Mode {
	case vm.NetPackages:
		return packages(p, r), nil
	case vm.NetOpen:
		return open(p, r), nil
	case vm.NetClosed:
		return unnamed(p, r), nil
	default:
		return deny("the network policy %q is not known, so it counts as closed", string(p.Mode)), nil
	}
}

// unnamed refuses what no rule of a closed policy allows.
func unnamed(p vm.NetworkPolicy, r Request) Verdict {
	switch {
	case len(p.Rules) == 0:
		return deny("the network policy is closed")
	case !r.whole():
		return deny("no rule of the network policy allows %s %s at %s", r.Method, r.Path, target(r))
	case r.Port == 0:
		return deny("no rule of the network policy names %s", target(r))
	}
	return deny("no rule of the network policy allows %s on %s port %d", target(r), r.Proto, r.Port)
}

// target names what a request is for, by what the guest said itself.
func target(r Request) string {
	if r.Name != "" {
		return r.Name
	}
	if r.IP.IsValid() {
		return "the address " + r.IP.String()
	}
	return "a connection without a name"
}

func packages(p vm.NetworkPolicy, r Request) Verdict {
	if r.Proto == UDP {
		if r.Port == 443 {
			return deny("QUIC (UDP 443) is refused under the policy packages; use TCP")
		}
		return deny("UDP other than name look-ups is refused under the policy packages")
	}
	if r.Proto != TCP && r.Proto != DNS {
		return deny("protocol %s is refused under the policy packages", r.Proto)
	}
	if r.Name == "" {
		return deny("a raw address is refused under the policy packages; only named package registries are reachable")
	}
	manager, ports := "", []string(nil)
	for _, h := range p.Hosts {
		if Normal(h.Host) != r.Name {
			continue
		}
		ports = append(ports, fmt.Sprint(h.Port))
		if r.Proto == DNS || h.Port == int(r.Port) {
			manager = h.Manager
			if manager == "" {
				manager = "named"
			}
		}
	}
	switch {
	case ports == nil && len(p.Rules) > 0:
		return deny("%s is not one of the package registries of this image, and no rule of the network policy allows it", r.Name)
	case ports == nil:
		return deny("%s is not one of the package registries of this image", r.Name)
	case manager == "":
		return deny("%s is allowed on port %s only", r.Name, strings.Join(ports, ", "))
	}
	if v := inward(p, r); v.Reason != "" {
		return v
	}
	return allow("package registry (%s)", manager)
}

func open(p vm.NetworkPolicy, r Request) Verdict {
	if r.Proto == DNS {
		if r.Name == "" {
			return deny("no name was asked for")
		}
		return allow("the network policy is open")
	}
	if r.Proto != TCP && r.Proto != UDP {
		return deny("protocol %s is refused", r.Proto)
	}
	if !r.IP.IsValid() && r.Name == "" {
		return deny("no address was given")
	}
	if v := inward(p, r); v.Reason != "" {
		return v
	}
	if r.Proto == UDP && r.Port == 443 {
		if named, _ := Looks(p, 443); named {
			return deny("QUIC (UDP 443) is refused, because rules of the network policy name hosts on port 443; use TCP")
		}
	}
	v := allow("the network policy is open")
	v.Addressed = true
	return v
}

// inward refuses an address that is not public, unless a rule allows that address. An
// empty Reason means that it does not refuse.
func inward(p vm.NetworkPolicy, r Request) Verdict {
	if !r.IP.IsValid() {
		return Verdict{}
	}
	why := Private(r.IP, r.Host)
	switch {
	case why == "" || r.Name != "" && opened(p, r):
		return Verdict{}
	case r.Name != "":
		return NotPublic(r.Name, r.IP, why)
	}
	v := deny("%s is not a public address", r.IP)
	v.Detail = why
	return v
}

// Normal returns the form of a host name for comparisons: lower case, without the
// final dot.
func Normal(name string) string {
	return strings.ToLower(strings.TrimSuffix(name, "."))
}
