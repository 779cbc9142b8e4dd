// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

// Plugged lists what was plugged into a machine while it ran. A generation
// that is captured afterwards can only start on a machine that has it from
// the start. The zero value is a machine without additions.
type Plugged struct {
	BootVCPU      int            `json:"bootVcpu,omitempty"`      // vCPUs at boot; 0 = those of its size
	BootMemoryMiB int            `json:"bootMemoryMib,omitempty"` // memory at boot; 0 = that of its size
	CPUs          int            `json:"cpus,omitempty"`          // additional vCPUs; the guest may have some offline
	Modules       []MemoryModule `json:"modules,omitempty"`       // in the order of plugging

	Volumes []PluggedVolume `json:"volumes,omitempty"` // disks of managed volumes
}

// MemoryModule is a plugged-in piece of memory with its own memory file.
type MemoryModule struct {
	ID  string `json:"id"` // e.g. "dimm0"
	MiB int    `json:"mib"`
}

// The parts of a size that a resize changes, and the result for a part that
// was changed while the machine ran.
const (
	PartCPU    = "cpu"
	PartMemory = "memory"
	PartDisk   = "disk"

	Live = "live"
)

// Boot returns the part of a machine's size that it booted with.
func (p Plugged) Boot(s Size) Size {
	if p.BootVCPU != 0 {
		s.VCPU = p.BootVCPU
	}
	if p.BootMemoryMiB != 0 {
		s.MemoryMiB = p.BootMemoryMiB
	}
	return s
}

// MemoryMiB returns the memory of all modules.
func (p Plugged) MemoryMiB() (sum int) {
	for _, m := range p.Modules {
		sum += m.MiB
	}
	return sum
}
