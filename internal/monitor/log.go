// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"io"
	"os"
	"path/filepath"

	"github.com/warren-vm/warren/internal/layout"
)

// logLimit bounds a monitor's log; as much is kept of what came before. A guest,
// or its QEMU, can give a monitor much to complain about.
const logLimit = 4 << 20

// LogOutput is where a monitor logs to whose machine's spec is that file: its
// standard error, bounded where that is the machine's log.
func LogOutput(spec string) io.Writer {
	if b, ok := layout.BoundStream(os.Stderr, layout.VMDir(filepath.Dir(spec)).MonitorLog(), logLimit); ok {
		return b
	}
	return os.Stderr
}
