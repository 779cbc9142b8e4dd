// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/warren-vm/warren/vm"
)

var evilAddr = netip.MustParseAddr("203.0.113.66")

// deniedWorld has evil.example at evilAddr, and servers of any protocol at both addresses.
func deniedWorld(t *testing.T, p vm.NetworkPolicy) *world {
	w := newWorld(t, p)
	w.setName("evil.example", evilAddr)
	for _, a := range []netip.Addr{evilAddr, npmAddr} {
		w.route("tcp", netip.AddrPortFrom(a, 2222), echoServer(w))
	}
	return w
}

// crowd looks up other names with the address, so that evil.example is none of its newest.
func (w *world) crowd() {
	for i := range 2 * maxPerAddr {
		name := fmt.Sprintf("other%d.example", i)
		w.setName(name, evilAddr)
		if m := w.ask(name, dnsmessage.TypeA); m.RCode != dnsmessage.RCodeSuccess {
			w.t.Fatalf("%s gives %v", name, m.RCode)
		}
	}
}

// A guest that looks up other names with the address of a denied one does not reach it.
func TestDeniedNameInACrowd(t *testing.T) {
	w := deniedWorld(t, named(t, vm.NetOpen, "!evil.example"))
	w.mustReset("203.0.113.66:2222")
	w.mustUnreach("203.0.113.66:123")
	w.crowd()
	w.mustReset("203.0.113.66:2222")
	w.mustUnreach("203.0.113.66:123")
	w.refused("203.0.113.66:123", "denies evil.example")
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.StartTLS()
	t.Cleanup(srv.Close)
	w.route("tcp", netip.AddrPortFrom(evilAddr, 443), srv.Listener.Addr().String())
	w.setName("good.example", npmAddr)
	if err := greet(t, w, "203.0.113.66:443", "good.example"); err == nil {
		t.Error("a greeting for another host reaches the address")
	}
	if err := greet(t, w, "203.0.113.66:443", "other1.example"); err != nil {
		t.Errorf("another host at the address is refused: %v", err)
	}
}

// Every denied name is looked up, however many a policy has.
func TestManyDeniedNames(t *testing.T) {
	var texts []string
	for i := range 199 {
		texts = append(texts, fmt.Sprintf("!none%d.example", i))
	}
	w := deniedWorld(t, named(t, vm.NetOpen, append(texts, "!evil.example")...))
	w.mustReset("203.0.113.66:2222")
	_ = w.mustConnect("203.0.113.43:2222").Close()
}

// While a denied name cannot be looked up, no connection without a name passes: it may be
// for the denied host.
func TestDeniedNameUnknown(t *testing.T) {
	w := deniedWorld(t, named(t, vm.NetOpen, "!evil.example"))
	w.mu.Lock()
	w.broken = true
	w.mu.Unlock()
	w.mustReset("203.0.113.66:2222")
	w.refused("203.0.113.66:2222", "could not be looked up")
	w.mustUnreach("203.0.113.66:123")
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.StartTLS()
	t.Cleanup(srv.Close)
	w.route("tcp", netip.AddrPortFrom(npmAddr, 443), srv.Listener.Addr().String())
	if err := greet(t, w, "203.0.113.43:443", "npm.example"); err != nil {
		t.Errorf("a host that names itself is refused: %v", err)
	}
}

// A denied name with more addresses than are kept may have any address.
func TestDeniedNameWithManyAddresses(t *testing.T) {
	w := deniedWorld(t, named(t, vm.NetOpen, "!evil.example"))
	var many []netip.Addr
	for i := range 3 * maxPerName {
		many = append(many, netip.AddrFrom4([4]byte{203, 0, 112, byte(i)}))
	}
	w.setName("evil.example", append(many, evilAddr)...)
	w.mustReset("203.0.113.66:2222")
	if addrs, err := w.net.names.resolve(t.Context(), "evil.example"); err != nil || len(addrs) != maxPerName {
		t.Errorf("%d addresses of a name are kept, %v, want %d", len(addrs), err, maxPerName)
	}
}

// A new rule cuts a connection that names no host, also if the guest has looked up other
// names with its address.
func TestNewlyDeniedInACrowd(t *testing.T) {
	w := deniedWorld(t, named(t, vm.NetOpen, "!none.example"))
	w.crowd()
	c := w.mustConnect("203.0.113.66:2222")
	defer c.Close()
	_, _ = c.Write([]byte("\x00x"))
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	w.net.SetPolicy(named(t, vm.NetOpen, "!none.example", "!evil.example"))
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("after the rule the guest sees %v, want a reset", err)
	}
}
