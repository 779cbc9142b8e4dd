// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package monitor is the process beside each running VM and the host's side of
// it. The process (Main, in the program warren-monitor) owns one QEMU, the
// VM's network and the link to its agent; it outlives the `serve` that started
// it, and QEMU outlives it. A Launcher starts such processes, finds them again
// and clears away what they leave; a Client speaks with one over its socket.
// It keeps no records and takes no decisions about a VM's life: the engine
// does, through a Launcher. Only warren-monitor may call Main.
package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// Protocol is the version of what is spoken on a monitor's socket. A Launcher
// replaces a monitor of another version by re-attaching. Monitors before 5 wrote
// down a wrong link key when they captured a machine that came from the pool.
const Protocol = 5

// Bounds of what a monitor waits for.
const (
	startDeadline = 120 * time.Second // of a whole start, where the spec has none
	callDeadline  = 10 * time.Second  // of a call that only asks
	linkDeadline  = 10 * time.Second  // for the agent to answer a new stream
	quitDeadline  = 10 * time.Second  // for QEMU to write back its disks and end
)

// identity is the file RunDir/monitor.pid.
type identity struct {
	qemu.Ident
	Spec     string `json:"spec"`     // path of the vm.MachineSpec
	Protocol int    `json:"protocol"` // of the monitor
	Ready    bool   `json:"ready"`    // the machine's start has been completed
}

func (id identity) save(runDir string) error {
	return writeJSON(layout.RunVM(runDir).MonitorPID(), id)
}

func loadIdentity(runDir string) (id identity, err error) {
	err = layout.ReadJSON(layout.RunVM(runDir).MonitorPID(), &id)
	return id, err
}

// writeJSON replaces a file that means nothing after a crash of the host, so
// without waiting for the disk.
func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return vm.Errorf(vm.Internal, path, "cannot be written as JSON: %w", err)
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return pathError(path, err)
	}
	return pathError(path, os.Rename(tmp, path))
}

// pathError gives an operating system's error about path its kind.
func pathError(path string, err error) error {
	kind := vm.Internal
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		kind = vm.NotFound
	case errors.Is(err, fs.ErrPermission):
		kind = vm.Denied
	}
	return vm.Errorf(kind, path, "%w", err)
}

// wireError is a *vm.Error on a monitor's socket and status pipe.
type wireError struct {
	Op      vm.Op          `json:"op,omitempty"`
	Kind    vm.Kind        `json:"kind"`
	Code    string         `json:"code,omitempty"`
	Subject string         `json:"subject,omitempty"`
	Msg     string         `json:"message"`
	Hint    string         `json:"hint,omitempty"`
	Fields  map[string]any `json:"fields,omitempty"`
}

func toWire(err error) *wireError {
	e := vm.AsError(err)
	msg := e.Msg
	if e.Err != nil && e.Err.Error() != "" {
		if msg != "" {
			msg += ": "
		}
		msg += e.Err.Error()
	}
	return &wireError{Op: e.Op, Kind: e.Kind, Code: e.Code, Subject: e.Subject, Msg: msg, Hint: e.Hint, Fields: e.Fields}
}

func (w *wireError) error() error {
	return &vm.Error{Op: w.Op, Kind: w.Kind, Code: w.Code, Subject: w.Subject, Msg: w.Msg, Hint: w.Hint, Fields: w.Fields}
}

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

// within bounds a call whose caller gave it no deadline.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
