// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestState: the state over HTTP: lists are never null, a stopped VM
// answers too, an unknown one does not.
func TestState(t *testing.T) {
	b := newBench(t)
	if a := b.do("POST", "/v1/vms", `{"name":"box"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	look := func() (w vm.GuestState) {
		t.Helper()
		a := b.do("GET", "/v1/vms/box/state", nil)
		if err := json.Unmarshal(a.body, &w); a.status != 200 || err != nil || strings.Contains(string(a.body), ":null") {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return w
	}
	if w := look(); !w.Live || len(w.Ports) != 3 || !w.Ports[0].Probe.OK || w.Ports[1].Probe.OK || len(w.Services) != 2 {
		t.Errorf("%+v", w)
	}
	if a := b.do("POST", "/v1/vms/box/stop", nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if w := look(); w.Live || w.State != vm.Stopped {
		t.Errorf("%+v", w)
	}
	if a := b.do("GET", "/v1/vms/none/state", nil); a.status != 404 || a.json["code"] != "VM_NOT_FOUND" {
		t.Errorf("%d %s", a.status, a.body)
	}
}
