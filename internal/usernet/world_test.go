// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/warren-vm/warren/vm"
)

// world is a Net with a guest behind it and a made-up internet before it: a
// resolver of our own, and a dialer that leads public addresses to listeners
// on the loopback interface. The policy code is the real one.
type world struct {
	t     *testing.T
	net   *Net
	guest *stack.Stack
	wire  *link // the guest's end
	serve sync.WaitGroup

	mu      sync.Mutex
	names   map[string][]netip.Addr
	lookups int
	broken  bool              // whether evil.example cannot be looked up
	routes  map[string]string // "network ip:port" → loopback address
	dialled []string
	records []vm.Connection
}

var (
	hostOwn  = netip.MustParseAddr("198.51.100.9")
	aptAddr  = netip.MustParseAddr("203.0.113.42")
	npmAddr  = netip.MustParseAddr("203.0.113.43")
	closed   = vm.NetworkPolicy{Mode: vm.NetClosed}
	open     = vm.NetworkPolicy{Mode: vm.NetOpen}
	packages = vm.NetworkPolicy{Mode: vm.NetPackages, Hosts: []vm.Registry{
		{Host: "apt.example", Port: 80, Manager: "apt"}, {Host: "npm.example", Port: 443, Manager: "npm"},
	}}
)

func newWorld(t *testing.T, p vm.NetworkPolicy) *world {
	t.Helper()
	w := &world{
		t:      t,
		names:  map[string][]netip.Addr{"apt.example": {aptAddr}, "npm.example": {npmAddr}, "evil.example": {npmAddr}},
		routes: map[string]string{},
	}
	before := runtime.NumGoroutine()
	n, err := New(Config{
		Policy: p, Resolver: w, Dial: w.dial, Inside: echoInside{},
		HostAddresses: func() ([]netip.Addr, error) { return []netip.Addr{hostOwn}, nil },
		OnConnection:  func(c vm.Connection) { w.mu.Lock(); w.records = append(w.records, c); w.mu.Unlock() },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.net = n
	w.guest, w.wire = guestStack(t)
	w.plug()
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		w.guest.Destroy()
		w.serve.Wait()
		for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<16)
				t.Errorf("%d goroutines more than before:\n%s", runtime.NumGoroutine()-before, buf[:runtime.Stack(buf, true)])
				return
			}
		}
	})
	return w
}

// echoInside answers for git.warren.internal with the port and what it got.
type echoInside struct{}

func (echoInside) Has(name string) bool { return name == "git.warren.internal" }

func (echoInside) Serve(c net.Conn, port uint16) {
	defer c.Close()
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err == nil {
		fmt.Fprintf(c, "%d %s", port, b)
	}
}

// plug joins guest and network by a fresh socket pair.
func (w *world) plug() {
	w.t.Helper()
	a, b := socketPair(w.t)
	w.serve.Go(func() { _ = w.net.Serve(w.t.Context(), a) })
	w.serve.Go(func() { _ = w.wire.run(b); _ = b.Close() })
	for !w.net.link.connected() || !w.wire.connected() {
		runtime.Gosched()
	}
}

func socketPair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// guestLink is a link with the guest's hardware address.
type guestLink struct{ *link }

func (guestLink) LinkAddress() tcpip.LinkAddress { return guestMAC }

func guestStack(t *testing.T) (*stack.Stack, *link) {
	t.Helper()
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	})
	l := &link{filter: func([]byte) ([]byte, bool) { return nil, true }}
	if err := s.CreateNIC(1, ethernet.New(guestLink{l})); err != nil {
		t.Fatal(err)
	}
	if err := s.AddProtocolAddress(1, tcpip.ProtocolAddress{
		Protocol:          ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: tcpip.AddrFrom4(Guest.As4()), PrefixLen: 24},
	}, stack.AddressProperties{}); err != nil {
		t.Fatal(err)
	}
	local := tcpip.AddressWithPrefix{Address: tcpip.AddrFrom4(Guest.As4()), PrefixLen: 24}.Subnet()
	s.SetRouteTable([]tcpip.Route{
		{Destination: local, NIC: 1},
		{Destination: header.IPv4EmptySubnet, Gateway: tcpip.AddrFrom4(Gateway.As4()), NIC: 1},
	})
	sack := tcpip.TCPSACKEnabled(true)
	_ = s.SetTransportProtocolOption(tcp.ProtocolNumber, &sack)
	return s, l
}

// LookupNetIP is the made-up host resolver.
func (w *world) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups++
	if w.broken && host == "evil.example" {
		return nil, &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}
	}
	a, ok := w.names[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return slices.Clone(a), nil
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, network+" "+address)
	to, ok := w.routes[network+" "+address]
	w.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("dial %s: %w", address, syscall.ECONNREFUSED)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, to)
}

// route leads a public address to a loopback one.
func (w *world) route(network string, public netip.AddrPort, loopback string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.routes[network+" "+public.String()] = loopback
}

func (w *world) setName(name string, addrs ...netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[name] = addrs
}

func (w *world) dials() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialled)
}

// record waits for a record that matches.
func (w *world) record(what string, match func(vm.Connection) bool) vm.Connection {
	w.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; runtime.Gosched() {
		w.mu.Lock()
		all := slices.Clone(w.records)
		w.mu.Unlock()
		if i := slices.IndexFunc(all, match); i >= 0 {
			return all[i]
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("no record of %s in %+v", what, all)
		}
	}
}

func (w *world) refused(dest, reason string) vm.Connection {
	w.t.Helper()
	return w.record("a refusal of "+dest+" because "+reason, func(c vm.Connection) bool {
		return !c.Allowed && strings.Contains(c.Dest, dest) && strings.Contains(c.Reason, reason)
	})
}

// connect opens a TCP connection from the guest.
func (w *world) connect(dst string) (*gonet.TCPConn, error) {
	ap := netip.MustParseAddrPort(dst)
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	return gonet.DialContextTCP(ctx, w.guest, tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFrom4(ap.Addr().As4()), Port: ap.Port()}, ipv4.ProtocolNumber)
}

func (w *world) mustConnect(dst string) *gonet.TCPConn {
	w.t.Helper()
	c, err := w.connect(dst)
	if err != nil {
		w.t.Fatalf("connect to %s: %v", dst, err)
	}
	return c
}

// mustReset expects an answer of RST, and soon.
func (w *world) mustReset(dst string) {
	w.t.Helper()
	began := time.Now()
	c, err := w.connect(dst)
	if err == nil {
		_ = c.Close()
		w.t.Fatalf("%s let the guest in", dst)
	}
	if !strings.Contains(err.Error(), "refused") || time.Since(began) > 2*time.Second {
		w.t.Fatalf("%s: %v after %v, want a refusal at once", dst, err, time.Since(began))
	}
}

func (w *world) udp(dst string) *gonet.UDPConn {
	w.t.Helper()
	ap := netip.MustParseAddrPort(dst)
	c, err := gonet.DialUDP(w.guest, nil, &tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFrom4(ap.Addr().As4()), Port: ap.Port()}, ipv4.ProtocolNumber)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// mustUnreach expects "port unreachable" for a datagram.
func (w *world) mustUnreach(dst string) {
	w.t.Helper()
	c := w.udp(dst)
	defer c.Close()
	_, _ = c.Write([]byte("hello"))
	var err error
	for range 40 { // the error does not wake a reader of this stack that sleeps already
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err = c.Read(make([]byte, 10)); err != nil && strings.Contains(err.Error(), "refused") {
			return
		}
	}
	w.t.Fatalf("a datagram to %s gives %v, want a refusal at once", dst, err)
}

// ask sends one look-up from the guest.
func (w *world) ask(name string, kind dnsmessage.Type) dnsmessage.Message {
	w.t.Helper()
	c := w.udp("10.0.2.3:53")
	defer c.Close()
	if _, err := c.Write(query(w.t, name, kind)); err != nil {
		w.t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	b := make([]byte, 2048)
	k, err := c.Read(b)
	if err != nil {
		w.t.Fatalf("ask for %s: %v", name, err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(b[:k]); err != nil {
		w.t.Fatal(err)
	}
	return m
}

func query(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	var rh dnsmessage.ResourceHeader
	if err := rh.SetEDNS0(1232, 0, false); err != nil {
		t.Fatal(err)
	}
	m := dnsmessage.Message{
		Header:      dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions:   []dnsmessage.Question{{Name: dnsmessage.MustNewName(name + "."), Type: kind, Class: dnsmessage.ClassINET}},
		Additionals: []dnsmessage.Resource{{Header: rh, Body: &dnsmessage.OPTResource{}}},
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// addresses returns the A records of an answer.
func addresses(m dnsmessage.Message) []netip.Addr {
	var out []netip.Addr
	for _, a := range m.Answers {
		if r, ok := a.Body.(*dnsmessage.AResource); ok {
			out = append(out, netip.AddrFrom4(r.A))
		}
	}
	return out
}

// extended returns the text of the extended error.
func extended(m dnsmessage.Message) string {
	for _, a := range m.Additionals {
		if o, ok := a.Body.(*dnsmessage.OPTResource); ok {
			for _, x := range o.Options {
				if x.Code == edeOptionCode && len(x.Data) > 2 {
					return fmt.Sprintf("%d %s", int(x.Data[0])<<8|int(x.Data[1]), x.Data[2:])
				}
			}
		}
	}
	return ""
}

// listen serves each connection to a loopback port with f.
func (w *world) listen(f func(*net.TCPConn)) string {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			wg.Go(func() { defer c.Close(); f(c.(*net.TCPConn)) })
		}
	})
	w.t.Cleanup(func() { _ = l.Close(); _ = w.net.Close(); wg.Wait() })
	return l.Addr().String()
}
