// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// TestUsedImages: an image is used by each VM whose disk lies on it, and not by
// the machines of the pool, which end with it.
func TestUsedImages(t *testing.T) {
	dir, err := layout.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	img := vm.NewImageID()
	for _, spec := range []vm.MachineSpec{{ID: vm.NewID()}, {ID: vm.NewID()}, {ID: vm.NewID(), Pooled: true}} {
		at := dir.VM(spec.ID)
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		backing := filepath.Join("../../images", string(img), "warm/key/disk.qcow2")
		if err := qemu.CreateOverlay(dir.Overlay(spec.ID), backing, 64); err != nil {
			t.Fatal(err)
		}
		if err := layout.WriteJSON(layout.VMDir(at).Machine(), spec, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	used, err := usedImages(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := used(img); n != 2 {
		t.Errorf("%d VMs use the image, want 2", n)
	}
}
