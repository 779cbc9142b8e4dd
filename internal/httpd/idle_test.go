// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// TestIdleTimeouts: absent, null and a number differ, in answers too; a start
// keeps the last one unless it names another.
//
// 002-18
func TestIdleTimeouts(t *testing.T) {
	b := newBench(t)
	shows := func(id, want string) {
		t.Helper()
		a := b.do("GET", "/v1/vms/"+id, nil)
		if !strings.Contains(string(a.body), `"idleTimeoutSeconds":`+want) {
			t.Errorf("%s: %s, want %s", id, a.body, want)
		}
	}
	for name, c := range map[string]struct{ body, want string }{
		"absent": {`{"name":"absent"}`, "300,"}, "never": {`{"name":"never","idleTimeoutSeconds":null}`, "null,"},
		"number": {`{"name":"number","idleTimeoutSeconds":42,"activityThresholdBytes":9}`, "42,"},
	} {
		b.create(c.body)
		shows(name, c.want)
	}
	for _, step := range []struct{ body, want string }{{`{}`, "42,"}, {`{"idleTimeoutSeconds":null}`, "null,"}, {``, "null,"}, {`{"idleTimeoutSeconds":7}`, "7,"}} {
		if a := b.do("POST", "/v1/vms/number/start", step.body); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		shows("number", step.want)
	}
	for _, bad := range []string{`{"idleTimeoutSeconds":-1}`, `{"idleTimeoutSeconds":"5"}`, `{"activityThresholdBytes":-1}`} {
		if a := b.do("POST", "/v1/vms", bad); a.status != 400 {
			t.Errorf("%s: %d %s", bad, a.status, a.body)
		}
	}
}

// TestHolds: holds and the explanation over HTTP.
func TestHolds(t *testing.T) {
	b := newBench(t)
	b.create(`{"name":"box"}`)
	var h vm.Hold
	a := b.do("POST", "/v1/vms/box/holds", `{"seconds":60,"reason":"build"}`)
	if err := json.Unmarshal(a.body, &h); a.status != 200 || err != nil || h.Reason != "build" || h.Until.Sub(h.CreatedAt).Seconds() != 60 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := b.do("POST", "/v1/vms/box/holds", nil); a.status != 200 {
		t.Errorf("an empty body: %d %s", a.status, a.body)
	}
	var i vm.Idle
	a = b.do("GET", "/v1/vms/box/idle", nil)
	if err := json.Unmarshal(a.body, &i); a.status != 200 || err != nil || len(i.Awake) != 2 || i.Awake[0].Hold != h.ID || i.OnIdle != vm.OpSuspend || i.LastKind != vm.ActivityStart {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := b.do("DELETE", "/v1/vms/box/holds/"+string(h.ID), nil); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	var l api.HoldList
	a = b.do("GET", "/v1/vms/box/holds", nil)
	if err := json.Unmarshal(a.body, &l); err != nil || len(l.Holds) != 1 {
		t.Errorf("%s", a.body)
	}
	b.do("DELETE", "/v1/vms/box/holds/"+string(h.ID), nil).wants(t, 404, "NOT_FOUND")
	b.do("GET", "/v1/vms/none/idle", nil).wants(t, 404, "VM_NOT_FOUND")
	for _, bad := range []string{`{"seconds":0}`, `{"seconds":-5}`, `{"seconds":604801}`, `{"seconds":"x"}`, `{"reason":"\u001b[2J"}`} {
		if a := b.do("POST", "/v1/vms/box/holds", bad); a.status != 400 {
			t.Errorf("%s: %d %s", bad, a.status, a.body)
		}
	}
	if a := b.do("POST", "/v1/vms/box/suspend", nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	a = b.do("GET", "/v1/vms/box/idle", nil)
	if err := json.Unmarshal(a.body, &i); err != nil || i.State != vm.Suspended || i.AsleepFor != "suspend" {
		t.Errorf("%s", a.body)
	}
	a = b.do("POST", "/v1/vms/box/exec-await", `{"command":"echo awake"}`)
	if a.status != 200 || !strings.Contains(string(a.body), "awake") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestLookingWakesNothing: every answer about a sleeping VM that is given
// without it leaves it asleep.
func TestLookingWakesNothing(t *testing.T) {
	b := newBench(t)
	b.create(`{"name":"box"}`)
	if a := b.do("POST", "/v1/vms/box/suspend", nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, path := range []string{"", "/inspect", "/idle", "/holds", "/state", "/stats", "/ports", "/processes", "/connections", "/pty/sessions", "/logs"} {
		b.do("GET", "/v1/vms/box"+path, nil)
		if a := b.do("GET", "/v1/vms/box", nil); a.json["state"] != "suspended" {
			t.Fatalf("GET %s has made it %s", path, fmt.Sprint(a.json["state"]))
		}
	}
}
