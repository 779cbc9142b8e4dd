// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"math/bits"

	"github.com/spf13/pflag"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// sizeFlags are the flags for a VM's size.
type sizeFlags struct {
	cpu  int
	mem  string
	disk string
}

func (f *sizeFlags) add(fs *pflag.FlagSet) {
	fs.IntVar(&f.cpu, "cpu", 0, "virtual CPUs, a power of two (default 1)")
	fs.StringVar(&f.mem, "mem", "", "memory, a power of two: MiB, or such as 2G or 2GiB (default 512)")
	fs.StringVar(&f.disk, "disk", "", "disk: GiB, or such as 32G (default 16); it takes space as it fills")
}

// sizes reads the flags. It refuses values that no server accepts, and names
// the flag.
func (f *sizeFlags) sizes() (api.Sizes, error) {
	out := api.Sizes{VCPUCount: f.cpu}
	if f.cpu != 0 && (f.cpu < 1 || f.cpu > vm.MaxVCPU || bits.OnesCount(uint(f.cpu)) != 1) {
		return out, usage("--cpu %d: a VM has 1 to %d CPUs, a power of two", f.cpu, vm.MaxVCPU).WithHint("give one such as 1, 2 or 4")
	}
	if f.mem != "" {
		n, err := parseBytes(f.mem, 1<<20)
		if err != nil {
			return out, usage("--mem %s: not a size", printable(f.mem)).WithHint("give MiB such as 512, or such as 512M, 2G or 2GiB")
		}
		if mem := n >> 20; n%(1<<20) != 0 || mem < vm.MinMemoryMiB || mem > vm.MaxMemoryMiB || bits.OnesCount64(uint64(mem)) != 1 {
			return out, usage("--mem %s: memory is %s to %s, a power of two", printable(f.mem), mib(vm.MinMemoryMiB), mib(vm.MaxMemoryMiB)).
				WithHint("give %s", nextMemory(n))
		}
		out.MemSizeMib = int(n >> 20)
	}
	if f.disk != "" {
		n, err := parseBytes(f.disk, 1<<30)
		if err != nil {
			return out, usage("--disk %s: not a size", printable(f.disk)).WithHint("give GiB such as 16, or such as 32G or 32GiB")
		}
		if n < 1<<30 || n%(1<<30) != 0 || n>>20 > vm.MaxDiskMiB {
			return out, usage("--disk %s: a disk has 1 to %d GiB, a whole number", printable(f.disk), vm.MaxDiskMiB>>10).WithHint("give one such as 16 or 32G")
		}
		out.RootfsSizeGb = int(n >> 30)
	}
	return out, nil
}

// nextMemory suggests values for --mem near a number of bytes.
func nextMemory(n int64) string {
	write := func(mem int64) string {
		if mem >= 1<<10 {
			return fmt.Sprintf("%dG", mem>>10)
		}
		return fmt.Sprintf("%dM", mem)
	}
	below := int64(vm.MinMemoryMiB)
	for 2*below <= n>>20 && 2*below <= vm.MaxMemoryMiB {
		below *= 2
	}
	if n>>20 < vm.MinMemoryMiB || below == vm.MaxMemoryMiB {
		return write(below)
	}
	return write(below) + " or " + write(2*below)
}

func sizing(s api.Sizing) string {
	return itoa(s.VCPUCount) + " vCPU, " + mib(s.MemSizeMib) + ", " + mib(s.RootfsSizeMib) + " disk"
}
