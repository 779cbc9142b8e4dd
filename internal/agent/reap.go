// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/vm"
)

// reap waits until the process has ended and collects its status. It returns
// false if the wait was interrupted.
func (p *process) reap() (vm.ExitStatus, bool) {
	return awaitEnd(p.pidfd, &p.mu, func() { p.signalOK = false })
}

// awaitEnd waits until a process has ended and collects its status. It calls gone, under
// mu, when the pid is no longer ours. It returns false if the wait was interrupted.
func awaitEnd(pidfd *os.File, mu sync.Locker, gone func()) (vm.ExitStatus, bool) {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return vm.ExitStatus{}, false
	}
	var info waitInfo
	var errno syscall.Errno
	err = raw.Read(func(fd uintptr) bool {
		mu.Lock() // nobody may signal a pid that is no longer ours
		defer mu.Unlock()
		info = waitInfo{}
		_, _, errno = syscall.Syscall6(syscall.SYS_WAITID, pPidfd, fd, uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOHANG, 0, 0)
		if errno == 0 && info.pid == 0 || errno == syscall.EINTR || errno == syscall.EAGAIN {
			return false
		}
		if errno == syscall.ECHILD && !readable(fd) {
			return false // not our child: a dead agent started it
		}
		gone()
		return true
	})
	if err != nil {
		return vm.ExitStatus{}, false
	}
	if errno != 0 { // its status is lost
		return vm.ExitStatus{Code: 137, Signal: "KILL"}, true
	}
	if info.code == cldExited {
		return vm.ExitStatus{Code: int(info.status) & 255}, true
	}
	return vm.ExitStatus{Code: 128 + int(info.status), Signal: signalName(syscall.Signal(info.status))}, true
}

// waitInfo is the kernel's siginfo_t as waitid fills it.
type waitInfo struct {
	signo, errno, code int32
	_                  int32
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

const (
	pPidfd    = 3
	cldExited = 1
)

// readable reports whether a descriptor can be read now. A pidfd can be read
// once its process has ended.
func readable(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // the kernel's descriptors are ints
	n, _ := unix.Poll(p, 0)
	return n == 1 && p[0].Revents != 0
}
