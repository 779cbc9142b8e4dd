// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/vm"
)

// disk runs a command of qemu-io on a volume's disk.
func disk(t *testing.T, s Store, id vm.VolumeID, key vm.VolumeKey, command string) {
	t.Helper()
	out, err := exec.Command("qemu-io", "--object", "secret,id=k0,data="+string(key), "--image-opts", qcow.Options(s.Disk(id)), "-c", command).CombinedOutput()
	if err != nil || strings.Contains(string(out), "failed") {
		t.Fatalf("qemu-io %q failed: %v\n%s", command, err, out)
	}
}

// TestSnapshots: what was on a disk comes back, with its size; the header's copy
// is right after each step, and another key changes nothing.
func TestSnapshots(t *testing.T) {
	s := newStore(t)
	ctx := t.Context()
	id, d := made(t, s, vm.VolumeSlotSpec{})
	key := open(t, s, id, vm.VolumeSecret{})
	whole := func() {
		t.Helper()
		scribble(t, d.Disk(), 0)
		if _, recovered, err := s.Open(ctx, id, vm.VolumeSecret{}, false); err != nil || !recovered {
			t.Fatalf("the header's copy: recovered %v, %v", recovered, err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	disk(t, s, id, key, "write -P 7 0 1M")
	must(s.Snapshot(ctx, id, key, "vs-aaaaaaaa"))
	whole()
	disk(t, s, id, key, "write -P 9 0 1M")
	must(s.Grow(ctx, id, key, 128))
	disk(t, s, id, key, "write -P 9 100M 1M")
	must(s.Snapshot(ctx, id, key, "vs-bbbbbbbb"))
	next, err := s.Rotate(ctx, id, key)
	must(err)
	must(s.Revert(ctx, id, next, "vs-aaaaaaaa"))
	whole()
	disk(t, s, id, next, "read -P 7 0 1M")
	must(s.Revert(ctx, id, next, "vs-bbbbbbbb"))
	disk(t, s, id, next, "read -P 9 100M 1M")
	must(s.DropSnapshot(ctx, id, next, "vs-aaaaaaaa"))
	must(s.DropSnapshot(ctx, id, next, "vs-aaaaaaaa")) // it is gone
	whole()
	if err := s.Revert(ctx, id, next, "vs-aaaaaaaa"); err == nil {
		t.Error("a snapshot that is gone is gone back to")
	}
	disk(t, s, id, next, "read -P 9 0 1M")
}
