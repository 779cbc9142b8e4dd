// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

// Plugged lists what was plugged into a machine while it ran. A generation
// that is captured then continues only on a machine that has it from the
// start. The zero value is a machine that has what it booted with.
type Plugged struct {
	BootVCPU      int            `json:"bootVcpu,omitempty"`      // vCPUs that it booted with; 0 = those of its size
	BootMemoryMiB int            `json:"bootMemoryMib,omitempty"` // memory that it booted with; 0 = that of its size
	CPUs          int            `json:"cpus,omitempty"`          // vCPUs plugged in beyond those; the guest may have some offline
	Modules       []MemoryModule `json:"modules,omitempty"`       // in the order of plugging

	Volumes []PluggedVolume `json:"volumes,omitempty"` // disks of managed volumes
}

// MemoryModule is a piece of memory that was plugged in. Each has a memory
// file of its own.
type MemoryModule struct {
	ID  string `json:"id"` // e.g. "dimm0"
	MiB int    `json:"mib"`
}

// The parts of a size that a resize changes, and what it says of one that was
// changed while the machine ran.
const (
	PartCPU    = "cpu"
	PartMemory = "memory"
	PartDisk   = "disk"

	Live = "live"
)

// Boot returns what of a machine's size it booted with.
func (p Plugged) Boot(s Size) Size {
	if p.BootVCPU != 0 {
		s.VCPU = p.BootVCPU
	}
	if p.BootMemoryMiB != 0 {
		s.MemoryMiB = p.BootMemoryMiB
	}
	return s
}

// MemoryMiB is the memory of all modules.
func (p Plugged) MemoryMiB() (sum int) {
	for _, m := range p.Modules {
		sum += m.MiB
	}
	return sum
}
