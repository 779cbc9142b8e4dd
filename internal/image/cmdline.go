// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"strings"

	"github.com/warren-vm/warren/vm"
)

// baseCmdline is what every guest's kernel is told.
const baseCmdline = "console=ttyS0 loglevel=4 panic=-1 audit=0 lsm=landlock,yama cryptomgr.notests rcupdate.rcu_expedited=1 " +
	"8250.nr_uarts=1 random.trust_cpu=on net.ifnames=0 memhp_default_state=online systemd.show_status=0"

// Cmdline is the kernel command line of an image on an accelerator, without
// what belongs to one machine. Under emulation what only protects against
// other guests is switched off, as emulation isolates nobody and makes it cost
// seconds; under KVM the CPU's mitigations stay on.
func Cmdline(img vm.Image, accel vm.Accel) string {
	// A machine that memory can be plugged into has addresses above 4 GiB, for
	// which the kernel would set 64 MiB of bounce buffers aside. No device needs them.
	line := strings.TrimSpace(img.Cmdline) + " swiotlb=noforce"
	if accel == vm.TCG {
		// Without tsc=reliable one stall makes the kernel give up the TSC.
		line += " mitigations=off nokaslr no_timer_check tsc=reliable"
	}
	return line
}
