// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/time/rate"

	"github.com/warren-vm/warren/vm"
)

// A network that nobody opened reaches nothing, and says so at once.
func TestClosed(t *testing.T) {
	w := newWorld(t, closed)
	m := w.ask("apt.example", dnsmessage.TypeA)
	if m.RCode != dnsmessage.RCodeRefused || len(m.Answers) > 0 {
		t.Errorf("a look-up gives %v with %d answers, want REFUSED", m.RCode, len(m.Answers))
	}
	if got := extended(m); got != "15 warren: the network policy is closed" {
		t.Errorf("extended error %q", got)
	}
	w.refused("apt.example", "closed")
	for _, dst := range []string{"203.0.113.42:80", "203.0.113.43:443", "169.254.169.254:80", "10.0.2.2:22", "198.51.100.9:22"} {
		w.mustReset(dst)
		w.refused(dst, "closed")
	}
	w.mustUnreach("203.0.113.42:123")
	w.refused("203.0.113.42:123", "closed")
	if d := w.dials(); len(d) > 0 || w.lookups > 0 {
		t.Errorf("the host dialled %v and looked up %d names for a closed guest", d, w.lookups)
	}
}

// The zero policy is no policy, so nothing is reachable.
func TestZeroPolicyIsClosed(t *testing.T) {
	w := newWorld(t, vm.NetworkPolicy{})
	w.mustReset("203.0.113.42:80")
	w.mustUnreach("203.0.113.42:53")
}

// A package manager's registry is found by name and reached over TLS.
func TestPackagesTLS(t *testing.T) {
	w := newWorld(t, packages)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, "hello from %s", r.TLS.ServerName)
	}))
	srv.StartTLS()
	t.Cleanup(srv.Close)
	w.route("tcp", netip.AddrPortFrom(npmAddr, 443), srv.Listener.Addr().String())

	if got := addresses(w.ask("npm.example", dnsmessage.TypeA)); !slices.Equal(got, []netip.Addr{npmAddr}) {
		t.Fatalf("npm.example is at %v", got)
	}
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	c := w.mustConnect("203.0.113.43:443")
	tc := tls.Client(c, &tls.Config{ServerName: "NPM.example", InsecureSkipVerify: true}) //nolint:gosec // the test server's certificate is for example.com
	if _, err := fmt.Fprint(tc, "GET / HTTP/1.1\r\nHost: npm.example\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(tc)
	if err != nil || !strings.Contains(string(body), "hello from NPM.example") && !strings.Contains(string(body), "hello from npm.example") {
		t.Fatalf("reading the answer over TLS ended with %v after: %s", err, body)
	}
	_ = c.Close()
	r := w.record("the connection", func(c vm.Connection) bool { return c.Proto == "tcp" && c.Allowed })
	if r.Name != "npm.example" || r.Up == 0 || r.Down < 20 || r.Duration <= 0 || !strings.Contains(r.Reason, "npm") {
		t.Errorf("record %+v", r)
	}
}

// An allowed address does not carry connections to other names.
func TestPackagesRefusesOtherTLS(t *testing.T) {
	w := newWorld(t, packages)
	w.route("tcp", netip.AddrPortFrom(npmAddr, 443), w.listen(func(*net.TCPConn) { t.Error("the server was reached") }))
	w.ask("npm.example", dnsmessage.TypeA)
	hello := func(name, want string) {
		t.Helper()
		c := w.mustConnect("203.0.113.43:443")
		defer c.Close()
		err := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}).HandshakeContext(t.Context()) //nolint:gosec // never gets that far
		if err == nil || !strings.Contains(err.Error(), "access denied") {
			t.Errorf("a greeting for %q gives %v, want an alert that says access denied", name, err)
		}
		w.refused("203.0.113.43:443", want)
	}
	hello("evil.example", "evil.example is not one of")
	hello("", "names no server")
	hello("apt.example", "port 80 only")

	c := w.mustConnect("203.0.113.43:443")
	defer c.Close()
	_, _ = c.Write([]byte{22, 3, 1, 0, 5, 2, 0, 0, 1, 0})
	_, _ = io.ReadAll(c)
	w.refused("203.0.113.43:443", "could not be read")
}

// Raw addresses, other ports, UDP and QUIC are refused in packages.
func TestPackagesRefusesRawAddresses(t *testing.T) {
	w := newWorld(t, packages)
	w.ask("apt.example", dnsmessage.TypeA)
	w.mustReset("198.51.100.200:443")
	w.refused("198.51.100.200:443", "raw address")
	w.mustReset("203.0.113.42:22")
	w.refused("203.0.113.42:22", "port 80 only")
	w.mustReset("169.254.169.254:80")
	w.mustReset("10.0.2.2:443")
	w.mustUnreach("203.0.113.43:443")
	w.refused("203.0.113.43:443", "QUIC")
	w.mustUnreach("203.0.113.43:53")
	if d := w.dials(); len(d) > 0 {
		t.Errorf("dialled %v", d)
	}
}

// A guest that was forked or restored asks no name server before it uses the
// addresses that it remembers.
func TestPackagesWithoutLookup(t *testing.T) {
	w := newWorld(t, packages)
	w.route("tcp", netip.AddrPortFrom(aptAddr, 80), httpServer(t, w))
	c := w.mustConnect("203.0.113.42:80")
	defer c.Close()
	if _, body := get(t, c, bufio.NewReader(c), "/x", "apt.example"); !strings.Contains(body, "apt.example /x") {
		t.Errorf("body %q", body)
	}
}

func httpServer(t *testing.T, _ *world) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "%s %s %s", r.Host, r.URL.RequestURI(), b)
	}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func get(t *testing.T, c net.Conn, br *bufio.Reader, target, host string) (*http.Response, string) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, host); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatalf("GET %s of %s: %v", target, host, err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// Each request of a keep-alive connection is judged by its own Host.
func TestPackagesHTTP(t *testing.T) {
	w := newWorld(t, packages)
	w.route("tcp", netip.AddrPortFrom(aptAddr, 80), httpServer(t, w))
	w.ask("apt.example", dnsmessage.TypeA)
	for _, second := range []struct{ target, host, want string }{
		{"/", "evil.example", "evil.example is not one of"},
		{"http://evil.example/", "apt.example", "evil.example is not one of"},
		{"/", "203.0.113.42", "raw address"},
		{"/", "apt.example:8080", "names port 8080"},
		{"/", "npm.example", "port 443 only"},
		{"/", "[::1]", "another address"},
		{"/", "2130706433", "not a host name"},
	} {
		c := w.mustConnect("203.0.113.42:80")
		br := bufio.NewReader(c)
		for range 2 {
			resp, body := get(t, c, br, "/pool/a%20b?q=1&r=%2F", "apt.example")
			if resp.StatusCode != 200 || !strings.HasPrefix(body, "apt.example /pool/a%20b?q=1&r=%2F ") {
				t.Fatalf("the mirror answers %d %q, want 200 from apt.example with the request's path", resp.StatusCode, body)
			}
		}
		resp, body := get(t, c, br, second.target, second.host)
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, second.want) || !strings.Contains(body, "\nnext: warren-agent ask ") || !strings.Contains(body, "http://policy.warren.internal/why?host=") || resp.Header.Get(RefusedHeader) == "" {
			t.Errorf("%+v gives %d %q", second, resp.StatusCode, body)
		}
		if _, err := br.ReadByte(); err == nil {
			t.Errorf("%+v: the connection stays open", second)
		}
		_ = c.Close()
		w.refused("203.0.113.42:80", second.want)
	}
	for _, d := range w.dials() {
		if d != "tcp 203.0.113.42:80" {
			t.Errorf("dialled %s", d)
		}
	}
}

// Two requests sent as one must not be taken for one.
func TestPackagesHTTPSmuggling(t *testing.T) {
	w := newWorld(t, packages)
	w.route("tcp", netip.AddrPortFrom(aptAddr, 80), httpServer(t, w))
	w.ask("apt.example", dnsmessage.TypeA)
	for _, head := range []string{
		"POST / HTTP/1.1\r\nHost: apt.example\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: apt.example\r\nHost: evil.example\r\n\r\n",
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: apt.example\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"\x00\x01\x02\x03 not http\r\n\r\n",
	} {
		c := w.mustConnect("203.0.113.42:80")
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, head)
		_ = c.CloseWrite()
		b, _ := io.ReadAll(c)
		_ = c.Close()
		if strings.Contains(string(b), "evil.example /") || strings.Contains(string(b), "apt.example /evil") {
			t.Errorf("%q reached the server: %q", head, b)
		}
	}
}

// A name that changes its address after it was checked is not followed
// to the new one, and a private address is never dialled.
func TestRebinding(t *testing.T) {
	w := newWorld(t, packages)
	w.route("tcp", netip.AddrPortFrom(aptAddr, 80), httpServer(t, w))
	w.ask("apt.example", dnsmessage.TypeA)
	w.setName("apt.example", netip.MustParseAddr("127.0.0.1"))
	c := w.mustConnect("203.0.113.42:80")
	defer c.Close()
	br := bufio.NewReader(c)
	if resp, _ := get(t, c, br, "/", "apt.example"); resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	// The answer has expired: the host looks it up again and sees the new one.
	w.net.names.mu.Lock()
	clear(w.net.names.answers)
	w.net.names.mu.Unlock()
	c2 := w.mustConnect("203.0.113.42:80")
	defer c2.Close()
	resp, body := get(t, c2, bufio.NewReader(c2), "/", "apt.example")
	if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "leads to an address that is not public") {
		t.Errorf("the mirror answers %d %q, want 403 for an address that is not public", resp.StatusCode, body)
	}
	if strings.Contains(body, "127.0.0.1") {
		t.Errorf("the guest is told the address: %q", body)
	}
	w.refused("203.0.113.42:80", "127.0.0.1, a loopback address")
	if got := w.dials(); !slices.Equal(got, []string{"tcp 203.0.113.42:80"}) {
		t.Errorf("dialled %v", got)
	}
	if m := w.ask("apt.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeRefused || !strings.HasSuffix(extended(m), "leads to an address that is not public") {
		t.Errorf("a name that leads to loopback gives %v %q", m.RCode, extended(m))
	}
}

// Open reaches public addresses and never the host's side.
func TestOpen(t *testing.T) {
	w := newWorld(t, open)
	public := netip.MustParseAddrPort("203.0.113.7:2222")
	w.route("tcp", public, w.listen(func(c *net.TCPConn) { _, _ = io.Copy(c, c) }))
	w.setName("mixed.example", public.Addr(), netip.MustParseAddr("10.1.2.3"))
	w.setName("inside.example", netip.MustParseAddr("169.254.169.254"))

	if got := addresses(w.ask("mixed.example", dnsmessage.TypeA)); !slices.Equal(got, []netip.Addr{public.Addr()}) {
		t.Errorf("mixed.example is at %v, want the public address alone", got)
	}
	c := w.mustConnect(public.String())
	_, _ = c.Write([]byte("ping"))
	b := make([]byte, 4)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "ping" {
		t.Errorf("the echo ended with %v after %q, want ping", err, b)
	}
	live := w.net.Live() // what went through is counted after it has
	for deadline := time.Now().Add(5 * time.Second); len(live) == 1 && live[0].Up != 4 && time.Now().Before(deadline); live = w.net.Live() {
		time.Sleep(time.Millisecond)
	}
	if len(live) != 1 || live[0].Up != 4 || live[0].Name != "mixed.example" {
		t.Errorf("live %+v", live)
	}
	_ = c.Close()
	if m := w.ask("inside.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeRefused || !strings.HasSuffix(extended(m), "leads to an address that is not public") {
		t.Errorf("a name of the metadata address gives %v %q", m.RCode, extended(m))
	}
	for dst, why := range map[string]string{
		"169.254.169.254:80": "metadata", "10.0.2.2:8787": "own network", "10.0.2.1:1": "own network",
		"192.168.1.1:80": "private", "198.51.100.9:22": "address of the host", "100.64.0.1:1": "carrier", "198.18.0.1:1": "benchmark",
	} {
		w.mustReset(dst)
		w.refused(dst, why)
	}
	w.mustUnreach("169.254.169.254:123")
	w.mustUnreach("198.51.100.9:123")
	w.mustReset("203.0.113.99:1") // allowed, but nobody is there
	r := w.record("a failed dial", func(c vm.Connection) bool { return c.Dest == "203.0.113.99:1" })
	if !r.Allowed || !strings.Contains(r.Reason, "connection refused") {
		t.Errorf("record %+v", r)
	}
}

func TestLookups(t *testing.T) {
	w := newWorld(t, packages)
	tests := []struct {
		name  string
		kind  dnsmessage.Type
		rcode dnsmessage.RCode
		n     int
	}{
		{"apt.example", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"APT.Example", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"apt.example", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, 0},
		{"apt.example", dnsmessage.TypeHTTPS, dnsmessage.RCodeSuccess, 0},
		{"apt.example", dnsmessage.TypeSVCB, dnsmessage.RCodeSuccess, 0},
		{"apt.example", dnsmessage.TypeTXT, dnsmessage.RCodeSuccess, 0},
		{"_http._tcp.apt.example", dnsmessage.TypeSRV, dnsmessage.RCodeNameError, 0},
		{"_http._tcp.evil.example", dnsmessage.TypeSRV, dnsmessage.RCodeRefused, 0},
		{"_x.apt.example", dnsmessage.TypeA, dnsmessage.RCodeRefused, 0},
		{"evil.example", dnsmessage.TypeA, dnsmessage.RCodeRefused, 0},
		{"secret.evil.example", dnsmessage.TypeTXT, dnsmessage.RCodeRefused, 0},
		{"evil.example", dnsmessage.TypeAAAA, dnsmessage.RCodeRefused, 0},
	}
	for _, tt := range tests {
		if m := w.ask(tt.name, tt.kind); m.RCode != tt.rcode || len(m.Answers) != tt.n {
			t.Errorf("%s %v gives %v with %d answers, want %v with %d", tt.name, tt.kind, m.RCode, len(m.Answers), tt.rcode, tt.n)
		}
	}
	if w.lookups != 1 {
		t.Errorf("the host was asked %d times, want once", w.lookups)
	}
	w.net.SetPolicy(open)
	if m := w.ask("nosuch.example", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeNameError {
		t.Errorf("a name that does not exist gives %v", m.RCode)
	}
	// Over TCP too.
	c := w.mustConnect("10.0.2.3:53")
	defer c.Close()
	q := query(t, "apt.example", dnsmessage.TypeA)
	_, _ = c.Write(append([]byte{byte(len(q) >> 8), byte(len(q))}, q...))
	var h [2]byte
	if _, err := io.ReadFull(c, h[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, int(h[0])<<8|int(h[1]))
	var m dnsmessage.Message
	if _, err := io.ReadFull(c, b); err != nil || m.Unpack(b) != nil || len(addresses(m)) != 1 {
		t.Errorf("over TCP: %v %+v", err, m)
	}
}

// Lookups over TCP count for the same bounds as those over UDP.
func TestLookupsOverTCPAreBounded(t *testing.T) {
	w := newWorld(t, packages)
	w.net.lookups.limit.SetLimit(0)
	w.net.lookups.limit.SetBurst(3)
	c := w.mustConnect("10.0.2.3:53")
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	q := query(t, "apt.example", dnsmessage.TypeA)
	ask := func() (m dnsmessage.Message) {
		_, _ = c.Write(append([]byte{byte(len(q) >> 8), byte(len(q))}, q...))
		var h [2]byte
		_, err := io.ReadFull(c, h[:])
		b := make([]byte, int(h[0])<<8|int(h[1]))
		if _, more := io.ReadFull(c, b); err != nil || more != nil || m.Unpack(b) != nil {
			t.Fatalf("a look-up over TCP ends with %v, %v", err, more)
		}
		return m
	}
	for range 2 {
		if m := ask(); len(addresses(m)) != 1 {
			t.Errorf("a look-up within the bound gives %v", m.RCode)
		}
	}
	if m := w.ask("apt.example", dnsmessage.TypeA); len(addresses(m)) != 1 {
		t.Errorf("a look-up over UDP within the bound gives %v", m.RCode)
	}
	if m := ask(); m.RCode != dnsmessage.RCodeServerFailure || !strings.Contains(extended(m), "too many look-ups") {
		t.Errorf("one look-up more gives %v %q", m.RCode, extended(m))
	}
	w.net.lookups.limit.SetLimit(rate.Inf)
	for range maxLookups {
		w.net.lookups.slots <- struct{}{}
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		ask()
	}()
	select {
	case <-answered:
		t.Error("a look-up over TCP does not wait for a place")
	case <-time.After(100 * time.Millisecond):
	}
	for range maxLookups {
		<-w.net.lookups.slots
	}
	<-answered
}

// The guest can read why at the gateway.
func TestExplanation(t *testing.T) {
	w := newWorld(t, closed)
	w.mustReset("203.0.113.42:80")
	w.refused("203.0.113.42:80", "closed")
	c := w.mustConnect("10.0.2.2:80")
	defer c.Close()
	resp, body := get(t, c, bufio.NewReader(c), "/", "10.0.2.2")
	for _, want := range []string{"network policy of this VM: closed", "reachable: nothing", "warren net set", "tcp 203.0.113.42:80"} {
		if resp.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("the refusal has status %d and lacks %q: %q", resp.StatusCode, want, body)
		}
	}
}

// A ping to the outside is answered by a refusal, not by the stack.
func TestPing(t *testing.T) {
	n, err := New(Config{Policy: open})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	frame := echo(netip.MustParseAddr("203.0.113.1"))
	reply, ok := n.admit(frame)
	if ok || len(reply) < 42 || reply[34] != 3 || reply[35] != 13 || string(reply[42:62]) != string(frame[14:34]) {
		t.Errorf("admit = %x, %v", reply, ok)
	}
	if reply, ok := n.admit(echo(Gateway)); !ok || reply != nil {
		t.Error("the gateway can't be pinged")
	}
}

func echo(dst netip.Addr) []byte {
	d := dst.As4()
	f := append([]byte{}, gatewayMAC...)
	f = append(append(f, guestMAC...), 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 2, 15)
	return append(append(f, d[:]...), 8, 0, 0, 0, 0, 1, 0, 1)
}

// A change of policy holds for connections that are open.
func TestPolicySwitch(t *testing.T) {
	w := newWorld(t, open)
	w.route("tcp", netip.AddrPortFrom(npmAddr, 443), w.listen(func(c *net.TCPConn) { _, _ = io.Copy(c, c) }))
	for _, p := range []vm.NetworkPolicy{closed, packages} {
		w.net.SetPolicy(open)
		w.ask("npm.example", dnsmessage.TypeA)
		c := w.mustConnect("203.0.113.43:443")
		_, _ = c.Write([]byte("x"))
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		w.net.SetPolicy(p)
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
			t.Errorf("after the change to %s: %v, want a reset", p.Mode, err)
		}
		_ = c.Close()
	}
	w.record("the cut", func(c vm.Connection) bool {
		return c.Up == 1 && c.Down == 1 && strings.HasPrefix(c.Reason, "cut when the policy changed: the network policy is closed")
	})
	w.net.SetPolicy(closed)
	w.mustReset("203.0.113.43:443")
	w.net.SetPolicy(open)
	_ = w.mustConnect("203.0.113.43:443").Close()
}

// A connection of the proxy is cut too, also between two requests.
func TestPolicySwitchHTTP(t *testing.T) {
	w := newWorld(t, packages)
	w.route("tcp", netip.AddrPortFrom(aptAddr, 80), httpServer(t, w))
	w.ask("apt.example", dnsmessage.TypeA)
	c := w.mustConnect("203.0.113.42:80")
	defer c.Close()
	br := bufio.NewReader(c)
	get(t, c, br, "/", "apt.example")
	same := packages
	same.Hosts = append([]vm.Registry{{Host: "more.example", Port: 80}}, same.Hosts...)
	w.net.SetPolicy(same)
	get(t, c, br, "/", "apt.example") // still allowed: not cut
	w.net.SetPolicy(closed)
	if _, err := br.ReadByte(); err == nil {
		t.Error("the connection goes on")
	}
}

func TestUDP(t *testing.T) {
	w := newWorld(t, open)
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 2048)
		for {
			k, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = pc.WriteTo(append([]byte("echo "), b[:k]...), from)
		}
	}()
	t.Cleanup(func() { _ = pc.Close(); <-done })
	w.route("udp", netip.MustParseAddrPort("203.0.113.5:123"), pc.LocalAddr().String())
	c := w.udp("203.0.113.5:123")
	defer c.Close()
	for i := range 3 {
		_, _ = fmt.Fprintf(c, "n%d", i)
		b := make([]byte, 100)
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		k, err := c.Read(b)
		if err != nil || string(b[:k]) != fmt.Sprintf("echo n%d", i) {
			t.Fatalf("the echo ended with %v after %q, want echo n%d", err, b[:k], i)
		}
	}
	w.net.SetPolicy(closed)
	w.record("the exchange", func(c vm.Connection) bool { return c.Proto == "udp" && c.Up == 6 && c.Down == 21 })
}

// The host's own resolver and addresses are the defaults.
func TestDefaults(t *testing.T) {
	n, err := New(Config{Policy: open})
	if err != nil {
		t.Fatal(err)
	}
	if len(n.host.get()) == 0 {
		t.Error("no host addresses")
	}
	if _, err := n.Dial(context.Background(), 22); vm.KindOf(err) != vm.Unavailable {
		t.Errorf("a dial without a guest gives %v", err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := n.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	a, b := socketPair(t)
	defer b.Close()
	if err := n.Serve(t.Context(), a); err == nil {
		t.Error("a closed Net serves")
	}
}
