// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// sockets are QEMU's listening sockets in the order of their descriptors.
func sockets(spec vm.MachineSpec) []string {
	run := layout.RunVM(spec.RunDir)
	return []string{run.QMP(), run.Agent(), run.Console(), run.Net()}
}

// RemoveSockets removes the names of a machine's sockets, which QEMU leaves behind,
// and of the files that were lent to it. Call it when the process is gone.
func RemoveSockets(spec vm.MachineSpec) {
	os.RemoveAll(layout.VMDir(spec.Dir).Lent())
	for _, path := range sockets(spec) {
		os.Remove(path)
	}
}

// inherited opens what QEMU inherits. It returns what it has opened even on an
// error; the caller closes it.
func inherited(spec vm.MachineSpec) (files []*os.File, err error) {
	for _, path := range sockets(spec) {
		f, err := listen(path)
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	if spec.Generation != nil {
		f, err := os.Open(spec.Generation.Device)
		if err != nil {
			return files, fileError(spec.Generation.Device, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// listen makes a listening unix socket (0600) at path and returns its descriptor.
// The name stays when the descriptor is closed.
func listen(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fileError(path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fileError(path, err)
	}
	defer func() { _ = l.Close() }() // the duplicate stays open
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fileError(path, err)
	}
	f, err := l.File()
	if err != nil {
		return nil, fileError(path, err)
	}
	return f, nil
}

// makeColdRAM makes the empty sparse file that a cold boot maps.
func makeColdRAM(spec vm.MachineSpec) error {
	if spec.Generation != nil {
		return nil
	}
	return makeEmpty(RAMPath(spec), spec.Plugged.Boot(spec.Size).MemoryMiB)
}

// removeColdRAM removes the file that makeColdRAM made.
func removeColdRAM(spec vm.MachineSpec) {
	if spec.Generation == nil {
		os.Remove(RAMPath(spec))
	}
}

// lastLines returns up to n of the last lines of QEMU's log, joined by "; ",
// without the line that every start on a generation prints.
func lastLines(spec vm.MachineSpec, n int) string {
	f, err := os.Open(layout.VMDir(spec.Dir).QEMULog())
	if err != nil {
		return ""
	}
	defer f.Close()
	const tail = 4 << 10
	if st, err := f.Stat(); err == nil && st.Size() > tail {
		if _, err := f.Seek(-tail, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, tail))
	if err != nil {
		return ""
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "qemu-system-x86_64: ")
		if line != "" && !harmless(line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

// harmless are lines that a healthy machine prints.
func harmless(line string) bool {
	return strings.Contains(line, "Expected vmdescription section") || strings.Contains(line, "TCG doesn't support requested feature")
}
