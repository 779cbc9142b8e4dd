// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// Protocol is the version of the protocol on a monitor's socket. A Launcher
// replaces a monitor of another version by re-attaching. Monitors before 5 recorded
// a wrong link key when they captured a machine that came from the pool; those before 6
// do not answer for names inside the VM.
const Protocol = 6

// Deadlines of a monitor's steps.
const (
	startDeadline = 120 * time.Second // of a whole start, where the spec has none
	callDeadline  = 10 * time.Second  // of a call that only reads
	linkDeadline  = 10 * time.Second  // for the agent to answer a new stream, unless its guest is slow
	linkLongest   = time.Minute       // for the agent of a slow guest; see agentLink.patience
	quitDeadline  = 10 * time.Second  // for QEMU to flush its disks and end
)

// identity is the file RunDir/monitor.pid.
type identity struct {
	qemu.Ident
	Spec     string `json:"spec"`     // path of the vm.MachineSpec
	Protocol int    `json:"protocol"` // of the monitor
	Ready    bool   `json:"ready"`    // the machine's start has completed
}

func (id identity) save(runDir string) error {
	return writeJSON(layout.RunVM(runDir).MonitorPID(), id)
}

func loadIdentity(runDir string) (id identity, err error) {
	err = layout.ReadJSON(layout.RunVM(runDir).MonitorPID(), &id)
	return id, err
}

// writeJSON replaces a file that is worthless after a crash of the host, so it does
// not sync.
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

// pathError gives an operating system's error about path a kind.
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

// within gives a call without a deadline a default one.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
