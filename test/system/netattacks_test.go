//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// attacked is a guest whose policy names a few hosts, in a world that records all that
// leaves it.
type attacked struct {
	*testing.T
	w    *netWorld
	h    *host
	at   map[string]netip.Addr
	live chan struct{} // a stream of the allowed host has ended at its server
}

func newAttacked(t *testing.T) *attacked {
	w := newNetWorld(t)
	a := &attacked{T: t, w: w, at: map[string]netip.Addr{
		"api":  w.name("api.example.com", "cohost.example.net", "socket.example.com", "stream.example.com"),
		"wild": w.name("x.wild.example.com", "wild.example.com"),
		"rest": w.name("rest.example.com"), "db": w.name("db.example.com"), "git": w.name("git.example.com"),
		"time": w.name("time.example.com"), "evil": w.name("evil.example.net", "metadata.google.internal"),
	}, live: make(chan struct{}, 8)}
	w.record("rebind.example.com", &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}, &dnsmessage.AResource{A: [4]byte{10, 0, 0, 5}}, &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}, &dnsmessage.AResource{A: [4]byte{169, 254, 169, 254}})
	name := func(s string) dnsmessage.Name { return dnsmessage.MustNewName(s) }
	w.record("api.example.com", &dnsmessage.AResource{A: a.at["api"].As4()}, &dnsmessage.TXTResource{TXT: []string{"a text"}}, &dnsmessage.MXResource{MX: name("mail.example.net.")})
	w.record("_http._tcp.api.example.com", &dnsmessage.SRVResource{Port: 80, Target: name("api.example.com.")}, &dnsmessage.SRVResource{Port: 80, Target: name("evil.example.net.")})
	w.record("alias.example.com", &dnsmessage.CNAMEResource{CNAME: name("api.example.com.")})
	w.listen(a.at["db"].String()+":5432", func(c *net.TCPConn) {
		b, _ := io.ReadAll(io.LimitReader(c, 1<<16))
		if strings.Contains(string(b), "evil") {
			w.came("raw", c.LocalAddr().String(), "evil")
		}
		_, _ = fmt.Fprintf(c, "db got %d", len(b))
	})
	w.listen(":2222", func(c *net.TCPConn) { _, _ = io.WriteString(c, "SSH-2.0-git\r\n") })
	w.packets(a.at["time"].String()+":123", func(b []byte) []byte { return append([]byte("time for "), b...) })
	w.handle("socket.example.com", http.HandlerFunc(echoSocket))
	w.handle("stream.example.com", http.HandlerFunc(a.stream))
	w.onHost("127.0.0.1:80", "127.0.0.1:443", "192.0.2.1:80", "192.0.2.1:443", "192.0.2.1:22")
	a.h = w.host()
	a.h.ok("up", "--name", "box", "--net", "closed")
	a.h.ok("net", "allow", "box", "api.example.com", "alias.example.com", "socket.example.com", "stream.example.com", "*.wild.example.com:443", "db.example.com:5432", "git.example.com:2222", "udp:time.example.com:123", "rebind.example.com")
	a.h.ok("net", "allow", "box", "rest.example.com:80", "--method", "GET", "--path", "/v1/**")
	if r := a.h.run("cp", "testdata/attacks.py", "box:/opt/attacks.py"); r.code != 0 {
		t.Fatalf("the program was not copied: %s", r)
	}
	w.forget()
	return a
}

// echoSocket takes a connection over as a WebSocket would, and sends back what comes.
func echoSocket(rw http.ResponseWriter, _ *http.Request) {
	c, b, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	got := make([]byte, 100)
	if k, err := b.Read(got); err == nil {
		_, _ = c.Write(append([]byte("socket: "), got[:k]...))
	}
}

// stream sends without an end.
func (a *attacked) stream(rw http.ResponseWriter, r *http.Request) {
	defer func() { a.live <- struct{}{} }()
	for r.Context().Err() == nil {
		if _, err := rw.Write(make([]byte, 1024)); err != nil {
			return
		}
		_ = http.NewResponseController(rw).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// try runs one attack and wants nothing forbidden outside. It returns what the attack
// printed.
func (a *attacked) try(vm, attack string) string {
	a.Helper()
	args := []string{"exec", vm, "--", "python3", "/opt/attacks.py", attack}
	for k, v := range a.at {
		args = append(args, k+"="+v.String())
	}
	r := a.h.run(args...)
	if r.code != 0 {
		a.Errorf("the attack %s did not run: %s", attack, r)
	}
	for _, got := range a.w.arrived() {
		if !a.mayArrive(got) {
			a.Errorf("%s: outside arrived: %s", attack, got)
		}
	}
	return r.stdout
}

// mayArrive says what the policy lets out: exactly the named hosts, their addresses and
// ports.
func (a *attacked) mayArrive(got arrival) bool {
	hosts := []string{"api.example.com", "socket.example.com", "stream.example.com", "x.wild.example.com", "db.example.com", "git.example.com", "time.example.com", "rest.example.com", "alias.example.com"}
	on := func(list ...string) bool { return slices.Contains(list, got.To) }
	of := func(name string, port int) string { return fmt.Sprintf("%s:%d", a.at[name], port) }
	switch got.Kind {
	case "dns":
		name, _, _ := strings.Cut(got.What, " ")
		return slices.Contains(hosts, name) || name == "rebind.example.com" || name == "_http._tcp.api.example.com"
	case "tcp":
		return on(of("api", 80), of("api", 443), of("wild", 443), of("rest", 80), of("db", 5432), of("git", 2222))
	case "udp":
		return on("192.0.2.2:53", of("time", 123))
	case "tls":
		return slices.Contains(hosts, got.What) && on(of("api", 443), of("wild", 443))
	case "http":
		f := strings.SplitN(got.What, " ", 3)
		return slices.Contains(hosts, f[1]) && !strings.Contains(f[2], "evil") && f[0] != "CONNECT" && (f[1] != "rest.example.com" || f[0] == "GET" && strings.HasPrefix(f[2], "/v1/"))
	}
	return false
}

// wants fails unless an attack's output has all the parts.
func (a *attacked) wants(out string, parts ...string) {
	a.Helper()
	for _, p := range parts {
		if !strings.Contains(out, p) {
			a.Errorf("the output lacks %q: %s", p, out)
		}
	}
}

// TestNetAttacks runs what a hostile program could try against the network of a guest whose
// policy names a few hosts. What counts is what arrives in the world outside.
//
// 001-06
func TestNetAttacks(t *testing.T) {
	a := newAttacked(t)
	a.wants(a.try("box", "allowed"), "HTTP/1.1 200 OK HTTP/1.1 200 OK HTTP/1.1 200 OK", "db got 11", "SSH-2.0-git", "time for what time")
	a.wants(a.try("box", "answers"), "0/1 0/0 0/1 0/0 0/0 0/1 0/1 0/1")
	for _, attack := range []struct {
		name  string
		wants []string // of its output
	}{
		{"dns", []string{"0/1 5/0 0/1 5/0 5/0"}},
		{"rebind", []string{"5/0 HTTP/1.1 403"}},
		{"addresses", []string{"HTTP/1.1 403"}},
		{"raw", []string{"evil 80 b'refused:", "evil 22 b'refused:", "api 5432 b'refused:"}},
		{"sni", []string{"access denied", "b'\\x15\\x03\\x01\\x00\\x02\\x021'"}},
		{"keepalive", []string{"HTTP/1.1 403", "HTTP/1.1 400"}},
		{"connect", []string{"HTTP/1.1 403 Forbidden HTTP/1.1 403 Forbidden"}},
		{"http2", nil},
		{"smuggle", nil},
		{"websocket", []string{"HTTP/1.1 403", "socket: echo this"}},
		{"packets", []string{"icmp 3 13"}},
		{"metadata", []string{"HTTP/1.1 403"}},
		{"limits", []string{"HTTP/1.1 200 OK HTTP/1.1 200 OK"}},
		// A rule names every name below a domain on port 443, so that a connection there is read.
		{"many", []string{"9999 HTTP/1.1 200 OK"}},
		{"frames", []string{"HTTP/1.1 200 OK"}},
		{"paths", []string{"HTTP/1.1 200 OK HTTP/1.1 200 OK", "/v1/../evil HTTP/1.1 403", "POST HTTP/1.1 403"}},
	} {
		t.Run(attack.name, func(t *testing.T) {
			b := *a
			b.T = t
			a.w.forget()
			began := time.Now()
			out := b.try("box", attack.name)
			b.wants(out, attack.wants...)
			if attack.name == "http2" && !a.w.saw("http", "GET api.example.com /h2ok") {
				t.Errorf("the allowed request of plain HTTP/2 did not arrive: %v", a.w.arrived())
			}
			t.Logf("%.1f s: %s", time.Since(began).Seconds(), out)
		})
	}
	t.Run("change", func(t *testing.T) { b := *a; b.T = t; b.change() })
	t.Run("restore", func(t *testing.T) { b := *a; b.T = t; b.restore() })
}

// change takes a host away in the middle of a transfer.
func (a *attacked) change() {
	var out string
	var wg sync.WaitGroup
	wg.Go(func() { out = a.try("box", "stream") })
	a.h.eventually("the guest receives", func() bool { return a.h.run("exec", "box", "--", "test", "-e", "/tmp/streaming").code == 0 })
	select {
	case <-a.live:
		a.Error("the transfer ended before the policy changed")
	default:
	}
	a.h.ok("net", "deny", "--first", "box", "stream.example.com")
	answered := time.Now()
	select {
	case <-a.live:
		if late := time.Since(answered); late > 50*time.Millisecond {
			a.Errorf("the server saw the end %s after the command had answered, want 50 ms at most", late)
		}
	case <-time.After(20 * time.Second):
		a.Error("the transfer goes on after its host was denied")
	}
	wg.Wait()
	a.wants(out, "cut")
}

// restore checks guests that remember addresses from before a suspend or a fork: those of
// named hosts serve, others do not.
func (a *attacked) restore() {
	a.h.ok("suspend", "box")
	a.h.ok("start", "box")
	a.w.forget()
	const ok, no = "HTTP/1.1 200 OK HTTP/1.1 200 OK refused:", "b'refused:"
	a.wants(a.try("box", "restored"), ok, no, "b'SSH-2.0-git\\r\\n' b'refused:")
	a.h.fork("box", 1, "copy")
	a.w.forget()
	a.wants(a.try("copy-1", "restored"), ok, no)
}
