// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// ModulePath is the memory file that the machine's module i maps privately:
// that of its generation, or the empty one made when it was plugged in.
func ModulePath(s vm.MachineSpec, i int) string {
	if s.Generation != nil && i < len(s.Generation.Modules) {
		return s.Generation.Modules[i]
	}
	return layout.VMDir(s.Dir).ColdModule(s.Plugged.Modules[i].ID)
}
