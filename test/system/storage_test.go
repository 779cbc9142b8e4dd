//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// storage is what `warren storage` says of a VM, and of all.
func (h *host) storage(name string) (item vm.StorageItem, all vm.Storage) {
	h.t.Helper()
	return h.storageOf("vm", name)
}

// storageOf is what `warren storage` says of a thing, and of all.
func (h *host) storageOf(kind, name string) (item vm.StorageItem, all vm.Storage) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.ok("storage", "--json")), &all); err != nil {
		h.t.Fatal(err)
	}
	for _, it := range all.Items {
		if it.Kind == kind && it.Name == name {
			return it, all
		}
	}
	h.t.Fatalf("no %s %s in %+v", kind, name, all.Items)
	return item, all
}

// TestStorage: what a guest writes is counted as its own, what it sleeps on is
// freed with it, its disk's size and its memory's holes are not counted, and
// under a need for room the sticky VM of the lower priority goes. A volume with the same
// files costs less than the sleeping machine, and both costs are listed.
//
// 000-50, 004-09
func TestStorage(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "box", "--persist", "sticky:1")
	before, _ := h.storage("box")
	h.sh("box", "head -c 50000000 /dev/urandom > /root/big; sync")
	after, all := h.storage("box")
	if grew := after.Unique - before.Unique; grew < 50_000_000 || grew > 60<<20 {
		t.Errorf("50 MB written, %d more counted", grew)
	}
	if after.Kept != "running" || after.Next != 0 {
		t.Errorf("a running VM is kept as %q, freed as number %d, want running and never", after.Kept, after.Next)
	}
	if all.Used < after.Unique || all.Over != 0 {
		t.Errorf("of the storage %d bytes are used (%d too many), with %d by the VM alone", all.Used, all.Over, after.Unique)
	}
	h.ok("volume", "create", "kept", "--size", "256")
	h.ok("volume", "unlock", "kept")
	h.ok("volume", "mount", "box", "--volume", "kept", "--guest", "/data", "--rw")
	h.sh("box", "cp /root/big /data/big; sync")
	h.ok("volume", "unmount", "box", "/data")
	h.ok("volume", "lock", "kept")
	h.ok("suspend", "box")
	asleep, all := h.storage("box")
	kept, _ := h.storageOf("volume", "default/kept")
	if kept.Unique < 50_000_000 || kept.Unique >= asleep.Frees {
		t.Errorf("a volume with the files costs %d bytes and the sleeping machine %d, want the files' size and less than the machine", kept.Unique, asleep.Frees)
	}
	if table := h.ok("storage"); !strings.Contains(table, "default/kept") || !strings.Contains(table, "box") {
		t.Errorf("the costs of the volume and of the machine are not both listed:\n%s", table)
	}
	if memory := asleep.Frees - asleep.Unique; memory < 20<<20 || memory > 512<<20 || asleep.Next != 1 {
		t.Errorf("the memory that it sleeps on: %+v", asleep)
	}
	out := h.ok("prune", "--dry-run", "--free", "1M")
	if !strings.Contains(out, asleep.ID) {
		t.Errorf("prune would not remove the sleeping VM:\n%s", out)
	}
	if n := len(h.list()); n != 1 {
		t.Errorf("after a dry run there are %d VMs, want 1", n)
	}
	h.ok("up", "--name", "ten", "--persist", "sticky:10")
	h.ok("stop", "ten")
	h.ok("prune", "--free", "1M")
	if list := h.list(); len(list) != 1 || list[0].Name != "ten" {
		t.Errorf("there are %+v", list)
	}
	_, left := h.storage("ten")
	if freed := all.Used - left.Used; freed < 40<<20 {
		t.Errorf("%d bytes less are used", freed)
	}
	if audit := h.ok("audit", "ls", "--json"); !strings.Contains(audit, `"evicted"`) {
		t.Errorf("the audit record: %s", audit)
	}
}
