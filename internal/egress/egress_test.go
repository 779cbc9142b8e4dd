// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

var (
	closed   = vm.NetworkPolicy{Mode: vm.NetClosed}
	open     = vm.NetworkPolicy{Mode: vm.NetOpen}
	packages = vm.NetworkPolicy{Mode: vm.NetPackages, Hosts: []vm.Registry{
		{Host: "apt.example", Port: 80, Manager: "apt"},
		{Host: "npm.example", Port: 443, Manager: "npm"},
		{Host: "Both.Example.", Port: 80, Manager: "apt"},
		{Host: "both.example", Port: 443, Manager: "pip"},
	}}
	host = []netip.Addr{netip.MustParseAddr("8.8.4.4"), netip.MustParseAddr("2001:4860::1"), netip.MustParseAddr("fe80::1%eth0")}
)

func ip(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}

// Nothing is reachable until a need is approved, and package
// registries are reachable by name and port alone.
func TestEvaluate(t *testing.T) {
	tests := []struct {
		name   string
		policy vm.NetworkPolicy
		req    egress.Request
		allow  bool
		reason string
	}{
		{"closed dns", closed, egress.Request{Proto: "dns", Name: "apt.example"}, false, "closed"},
		{"closed tcp", closed, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 443}, false, "closed"},
		{"closed udp", closed, egress.Request{Proto: "udp", IP: ip("8.8.8.8"), Port: 53}, false, "closed"},
		{"closed ignores hosts", vm.NetworkPolicy{Mode: vm.NetClosed, Hosts: packages.Hosts}, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 80, Name: "apt.example"}, false, "closed"},
		{"zero policy", vm.NetworkPolicy{}, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 80}, false, "counts as closed"},
		{"unknown mode", vm.NetworkPolicy{Mode: "Open"}, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 80}, false, "counts as closed"},

		{"registry dns", packages, egress.Request{Proto: "dns", Name: "APT.example."}, true, "apt"},
		{"other dns", packages, egress.Request{Proto: "dns", Name: "evil.example"}, false, "evil.example is not one of"},
		{"subdomain dns", packages, egress.Request{Proto: "dns", Name: "x.apt.example"}, false, "not one of"},
		{"suffix trick", packages, egress.Request{Proto: "dns", Name: "apt.example.evil"}, false, "not one of"},
		{"registry", packages, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 80, Name: "apt.example"}, true, "apt"},
		{"registry, not resolved yet", packages, egress.Request{Proto: "tcp", Port: 443, Name: "npm.example"}, true, "npm"},
		{"second port", packages, egress.Request{Proto: "tcp", Port: 443, Name: "both.example"}, true, "pip"},
		{"first port, odd spelling", packages, egress.Request{Proto: "tcp", Port: 80, Name: "both.example"}, true, "apt"},
		{"wrong port", packages, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 22, Name: "both.example"}, false, "port 80, 443 only"},
		{"raw address", packages, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 443}, false, "raw address"},
		{"quic", packages, egress.Request{Proto: "udp", IP: ip("8.8.8.8"), Port: 443, Name: "npm.example"}, false, "QUIC"},
		{"udp", packages, egress.Request{Proto: "udp", IP: ip("8.8.8.8"), Port: 53}, false, "UDP"},
		{"sctp", packages, egress.Request{Proto: "sctp", Port: 80, Name: "apt.example"}, false, "sctp"},
		{"registry name on a private address", packages, egress.Request{Proto: "tcp", IP: ip("192.168.1.1"), Port: 80, Name: "apt.example"}, false, "leads to 192.168.1.1, a private"},
		{"registry name on the host", packages, egress.Request{Proto: "tcp", IP: ip("8.8.4.4"), Port: 80, Name: "apt.example", Host: host}, false, "address of the host"},

		{"open tcp", open, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 22}, true, "open"},
		{"open udp", open, egress.Request{Proto: "udp", IP: ip("8.8.8.8"), Port: 123}, true, "open"},
		{"open dns", open, egress.Request{Proto: "dns", Name: "any.example"}, true, "open"},
		{"open dns without a name", open, egress.Request{Proto: "dns", Name: "."}, false, "no name"},
		{"open metadata", open, egress.Request{Proto: "tcp", IP: ip("169.254.169.254"), Port: 80}, false, "metadata"},
		{"open, named metadata", open, egress.Request{Proto: "tcp", IP: ip("169.254.169.254"), Port: 80, Name: "rebind.example"}, false, "rebind.example leads to"},
		{"open host", open, egress.Request{Proto: "udp", IP: ip("8.8.4.4"), Port: 80, Host: host}, false, "address of the host"},
		{"open without an address", open, egress.Request{Proto: "tcp", Port: 80}, false, "no address"},
		{"open icmp", open, egress.Request{Proto: "icmp", IP: ip("8.8.8.8")}, false, "icmp"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := egress.Evaluate(tt.policy, tt.req)
			if v.Allow != tt.allow || !strings.Contains(v.Reason, tt.reason) {
				t.Errorf("Evaluate = %+v, want allow %v with a reason about %q", v, tt.allow, tt.reason)
			}
		})
	}
}

// No address of the host's side is public in any spelling.
func TestPrivate(t *testing.T) {
	refused := []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.0.2.2", "10.255.255.255", "100.64.0.1", "100.127.255.254",
		"127.0.0.1", "127.9.9.9", "169.254.1.1", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.8", "192.168.0.1", "198.18.0.1", "198.19.255.255", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
		"8.8.4.4", "2001:4860::1", "::ffff:8.8.4.4", "64:ff9b::808:404", "2002:808:404::1",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::8.8.8.8",
		"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:a00:1::1", "2002:7f00:1::", "2001:0:1::1",
		"fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "100::1", "4000::1", "2600::1%lo",
	}
	for _, s := range refused {
		if why := egress.Private(netip.MustParseAddr(s), host); why == "" {
			t.Errorf("%s counts as public", s)
		}
	}
	if egress.Private(netip.Addr{}, nil) == "" {
		t.Error("no address counts as public")
	}
	public := []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0",
		"192.0.1.1", "192.0.2.9", "198.51.100.7", "203.0.113.42", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", "2606:4700::1111", "2001:db8::1",
	}
	for _, s := range public {
		if why := egress.Private(netip.MustParseAddr(s), host); why != "" {
			t.Errorf("%s is refused as %s", s, why)
		}
	}
}

func TestHostAddresses(t *testing.T) {
	addrs, err := egress.HostAddresses()
	if err != nil {
		t.Fatal(err)
	}
	if len(addrs) == 0 {
		t.Fatal("a machine without any address, not even loopback")
	}
	for _, a := range addrs {
		if egress.Private(a, addrs) == "" {
			t.Errorf("the host's own %s counts as public", a)
		}
	}
}

func FuzzPrivate(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{0x20, 2, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		v4 := a.Unmap()
		if (v4.IsPrivate() || v4.IsLoopback() || v4.IsLinkLocalUnicast() || v4.IsMulticast() || v4.IsUnspecified()) && egress.Private(a, nil) == "" {
			t.Errorf("%s counts as public", a)
		}
	})
}
