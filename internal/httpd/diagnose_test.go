// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestDiagnose: the two pages of a look over HTTP: lists are never null, bad
// times are refused, and a VM that sleeps is described and not woken.
func TestDiagnose(t *testing.T) {
	b := newBench(t)
	if a := b.do("POST", "/v1/vms", `{"name":"box"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	a := b.do("GET", "/v1/vms/box/diagnose?seconds=0.02", nil)
	var d vm.Diagnosis
	if err := json.Unmarshal(a.body, &d); a.status != 200 || err != nil || !d.Live || len(d.Findings) == 0 || strings.Contains(string(a.body), ":null") {
		t.Errorf("%d %s", a.status, a.body)
	}
	a = b.do("GET", "/v1/vms/box/top?seconds=0.02&brief=true", nil)
	var top vm.Top
	if err := json.Unmarshal(a.body, &top); a.status != 200 || err != nil || top.CPUPercent == nil || len(top.Ports) != 3 || strings.Contains(string(a.body), ":null") {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, bad := range []string{"diagnose?seconds=x", "diagnose?seconds=-1", "diagnose?seconds=61", "diagnose?seconds=NaN", "diagnose?seconds=1e99", "top?seconds=-1", "top?seconds=61", "top?brief=x"} {
		if a := b.do("GET", "/v1/vms/box/"+bad, nil); a.status != 400 || a.json["code"] != "INVALID_REQUEST" {
			t.Errorf("%s: %d %s", bad, a.status, a.body)
		}
	}
	if a := b.do("POST", "/v1/vms/box/stop", nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, page := range []string{"diagnose", "top"} {
		a := b.do("GET", "/v1/vms/box/"+page, nil)
		if a.status != 200 || a.json["live"] != false || a.json["state"] != "stopped" {
			t.Errorf("%s of a stopped VM: %d %s", page, a.status, a.body)
		}
		if a := b.do("GET", "/v1/vms/none/"+page, nil); a.status != 404 || a.json["code"] != "VM_NOT_FOUND" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

// TestFollowService: a journal as lines of JSON; what is refused is refused
// before the stream begins.
func TestFollowService(t *testing.T) {
	b := newBench(t)
	if a := b.do("POST", "/v1/vms", `{"name":"box"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := b.do("POST", "/v1/vms/box/systemd/services", `{"name":"job","mode":"oneshot","exec":["echo done"]}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	a := b.do("GET", "/v1/vms/box/systemd/services/job/logs?follow=true&lines=5", nil)
	done := false
	for s := bufio.NewScanner(bytes.NewReader(a.body)); s.Scan(); {
		var l vm.UnitLog
		if err := json.Unmarshal(s.Bytes(), &l); err != nil || l.Timestamp.IsZero() {
			t.Errorf("%s: %v", s.Bytes(), err)
		}
		done = done || l.Message == "done"
	}
	if a.status != 200 || !done {
		t.Errorf("%d %s", a.status, a.body)
	}
	for path, status := range map[string]int{"none/logs?follow=true": 404, "job/logs?follow=x": 400, "job/logs?follow=true&lines=-1": 400} {
		if a := b.do("GET", "/v1/vms/box/systemd/services/"+path, nil); a.status != status {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
