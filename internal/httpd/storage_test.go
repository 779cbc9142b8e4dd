// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestStorage: who uses what, and pruning, over HTTP.
func TestStorage(t *testing.T) {
	b := newBench(t)
	id := b.create(`{"name":"box","persistence":{"type":"sticky","priority":3}}`)
	if a := b.do("POST", "/v1/vms/box/stop", nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var s vm.Storage
	a := b.do("GET", "/v1/storage", nil)
	if err := json.Unmarshal(a.body, &s); err != nil || a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	found := false
	for _, it := range s.Items {
		if it.ID == id {
			found = it.Kind == "vm" && it.Name == "box" && it.Next == 1 && it.Frees > 0 && *it.Persistence.Priority == 3
		}
	}
	if !found || s.Used == 0 || s.Budget == 0 {
		t.Errorf("%s", a.body)
	}
	for _, step := range []struct {
		body   string
		status int
		gone   int
	}{{`{"freeBytes":-1}`, 400, 0}, {`{"free":1}`, 200, 0}, {`{"dryRun":true,"freeBytes":1000000}`, 200, 1}, {`{"freeBytes":1000000}`, 200, 1}, {``, 200, 0}} {
		var p vm.Pruned
		a := b.do("POST", "/v1/storage/prune", step.body)
		if err := json.Unmarshal(a.body, &p); err != nil || a.status != step.status || len(p.Gone) != step.gone {
			t.Errorf("%s: %d %s", step.body, a.status, a.body)
		}
	}
	if a := b.do("GET", "/v1/vms/"+id, nil); a.status != 404 {
		t.Errorf("the VM that was let go: %d", a.status)
	}
}

// TestQuota: what an account may have, over HTTP, and the contract's codes.
func TestQuota(t *testing.T) {
	b := newBench(t)
	if a := b.do("PUT", "/v1/accounts/admin/quota", `{"vms":1,"snapshots":1}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	b.create(`{"name":"box"}`)
	a := b.do("POST", "/v1/vms", nil)
	if a.status != 403 || a.json["code"] != "TOTAL_VM_LIMIT_EXCEEDED" || a.json["limit"] != 1.0 || a.json["current"] != 1.0 {
		t.Errorf("%d %s", a.status, a.body)
	}
	for i, want := range []int{200, 403} {
		if a := b.do("POST", "/v1/vms/box/snapshot", nil); a.status != want || want == 403 && a.json["code"] != "SNAPSHOT_LIMIT_EXCEEDED" {
			t.Errorf("snapshot %d: %d %s", i, a.status, a.body)
		}
	}
	for _, bad := range []string{`{"vms":-1}`, `{"vms":"many"}`, `{"running":1,"diskBytes":1}`} {
		if a := b.do("PUT", "/v1/accounts/admin/quota", bad); a.status != 400 {
			t.Errorf("%s: %d %s", bad, a.status, a.body)
		}
	}
	if a := b.do("PUT", "/v1/accounts/nobody/quota", `{}`); a.status != 404 {
		t.Errorf("of nobody: %d %s", a.status, a.body)
	}
	var q vm.QuotaState
	a = b.do("GET", "/v1/quota", nil)
	if err := json.Unmarshal(a.body, &q); err != nil || q.Quota.VMs != 1 || q.Use.VMs != 1 || q.Use.Snapshots != 1 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
