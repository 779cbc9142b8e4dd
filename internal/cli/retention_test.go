// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// TestUsageShown: one line a VM, gone or not, and the sum.
func TestUsageShown(t *testing.T) {
	f := newFake(t)
	u := vm.Usage{VM: box.ID, Name: "box", RunningSeconds: 3723, CPUSeconds: 61, MemorySeconds: 2 * 3600 * 1024, DiskBytes: 3 << 20, DiskPeakBytes: 5 << 20, BytesIn: 2048, BytesOut: 10}
	past := vm.Usage{VM: "gonegonegonegonegone", Name: "old", Gone: time.Now()}
	sum := vm.Usage{Account: "a-1", Name: "me", RunningSeconds: 3723}
	f.on("GET /v1/usage", api.UsageList{Accounts: []vm.Usage{sum}, VMs: []vm.Usage{u, past}})
	f.on("GET /v1/vms/box/usage", u)
	r := run(t, f, Local{}, "", "usage")
	r.wants(t, 0, "")
	for _, want := range []string{"box", "1h2m3s", "1m1s", "2.00 GiB-h", "3 MiB", "5 MiB", "2 KiB", "10 B", "old", time.Now().Format(time.DateOnly), "all of me"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	if r := run(t, f, Local{}, "", "usage", "box"); strings.Contains(r.out, "old") || !strings.Contains(r.out, "1h2m3s") {
		t.Errorf("%s", r.out)
	}
	if r := run(t, f, Local{}, "", "usage", "box", "--json"); !strings.Contains(r.out, `"memoryMibSeconds": 7372800`) {
		t.Errorf("%s", r.out)
	}
	run(t, f, Local{}, "", "usage", "box", "--all").wants(t, 2, "--all")
	f.on("GET /v1/vms/nobody/usage", vm.Errorf(vm.NotFound, "nobody", "no such VM"))
	run(t, f, Local{}, "", "usage", "nobody").wants(t, 3, "")
}
