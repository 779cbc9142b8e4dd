// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Self binds this process and its children for ever, as far as a monitor can be
// bound that starts QEMUs and reads their memory: no new privileges, and none
// of the system calls that have been ways into other processes and the kernel.
func Self() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return setFilter(anyDenied, false) // for every thread, and no new privileges with it
}
