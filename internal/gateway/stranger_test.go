// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// The cookie filter also applies to informational answers.
func TestGuestCookiesEarly(t *testing.T) {
	s := newStand(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Link", "</a.css>; rel=preload")
		w.Header().Add("Set-Cookie", "early=1; Domain=warren.localhost")
		w.Header().Add("Set-Cookie", "__Host-warren-preview=x; Secure; Path=/")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Set-Cookie")
		_, _ = io.WriteString(w, "done")
	}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url(boxHost, "/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var early http.Header
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code == http.StatusEarlyHints {
				early = http.Header(h)
			}
			return nil
		},
	}))
	resp, err := s.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if early.Get("Link") == "" {
		t.Fatal("the early answer did not arrive")
	}
	if got := early["Set-Cookie"]; len(got) != 1 || got[0] != "early=1" {
		t.Errorf("the early answer sets %q", got)
	}
}

// A stranger at a public port does not learn which other ports are open, nor the VM's id.
func TestNothingListensToStrangers(t *testing.T) {
	s := newStand(t, nil)
	s.e.ports = []vm.ListeningPort{{Proto: "tcp", Address: "0.0.0.0", Port: 8080}, {Proto: "tcp", Address: "127.0.0.2", Port: 3000}}
	for _, accept := range []string{"application/json", "text/html"} {
		resp, body := s.get(s.url(boxHost, "/"), "Accept", accept)
		if resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "listens on this port") {
			t.Errorf("a stranger's request for %s is answered %d %s, want 502 that says what listens on this port", accept, resp.StatusCode, body)
		}
		for _, secret := range []string{"8080", "127.0.0.2", boxID} {
			if strings.Contains(body, secret) {
				t.Errorf("%s: a stranger is told %s: %s", accept, secret, body)
			}
		}
	}
}
