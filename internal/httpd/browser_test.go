// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// TestPages: pages of the origins in the settings may use the API, and no others.
func TestPages(t *testing.T) {
	b := newBench(t)
	b.handler.WebOrigins = []string{"https://app.example.com"}
	const allow = "Access-Control-Allow-Origin"
	ask := b.as("", "OPTIONS", "/v1/vms", nil, "Origin", "https://app.example.com", "Access-Control-Request-Method", "POST")
	if ask.status != 204 || ask.header.Get(allow) != "https://app.example.com" || !strings.Contains(ask.header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("a page of the origin may not ask: %d %v", ask.status, ask.header)
	}
	if got := b.do("GET", "/v1/vms", nil, "Origin", "https://app.example.com"); got.status != 200 || got.header.Get(allow) != "https://app.example.com" {
		t.Errorf("a page of the origin cannot read the answer: %d %v", got.status, got.header)
	}
	if got := b.as("", "GET", "/v1/vms", nil, "Origin", "https://app.example.com"); got.status != 401 {
		t.Errorf("a page of the origin needs no key: %d, want 401", got.status)
	}
	for _, origin := range []string{"https://evil.example.com", "http://app.example.com", "null"} {
		if got := b.do("GET", "/v1/vms", nil, "Origin", origin); got.header.Get(allow) != "" {
			t.Errorf("a page of %s can read the answer: %v", origin, got.header)
		}
		if got := b.as("", "OPTIONS", "/v1/vms", nil, "Origin", origin, "Access-Control-Request-Method", "POST"); got.header.Get(allow) != "" || got.status < 400 {
			t.Errorf("a page of %s may ask: %d %v", origin, got.status, got.header)
		}
	}
	if got := b.do("GET", "/v1/vms", nil, "Origin", "https://app.example.com", "Host", "evil.example.com"); got.header.Get(allow) != "" {
		t.Errorf("under a foreign host name the answer can be read: %v", got.header)
	}
}

// TestSocketKey: a page names its key as a subprotocol of a WebSocket, and the answer does not
// repeat it.
func TestSocketKey(t *testing.T) {
	b := newBench(t)
	b.handler.WebOrigins = []string{"https://app.example.com"}
	id := b.create(`{"name":"box"}`)
	dial := func(key, origin string) (*websocket.Conn, *http.Response, error) {
		return websocket.Dial(t.Context(), b.server.URL+"/v1/vms/"+id+"/pty", &websocket.DialOptions{
			Subprotocols: []string{"warren", "warren.key." + key, "warren.user.root"}, HTTPHeader: http.Header{"Origin": {origin}},
		})
	}
	conn, resp, err := dial(b.admin, "https://app.example.com")
	if err != nil {
		t.Fatalf("a terminal with the key as a subprotocol: %v", err)
	}
	defer conn.CloseNow()
	if got := resp.Header["Sec-Websocket-Protocol"]; len(got) != 1 || got[0] != "warren" {
		t.Errorf("the answer has the subprotocols %q, want only warren", got)
	}
	if _, resp, err := dial("wrong", "https://app.example.com"); err == nil || resp == nil || resp.StatusCode != 401 {
		t.Errorf("a wrong key opens a terminal: %v %v", resp, err)
	}
	if _, resp, err := dial(b.admin, "https://evil.example.com"); err == nil || resp == nil || resp.StatusCode != 403 {
		t.Errorf("a page of another origin opens a terminal: %v %v", resp, err)
	}
	if got := b.as("", "GET", "/v1/vms", nil, "Sec-WebSocket-Protocol", "warren.key."+b.admin); got.status != 401 {
		t.Errorf("a subprotocol is a key outside of a WebSocket: %d, want 401", got.status)
	}
}
