// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// init turns a process that was started as the shim into the confined program. It
// is an init function, so that it runs before other packages' initialisation and in
// every program.
func init() {
	if len(os.Args) < 3 || os.Args[0] != shimName {
		return
	}
	runtime.LockOSThread() // settings of a thread apply to the thread that calls exec
	fmt.Fprintln(os.Stderr, shimName+":", become(os.Args[1], os.Args[2:]))
	unix.Exit(126)
}

// become confines this process and executes the program. It returns only an error.
func become(plan string, argv []string) error {
	var p Plan
	if err := json.Unmarshal([]byte(plan), &p); err != nil {
		return err
	}
	p.Read = append(p.Read, argv[0])
	for _, l := range p.Limits {
		if err := unix.Prlimit(0, l.What, &unix.Rlimit{Cur: l.Cur, Max: l.Max}, nil); err != nil {
			return fmt.Errorf("limit %d: %w", l.What, err)
		}
	}
	if p.Nice != 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, p.Nice) // works also without it
	}
	if unix.Getpid() == 1 { // in a new pid namespace, so in a mount namespace too
		err := p.enterRoot()
		if err != nil {
			fmt.Fprintln(os.Stderr, shimName+": no root of its own:", err)
		}
		if err == nil && p.UID != 0 {
			if err := p.enterUser(); err != nil {
				return fmt.Errorf("be user %d: %w", p.UID, err)
			}
		}
	}
	dropBounding()
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
	if p.Gate != 0 {
		if err := pass(p.Gate); err != nil {
			return err
		}
	}
	return fmt.Errorf("start %s: %w", argv[0], unix.Exec(argv[0], argv, os.Environ()))
}

// pass waits for the byte that opens the gate, and closes the descriptor.
func pass(gate int) error {
	defer func() { _ = unix.Close(gate) }() // a descriptor that was read from
	for {
		n, err := unix.Read(gate, make([]byte, 1))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for the gate: %w", err)
		case n == 0:
			return errors.New("who started it ended before it let the program run")
		default:
			return nil
		}
	}
}

// enterUser changes this thread to the plan's user. Only with a root of its own:
// that user may not reach the files by their paths on the host.
func (p Plan) enterUser() error {
	dropBounding()                            // takes a power that root's id loses
	groups := make([]uint32, len(p.Groups)+1) // never empty: the call needs an address
	for i, g := range p.Groups {
		groups[i] = uint32(g)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(p.Groups)), uintptr(unsafe.Pointer(&groups[0])), 0); e != 0 {
		return e
	}
	gid, uid := uintptr(p.GID), uintptr(p.UID)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); e != 0 {
		return e
	}
	return nil
}

// dropBounding empties the capability bounding set, if the process may; if not, no
// new privileges has the same effect.
func dropBounding() {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) != nil {
			return // an older kernel has fewer, or it is not permitted
		}
	}
}

// dropCapabilities drops the capabilities of root, or of the first process of a
// user namespace.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, e := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); e != 0 {
		return e
	}
	return nil
}
