//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/api"
)

// visitor is a browser without a key. It has the host's CA.
func (h *host) visitor() *http.Client {
	h.Helper()
	pem, err := os.ReadFile(filepath.Join(h.data, "preview-ca.pem"))
	h.must("reading the CA", err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, h.gates[3])
		},
	}
	h.Cleanup(tr.CloseIdleConnections)
	jar, err := cookiejar.New(nil)
	h.must("making a jar for cookies", err)
	return &http.Client{Transport: tr, Jar: jar, Timeout: time.Minute}
}

// open asks for an address, and returns the status; 0 = no answer.
func (h *host) open(c *http.Client, to string) int {
	req, err := http.NewRequestWithContext(h.Context(), http.MethodGet, to, http.NoBody)
	h.must("making a request", err)
	resp, err := c.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// link signs a link to port 3000 of a VM.
func (h *host) link(name, lasts string) (l api.PreviewLink, plain string) {
	h.Helper()
	h.must("reading a link", json.Unmarshal([]byte(h.ok("preview", name, "3000", "--link", "--for", lasts, "--json")), &l))
	u, err := url.Parse(l.URL)
	h.must("reading a link", err)
	u.RawQuery = ""
	return l, u.String()
}

func lateLink(h *host, r *Result) {
	name := h.fork()
	defer h.run("rm", name)
	h.sh(name, "setsid python3 -m http.server 3000 --directory /workspace/app >/dev/null 2>&1 </dev/null &")
	const allowed, denied = http.StatusOK, http.StatusUnauthorized
	facts := map[string]bool{}
	revoked, page := h.link(name, "8h")
	reader := h.visitor()
	facts["nobody enters without a link"] = h.open(h.visitor(), page) == denied
	facts["a link opens the page"] = h.open(reader, revoked.URL) == allowed && h.open(reader, page) == allowed
	facts["a changed link opens nothing"] = h.open(h.visitor(), revoked.URL+"x") == denied

	short, _ := h.link(name, "3s")
	late := h.visitor()
	facts["a link of 3 seconds opens the page"] = h.open(late, short.URL) == allowed
	<-time.After(time.Until(short.ExpiresAt) + 50*time.Millisecond)
	facts["the link opens nothing after its end"] = h.open(h.visitor(), short.URL) == denied
	facts["whom the link let in is out after its end"] = h.open(late, page) == denied
	facts["another link still opens the page"] = h.open(reader, page) == allowed

	h.ok("preview", name, "3000", "--private")
	facts["a link opens nothing after --private"] = h.open(h.visitor(), revoked.URL) == denied
	facts["whom a link let in is out after --private"] = h.open(reader, page) == denied
	again, _ := h.link(name, "8h")
	h.ok("rm", name)
	facts["a link opens nothing after its VM is removed"] = h.open(h.visitor(), again.URL) != allowed
	h.objectLinks(facts)
	r.verdict(Prevented, NotCovered, "a signed link of a preview, and whoever it let in, is refused after the link's end, after `warren preview --private` and after the VM's removal; a signed link of an object is refused after its end and after the key that signed it was revoked; changed links are refused", facts)
}
