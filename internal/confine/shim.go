// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// init makes of a process that was started as the shim the confined program.
// It is here, and not called by a main, so that no other package's
// initialisation is waited for, and so that it works in every program.
func init() {
	if len(os.Args) < 3 || os.Args[0] != shimName {
		return
	}
	runtime.LockOSThread() // what is set for a thread is set for the one that calls exec
	fmt.Fprintln(os.Stderr, shimName+":", become(os.Args[1], os.Args[2:]))
	unix.Exit(126)
}

// become confines this process and replaces it by the program. It returns only
// an error.
func become(plan string, argv []string) error {
	var p Plan
	if err := json.Unmarshal([]byte(plan), &p); err != nil {
		return err
	}
	p.Read = append(p.Read, argv[0])
	if unix.Getpid() == 1 { // in a new pid namespace, so in a mount namespace too
		if err := p.enterRoot(); err != nil {
			fmt.Fprintln(os.Stderr, shimName+": no root of its own:", err)
		}
	}
	if p.Nice != 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, p.Nice) // only a matter of comfort
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := p.landlock(); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if err := setFilter(programDenied, true); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return fmt.Errorf("start %s: %w", argv[0], unix.Exec(argv[0], argv, os.Environ()))
}

// dropCapabilities gives up what root, or the first process of a user
// namespace, has, for ever.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) != nil {
			break // not ours to drop, and so not ours to gain; or an older kernel's last
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return capset(&header, &none[0])
}

func capset(h *unix.CapUserHeader, d *unix.CapUserData) error {
	_, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(h)), uintptr(unsafe.Pointer(d)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
