// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

type special struct {
	prefix netip.Prefix
	why    string
}

func list(pairs ...string) []special {
	out := make([]special, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, special{netip.MustParsePrefix(pairs[i]), pairs[i+1]})
	}
	return out
}

// The address ranges that are never public. The order matters only for the text:
// the first match gives the reason. The documentation ranges are not here: they are
// not routed on the internet, and test beds use them on purpose.
var specials = list(
	"10.0.2.0/24", "an address of the guest's own network",
	"169.254.169.254/32", "a cloud metadata address",
	"0.0.0.0/8", "an address of this machine itself",
	"10.0.0.0/8", "a private address",
	"100.64.0.0/10", "a shared carrier address",
	"127.0.0.0/8", "a loopback address",
	// Clouds serve their own machines at these addresses, as if they were public.
	// Azure: learn.microsoft.com, "What is IP address 168.63.129.16?". IBM Cloud:
	// cloud.ibm.com/docs/vpc, "Service endpoints for IBM Cloud services".
	"168.63.129.16/32", "a cloud metadata address",
	"161.26.0.0/16", "a private cloud service's address",
	"166.8.0.0/14", "a private cloud service's address",
	"169.254.0.0/16", "a link-local address",
	"172.16.0.0/12", "a private address",
	"192.0.0.0/24", "a special-purpose address",
	"192.168.0.0/16", "a private address",
	"198.18.0.0/15", "a benchmarking address",
	"224.0.0.0/4", "a multicast address",
	"255.255.255.255/32", "the broadcast address",
	"240.0.0.0/4", "a reserved address",

	"::/128", "an address of this machine itself",
	"::1/128", "a loopback address",
	"64:ff9b:1::/48", "a private translated address",
	"100::/64", "a discard address",
	"2001::/32", "a tunnel address",
	"fd00:ec2::254/128", "a cloud metadata address",
	"fc00::/7", "a private address",
	"fe80::/10", "a link-local address",
	"fec0::/10", "a site-local address",
	"ff00::/8", "a multicast address",
)

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
	v4Compatible  = netip.MustParsePrefix("::/96")
)

// Private returns why a guest may not be connected to ip, or "" when it is a public
// address. host holds the addresses of this machine's own interfaces. IPv4
// addresses inside IPv6 ones (mapped, NAT64, 6to4) are judged as IPv4.
func Private(ip netip.Addr, host []netip.Addr) string {
	if !ip.IsValid() {
		return "no address"
	}
	if ip.Zone() != "" {
		return "a link-local address"
	}
	ip = ip.Unmap()
	if slices.ContainsFunc(host, func(h netip.Addr) bool { return h.WithZone("").Unmap() == ip }) {
		return "an address of the host"
	}
	for _, s := range specials {
		if s.prefix.Contains(ip) {
			return s.why
		}
	}
	if ip.Is4() {
		return ""
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip), v4Compatible.Contains(ip):
		return inner(netip.AddrFrom4([4]byte(b[12:16])), host, v4Compatible.Contains(ip))
	case sixToFour.Contains(ip):
		return inner(netip.AddrFrom4([4]byte(b[2:6])), host, false)
	case !globalUnicast.Contains(ip):
		return "not a public address"
	}
	return ""
}

func inner(v4 netip.Addr, host []netip.Addr, never bool) string {
	if why := Private(v4, host); why != "" {
		return fmt.Sprintf("%s (%s) in IPv6 form", why, v4)
	}
	if never {
		return "not a public address"
	}
	return ""
}

// HostAddresses returns the addresses of this machine's interfaces, the public
// ones included: services of the host often listen on all of them.
func HostAddresses() ([]netip.Addr, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("read the host's addresses: %w", err)
	}
	out := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out, nil
}
