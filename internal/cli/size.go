// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/pflag"

	"github.com/warren-vm/warren/api"
)

// sizeFlags are the flags that say what a VM gets of the host.
type sizeFlags struct {
	cpu  int
	mem  string
	disk string
}

func (f *sizeFlags) add(fs *pflag.FlagSet) {
	fs.IntVar(&f.cpu, "cpu", 0, "virtual CPUs, a power of two (default 1)")
	fs.StringVar(&f.mem, "mem", "", "memory, a power of two: MiB, or such as 2G (default 512)")
	fs.StringVar(&f.disk, "disk", "", "disk: GiB, or such as 32G (default 16); it takes space as it fills")
}

func (f *sizeFlags) sizes() (api.Sizes, error) {
	out := api.Sizes{VCPUCount: f.cpu}
	if f.cpu < 0 {
		return out, usage("--cpu: at least 1")
	}
	if f.mem != "" {
		n, err := parseBytes(f.mem, 1<<20)
		if err != nil {
			return out, err
		}
		if n < 1<<20 || n%(1<<20) != 0 {
			return out, usage("--mem: %s is not a number of MiB", printable(f.mem)).WithHint("give one such as 512 or 2G")
		}
		out.MemSizeMib = int(n >> 20)
	}
	if f.disk != "" {
		n, err := parseBytes(f.disk, 1<<30)
		if err != nil {
			return out, err
		}
		if n < 1<<30 || n%(1<<30) != 0 {
			return out, usage("--disk: %s is not a number of GiB", printable(f.disk)).WithHint("give one such as 16 or 32G")
		}
		out.RootfsSizeGb = int(n >> 30)
	}
	return out, nil
}

func sizing(s api.Sizing) string {
	return itoa(s.VCPUCount) + " vCPU, " + mib(s.MemSizeMib) + ", " + mib(s.RootfsSizeMib) + " disk"
}
