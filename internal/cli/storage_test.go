// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func TestStoragePage(t *testing.T) {
	f := newFake(t)
	f.on("GET /v1/storage", vm.Storage{
		Path: "/data", Budget: 20 << 30, Used: 21 << 30, DiskTotal: 100 << 30, DiskFree: 30 << 30, Reserve: 1 << 30, Over: 1 << 30,
		Accounts: []vm.AccountStorage{{Name: "team", Bytes: vm.Bytes{Unique: 5 << 30}, MemoryImages: 1 << 30, Limit: 6 << 30}},
		Items: []vm.StorageItem{
			{Kind: "image", ID: "im-1", Bytes: vm.Bytes{Unique: 4 << 30, Shared: 1 << 30}},
			{Kind: "vm", ID: "a", Name: "old\x1b[2J", State: vm.Stopped, Bytes: vm.Bytes{Unique: 2 << 30}, Frees: 3 << 30, Next: 1, Goes: true},
			{Kind: "vm", ID: "b", Name: "busy", State: vm.Running, Kept: "running"},
			{Kind: "generation", ID: "g", Why: vm.WhyLayer, Next: 3},
			{Kind: "vm", ID: "c", State: vm.Suspended, Next: 2},
		},
	})
	r := run(t, f, Local{}, "", "storage")
	for _, want := range []string{
		"21 GiB of a budget of 20 GiB in /data; 30 GiB of 100 GiB of the disk are free, 1 GiB stay reserved", "1 GiB must go",
		"team     5 GiB  1 GiB          6 GiB", "kept: running", "layer  g ", `"old\x1b[2J"`, "1, now",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("storage lacks %q:\n%s%s", want, r.out, r.stderr)
		}
	}
	if r := run(t, f, Local{}, "", "storage", "--json"); !strings.Contains(r.out, `"overBytes": 1073741824`) {
		t.Errorf("storage --json lacks what is over the budget:\n%s", r.out)
	}
}

func TestPrune(t *testing.T) {
	f := newFake(t)
	var got api.Prune
	three := 3
	f.mux.HandleFunc("POST /v1/storage/prune", func(w http.ResponseWriter, r *http.Request) {
		got = api.Prune{}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(vm.Pruned{DryRun: got.DryRun, Frees: 2 << 20, Left: 1 << 20, Gone: []vm.StorageItem{
			{Kind: "vm", ID: "abc", Name: "old", Persistence: &vm.Persistence{Type: vm.Sticky, Priority: &three}, LastActive: time.Now().Add(-2 * time.Hour), Frees: 2 << 20},
		}})
	})
	r := run(t, f, Local{}, "", "prune", "--dry-run")
	if !got.DryRun || got.Free != 0 || !strings.Contains(r.out, "would remove 1 and free 2 MiB") || !strings.Contains(r.out, "vm    old   abc  3         2h") {
		t.Errorf("prune --dry-run sent %+v, want a dry run, and what it would remove in\n%s%s", got, r.out, r.stderr)
	}
	r = run(t, f, Local{}, "", "prune", "--free", "2")
	if got.DryRun || got.Free != 2<<30 || !strings.Contains(r.out, "1 removed") || !strings.Contains(r.stderr, "1 MiB more are needed") {
		t.Errorf("prune --free 2 sent %+v, want 2 GiB, and what was removed in\n%s%s", got, r.out, r.stderr)
	}
	run(t, f, Local{}, "", "prune", "--free", "much").wants(t, 2, "")
}

// TestAccountQuota: limits without a flag stay.
func TestAccountQuota(t *testing.T) {
	f := newFake(t)
	have := vm.QuotaState{Name: "team", Quota: vm.Quota{VMs: 9, Disk: 5 << 30}, Use: vm.Quota{VMs: 3, MemoryMiB: 512}}
	f.on("GET /v1/quota", have)
	f.on("GET /v1/accounts/team/quota", have)
	var got vm.Quota
	f.mux.HandleFunc("PUT /v1/accounts/team/quota", func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(vm.QuotaState{Name: "team", Quota: got})
	})
	r := run(t, f, Local{}, "", "account", "quota")
	for _, want := range []string{"VMs            3        9", "running        0        no limit", "memory         512 MiB  no limit", "disk           0 B      5 GiB"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("account quota lacks %q:\n%s%s", want, r.out, r.stderr)
		}
	}
	run(t, f, Local{}, "", "account", "quota", "team", "--running", "2", "--mem", "8G", "--disk", "0").wants(t, 0, "")
	if want := (vm.Quota{VMs: 9, Running: 2, MemoryMiB: 8192}); got != want {
		t.Errorf("set to %+v, not %+v", got, want)
	}
	run(t, f, Local{}, "", "account", "quota", "--vms", "3").wants(t, 2, "")
	run(t, f, Local{}, "", "account", "quota", "team", "--mem", "some").wants(t, 2, "")
}
