// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
)

// labelled lists the names that selectors find.
func (b *bench) labelled(selectors ...string) (names []string) {
	b.t.Helper()
	a := b.do("GET", "/v1/vms?"+url.Values{"label": selectors}.Encode(), nil)
	var l api.VMList
	if err := json.Unmarshal(a.body, &l); a.status != 200 || err != nil {
		b.t.Fatalf("%v: %d %s", selectors, a.status, a.body)
	}
	for _, v := range l.VMs {
		names = append(names, v.Name)
	}
	return names
}

// TestLabelsOverHTTP: labels are set at a create and a fork, changed by a patch,
// shown by every answer and found by the list's filter.
func TestLabelsOverHTTP(t *testing.T) {
	b := newBench(t)
	b.create(`{"name":"box","labels":{"team":"web","old":""}}`)
	a := b.do("PATCH", "/v1/vms/box/labels", `{"labels":{"old":null,"tier":"test"}}`)
	var v api.VM
	if err := json.Unmarshal(a.body, &v); a.status != 200 || err != nil || !maps.Equal(v.Labels, map[string]string{"team": "web", "tier": "test"}) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := b.do("POST", "/v1/vms/box/fork", `{"name":"copy","labels":{"tier":"try"}}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for selectors, want := range map[string][]string{
		"team=web": {"box", "copy-1"}, "team tier!=test": {"copy-1"}, "!team": nil, "tier=test": {"box"},
	} {
		if got := b.labelled(strings.Fields(selectors)...); !slices.Equal(got, want) {
			t.Errorf("%s: %v", selectors, got)
		}
	}
	for _, path := range []string{"/v1/vms/box", "/v1/vms/box/inspect"} {
		if a := b.do("GET", path, nil); !strings.Contains(string(a.body), `"tier":"test"`) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	b.do("GET", "/v1/vms?label=a+b", nil).wants(t, 400, "INVALID_REQUEST")
	b.do("PATCH", "/v1/vms/box/labels", `{"labels":{"a b":"x"}}`).wants(t, 400, "INVALID_REQUEST")
	b.do("POST", "/v1/vms", `{"labels":{"a b":"x"}}`).wants(t, 400, "CREATE_VM_BAD_REQUEST")
	b.do("PATCH", "/v1/vms/none/labels", `{"labels":{"a":"x"}}`).wants(t, 404, "VM_NOT_FOUND")
}

// TestRenameOverHTTP: a taken name is a conflict; the old name is gone.
func TestRenameOverHTTP(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"name":"box"}`)
	b.create(`{"name":"web"}`)
	b.do("POST", "/v1/vms/box/rename", `{"name":"web"}`).wants(t, 409, "CONFLICT")
	b.do("POST", "/v1/vms/box/rename", `{}`).wants(t, 400, "INVALID_REQUEST")
	if a := b.do("POST", "/v1/vms/box/rename", `{"name":"shop"}`); a.status != 200 || a.json["id"] != id || a.json["name"] != "shop" {
		t.Errorf("%d %s", a.status, a.body)
	}
	b.do("GET", "/v1/vms/box", nil).wants(t, 404, "VM_NOT_FOUND")
}

// TestWaitPortOverHTTP: the answer comes when something listens; the time that
// was given ends the wait with what to look at.
func TestWaitPortOverHTTP(t *testing.T) {
	b := newBench(t)
	b.create(`{"name":"box"}`)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	b.site.World.Serve(l.Addr().String())
	if a := b.do("POST", "/v1/vms/box/ports/"+port+"/wait", nil); a.status != 200 || string(a.body) != `{"port":`+port+"}\n" {
		t.Errorf("%d %s", a.status, a.body)
	}
	_ = l.Close()
	begun := time.Now()
	a := b.do("POST", "/v1/vms/box/ports/"+port+"/wait?timeoutMs=120", nil)
	a.wants(t, 408, "EXEC_TIMED_OUT")
	if time.Since(begun) < 120*time.Millisecond || !strings.Contains(string(a.body), "port "+port+" within 120ms") || !strings.Contains(string(a.body), "`warren state box`") {
		t.Errorf("%s", a.body)
	}
	b.do("POST", "/v1/vms/box/ports/0/wait", nil).wants(t, 400, "INVALID_REQUEST")
	b.do("POST", "/v1/vms/none/ports/80/wait", nil).wants(t, 404, "VM_NOT_FOUND")
}
