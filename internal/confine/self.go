// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// Self restricts this process and its children for good, as far as a monitor can be
// restricted that starts QEMUs and reads their memory: no new privileges, and no
// system calls that have been used to get into other processes and the kernel.
func Self() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return setFilter(anyDenied, false) // for every thread; sets no new privileges, too
}

// As runs f in a thread with this real user and group, which only root can set; the
// thread keeps root's powers.
func As(uid, gid int, f func() error) (err error) {
	runtime.LockOSThread()
	const same = ^uintptr(0)
	become := func(uid, gid int) error {
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), same, same); e != 0 {
			return e
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), same, same); e != 0 {
			return e
		}
		return nil
	}
	wasUID, wasGID := unix.Getuid(), unix.Getgid()
	if err = become(uid, gid); err == nil {
		err = f()
	}
	if back := become(wasUID, wasGID); back != nil {
		return errors.Join(err, back) // the thread ends with the goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// DeviceGroups returns the groups that a user other than root needs to open a
// device; not ok = only root may open it.
func DeviceGroups(path string) (groups []int, ok bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return nil, false
	}
	switch {
	case st.Mode&0o006 == 0o006:
		return nil, true
	case st.Mode&0o060 == 0o060:
		return []int{int(st.Gid)}, true
	}
	return nil, false
}

// MaySwitchUsers reports whether this process is a root that can give a program
// another user's id and still control it: in a container root may lack the powers.
func MaySwitchUsers() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if unix.Getuid() != 0 || unix.Capget(&header, &caps[0]) != nil {
		return false
	}
	const need = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_CHOWN | 1<<unix.CAP_KILL
	return caps[0].Effective&need == need
}
