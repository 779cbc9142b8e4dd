//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// visitor opens pages of names that a test's name server would lead to the
// gateway, and trusts one root.
type visitor struct {
	at    string
	roots *x509.CertPool
}

func (v visitor) get(name string) (*x509.Certificate, string, error) {
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: v.roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, v.at)
		},
	}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: time.Minute}).Get("https://" + name + "/")
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return resp.TLS.PeerCertificates[0], string(body), err
}

// TestRealDomain: a domain is verified by DNS and mapped, its certificate comes from
// an ACME server with the first visitor, and both outlive the server. A name that
// nobody has shown to be theirs costs no order. Below a preview domain of the
// operator's a VM has names with a wildcard certificate of that server, beside those
// below the preview domain that needs no set-up.
//
// 000-43, 000-44
func TestRealDomain(t *testing.T) {
	dns, err := vmtest.NewDNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dns.Close() })
	gate := vmtest.FreePort(t)
	_, digits, _ := net.SplitHostPort(gate)
	port, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	acme, err := vmtest.NewACME(dns, port, port, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(acme.Close)
	roots := filepath.Join(t.TempDir(), "acme.pem")
	if err := os.WriteFile(roots, acme.OwnPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(t.TempDir(), "hook")
	if _, err := dns.Hook(hook, false); err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"WARREN_PREVIEW_DOMAIN": "vms.example.com,warren.localhost", "WARREN_ACME_DNS_HOOK": hook, "WARREN_RESOLVER": dns.Address(), "WARREN_ACME_DIRECTORY": acme.Directory(), "WARREN_ACME_EMAIL": "ops@example.com", "SSL_CERT_FILE": roots, "WARREN_PREVIEW_PORT": "443"} {
		t.Setenv(k, v)
	}
	h := newHost(t, "--preview", gate)
	for _, name := range []string{"www.example.com", "shop.example.com", "evil.example"} {
		dns.SetA(name, netip.MustParseAddr("127.0.0.1"))
	}
	h.ok("up", "--name", "box")
	h.sh("box", "mkdir /srv/site && echo from the guest >/srv/site/index.html")
	h.ok("exec", "box", "--background", "--", "python3", "-m", "http.server", "3000", "--directory", "/srv/site")

	h.run("domain", "map", "www.example.com", "box", "3000", "--public").wants(t, 4, "has not verified the domain")
	var v api.Verification
	if err := json.Unmarshal([]byte(h.ok("domain", "verify", "example.com", "--json")), &v); err != nil {
		t.Fatal(err)
	}
	h.run("domain", "verify", "example.com", "--check").wants(t, 2, "no TXT record of _freestyle_custom_hostname.example.com")
	dns.SetTXT(vm.VerificationName("example.com"), v.VerificationCode)
	h.ok("domain", "verify", "example.com", "--check")
	h.ok("domain", "map", "www.example.com", "box", "3000", "--public")

	visit := visitor{gate, acme.Roots()}
	began := time.Now()
	first, body, err := visit.get("www.example.com")
	if err != nil || body != "from the guest\n" {
		t.Fatalf("the first visit gets %q (%v), want the guest's page\n%s", body, err, h.log)
	}
	t.Logf("first visit with an order: %s", time.Since(began).Round(time.Millisecond))
	for _, name := range []string{"shop.example.com", "evil.example", "example.com"} {
		if _, _, err := visit.get(name); err == nil {
			t.Errorf("%s has a certificate", name)
		}
	}
	if n := acme.Orders(); n != 1 {
		t.Errorf("%d orders", n)
	}

	// Over a restart, and into a VM that sleeps.
	h.ok("suspend", "box")
	if err := h.server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-h.ended
	h.serve("--preview", gate)
	began = time.Now()
	second, body, err := visit.get("www.example.com")
	if err != nil || body != "from the guest\n" || !second.Equal(first) || acme.Orders() != 1 {
		t.Errorf("after a restart: %q, %v, %d orders", body, err, acme.Orders())
	}
	t.Logf("visit that wakes: %s", time.Since(began).Round(time.Millisecond))
	if out := h.ok("domain", "ls"); !strings.Contains(out, " https://www.example.com ") || !strings.Contains(out, "until "+first.NotAfter.UTC().Format(time.RFC3339)) {
		t.Errorf("the domains are listed without the address or the certificate's end:\n%s", out)
	}
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+gate+"/x?y", nil)
	if err != nil {
		t.Fatal(err)
	}
	ask.Host = "www.example.com"
	if resp, err := plain.Do(ask); err != nil || resp.Header.Get("Location") != "https://www.example.com/x?y" {
		t.Errorf("plain HTTP is answered %v (%v), want a redirect to HTTPS", resp, err)
	}
	h.checkWildcard(visit, acme)
	h.ok("rm", "box")
	if _, _, err := visit.get("www.example.com"); err == nil {
		t.Error("a deleted VM is shown")
	}
}

// checkWildcard visits box by its names below both preview domains.
func (h *host) checkWildcard(visit visitor, acme *vmtest.ACME) {
	h.t.Helper()
	shown := strings.TrimSpace(h.ok("preview", "box", "3000"))
	if shown != "https://3000-box.vms.example.com" {
		h.t.Errorf("its address is said to be %s", shown)
	}
	h.ok("preview", "box", "3000", "--public")
	before := acme.Orders()
	for _, name := range []string{"3000-box.vms.example.com", string(h.find("box").ID) + ".vms.example.com"} {
		cert, body, err := visit.get(name)
		if err != nil || body != "from the guest\n" {
			h.t.Errorf("%s gives %q (%v), want the guest's page\n%s", name, body, err, h.log)
		} else if !slices.Equal(cert.DNSNames, []string{"*.vms.example.com"}) {
			h.t.Errorf("the certificate of %s is for %v, want the wildcard", name, cert.DNSNames)
		}
	}
	if n := acme.Orders() - before; n != 1 {
		h.t.Errorf("%d orders", n)
	}
	own := visitor{visit.at, x509.NewCertPool()}
	own.roots.AppendCertsFromPEM([]byte(h.ok("ca", "print")))
	if _, body, err := own.get("3000-box.warren.localhost"); err != nil || body != "from the guest\n" {
		h.t.Errorf("below the other preview domain: %q, %v", body, err)
	}
}
