// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// programDeniedHere are calls that only this processor's kernel has.
var programDeniedHere = []uintptr{
	unix.SYS_LINK, unix.SYS_SYMLINK, unix.SYS_RENAME, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_MKNOD, unix.SYS_UNLINK,
	unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB,
}
