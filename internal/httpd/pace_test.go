// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/access"
)

// A caller that asks too often is told to wait, by a code that every client
// knows; others are answered meanwhile.
func TestPace(t *testing.T) {
	b := newBench(t)
	b.handler.Pace = access.NewPace(1)
	_, _, other, err := b.engine.CreateAccount(t.Context(), b.call, "other")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range 40 {
		a := b.do("GET", "/v1/vms", "")
		switch {
		case a.status == 200:
		case a.status == http.StatusServiceUnavailable && a.json["code"] == "SERVICE_UNAVAILABLE" && a.header.Get("Retry-After") == "1":
			refused++
		default:
			t.Fatalf("a list is answered %d, want 200 or SERVICE_UNAVAILABLE with Retry-After: 1: %v %s", a.status, a.header, a.body)
		}
	}
	if refused < 20 {
		t.Errorf("%d of 40 requests were refused", refused)
	}
	if a := b.as(other, "GET", "/v1/vms", ""); a.status != 200 {
		t.Errorf("another account is answered %d %s", a.status, a.body)
	}
	b.handler.Pace = access.NewPace(0)
	for range 40 {
		if a := b.do("GET", "/v1/vms", ""); a.status != 200 {
			t.Fatalf("without a limit: %d %s", a.status, a.body)
		}
	}
}

// TestBodies: a body beyond what a route takes is refused before it is read to
// its end.
func TestBodies(t *testing.T) {
	b := newBench(t)
	b.create(map[string]any{"name": "box"})
	long := `{"name":"` + strings.Repeat("x", maxBody) + `"}`
	for _, path := range []string{"/v1/vms/box/fork", "/v1/vms/box/exec-await", "/v1/accounts", "/v1/drain"} {
		a := b.do("POST", path, long)
		a.wants(t, 400, "INVALID_REQUEST")
		a.contains(t, "larger than")
	}
}
