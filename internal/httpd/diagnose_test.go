// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestDiagnose: the two pages of a look over HTTP: lists are never null, bad
// times are refused, and a VM that sleeps is described and not woken.
func TestDiagnose(t *testing.T) {
	b := newBench(t)
	b.create(`{"name":"box"}`)
	a := b.do("GET", "/v1/vms/box/diagnose?seconds=0.02", nil)
	var d vm.Diagnosis
	if a.lacks(t, ":null").into(t, &d); !d.Live {
		t.Errorf("a running VM's diagnosis is not live: %s", a.body)
	}
	if len(d.Findings) == 0 {
		t.Errorf("a diagnosis has no findings: %s", a.body)
	}
	a = b.do("GET", "/v1/vms/box/top?seconds=0.02&brief=true", nil)
	var top vm.Top
	if a.lacks(t, ":null").into(t, &top); top.CPUPercent == nil {
		t.Errorf("a running VM's top has no CPU percentage: %s", a.body)
	}
	if len(top.Ports) != 3 {
		t.Errorf("top has %d ports, want 3: %s", len(top.Ports), a.body)
	}
	for _, bad := range []string{"diagnose?seconds=x", "diagnose?seconds=-1", "diagnose?seconds=61", "diagnose?seconds=NaN", "diagnose?seconds=1e99", "top?seconds=-1", "top?seconds=61", "top?brief=x"} {
		b.do("GET", "/v1/vms/box/"+bad, nil).wants(t, 400, "INVALID_REQUEST")
	}
	b.do("POST", "/v1/vms/box/stop", nil).ok(t)
	for _, page := range []string{"diagnose", "top"} {
		b.do("GET", "/v1/vms/box/"+page, nil).answers(t, 200).has(t, "live", false, "state", "stopped")
		b.do("GET", "/v1/vms/none/"+page, nil).wants(t, 404, "VM_NOT_FOUND")
	}
}

// TestFollowService: a journal as lines of JSON; what is refused is refused
// before the stream begins.
func TestFollowService(t *testing.T) {
	b := newBench(t)
	b.create(`{"name":"box"}`)
	b.do("POST", "/v1/vms/box/systemd/services", `{"name":"job","mode":"oneshot","exec":["echo done"]}`).ok(t)
	a := b.do("GET", "/v1/vms/box/systemd/services/job/logs?follow=true&lines=5", nil)
	done := false
	for s := bufio.NewScanner(bytes.NewReader(a.body)); s.Scan(); {
		var l vm.UnitLog
		if err := json.Unmarshal(s.Bytes(), &l); err != nil || l.Timestamp.IsZero() {
			t.Errorf("the journal's line %q has no time: %v", s.Bytes(), err)
		}
		done = done || l.Message == "done"
	}
	if a.ok(t); !done {
		t.Errorf("the journal does not say done: %s", a.body)
	}
	for path, status := range map[string]int{"none/logs?follow=true": 404, "job/logs?follow=x": 400, "job/logs?follow=true&lines=-1": 400} {
		b.do("GET", "/v1/vms/box/systemd/services/"+path, nil).answers(t, status)
	}
}
