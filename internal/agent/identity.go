// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// do runs fn as the user in the calling goroutine: with the user's groups and
// effective ids, and without root's capabilities. The file-system ids (setfsuid) would
// not be enough: /proc/sys checks the effective ids, and so does a socket's peer.
func (a *linuxUser) do(fn func() error) error {
	if a.uid == uint32(os.Geteuid()) {
		return fn()
	}
	if os.Geteuid() != 0 {
		return vm.Errorf(vm.Denied, a.name, "the agent is not root and cannot act for another user")
	}
	runtime.LockOSThread()
	// A thread that could not restore its ids stays locked. It ends with its
	// goroutine and runs nothing else.
	defer func() {
		if effective(0, 0, nil) {
			runtime.UnlockOSThread()
		}
	}()
	if !effective(a.uid, a.gid, a.groups) {
		return vm.Errorf(vm.Internal, a.name, "cannot switch to the user's ids")
	}
	return fn()
}

// effective sets this thread's effective ids and groups. The real ids stay
// root's, so that root's can be restored.
func effective(uid, gid uint32, groups []uint32) bool {
	const keep = ^uintptr(0)
	var p unsafe.Pointer
	if len(groups) > 0 {
		p = unsafe.Pointer(&groups[0])
	}
	steps := []func() syscall.Errno{
		func() syscall.Errno {
			_, _, e := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(p), 0)
			return e
		},
		func() syscall.Errno {
			_, _, e := syscall.RawSyscall(syscall.SYS_SETRESGID, keep, uintptr(gid), keep)
			return e
		},
	}
	become := func() syscall.Errno {
		_, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, uintptr(uid), keep)
		return e
	}
	if uid == 0 { // root's uid comes first: the other calls need it
		steps = append([]func() syscall.Errno{become}, steps...)
	} else {
		steps = append(steps, become)
	}
	for _, step := range steps {
		if step() != 0 {
			return false
		}
	}
	return true
}

// linuxUser answers with the description of a user.
func (a *Agent) linuxUser(w *answer, r *request) error {
	u, err := a.users.find(r.query.Get("user"))
	if err != nil {
		return err
	}
	return w.bytes(link.EncodeUser(vm.LinuxUser{Name: u.name, UID: int(u.uid), GID: int(u.gid), Home: u.directory(), Shell: u.shell}))
}
