// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

// TestNeighbours: the connections of one address are limited; ended ones no
// longer count, and others are accepted meanwhile.
func TestNeighbours(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s := splitListener(l, 100, 2, &tls.Config{})
	over := make(chan error, 1)
	go func() { over <- s.run() }()
	defer func() { s.close(); <-over }()
	port := l.Addr().(*net.TCPAddr).Port
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, "GET") // a connection that was refused is gone already
		return c
	}
	taken := func() net.Conn {
		t.Helper()
		select {
		case c := <-s.plain.conns:
			return c
		case <-time.After(10 * time.Second):
			t.Fatal("a connection was not let in")
			return nil
		}
	}
	dial("127.0.0.1")
	first := taken()
	dial("127.0.0.1")
	second := taken()
	third := dial("127.0.0.1")
	if err := third.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := third.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a third connection of one address: %v", err)
	}
	dial("127.0.0.2")
	other := taken()
	for range 2 { // closed twice it is counted once
		_ = first.Close()
	}
	dial("127.0.0.1")
	for _, c := range []net.Conn{taken(), second, other} {
		_ = c.Close()
	}
	s.near.mu.Lock()
	defer s.near.mu.Unlock()
	if len(s.near.n) != 0 {
		t.Errorf("still counted: %v", s.near.n)
	}
}

// TestNeighbourhood: all addresses that one machine can choose count as one.
func TestNeighbourhood(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7:80": "192.0.2.7/32", "[::ffff:192.0.2.7]:80": "192.0.2.7/32", "[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64",
	} {
		if got := neighbourhood(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text))).String(); got != want {
			t.Errorf("%s is in %s, want %s", text, got, want)
		}
	}
	if neighbourhood(&net.UnixAddr{Name: "/x"}).IsValid() {
		t.Error("a socket is in a neighbourhood")
	}
}
