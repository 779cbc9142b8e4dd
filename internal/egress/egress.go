// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package egress decides what a guest may reach. Evaluate is a pure function of a
// policy and one request; it opens no connection, resolves no name and keeps no
// state. The user network asks it before every lookup, before every dial (with the
// resolved address) and again for every live connection when the policy changes.
// internal/usernet, the monitor and the engine may call it.
//
// In mode packages only the named hosts are reachable. A registry that redirects to
// another host (a download mirror, an object store) works only if that host is
// named, too: a redirect is a request for another name.
package egress

import (
	"fmt"
	"net/netip"
	"strings"

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
	// Host holds the addresses of this machine's own interfaces; see
	// HostAddresses.
	Host []netip.Addr
}

// Verdict is the answer, with the reason in plain words.
type Verdict struct {
	Allow bool
	// Reason may be shown to the guest: it names no address that the guest did not
	// name itself.
	Reason string
	// Detail is only for the host's record: the address behind a name, and its
	// kind; "" = nothing to add.
	Detail string
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
	switch p.Mode {
	case vm.NetPackages:
		return packages(p, r)
	case vm.NetOpen:
		return open(r)
	case vm.NetClosed:
		return deny("the network policy is closed")
	default:
		return deny("the network policy %q is not known, so it counts as closed", string(p.Mode))
	}
}

func packages(p vm.NetworkPolicy, r Request) Verdict {
	name := Normal(r.Name)
	if r.Proto == UDP {
		if r.Port == 443 {
			return deny("QUIC (UDP 443) is refused under the policy packages; use TCP")
		}
		return deny("UDP other than name look-ups is refused under the policy packages")
	}
	if r.Proto != TCP && r.Proto != DNS {
		return deny("protocol %s is refused under the policy packages", r.Proto)
	}
	if name == "" {
		return deny("a raw address is refused under the policy packages; only named package registries are reachable")
	}
	manager, ports := "", []string(nil)
	for _, h := range p.Hosts {
		if Normal(h.Host) != name {
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
	case ports == nil:
		return deny("%s is not one of the package registries of this image", name)
	case manager == "":
		return deny("%s is allowed on port %s only", name, strings.Join(ports, ", "))
	}
	if r.IP.IsValid() {
		if why := Private(r.IP, r.Host); why != "" {
			return NotPublic(name, r.IP, why)
		}
	}
	return allow("package registry (%s)", manager)
}

func open(r Request) Verdict {
	if r.Proto == DNS {
		if Normal(r.Name) == "" {
			return deny("no name was asked for")
		}
		return allow("the network policy is open")
	}
	if r.Proto != TCP && r.Proto != UDP {
		return deny("protocol %s is refused", r.Proto)
	}
	if !r.IP.IsValid() {
		if Normal(r.Name) == "" {
			return deny("no address was given")
		}
		return allow("the network policy is open")
	}
	if why := Private(r.IP, r.Host); why != "" {
		if r.Name != "" {
			return NotPublic(r.Name, r.IP, why)
		}
		v := deny("%s is not a public address", r.IP)
		v.Detail = why
		return v
	}
	return allow("the network policy is open")
}

// Normal returns the form of a host name for comparisons: lower case, without the
// final dot.
func Normal(name string) string {
	return strings.ToLower(strings.TrimSuffix(name, "."))
}
