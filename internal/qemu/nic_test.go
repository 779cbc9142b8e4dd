// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"testing"

	"github.com/warren-vm/warren/vm"
)

// A generation says by its devices which network card it continues on: those of older
// Warrens announce themselves.
func TestQuietNIC(t *testing.T) {
	for _, quiet := range []bool{true, false} {
		spec := vm.MachineSpec{Machine: "pc-q35-7.2", Accel: vm.TCG, CPU: "Nehalem", Size: vm.DefaultSize, QuietNIC: quiet}
		if got := (vm.Manifest{Devices: Devices(spec)}).QuietNIC(); got != quiet {
			t.Errorf("captured with a quiet card %v, it continues on a quiet card %v", quiet, got)
		}
	}
}
