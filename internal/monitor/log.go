// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"io"
	"os"
	"path/filepath"

	"github.com/warren-vm/warren/internal/layout"
)

// logLimit bounds a monitor's log; one predecessor of the same size is kept. A
// guest, or its QEMU, can make a monitor log a lot.
const logLimit = 4 << 20

// LogOutput returns where a monitor logs whose spec is that file: standard error,
// bounded if that is the machine's log.
func LogOutput(spec string) io.Writer {
	if b, ok := layout.BoundStream(os.Stderr, layout.VMDir(filepath.Dir(spec)).MonitorLog(), logLimit); ok {
		return b
	}
	return os.Stderr
}
