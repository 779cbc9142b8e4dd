// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
		b.do("POST", "/v1/vms/number/start", step.body).ok(t)
		shows("number", step.want)
	}
	for _, bad := range []string{`{"idleTimeoutSeconds":-1}`, `{"idleTimeoutSeconds":"5"}`, `{"activityThresholdBytes":-1}`} {
		b.do("POST", "/v1/vms", bad).answers(t, 400)
	}
}

// TestHolds: holds and the explanation over HTTP.
func TestHolds(t *testing.T) {
	b := newBench(t)
	b.create(`{"name":"box"}`)
	var h vm.Hold
	b.do("POST", "/v1/vms/box/holds", `{"seconds":60,"reason":"build"}`).has(t, "reason", "build").into(t, &h)
	if lasts := h.Until.Sub(h.CreatedAt); lasts != time.Minute {
		t.Errorf("a hold of 60 s lasts %v", lasts)
	}
	b.do("POST", "/v1/vms/box/holds", nil).answers(t, 200)
	var i vm.Idle
	a := b.do("GET", "/v1/vms/box/idle", nil)
	if a.into(t, &i); len(i.Awake) != 2 || i.Awake[0].Hold != h.ID {
		t.Errorf("the VM is awake for %+v, want the two holds, %s first", i.Awake, h.ID)
	}
	if i.OnIdle != vm.OpSuspend {
		t.Errorf("what an idle VM does is %q, want %q", i.OnIdle, vm.OpSuspend)
	}
	if i.LastKind != vm.ActivityStart {
		t.Errorf("the last activity is %q, want %q", i.LastKind, vm.ActivityStart)
	}
	b.do("DELETE", "/v1/vms/box/holds/"+string(h.ID), nil).answers(t, 200)
	var l api.HoldList
	b.do("GET", "/v1/vms/box/holds", nil).into(t, &l)
	if len(l.Holds) != 1 {
		t.Errorf("after one of two is released the VM has %d holds, want 1", len(l.Holds))
	}
	b.do("DELETE", "/v1/vms/box/holds/"+string(h.ID), nil).wants(t, 404, "NOT_FOUND")
	b.do("GET", "/v1/vms/none/idle", nil).wants(t, 404, "VM_NOT_FOUND")
	for _, bad := range []string{`{"seconds":0}`, `{"seconds":-5}`, `{"seconds":604801}`, `{"seconds":"x"}`, `{"reason":"\u001b[2J"}`} {
		b.do("POST", "/v1/vms/box/holds", bad).answers(t, 400)
	}
	b.do("POST", "/v1/vms/box/suspend", nil).ok(t)
	b.do("GET", "/v1/vms/box/idle", nil).into(t, &i)
	if i.State != vm.Suspended {
		t.Errorf("a suspended VM's idleness says it is %q", i.State)
	}
	if i.AsleepFor != "suspend" {
		t.Errorf("a suspended VM sleeps for %q, want suspend", i.AsleepFor)
	}
	b.do("POST", "/v1/vms/box/exec-await", `{"command":"echo awake"}`).answers(t, 200).contains(t, "awake")
}

// TestLookingWakesNothing: every answer about a sleeping VM that is given
// without it leaves it asleep.
func TestLookingWakesNothing(t *testing.T) {
	b := newBench(t)
	b.create(`{"name":"box"}`)
	b.do("POST", "/v1/vms/box/suspend", nil).ok(t)
	for _, path := range []string{"", "/inspect", "/idle", "/holds", "/state", "/stats", "/ports", "/processes", "/connections", "/pty/sessions", "/logs"} {
		b.do("GET", "/v1/vms/box"+path, nil)
		if a := b.do("GET", "/v1/vms/box", nil); a.json["state"] != "suspended" {
			t.Fatalf("GET %s has made it %s", path, fmt.Sprint(a.json["state"]))
		}
	}
}
