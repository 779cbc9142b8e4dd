// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"errors"
	"io/fs"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

const (
	mayRead  = syscall.AccessFSReadFile | syscall.AccessFSExecute
	mayWrite = syscall.AccessFSReadFile | syscall.AccessFSWriteFile | syscall.AccessFSTruncate
)

// handled is all that a version of Landlock can forbid; what is handled and not
// allowed is forbidden.
func handled(version int) syscall.RulesetAttr {
	fs := uint64(syscall.AccessFSMakeSym<<1 - 1) // version 1: from execute to make_sym
	var a syscall.RulesetAttr
	for v, right := range map[int]uint64{2: syscall.AccessFSRefer, 3: syscall.AccessFSTruncate, 5: syscall.AccessFSIoctlDev} {
		if version >= v {
			fs |= right
		}
	}
	a.HandledAccessFS = fs
	if version >= 4 {
		a.HandledAccessNet = syscall.AccessNetBindTCP | syscall.AccessNetConnectTCP
	}
	if version >= 6 {
		a.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return a
}

// landlock restricts this thread, and what it executes or starts, to the plan's
// files, as far as the kernel can: files from Linux 5.13 on, later also TCP,
// signals to others and abstract sockets. A kernel without it is no error. (Package
// landlock would restrict every thread, for which it needs /proc.)
func (p Plan) landlock() error {
	version := LandlockVersion()
	if version == 0 {
		return nil
	}
	attr := handled(version)
	set, err := syscall.LandlockCreateRuleset(&attr, 0)
	if err != nil {
		return err
	}
	defer unix.Close(set) //nolint:errcheck // it is applied by then, or never
	for _, r := range []struct {
		paths []string
		may   uint64
	}{{p.Read, mayRead}, {p.Write, mayWrite}, {p.Devices, mayWrite | syscall.AccessFSIoctlDev}} {
		for _, path := range r.paths {
			if err := allow(set, path, r.may&attr.HandledAccessFS); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return &fs.PathError{Op: "allow", Path: path, Err: err}
			}
		}
	}
	return syscall.LandlockRestrictSelf(set, 0)
}

func allow(set int, path string, may uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // a rule applies by itself
	if st, err := os.Stat(path); err == nil && st.IsDir() && may&syscall.AccessFSExecute != 0 {
		may |= syscall.AccessFSReadDir // the kernel takes no such rule for a file
	}
	return syscall.LandlockAddPathBeneathRule(set, &syscall.PathBeneathAttr{ParentFd: fd, AllowedAccess: may}, 0)
}

// LandlockVersion is the version of Landlock that the kernel offers; 0 = none.
func LandlockVersion() int {
	v, err := syscall.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return v
}
