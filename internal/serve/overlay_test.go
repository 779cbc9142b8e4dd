// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"os"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/powercut"
	"github.com/warren-vm/warren/internal/qemu"
)

// TestOverlayIsDurable cuts the power when a new VM's disk was made.
func TestOverlayIsDurable(t *testing.T) {
	disk := powercut.Mount(t)
	dir, err := layout.Open(disk.Dir)
	if err != nil {
		t.Fatal(err)
	}
	disk.SyncAll()
	if err := os.Mkdir(dir.VM("vm-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (&images{}).Overlay(dir.Overlay("vm-1"), "../../images/x/disk.qcow2", 64); err != nil {
		t.Fatal(err)
	}
	for _, l := range powercut.Losses {
		left := layout.Dir(disk.Cut(t, l))
		if name, err := qemu.BackingName(left.Overlay("vm-1")); err != nil || name != "../../images/x/disk.qcow2" {
			t.Errorf("%s: the disk lies on %q, %v", l, name, err)
		}
	}
}
