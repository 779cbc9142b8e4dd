// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/x509"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/vmtest"
)

// newOwn is a gateway whose preview domain vms.example.com gets its certificates by DNS-01.
func newOwn(t *testing.T, o realOptions, fail bool) (s *realNames, calls func() []string) {
	t.Helper()
	var err error
	if o.dns, err = vmtest.NewDNS(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.dns.Close() })
	o.hook = filepath.Join(t.TempDir(), "hook")
	if calls, err = o.dns.Hook(o.hook, fail); err != nil {
		t.Fatal(err)
	}
	o.own = []string{"vms.example.com"}
	return newRealNames(t, o), calls
}

// TestWildcard: all names below a preview domain share one certificate by DNS-01,
// although none resolves to the gateway from outside.
func TestWildcard(t *testing.T) {
	s, calls := newOwn(t, realOptions{}, false)
	if got := s.g.Certificate(t.Context(), "app.vms.example.com"); got != "ordered for the first visitor" {
		t.Errorf("at first: %q", got)
	}
	var wg sync.WaitGroup
	for _, name := range []string{"3000-box.vms.example.com", "3000-" + boxID + ".vms.example.com", boxID + ".vms.example.com"} {
		wg.Go(func() {
			cert, err := s.visit(name)
			if err != nil {
				t.Errorf("the visit of %s got no certificate: %v", name, err)
				return
			}
			if !slices.Equal(cert.DNSNames, []string{"*.vms.example.com"}) {
				t.Errorf("%s is shown the certificate of %v", name, cert.DNSNames)
			}
			if got, want := s.g.Certificate(t.Context(), name), "until "+cert.NotAfter.UTC().Format(time.RFC3339); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		})
	}
	wg.Wait()
	if n := s.acme.Orders(); n != 1 {
		t.Errorf("%d orders", n)
	}
	// The log-in name: the wildcard does not cover it.
	if cert, err := s.visit("vms.example.com"); err != nil || !slices.Equal(cert.DNSNames, []string{"vms.example.com"}) {
		t.Errorf("the domain itself: %v", err)
	}
	for _, name := range []string{"a.b.vms.example.com", "xvms.example.com", "example.com"} {
		if _, err := s.visit(name); err == nil {
			t.Errorf("%s has a certificate", name)
		}
	}
	if n := s.acme.Orders(); n != 2 {
		t.Errorf("%d orders", n)
	}
	var verbs []string
	for _, c := range calls() {
		f := strings.Fields(c)
		verbs = append(verbs, f[0])
		if f[1] != "_acme-challenge.vms.example.com." {
			t.Errorf("the program is called with %q", c)
		}
	}
	if !slices.Equal(verbs, []string{"present", "cleanup", "present", "cleanup"}) {
		t.Errorf("the program is called to %v", verbs)
	}
	// The host's own CA stays beside it.
	if got := s.g.Certificate(t.Context(), "3000-box.warren.localhost"); got != "the host's own CA" {
		t.Errorf("the other domain: %q", got)
	}
	if resp, body := s.get(s.url(boxHost, "/")); resp.StatusCode != 200 {
		t.Errorf("the other domain: %d %s", resp.StatusCode, body)
	}
}

// TestWildcardRenewal: near its expiry a wildcard certificate is replaced by
// DNS-01, too, after a visit of any name below it.
func TestWildcardRenewal(t *testing.T) {
	s, _ := newOwn(t, realOptions{life: 20 * time.Second}, false)
	first, err := s.visit("3000-box.vms.example.com")
	if err != nil {
		t.Fatal(err)
	}
	for {
		now, err := s.visit(boxID + ".vms.example.com")
		if err != nil {
			t.Fatalf("a visit near the certificate's end fails: %v\n%s", err, s.log)
		}
		if !now.Equal(first) {
			if !now.NotAfter.After(first.NotAfter) || !slices.Equal(now.DNSNames, first.DNSNames) {
				t.Errorf("%v until %s after %s", now.DNSNames, now.NotAfter, first.NotAfter)
			}
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestWildcardFails: the program's error is in the log and in the certificate's
// state, and the program is not called at each visit.
func TestWildcardFails(t *testing.T) {
	s, calls := newOwn(t, realOptions{}, true)
	for range 3 {
		if _, err := s.visit("3000-box.vms.example.com"); err == nil {
			t.Fatal("a certificate of nothing")
		}
	}
	if log := s.log.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "the zone says: nothing") || !strings.Contains(log, "acmeDnsHook") {
		t.Errorf("log: %s", log)
	}
	if got := s.g.Certificate(t.Context(), "3001-box.vms.example.com"); !strings.Contains(got, "the zone says: nothing") {
		t.Errorf("its owner is told %q", got)
	}
	if n := len(calls()); n > 2 {
		t.Errorf("the program was called %d times: %q", n, calls())
	}
}

// TestPreviewDomains: each preview domain has the names of every VM and its own log-in page.
func TestPreviewDomains(t *testing.T) {
	two := func(c *Config, _ net.Listener) {
		c.Domains = []string{"warren.localhost", "other.localhost"}
		dir, err := layout.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if c.CA, err = OpenCA(dir, c.Domains, c.Domains); err != nil {
			t.Fatal(err)
		}
	}
	s := newStand(t, http.HandlerFunc(echo), two)
	s.ca = x509.NewCertPool()
	s.ca.AppendCertsFromPEM(s.g.CA.PEM())
	for _, host := range []string{"3000-box.warren.localhost", "3000-box.other.localhost", boxID + ".warren.localhost", boxID + ".other.localhost"} {
		if resp, body := s.get(s.url(host, "/")); resp.StatusCode != http.StatusOK {
			t.Errorf("the public %s is answered %d %s", host, resp.StatusCode, body)
		}
	}
	if got := s.g.Names(boxID); !slices.Equal(got, []string{boxID + ".warren.localhost", boxID + ".other.localhost"}) {
		t.Errorf("its names are %v", got)
	}
	s.e.site.Public = false
	for _, domain := range []string{"warren.localhost", "other.localhost"} {
		resp, body := s.get(s.url(boxID+"."+domain, "/"), "Accept", "text/html")
		if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(body, s.url(domain, "/?path=")) || !strings.Contains(body, "warren preview "+boxID+" 3000 --open") {
			t.Errorf("closed, below %s: %d %s", domain, resp.StatusCode, body)
		}
		if resp, body := s.get(s.url(domain, "/"), "Accept", "text/html"); resp.StatusCode != http.StatusOK || !strings.Contains(body, "Log in") {
			t.Errorf("%s is answered %d without a log-in page: %s", domain, resp.StatusCode, body)
		}
	}
}
