// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// programDeniedHere are calls that only this processor's kernel has.
var programDeniedHere []uintptr
