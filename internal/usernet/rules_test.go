// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// named makes a policy of a mode and rules as people write them; "!" before one denies.
func named(t *testing.T, mode vm.NetworkMode, texts ...string) vm.NetworkPolicy {
	t.Helper()
	p := vm.NetworkPolicy{Mode: mode}
	for i, text := range texts {
		text, deny := strings.CutPrefix(text, "!")
		text, methods, _ := strings.Cut(text, " ")
		r, err := egress.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		if deny {
			r.Action = vm.NetDeny
		}
		if methods != "" {
			r.Methods = strings.Split(methods, ",")
		}
		r.ID = fmt.Sprintf("r-00000%d", i)
		p.Rules = append(p.Rules, r)
	}
	return p
}

// echoServer is a listener that sends back what comes.
func echoServer(w *world) string {
	return w.listen(func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
}

// greet sends a TLS greeting and returns how it ends.
func greet(t *testing.T, w *world, dst, name string) error {
	t.Helper()
	c, err := w.connect(dst)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}).HandshakeContext(t.Context()) //nolint:gosec // the test server's certificate is for example.com
}

// A server that a rule names with its port may speak first, and any protocol passes to it;
// what is TLS or HTTP is still judged by the host that it names.
func TestNamedPort(t *testing.T) {
	w := newWorld(t, named(t, vm.NetClosed, "apt.example:2222", "npm.example:5432"))
	w.route("tcp", netip.AddrPortFrom(aptAddr, 2222), w.listen(func(c *net.TCPConn) { _, _ = io.WriteString(c, "SSH-2.0-x\r\n"); _, _ = io.Copy(c, c) }))
	w.route("tcp", netip.AddrPortFrom(npmAddr, 5432), echoServer(w))
	w.mustReset("203.0.113.99:2222") // no name leads there
	c := w.mustConnect("203.0.113.42:2222")
	defer c.Close()
	b := make([]byte, 11)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "SSH-2.0-x\r\n" {
		t.Errorf("the server's first words are %q with %v", b, err)
	}
	d := w.mustConnect("203.0.113.43:5432")
	defer d.Close()
	_, _ = d.Write([]byte("\x00\x00\x00\x08start"))
	if _, err := io.ReadFull(d, make([]byte, 9)); err != nil {
		t.Errorf("a binary protocol is not passed: %v", err)
	}
	for _, first := range []string{"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "\r\nget /x http/1.1\r\nHost: evil.example\r\n\r\n", "GET /\x80 HTTP/1.1\r\nHost: evil.example\r\n\r\n", "GET /" + strings.Repeat("a", 9000) + " HTTP/1.1\r\nHost: evil.example\r\n\r\n"} {
		e := w.mustConnect("203.0.113.43:5432")
		_ = e.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(e, first)
		_ = e.CloseWrite()
		if got, _ := io.ReadAll(e); strings.Contains(string(got), "evil.example\r\n\r\n") {
			t.Errorf("%.40q reached the server", first)
		}
		_ = e.Close()
	}
	for _, name := range []string{"evil.example", ""} {
		if err := greet(t, w, "203.0.113.43:5432", name); err == nil || !strings.Contains(err.Error(), "access denied") {
			t.Errorf("a greeting for %q gives %v, want access denied", name, err)
		}
	}
}

// A rule about methods on another port holds for all bytes: what is neither TLS nor HTTP does
// not pass, and is cut when such a rule comes.
func TestRequestsOfNamedPort(t *testing.T) {
	w := newWorld(t, named(t, vm.NetClosed, "apt.example:9999 GET"))
	w.route("tcp", netip.AddrPortFrom(aptAddr, 9999), echoServer(w))
	c := w.mustConnect("203.0.113.42:9999")
	defer c.Close()
	_, _ = c.Write([]byte("\x00\x01DELETE"))
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if got, _ := io.ReadAll(c); strings.Contains(string(got), "DELETE") {
		t.Errorf("other bytes than HTTP reach the host: %q", got)
	}
	w.net.SetPolicy(named(t, vm.NetClosed, "apt.example:9999"))
	d := w.mustConnect("203.0.113.42:9999")
	defer d.Close()
	_, _ = d.Write([]byte("\x00x"))
	_ = d.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(d, make([]byte, 2)); err != nil {
		t.Errorf("under a rule about the port other bytes do not pass: %v", err)
	}
	w.net.SetPolicy(named(t, vm.NetClosed, "apt.example:9999 GET"))
	if _, err := d.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("after a rule about methods the guest sees %v, want a reset", err)
	}
	w.net.SetPolicy(named(t, vm.NetClosed, "apt.example:9999"))
	e := w.mustConnect("203.0.113.42:9999") // its first bytes come after the rule
	defer e.Close()
	w.net.SetPolicy(named(t, vm.NetClosed, "apt.example:9999 GET"))
	_, _ = e.Write([]byte("\x00x"))
	_ = e.SetReadDeadline(time.Now().Add(5 * time.Second))
	if k, err := e.Read(make([]byte, 2)); err == nil {
		t.Errorf("bytes that come after the rule pass: %d", k)
	}
}

// Under an open policy with a denied name, connections are read, and what names no host is
// refused where that could be the denied one.
func TestDeniedName(t *testing.T) {
	w := newWorld(t, named(t, vm.NetOpen, "!evil.example"))
	evil, good := netip.MustParseAddr("203.0.113.66"), netip.MustParseAddr("203.0.113.67")
	w.setName("evil.example", evil)
	w.setName("good.example", good)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, r.Host) }))
	srv.StartTLS()
	t.Cleanup(srv.Close)
	for _, a := range []netip.Addr{evil, good} {
		w.route("tcp", netip.AddrPortFrom(a, 443), srv.Listener.Addr().String())
		w.route("tcp", netip.AddrPortFrom(a, 80), httpServer(t, w))
		w.route("tcp", netip.AddrPortFrom(a, 2222), echoServer(w))
	}
	if m := w.ask("evil.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeRefused {
		t.Errorf("the denied name is looked up: %v", m.RCode)
	}
	if err := greet(t, w, "203.0.113.67:443", "good.example"); err != nil {
		t.Errorf("another name is refused: %v", err)
	}
	for _, no := range [][2]string{{"203.0.113.66:443", "evil.example"}, {"203.0.113.67:443", "evil.example"}, {"203.0.113.66:443", ""}, {"203.0.113.66:443", "good.example"}} {
		if err := greet(t, w, no[0], no[1]); err == nil {
			t.Errorf("a greeting for %q to %s passes", no[1], no[0])
		}
	}
	w.mustReset("203.0.113.66:2222")
	c := w.mustConnect("203.0.113.67:2222")
	defer c.Close()
	if _, err := c.Write([]byte("\x00x")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "\x00x" {
		t.Errorf("another address sends back %q with %v, want what it got", b, err)
	}
	for _, host := range []string{"evil.example", "203.0.113.66"} {
		h := w.mustConnect("203.0.113.66:80")
		if resp, _ := get(t, h, bufio.NewReader(h), "/", host); resp.StatusCode != http.StatusForbidden {
			t.Errorf("a request for %s gives %d, want 403", host, resp.StatusCode)
		}
		_ = h.Close()
	}
	w.mustUnreach("203.0.113.66:443")
}

// A denied host and an allowed one may share an address.
func TestSharedAddress(t *testing.T) {
	w := newWorld(t, named(t, vm.NetClosed, "!evil.example", "npm.example")) // both at npmAddr
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.StartTLS()
	t.Cleanup(srv.Close)
	w.route("tcp", netip.AddrPortFrom(npmAddr, 443), srv.Listener.Addr().String())
	if err := greet(t, w, "203.0.113.43:443", "npm.example"); err != nil {
		t.Errorf("the allowed host is refused: %v", err)
	}
	if err := greet(t, w, "203.0.113.43:443", "evil.example"); err == nil {
		t.Error("the denied host is reached")
	}
}

// A refused request gets an answer that a program can read.
func TestStructuredRefusal(t *testing.T) {
	p := named(t, vm.NetClosed, "apt.example/v1/** GET")
	w := newWorld(t, p)
	w.route("tcp", netip.AddrPortFrom(aptAddr, 80), httpServer(t, w))
	w.ask("apt.example", dnsmessage.TypeA)
	c := w.mustConnect("203.0.113.42:80")
	defer c.Close()
	_, _ = io.WriteString(c, "POST /v1/x?token=1 HTTP/1.1\r\nHost: apt.example\r\nAccept: application/json\r\nContent-Length: 0\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	var no Refused
	if err := json.NewDecoder(resp.Body).Decode(&no); err != nil {
		t.Fatal(err)
	}
	want := Refused{Error: "refused", Reason: no.Reason, Host: "apt.example", Method: "POST", Path: "/v1/x", Policy: p.Digest(), Mode: "closed", Next: "warren-agent ask apt.example", Why: "http://policy.warren.internal/why?host=apt.example"}
	if no != want || resp.StatusCode != http.StatusForbidden || resp.Header.Get("Warren-Refused") != no.Reason || no.Reason == "" {
		t.Errorf("the answer is %d %+v with %q, want 403 %+v", resp.StatusCode, no, resp.Header.Get("Warren-Refused"), want)
	}
	r := w.record("the refusal", func(c vm.Connection) bool { return c.Method == "POST" })
	if r.How != vm.NetRefused || r.Path != "/v1/x" || r.Policy != p.Digest() {
		t.Errorf("record %+v", r)
	}
	for _, line := range []string{"GET /v1/../x", "GET /v1/%2e%2e/x", "GET //v1/x", "get /v1/x"} {
		e := w.mustConnect("203.0.113.42:80")
		_, _ = io.WriteString(e, line+" HTTP/1.1\r\nHost: apt.example\r\n\r\n")
		if resp, err := http.ReadResponse(bufio.NewReader(e), nil); err != nil || resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s gives %v %v, want 403", line, resp, err)
		}
		_ = e.Close()
	}
	e := w.mustConnect("203.0.113.42:80")
	defer e.Close()
	_, _ = io.WriteString(e, "GET /v1/x HTTP/1.1\r\nHost: apt.example\r\nX-HTTP-Method-Override: DELETE\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(e), nil); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a request that changes its method gives %v %v, want 403", resp, err)
	}
}

// A rule's limits hold for all its connections together.
func TestLimits(t *testing.T) {
	p := named(t, vm.NetClosed, "203.0.113.7:7")
	p.Rules[0].Limit = vm.NetLimit{Connections: 1, Bytes: 100}
	w := newWorld(t, p)
	w.route("tcp", echoAddr, echoServer(w))
	c := w.mustConnect(echoAddr.String())
	defer c.Close()
	w.mustReset(echoAddr.String())
	w.refused(echoAddr.String(), "allows 1 connections at once")
	_, _ = c.Write(make([]byte, 60))
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if k, err := io.ReadFull(c, make([]byte, 61)); err == nil || k > 60 {
		t.Errorf("%d bytes came back with %v, want a cut before the rule has let 101 bytes through", k, err)
	}
	w.record("the cut", func(c vm.Connection) bool { return strings.Contains(c.Reason, "has let its 100 bytes through") })
	w.mustReset(echoAddr.String())
	w.refused(echoAddr.String(), "has let its 100 bytes through")

	q := named(t, vm.NetClosed, "203.0.113.7:7")
	q.Rules[0].ID, q.Rules[0].Limit = "r-slow00", vm.NetLimit{Rate: 20000}
	w.net.SetPolicy(q)
	s := w.mustConnect(echoAddr.String())
	defer s.Close()
	began := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = s.Write(make([]byte, 40000)) })
	if _, err := io.ReadFull(s, make([]byte, 40000)); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if took := time.Since(began); took < 700*time.Millisecond {
		t.Errorf("40,000 bytes at 20,000 a second, the first second's at once, took %s", took)
	}
}

// The end of a rule cuts its connections, and a change of the policy is in force at once.
func TestRuleEnds(t *testing.T) {
	p := named(t, vm.NetClosed, "203.0.113.7:7")
	p.Rules[0].Until = time.Now().Add(400 * time.Millisecond)
	w := newWorld(t, p)
	w.route("tcp", echoAddr, echoServer(w))
	c := w.mustConnect(echoAddr.String())
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("when the rule ends the guest sees %v, want a reset", err)
	}
	if early := time.Until(p.Rules[0].Until); early > 0 {
		t.Errorf("the cut came %s before the end of the rule", early)
	}
	w.record("the cut", func(c vm.Connection) bool { return strings.HasPrefix(c.Reason, "cut when a rule ended") })
	w.mustReset(echoAddr.String())

	w.net.SetPolicy(open)
	var conns []net.Conn
	for range 100 {
		d := w.mustConnect(echoAddr.String())
		defer d.Close()
		conns = append(conns, d)
	}
	w.net.SetPolicy(named(t, vm.NetClosed, "apt.example")) // bench measures how long that takes
	for i, d := range conns {
		_ = d.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := d.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
			t.Fatalf("after a change, connection %d of 100 sees %v, want a reset", i, err)
		}
	}
	w.mustReset(echoAddr.String())
}

// A host that is taken away in the middle of a request is cut.
func TestRequestInFlight(t *testing.T) {
	w := newWorld(t, named(t, vm.NetClosed, "apt.example GET,POST"))
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "begun")
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	w.route("tcp", netip.AddrPortFrom(aptAddr, 80), srv.Listener.Addr().String())
	w.ask("apt.example", dnsmessage.TypeA)
	c := w.mustConnect("203.0.113.42:80")
	defer c.Close()
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: apt.example\r\nContent-Length: 0\r\n\r\n")
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("the request gives %v %v", resp, err)
	}
	w.net.SetPolicy(named(t, vm.NetClosed, "apt.example GET"))
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("a request whose method is allowed no longer ends well")
	}
}

// interceptor takes TLS to one name, and answers without reading it.
type interceptor struct {
	name   string
	got    chan Intercepted
	uses   []vm.SecretUse
	before func() // runs before they are noted
	stays  bool   // until the connection is cut
}

func (i *interceptor) Wants(p vm.NetworkPolicy, name string, port uint16) bool {
	return name == i.name && egress.Inspects(p, name, int(port))
}

func (i *interceptor) Serve(c net.Conn, d Intercepted) {
	b := make([]byte, 1)
	_, _ = io.ReadFull(c, b)
	if i.before != nil {
		i.before()
	}
	d.Note(vm.NetInjected, i.uses...)
	i.got <- d
	if i.stays {
		_, _ = io.Copy(io.Discard, c)
	}
	_ = c.Close()
}

// TLS to a host with rules about requests goes to the interceptor; without one it is
// refused.
func TestIntercepts(t *testing.T) {
	p := named(t, vm.NetClosed, "npm.example/v1/** GET", "apt.example:443")
	p.Secrets = []vm.SecretUse{{ID: "1", Name: "a-secret", Placeholder: "p", Host: "npm.example", Port: 443}}
	w := newWorld(t, p)
	w.route("tcp", netip.AddrPortFrom(npmAddr, 443), echoServer(w))
	i := &interceptor{name: "npm.example", got: make(chan Intercepted, 1), uses: p.Secrets}
	if err := greet(t, w, "203.0.113.43:443", "npm.example"); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("without an interceptor the greeting gives %v, want access denied", err)
	}
	w.net.cfg.Intercept = i
	_ = greet(t, w, "203.0.113.43:443", "npm.example")
	d := <-i.got
	if v, done := d.Judge("GET", "/v1/x"); !v.Allow {
		t.Errorf("a GET of /v1/x is refused: %s", v.Reason)
	} else {
		done()
	}
	for method, path := range map[string]string{"GET": "/v2", "POST": "/v1/x"} {
		if v, _ := d.Judge(method, path); v.Allow {
			t.Errorf("a %s of %s is allowed", method, path)
		}
	}
	if d.Name != "npm.example" || d.Port != 443 {
		t.Errorf("intercepted %s port %d", d.Name, d.Port)
	}
	r := w.record("the connection", func(c vm.Connection) bool { return c.How == vm.NetInjected })
	if len(r.Secrets) != 1 || r.Secrets[0] != "a-secret" || r.Rule != "r-000000" {
		t.Errorf("record %+v", r)
	}
	if _, err := d.Dial(context.Background()); err == nil {
		t.Error("the guest's connection is gone, and its interceptor still dials")
	}
}

// A connection into which a secret was put ends with the VM's right to use that secret: it is
// compared by its id and by the placeholder that was sent.
func TestRevokedSecretCuts(t *testing.T) {
	p := named(t, vm.NetOpen)
	p.Secrets = []vm.SecretUse{{ID: "1", Name: "a-secret", Placeholder: "child", Inherited: []string{"parent"}, Host: "npm.example", Port: 443}}
	for name, c := range map[string]struct {
		used string // placeholder
		now  []vm.SecretUse
		cut  bool
	}{
		"revoked":                   {"child", nil, true},
		"revoked, inherited":        {"parent", nil, true},
		"another with the name":     {"child", []vm.SecretUse{{ID: "2", Name: "a-secret", Placeholder: "child"}}, true},
		"granted again":             {"child", []vm.SecretUse{{ID: "1", Name: "a-secret", Placeholder: "new"}}, true},
		"another secret more":       {"child", append([]vm.SecretUse{{ID: "2", Name: "more", Placeholder: "more"}}, p.Secrets...), false},
		"inherited, another secret": {"parent", append([]vm.SecretUse{{ID: "2", Name: "more", Placeholder: "more"}}, p.Secrets...), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, p)
			i := &interceptor{name: "npm.example", got: make(chan Intercepted, 1), uses: []vm.SecretUse{{ID: "1", Name: "a-secret", Placeholder: c.used}}, stays: true}
			w.net.cfg.Intercept = i
			w.route("tcp", netip.AddrPortFrom(npmAddr, 443), echoServer(w))
			w.ask("npm.example", dnsmessage.TypeA)
			g := w.mustConnect("203.0.113.43:443")
			defer g.Close()
			_, _ = g.Write(record(hello(sni("npm.example"))))
			<-i.got
			after := p
			after.Secrets = c.now
			if cut := w.net.CutBy(after); (len(cut) == 1) != c.cut {
				t.Errorf("the change is said to cut %+v", cut)
			}
			w.net.SetPolicy(after)
			_ = g.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			_, err := g.Read(make([]byte, 1))
			if reset := err != nil && strings.Contains(err.Error(), "reset"); reset != c.cut {
				t.Errorf("after the change the guest sees %v, want a cut: %v", err, c.cut)
			}
			if !c.cut {
				return
			}
			w.record("the cut", func(r vm.Connection) bool {
				return strings.Contains(r.Reason, "may not use the secret a-secret any more")
			})
			w.net.SetPolicy(p)
			i.before = func() { w.net.SetPolicy(after) }
			h := w.mustConnect("203.0.113.43:443")
			defer h.Close()
			_, _ = h.Write(record(hello(sni("npm.example"))))
			<-i.got
			_ = h.SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := h.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
				t.Errorf("a secret that was put in at the moment of the change: the guest sees %v, want a reset", err)
			}
		})
	}
}

// A request is judged again while it is open, however many came after it, and no longer.
func TestRequestStaysJudged(t *testing.T) {
	before := named(t, vm.NetClosed, "npm.example/v1/** GET")
	w := newWorld(t, before)
	i := &interceptor{name: "npm.example", got: make(chan Intercepted, 1), stays: true}
	w.net.cfg.Intercept = i
	after := named(t, vm.NetClosed, "npm.example/v1/1 GET")
	for _, open := range []bool{true, false} {
		w.net.SetPolicy(before)
		w.ask("npm.example", dnsmessage.TypeA)
		c := w.mustConnect("203.0.113.43:443")
		defer c.Close()
		_, _ = c.Write(record(hello(sni("npm.example"))))
		d := <-i.got
		_, first := d.Judge("GET", "/v1/first")
		for range 2 * maxChecks {
			v, done := d.Judge("GET", "/v1/1")
			if !v.Allow {
				t.Fatalf("a later request is refused: %s", v.Reason)
			}
			done()
		}
		if !open {
			first()
		}
		w.net.SetPolicy(after)
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		if reset := err != nil && strings.Contains(err.Error(), "reset"); reset != open {
			t.Errorf("with a request open (%v) that the policy allows no longer the guest sees %v", open, err)
		}
	}
}

// One connection is not used for hosts without end, so that each of them stays judged.
func TestHostsOfOneConnection(t *testing.T) {
	w := newWorld(t, open)
	f, why := w.net.begin(egress.TCP, netip.AddrPortFrom(npmAddr, 80))
	if f == nil {
		t.Fatalf("no connection begins: %s", why)
	}
	defer w.net.end(f)
	for i := range maxChecks {
		if v := f.check(egress.Request{Proto: egress.TCP, Port: 80, Name: fmt.Sprintf("host%d.example", i)}); !v.Allow {
			t.Fatalf("host %d is refused: %s", i, v.Reason)
		}
	}
	if v := f.check(egress.Request{Proto: egress.TCP, Port: 80, Name: "more.example"}); v.Allow {
		t.Error("one host more is allowed")
	}
	if v := f.check(egress.Request{Proto: egress.TCP, Port: 80, Name: "host0.example"}); !v.Allow {
		t.Errorf("the first host is refused: %s", v.Reason)
	}
}

// A greeting that may hide its name is refused where names decide.
func TestECH(t *testing.T) {
	w := newWorld(t, named(t, vm.NetClosed, "npm.example"))
	w.ask("npm.example", dnsmessage.TypeA)
	c := w.mustConnect("203.0.113.43:443")
	defer c.Close()
	_, _ = c.Write(record(hello(sni("npm.example"), []byte{0xfe, 0x0d, 0, 1, 0})))
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if b, _ := io.ReadAll(c); string(b) != string(accessDenied) {
		t.Errorf("the answer is %x, want the alert access_denied", b)
	}
	w.refused("203.0.113.43:443", "ECH")
}

// http2Server serves apt.example in plain HTTP/2, and returns a transport of the guest.
func http2Server(t *testing.T, w *world, streams int, h http.HandlerFunc) *http.Transport {
	srv := httptest.NewUnstartedServer(h)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	srv.Start()
	t.Cleanup(srv.Close)
	w.route("tcp", netip.AddrPortFrom(aptAddr, 80), srv.Listener.Addr().String())
	w.ask("apt.example", dnsmessage.TypeA)
	tr := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) { return w.connect("203.0.113.42:80") }}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// Plain HTTP/2 is judged request by request.
func TestPlainHTTP2(t *testing.T) {
	w := newWorld(t, named(t, vm.NetClosed, "apt.example"))
	tr := http2Server(t, w, 0, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(rw, "%s %s", r.Proto, r.Host)
	})
	for host, want := range map[string]int{"apt.example": 200, "evil.example": 403} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://apt.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatalf("the request for %s ends with %v", host, err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || want == 200 && string(body) != "HTTP/2.0 apt.example" {
			t.Errorf("a request for %s gives %d %q, want %d", host, resp.StatusCode, body, want)
		}
	}
}
