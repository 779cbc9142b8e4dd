// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"strings"

	"github.com/warren-vm/warren/vm"
)

// baseCmdline is part of every guest's kernel command line.
const baseCmdline = "console=ttyS0 loglevel=4 panic=-1 audit=0 lsm=landlock,yama cryptomgr.notests rcupdate.rcu_expedited=1 " +
	"8250.nr_uarts=1 random.trust_cpu=on net.ifnames=0 memhp_default_state=online systemd.show_status=0"

// Cmdline returns the kernel command line of an image on an accelerator, without parameters of a
// single machine. Under emulation, protections against other guests are off, because emulation
// is no isolation boundary and they cost seconds. Under KVM the CPU's mitigations stay on.
func Cmdline(img vm.Image, accel vm.Accel) string {
	// A machine with pluggable memory has addresses above 4 GiB, for which the kernel
	// would reserve 64 MiB of bounce buffers. No device needs them.
	line := strings.TrimSpace(img.Cmdline) + " swiotlb=noforce"
	if accel == vm.TCG {
		// Without tsc=reliable a single stall makes the kernel stop using the TSC.
		line += " mitigations=off nokaslr no_timer_check tsc=reliable"
	}
	return line
}
