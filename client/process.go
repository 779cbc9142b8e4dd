// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// StartProcess starts a command in the background; its log begins with its
// first byte.
func (c *Client) StartProcess(ctx context.Context, ref string, spec vm.ExecSpec) (api.StartedProcess, error) {
	return do[api.StartedProcess](ctx, c, call{method: "POST", path: vmPath(ref, "processes")}, spec)
}

// Processes returns the commands that exec started, running or ended.
func (c *Client) Processes(ctx context.Context, ref string) ([]vm.Process, error) {
	l, err := do[api.ProcessList](ctx, c, call{method: "GET", path: vmPath(ref, "processes")}, nil)
	return l.Processes, err
}

// Process returns one process by its id ("p1").
func (c *Client) Process(ctx context.Context, ref, id string) (vm.Process, error) {
	return do[vm.Process](ctx, c, call{method: "GET", path: vmPath(ref, "processes", id)}, nil)
}

// WaitProcess returns when the process has ended.
func (c *Client) WaitProcess(ctx context.Context, ref, id string) (vm.Process, error) {
	return do[vm.Process](ctx, c, call{method: "POST", path: vmPath(ref, "processes", id, "wait")}, nil)
}

// SignalProcess sends a signal, named without SIG, to the process group.
func (c *Client) SignalProcess(ctx context.Context, ref, id, signal string) error {
	_, err := do[none](ctx, c, call{method: "POST", path: vmPath(ref, "processes", id, "signal")}, api.Signal{Signal: signal})
	return err
}

// ForgetProcess removes an ended process and its log.
func (c *Client) ForgetProcess(ctx context.Context, ref, id string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: vmPath(ref, "processes", id)}, nil)
	return err
}

// ProcessLog returns a process's output from an absolute offset, and the offset
// of the first kept byte. With follow it ends when the process has ended.
func (c *Client) ProcessLog(ctx context.Context, ref, id string, from int64, follow bool) (io.ReadCloser, int64, error) {
	return c.log(ctx, vmPath(ref, "processes", id, "log"), logQuery(from, follow))
}
