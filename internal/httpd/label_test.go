// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
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
	a.into(b.t, &l)
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
	var v api.VM
	b.do("PATCH", "/v1/vms/box/labels", `{"labels":{"old":null,"tier":"test"}}`).into(t, &v)
	if want := map[string]string{"team": "web", "tier": "test"}; !maps.Equal(v.Labels, want) {
		t.Errorf("after the patch the labels are %v, want %v", v.Labels, want)
	}
	b.do("POST", "/v1/vms/box/fork", `{"name":"copy","labels":{"tier":"try"}}`).ok(t)
	for selectors, want := range map[string][]string{
		"team=web": {"box", "copy-1"}, "team tier!=test": {"copy-1"}, "!team": nil, "tier=test": {"box"},
	} {
		if got := b.labelled(strings.Fields(selectors)...); !slices.Equal(got, want) {
			t.Errorf("%s selects %v, want %v", selectors, got, want)
		}
	}
	for _, path := range []string{"/v1/vms/box", "/v1/vms/box/inspect"} {
		b.do("GET", path, nil).contains(t, `"tier":"test"`)
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
	b.do("POST", "/v1/vms/box/rename", `{"name":"shop"}`).answers(t, 200).has(t, "id", id, "name", "shop")
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
	b.do("POST", "/v1/vms/box/ports/"+port+"/wait", nil).answers(t, 200).equals(t, `{"port":`+port+"}")
	_ = l.Close()
	begun := time.Now()
	a := b.do("POST", "/v1/vms/box/ports/"+port+"/wait?timeoutMs=120", nil)
	a.wants(t, 408, "EXEC_TIMED_OUT")
	a.contains(t, "port "+port+" within 120ms", "`warren state box`")
	if waited := time.Since(begun); waited < 120*time.Millisecond {
		t.Errorf("a wait of 120 ms ended after %v", waited)
	}
	b.do("POST", "/v1/vms/box/ports/0/wait", nil).wants(t, 400, "INVALID_REQUEST")
	b.do("POST", "/v1/vms/none/ports/80/wait", nil).wants(t, 404, "VM_NOT_FOUND")
}
