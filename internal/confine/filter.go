// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// anyDenied are system calls that neither a monitor nor its QEMU needs, and that
// have been used to escape from a process or into the kernel.
var anyDenied = []uintptr{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_FANOTIFY_INIT, unix.SYS_VHANGUP, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
}

// programDenied are more that a QEMU with all its files and listening sockets does
// not need: to reach a socket, another process or a mount, to change file names.
var programDenied = slices.Concat(anyDenied, []uintptr{
	unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND,
	unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL,
	unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS, unix.SYS_UNSHARE,
	unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_UNLINKAT,
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
}, programDeniedHere)

// Offsets in struct seccomp_data.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16 // its lower half; both processors are little-endian
)

const (
	retAllow       = 0x7fff0000 // SECCOMP_RET_ALLOW
	retErrno       = 0x00050000 // SECCOMP_RET_ERRNO
	retKill        = 0x80000000 // SECCOMP_RET_KILL_PROCESS
	newNamespaces  = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	clone3         = 435
	x32            = 0x40000000 // numbers of another ABI of the same processor
	setFilterFlags = 1          // SECCOMP_FILTER_FLAG_TSYNC: every thread
)

// setFilter makes the kernel refuse the system calls (EPERM), for this process and
// all that it executes or starts. With alone it also refuses new namespaces, and
// signals to other processes.
func setFilter(denied []uintptr, alone bool) error {
	raw, err := bpf.Assemble(filter(denied, alone, unix.Getpid()))
	if err != nil {
		return err
	}
	code := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, setFilterFlags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("set filter: %w", errno)
	}
	return nil
}

func filter(denied []uintptr, alone bool, pid int) []bpf.Instruction {
	refuse := func(e unix.Errno) bpf.Instruction { return bpf.RetConstant{Val: retErrno | uint32(e)} }
	out := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
		bpf.LoadAbsolute{Off: dataNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32, SkipTrue: 1},
		refuse(unix.ENOSYS),
	}
	for _, nr := range denied {
		out = append(out, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(nr), SkipTrue: 1}, refuse(unix.EPERM))
	}
	if alone {
		out = append(out,
			// clone3 hides its flags from a filter; libc then uses clone.
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: clone3, SkipTrue: 1}, refuse(unix.ENOSYS),
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE, SkipTrue: 3},
			bpf.LoadAbsolute{Off: dataArg0, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: newNamespaces, SkipTrue: 5}, refuse(unix.EPERM),
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_TGKILL, SkipTrue: 3},
			bpf.LoadAbsolute{Off: dataArg0, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(pid), SkipTrue: 1}, refuse(unix.EPERM))
	}
	return append(out, bpf.RetConstant{Val: retAllow})
}
