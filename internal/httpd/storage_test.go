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
	b.do("POST", "/v1/vms/box/stop", nil).ok(t)
	var s vm.Storage
	a := b.do("GET", "/v1/storage", nil)
	a.into(t, &s)
	found := false
	for _, it := range s.Items {
		if it.ID == id {
			found = it.Kind == "vm" && it.Name == "box" && it.Next == 1 && it.Frees > 0 && *it.Persistence.Priority == 3
		}
	}
	if !found {
		t.Errorf("the stopped VM is not the first that storage would free: %s", a.body)
	}
	if s.Used == 0 || s.Budget == 0 {
		t.Errorf("storage has %d bytes used of %d", s.Used, s.Budget)
	}
	for _, step := range []struct {
		body   string
		status int
		gone   int
	}{{`{"freeBytes":-1}`, 400, 0}, {`{"free":1}`, 200, 0}, {`{"dryRun":true,"freeBytes":1000000}`, 200, 1}, {`{"freeBytes":1000000}`, 200, 1}, {``, 200, 0}} {
		var p vm.Pruned
		a := b.do("POST", "/v1/storage/prune", step.body).answers(t, step.status)
		if err := json.Unmarshal(a.body, &p); err != nil || len(p.Gone) != step.gone {
			t.Errorf("prune %s removed %d VMs (%v), want %d: %s", step.body, len(p.Gone), err, step.gone, a.body)
		}
	}
	if a := b.do("GET", "/v1/vms/"+id, nil); a.status != 404 {
		t.Errorf("the VM that was let go: %d", a.status)
	}
}

// TestQuota: what an account may have, over HTTP, and the contract's codes.
func TestQuota(t *testing.T) {
	b := newBench(t)
	b.do("PUT", "/v1/accounts/admin/quota", `{"vms":1,"snapshots":1}`).ok(t)
	b.create(`{"name":"box"}`)
	b.do("POST", "/v1/vms", nil).answers(t, 403).has(t, "code", "TOTAL_VM_LIMIT_EXCEEDED", "limit", 1.0, "current", 1.0)
	for i, want := range []int{200, 403} {
		if a := b.do("POST", "/v1/vms/box/snapshot", nil); a.status != want || want == 403 && a.json["code"] != "SNAPSHOT_LIMIT_EXCEEDED" {
			t.Errorf("snapshot %d: %d %s", i, a.status, a.body)
		}
	}
	for _, bad := range []string{`{"vms":-1}`, `{"vms":"many"}`, `{"running":1,"diskBytes":1}`} {
		b.do("PUT", "/v1/accounts/admin/quota", bad).answers(t, 400)
	}
	if a := b.do("PUT", "/v1/accounts/nobody/quota", `{}`); a.status != 404 {
		t.Errorf("of nobody: %d %s", a.status, a.body)
	}
	var q vm.QuotaState
	if b.do("GET", "/v1/quota", nil).into(t, &q); q.Quota.VMs != 1 {
		t.Errorf("the account may have %d VMs, want 1", q.Quota.VMs)
	}
	if q.Use.VMs != 1 || q.Use.Snapshots != 1 {
		t.Errorf("the account has %d VMs and %d snapshots, want 1 and 1", q.Use.VMs, q.Use.Snapshots)
	}
}
