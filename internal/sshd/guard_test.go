// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	from string
}

func (a addressed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(a.from), 1))
}

// When the limit is reached, the address with the most connections loses its oldest one.
func TestGuardPool(t *testing.T) {
	g := newGuard(time.Now)
	cut := map[string]int{}
	join := func(from string) func() {
		leave, err := g.enter(addressed{from: from}, func() { cut[from]++ })
		if err != nil {
			t.Fatalf("a login from %s is refused: %v", from, err)
		}
		return leave
	}
	var leaves []func()
	for _, from := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
		for range maxStrange {
			leaves = append(leaves, join(from))
		}
	}
	for range maxStrangers - 3*maxStrange - 1 {
		leaves = append(leaves, join("192.0.2.4"))
	}
	if _, err := g.enter(addressed{from: "192.0.2.1"}, func() {}); vm.KindOf(err) != vm.Limit {
		t.Errorf("one address may have %d: %v", maxStrange+1, err)
	}
	leaves = append(leaves, join("192.0.2.5"))
	if len(cut) != 0 {
		t.Errorf("ended before the pool was full: %v", cut)
	}
	leaves = append(leaves, join("2001:db8::1"), join("2001:db8:0:1::1"), join("192.0.2.1"))
	if cut["192.0.2.1"]+cut["192.0.2.2"]+cut["192.0.2.3"] != 3 {
		t.Errorf("ended of the three addresses with the most: %v", cut)
	}
	if cut["192.0.2.5"]+cut["2001:db8::1"] != 0 {
		t.Errorf("ended of an address with one connection: %v", cut)
	}
	for _, leave := range leaves {
		leave()
		leave() // the connection whose place was taken leaves, too
	}
	if len(g.strangers) != 0 {
		t.Errorf("%d connections are still counted", len(g.strangers))
	}
	if len(g.m) != 0 {
		t.Errorf("%d addresses are remembered for nothing", len(g.m))
	}
}
