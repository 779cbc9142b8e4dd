// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// log is a log that tests read.
type testLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// realNames is a gateway with an ACME server and a name server of its own.
type realNames struct {
	*stand
	acme  *vmtest.ACME
	dns   *vmtest.DNS
	certs *Certs
	log   *testLog
	store string
}

type realOptions struct {
	life      time.Duration // of a certificate; 0 = 90 days
	httpOnly  bool          // TLS-ALPN-01 leads nowhere
	acme      *vmtest.ACME
	dns       *vmtest.DNS
	store     string
	directory string
	own       []string // preview domains beside warren.localhost, with wildcard certificates
	hook      string
}

// The library keeps counters per process: each test uses its own.

// newRealNames starts a gateway that may certify the names that its engine
// maps, except those below foreign.example.
func newRealNames(t *testing.T, o realOptions) *realNames {
	t.Helper()
	s := &realNames{acme: o.acme, dns: o.dns, store: o.store, log: &testLog{}}
	var err error
	if s.dns == nil {
		if s.dns, err = vmtest.NewDNS(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.dns.Close() })
	}
	if s.store == "" {
		s.store = t.TempDir()
	}
	s.stand = newStand(t, http.HandlerFunc(echo), func(c *Config, l net.Listener) {
		port := l.Addr().(*net.TCPAddr).Port
		if s.acme == nil {
			tlsPort := port
			if o.httpOnly {
				tlsPort = 1
			}
			if s.acme, err = vmtest.NewACME(s.dns, tlsPort, port, o.life); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.acme.Close)
		}
		directory := o.directory
		if directory == "" {
			directory = s.acme.Directory()
		}
		s.certs, err = NewCerts(t.Context(), CertConfig{
			Directory: directory, Email: "ops@example.com", Roots: s.acme.OwnRoots(), Store: s.store, Address: l.Addr(),
			Own: o.own, DNSHook: o.hook, Log: slog.New(slog.NewTextHandler(s.log, nil)),
			May: func(name string) (vm.AccountID, error) {
				site, ok := c.Engine.DomainSite(name)
				if !ok || strings.HasSuffix(name, ".foreign.example") {
					return "", vm.Errorf(vm.Denied, name, "not mapped")
				}
				return site.Account, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Certs, c.Domains = s.certs, append(c.Domains, o.own...)
	})
	t.Cleanup(s.certs.Close)
	return s
}

// add maps a name to the guest's port 3000 and points DNS at the gateway.
func (s *realNames) add(name string) {
	s.e.mu.Lock()
	to := s.e.site
	to.Port, to.Public = 3000, true
	s.e.names[name] = to
	s.e.mu.Unlock()
	s.dns.SetA(name, netip.MustParseAddr("127.0.0.1"))
}

// visit opens a page with a client that trusts only the ACME server's root,
// and returns the certificate.
func (s *realNames) visit(name string) (*x509.Certificate, error) {
	c := s.client()
	c.Timeout = 45 * time.Second
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: s.acme.Roots()}
	defer c.CloseIdleConnections()
	resp, err := c.Get(s.url(name, "/"))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	return resp.TLS.PeerCertificates[0], nil
}

// TestACME: the first visit to a mapped name orders its certificate, which is
// stored. A name that nobody mapped causes no order.
func TestACME(t *testing.T) {
	s := newRealNames(t, realOptions{})
	s.add("app.example.com")
	began := time.Now()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := s.visit("app.example.com"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("eight first visitors at once: %s", time.Since(began).Round(time.Millisecond))
	first, err := s.visit("app.example.com")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"app.example.com":      "until " + first.NotAfter.UTC().Format(time.RFC3339),
		"app.warren.localhost": "the host's own CA", "later.example.com": "ordered for the first visitor",
	} {
		if got := s.g.Certificate(t.Context(), name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if s.acme.Orders() != 1 || len(first.DNSNames) != 1 || first.DNSNames[0] != "app.example.com" {
		t.Errorf("%d orders, %v", s.acme.Orders(), first.DNSNames)
	}
	if !strings.Contains(s.log.String(), "level=INFO msg=certificate domain=app.example.com") {
		t.Errorf("log: %s", s.log)
	}
	// Names for which no certificate may be ordered, mapped or not.
	s.add("x.foreign.example")
	for _, name := range []string{"x.foreign.example", "nobody.example.com", "a.b.warren.localhost", "example.com"} {
		s.dns.SetA(name, netip.MustParseAddr("127.0.0.1"))
		if _, err := s.visit(name); err == nil {
			t.Errorf("%s has a certificate", name)
		}
	}
	if n := s.acme.Orders(); n != 1 {
		t.Errorf("foreign names cost %d orders", n-1)
	}
	// After a mapping has ended, its certificate is not shown, though it exists.
	s.e.mu.Lock()
	delete(s.e.names, "app.example.com")
	s.e.mu.Unlock()
	if _, err := s.visit("app.example.com"); err == nil {
		t.Error("an ended mapping still has its certificate")
	}
	// Files on disk are accessible to this user only.
	files := 0
	if err := filepath.WalkDir(s.store, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := os.Stat(path)
		if err == nil && !d.IsDir() {
			files++
			if st.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v, want it for this user only", path, st.Mode())
			}
		}
		return err
	}); err != nil || files < 4 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestACMERestart: certificates survive a restart of the gateway.
func TestACMERestart(t *testing.T) {
	s := newRealNames(t, realOptions{})
	s.add("again.example.com")
	first, err := s.visit("again.example.com")
	if err != nil {
		t.Fatal(err)
	}
	s.certs.Close()
	again := newRealNames(t, realOptions{acme: s.acme, dns: s.dns, store: s.store})
	again.add("again.example.com")
	if err := again.certs.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := again.g.Certificate(t.Context(), "again.example.com"); got != "until "+first.NotAfter.UTC().Format(time.RFC3339) {
		t.Errorf("after a restart: %q", got)
	}
	second, err := again.visit("again.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if !first.Equal(second) || s.acme.Orders() != 1 {
		t.Errorf("another certificate after a restart; %d orders", s.acme.Orders())
	}
}

// TestACMEHTTP: if only plain HTTP reaches the gateway, the HTTP challenge is answered.
func TestACMEHTTP(t *testing.T) {
	s := newRealNames(t, realOptions{httpOnly: true})
	s.add("plain.example.com")
	if _, err := s.visit("plain.example.com"); err != nil {
		t.Fatalf("the first visit got no certificate: %v\n%s", err, s.log)
	}
	// Without an order in progress there is no answer.
	resp, body := s.get("http://plain.example.com:80/.well-known/acme-challenge/token")
	if resp.StatusCode != http.StatusPermanentRedirect || strings.Contains(body, "token.") {
		t.Errorf("a challenge without an order is answered %d %q, want a redirect without a token", resp.StatusCode, body)
	}
}

// TestACMERenewal: near its expiry a certificate is replaced while a visit gets the old one.
// If that fails, the old one stays in use, and the ACME server is not contacted at each visit.
func TestACMERenewal(t *testing.T) {
	const name = "renewed.example.com"
	s := newRealNames(t, realOptions{life: 20 * time.Second})
	s.add(name)
	first, err := s.visit(name)
	if err != nil {
		t.Fatal(err)
	}
	var next *x509.Certificate
	for next == nil {
		now, err := s.visit(name)
		if err != nil {
			t.Fatalf("a visit near the certificate's end fails: %v\n%s", err, s.log)
		}
		if !now.Equal(first) {
			next = now
			s.acme.Fail(true)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if !next.NotAfter.After(first.NotAfter) || time.Now().After(first.NotAfter) {
		t.Errorf("the new one ends %s, the old one %s", next.NotAfter, first.NotAfter)
	}
	time.Sleep(time.Second) // what is in progress ends
	before := s.acme.Orders()
	for range 10 {
		if _, err := s.visit(name); err != nil {
			t.Fatalf("a renewal that failed ends the old one: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if n := s.acme.Orders() - before; n > 1 || strings.Count(s.log.String(), "level=WARN") != 1 {
		t.Errorf("%d orders in ten visits\n%s", n, s.log)
	}
	// Long-lived certificates are renewed in the last third of their life.
	const day = 24 * time.Hour
	for left, want := range map[time.Duration]bool{31 * day: false, 29 * day: true} {
		leaf := &x509.Certificate{NotBefore: time.Now().Add(left - 90*day), NotAfter: time.Now().Add(left)}
		if got := (certmagic.Certificate{Certificate: tls.Certificate{Leaf: leaf}}).NeedsRenewal(s.certs.magic); got != want {
			t.Errorf("%s before the end: %v", left, got)
		}
	}
}

// TestACMEFails: a refusal of the server causes one order, one line in the log
// and a handshake that fails at once; the next order waits.
func TestACMEFails(t *testing.T) {
	s := newRealNames(t, realOptions{})
	s.add("refused.example.com")
	s.acme.Fail(true)
	for i := range 5 {
		began := time.Now()
		if _, err := s.visit("refused.example.com"); err == nil {
			t.Fatal("a certificate of nothing")
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("visit %d took %s", i, d)
		}
	}
	if n := s.acme.Orders(); n != 1 {
		t.Errorf("%d orders", n)
	}
	log := s.log.String()
	if strings.Count(log, "\n") != 1 || !strings.Contains(log, `level=WARN msg="no certificate" domain=refused.example.com`) || !strings.Contains(log, "made to fail") {
		t.Errorf("log: %s", log)
	}
	if got := s.g.Certificate(t.Context(), "refused.example.com"); !strings.Contains(got, "made to fail") || !strings.Contains(got, "the next order is made after 2") {
		t.Errorf("its owner is told %q", got)
	}
	// Previews keep working.
	if resp, _ := s.get(s.url(boxHost, "/")); resp.StatusCode != http.StatusOK {
		t.Errorf("previews: %d", resp.StatusCode)
	}
	// The owner has fixed the problem, and the wait is over.
	s.acme.Fail(false)
	s.certs.issuer.orders.done("refused.example.com")
	if _, err := s.visit("refused.example.com"); err != nil {
		t.Error(err)
	}
}

// TestACMEShare: an account with many names does not use up the host's limit.
func TestACMEShare(t *testing.T) {
	s := newRealNames(t, realOptions{})
	s.acme.Fail(true) // an order that fails is one, too
	for i := range ordersAccount + 5 {
		name := fmt.Sprintf("share%d.example.com", i)
		s.add(name)
		if _, err := s.visit(name); err == nil {
			t.Fatal("a certificate of nothing")
		}
	}
	if n := s.acme.Orders(); n != ordersAccount {
		t.Errorf("%d orders of one account", n)
	}
	if n := strings.Count(s.log.String(), "the account has ordered too many certificates lately"); n != 5 {
		t.Errorf("%d refusals in the log", n)
	}
}

// TestACMEWrongPlace: a name that resolves elsewhere gets no certificate, and
// the state gives the reason.
func TestACMEWrongPlace(t *testing.T) {
	s := newRealNames(t, realOptions{})
	s.add("elsewhere.example.com")
	s.dns.SetA("elsewhere.example.com", netip.MustParseAddr("127.0.0.2"))
	if _, err := s.visit("elsewhere.example.com"); err == nil {
		t.Fatal("a certificate for a name that leads elsewhere")
	}
	if log := s.log.String(); !strings.Contains(log, `msg="no certificate"`) || !strings.Contains(log, "port 443 or 80") {
		t.Errorf("log: %s", log)
	}
}

// TestACMEUnreachable: if the server is unreachable, there is no certificate and no hang.
func TestACMEUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "https://" + l.Addr().String() + "/dir"
	l.Close()
	s := newRealNames(t, realOptions{directory: gone})
	s.add("gone.example.com")
	began := time.Now()
	if _, err := s.visit("gone.example.com"); err == nil || time.Since(began) > 20*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	if !strings.Contains(s.log.String(), "connection refused") {
		t.Errorf("log: %s", s.log)
	}
}

// TestACMEStore: if certificates cannot be stored, none is ordered.
func TestACMEStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newRealNames(t, realOptions{store: file})
	s.add("nowhere.example.com")
	for range 2 {
		if _, err := s.visit("nowhere.example.com"); err == nil {
			t.Fatal("a certificate that cannot be kept")
		}
	}
	if log := s.log.String(); s.acme.Orders() != 0 || strings.Count(log, "\n") != 1 || !strings.Contains(log, "not a directory") {
		t.Errorf("%d orders\n%s", s.acme.Orders(), log)
	}
}

// TestACMEHangs: a visitor waits a limited time for a server that does not
// answer, and the order ends with the gateway.
func TestACMEHangs(t *testing.T) {
	s := newRealNames(t, realOptions{})
	s.add("silent.example.com")
	s.acme.Hang()
	s.certs.wait = 500 * time.Millisecond
	for range 2 {
		asked := time.Now()
		if _, err := s.visit("silent.example.com"); err == nil || time.Since(asked) > 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(asked))
		}
	}
	if n := s.acme.Orders(); n != 1 {
		t.Errorf("%d orders", n)
	}
	s.certs.wait = time.Minute
	visited := make(chan error, 1)
	go func() {
		_, err := s.visit("silent.example.com")
		visited <- err
	}()
	time.Sleep(200 * time.Millisecond) // the visitor waits
	began := time.Now()
	s.certs.Close()
	if err := <-visited; err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

// TestOrders: accounts and the host have limits, and the wait grows with each failure.
func TestOrders(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o := newOrders(func() time.Time { return now })
	count := func(account vm.AccountID, tries int) (n int) {
		for i := range tries {
			if o.begin(fmt.Sprintf("%s-%d-%d.example", account, now.Unix(), i), account) == nil {
				n++
			}
		}
		return n
	}
	if n := count("a", 100); n != ordersAccount {
		t.Errorf("%d orders of one account", n)
	}
	if n := count("b", 100) + count("c", 100) + count("d", 100); n != ordersAll-ordersAccount {
		t.Errorf("%d orders of three more", n)
	}
	now = now.Add(2 * time.Hour)
	if n := count("a", 100); n != ordersAccount {
		t.Errorf("%d orders of one account, later", n)
	}
	now = now.Add(100 * time.Hour)
	var waits []time.Duration
	for range 9 {
		if err := o.begin("x.example", "a"); err != nil {
			t.Fatal(err)
		}
		until := o.fail("x.example", io.EOF)
		waits = append(waits, until.Sub(now))
		if err := o.begin("x.example", "a"); vm.KindOf(err) != vm.Unavailable {
			t.Errorf("an order at once: %v", err)
		}
		if err := o.begin("y.example", "a"); err != nil {
			t.Errorf("another name waits too: %v", err)
		}
		o.done("y.example")
		now = until
	}
	if waits[0] != firstRetry || waits[1] != 2*firstRetry || waits[8] != lastRetry {
		t.Errorf("after failures orders wait %v, want %v, twice that, and %v in the end", waits, firstRetry, lastRetry)
	}
	o.done("x.example")
	if o.fail("x.example", io.EOF).Sub(now) != firstRetry {
		t.Error("a success does not begin anew")
	}
	for i := range 3 * maxFailures {
		o.fail(fmt.Sprintf("%d.example", i), io.EOF)
	}
	if len(o.failures) > maxFailures {
		t.Errorf("%d failures are kept", len(o.failures))
	}
}

// TestCertsNeedSockets: without TCP no challenge can arrive.
func TestCertsNeedSockets(t *testing.T) {
	if _, err := NewCerts(t.Context(), CertConfig{Address: &net.UnixAddr{}}); err == nil {
		t.Error("accepted")
	}
}
