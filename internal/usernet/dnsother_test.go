// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/warren-vm/warren/vm"
)

// zones is a made-up host resolver that knows records beside addresses.
type zones struct {
	*world

	txt map[string][]string
	ns  map[string][]string
	mx  map[string][]string
	srv map[string][]string
}

func missing(name string) error {
	return &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (z *zones) LookupTXT(_ context.Context, name string) ([]string, error) {
	if z.txt[name] == nil {
		return nil, missing(name)
	}
	return z.txt[name], nil
}

// LookupCNAME follows aliases, which are in txt with "->" before them.
func (z *zones) LookupCNAME(_ context.Context, name string) (string, error) {
	if t := z.txt[name]; len(t) == 1 && strings.HasPrefix(t[0], "->") {
		return t[0][2:], nil
	}
	return name, nil
}

func (z *zones) LookupNS(_ context.Context, name string) (out []*net.NS, err error) {
	for _, h := range z.ns[name] {
		out = append(out, &net.NS{Host: h})
	}
	if out == nil {
		err = missing(name)
	}
	return out, err
}

func (z *zones) LookupMX(_ context.Context, name string) (out []*net.MX, err error) {
	for _, h := range z.mx[name] {
		out = append(out, &net.MX{Host: h, Pref: 10})
	}
	if out == nil {
		err = missing(name)
	}
	return out, err
}

func (z *zones) LookupSRV(_ context.Context, _, _, name string) (_ string, out []*net.SRV, err error) {
	for _, h := range z.srv[name] {
		out = append(out, &net.SRV{Target: h, Port: 27017})
	}
	if out == nil {
		err = missing(name)
	}
	return name, out, err
}

// newZones is a world whose host resolver also serves the zone corp.example,
// which is the host's own network's.
func newZones(t *testing.T) *zones {
	w := newWorld(t, open)
	z := &zones{
		world: w,
		txt: map[string][]string{
			"good.example.": {"v=spf1 -all"}, "corp.example.": {"password=hunter2"}, "db.corp.example.": {"rack 7"}, "printer.lan.": {"toner low"},
		},
		ns: map[string][]string{"good.example.": {"ns1.good.example."}, "corp.example.": {"ns.corp.example."}},
		mx: map[string][]string{"good.example.": {"mail.good.example.", "mail.corp.example."}, "corp.example.": {"mail.corp.example."}},
		srv: map[string][]string{
			"_mongodb._tcp.good.example.": {"db1.good.example."}, "_ldap._tcp.corp.example.": {"dc1.corp.example."},
		},
	}
	public, private := netip.MustParseAddr("203.0.113.50"), netip.MustParseAddr("10.20.30.40")
	for _, n := range []string{"ns1.good.example", "mail.good.example", "db1.good.example"} {
		w.setName(n, public)
	}
	for _, n := range []string{"ns.corp.example", "mail.corp.example", "dc1.corp.example"} {
		w.setName(n, private)
	}
	w.net.cfg.Resolver = z
	return z
}

// Under the policy open the guest gets TXT, MX, NS and SRV records of zones
// that the public can ask, and nothing of the zones of the host's own network.
func TestOtherRecords(t *testing.T) {
	z := newZones(t)
	tests := []struct {
		name    string
		kind    dnsmessage.Type
		rcode   dnsmessage.RCode
		answers int
	}{
		{"good.example", dnsmessage.TypeTXT, dnsmessage.RCodeSuccess, 1},
		{"good.example", dnsmessage.TypeNS, dnsmessage.RCodeSuccess, 1},
		{"good.example", dnsmessage.TypeMX, dnsmessage.RCodeSuccess, 1}, // without the host of corp.example
		{"_mongodb._tcp.good.example", dnsmessage.TypeSRV, dnsmessage.RCodeSuccess, 1},
		{"corp.example", dnsmessage.TypeTXT, dnsmessage.RCodeRefused, 0},
		{"db.corp.example", dnsmessage.TypeTXT, dnsmessage.RCodeRefused, 0},
		{"corp.example", dnsmessage.TypeNS, dnsmessage.RCodeRefused, 0},
		{"corp.example", dnsmessage.TypeMX, dnsmessage.RCodeRefused, 0},
		{"_ldap._tcp.corp.example", dnsmessage.TypeSRV, dnsmessage.RCodeRefused, 0},
		{"printer.lan", dnsmessage.TypeTXT, dnsmessage.RCodeRefused, 0},
		{"a.b.c.d.e.f.g.h.i.j.good.example", dnsmessage.TypeTXT, dnsmessage.RCodeRefused, 0},
	}
	for _, tt := range tests {
		m := z.ask(tt.name, tt.kind)
		if m.RCode != tt.rcode {
			t.Errorf("%s %v gives %v, want %v", tt.name, tt.kind, m.RCode, tt.rcode)
		}
		if len(m.Answers) != tt.answers {
			t.Errorf("%s %v gives %d answers, want %d: %v", tt.name, tt.kind, len(m.Answers), tt.answers, m.Answers)
		}
	}
}

// A rule about many names tells no more of the zones of the host's own network than the mode
// open does.
func TestOtherRecordsOfManyNames(t *testing.T) {
	for _, rule := range []string{"*", "*.example"} {
		z := newZones(t)
		z.net.SetPolicy(named(t, vm.NetClosed, rule))
		for _, c := range []struct {
			name    string
			kind    dnsmessage.Type
			rcode   dnsmessage.RCode
			answers int
		}{
			{"good.example", dnsmessage.TypeTXT, dnsmessage.RCodeSuccess, 1},
			{"_mongodb._tcp.good.example", dnsmessage.TypeSRV, dnsmessage.RCodeSuccess, 1},
			{"db.corp.example", dnsmessage.TypeTXT, dnsmessage.RCodeRefused, 0},
			{"corp.example", dnsmessage.TypeTXT, dnsmessage.RCodeRefused, 0},
			{"_ldap._tcp.corp.example", dnsmessage.TypeSRV, dnsmessage.RCodeRefused, 0},
		} {
			if m := z.ask(c.name, c.kind); m.RCode != c.rcode || len(m.Answers) != c.answers {
				t.Errorf("under the rule %s, %s %v gives %v with %d answers, want %v with %d", rule, c.name, c.kind, m.RCode, len(m.Answers), c.rcode, c.answers)
			}
		}
	}
}

// What the system says of a failed connection holds addresses of the host and
// of its resolver: the guest gets none of it.
func TestFailuresNameNoAddress(t *testing.T) {
	w := newWorld(t, packages)
	inner := &net.OpError{Op: "read", Net: "udp", Err: errors.New("read udp 10.9.8.7:4242->10.9.8.53:53: i/o failure")}
	for name, err := range map[string]error{
		"resolver": &net.DNSError{Err: inner.Err.Error(), Name: "apt.example", Server: "10.9.8.53:53"},
		"system":   inner,
		"reset":    &net.OpError{Op: "dial", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 9, 8, 7)}, Err: syscall.ECONNRESET},
	} {
		if text := dialError(err); strings.Contains(text, "10.9.8") {
			t.Errorf("%s: the guest may read %q", name, text)
		}
	}
	w.net.cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, inner }
	w.ask("apt.example", dnsmessage.TypeA)
	c := w.mustConnect("203.0.113.42:80")
	defer c.Close()
	resp, body := get(t, c, bufio.NewReader(c), "/", "apt.example")
	if resp.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d", resp.StatusCode)
	}
	if strings.Contains(body, "10.9.8") {
		t.Errorf("the guest is told %q", body)
	}
}

// The gateway's page lists the last refusals without what lies behind a name.
func TestLastRefusalsNameNoAddress(t *testing.T) {
	w := newWorld(t, open)
	w.setName("inside.example", netip.MustParseAddr("192.168.44.55"))
	w.ask("inside.example", dnsmessage.TypeA)
	w.refused("inside.example", "192.168.44.55, a private address")
	c := w.mustConnect("10.0.2.2:80")
	defer c.Close()
	_, body := get(t, c, bufio.NewReader(c), "/", "gateway")
	if !strings.Contains(body, "inside.example leads to an address that is not public") {
		t.Errorf("the page does not tell the refusal: %q", body)
	}
	if strings.Contains(body, "192.168.44.55") {
		t.Errorf("the page tells the address: %q", body)
	}
}
