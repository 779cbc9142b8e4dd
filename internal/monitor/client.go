// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Client calls one monitor. Its methods may be called from any goroutine. A call
// without a deadline gets a default one, except Wait, which waits without limit. A
// monitor that does not answer gives kind Unavailable.
type Client struct {
	runDir string
	socket string
	http   *http.Client
	guest  *guest.Client
}

func newClient(runDir string) *Client {
	c := &Client{runDir: runDir, socket: layout.RunVM(runDir).Monitor()}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialUnix(ctx, c.socket)
		},
		DisableCompression: true,
		MaxIdleConns:       2,
		IdleConnTimeout:    30 * time.Second,
	}}
	c.guest = guest.New(c.DialAgent)
	return c
}

// Guest returns the guest's verbs; the same value each time.
func (c *Client) Guest() *guest.Client { return c.guest }

// Close closes the connection to the monitor. The machine keeps running.
func (c *Client) Close() {
	c.guest.Close()
	c.http.CloseIdleConnections()
}

// Status asks for the machine's status.
func (c *Client) Status(ctx context.Context) (vm.MachineStatus, error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	var st vm.MachineStatus
	return st, c.call(ctx, "GET", "/status", nil, &st)
}

func (c *Client) statusWhenReady(ctx context.Context) (vm.MachineStatus, error) {
	var st vm.MachineStatus
	return st, c.call(ctx, "GET", "/status?ready=1", nil, &st)
}

// Stop asks the guest to power off and ends the machine after the grace. It returns
// when the machine is gone; a machine that is already gone is no error.
func (c *Client) Stop(ctx context.Context, grace time.Duration) error {
	ctx, cancel := within(ctx, grace+2*quitDeadline)
	defer cancel()
	return c.finish(c.call(ctx, "POST", "/stop", map[string]any{"grace": grace}, nil))
}

// Kill ends the machine at once, also when its monitor is dead or hangs. It
// returns when the machine is gone.
func (c *Client) Kill(ctx context.Context) error {
	kctx, cancel := within(ctx, callDeadline)
	defer cancel()
	err := c.finish(c.call(kctx, "POST", "/kill", nil, nil))
	if err == nil {
		return nil
	}
	id, ierr := loadQEMU(c.runDir)
	if ierr != nil {
		return err
	}
	if ierr := id.End(context.WithoutCancel(ctx)); ierr != nil {
		return errors.Join(err, ierr)
	}
	return nil
}

// finish treats it as success that the monitor, which ends after its machine, no longer
// answers.
func (c *Client) finish(err error) error {
	if err != nil && errors.Is(err, vm.Unavailable) && c.gone() {
		return nil
	}
	return err
}

// gone reports whether QEMU has ended.
func (c *Client) gone() bool {
	id, err := loadQEMU(c.runDir)
	return err != nil || !id.Alive()
}

// Wait blocks until the machine is gone and returns how it ended. When the monitor
// ends but the machine lives, the error has kind Unavailable: attach again.
func (c *Client) Wait(ctx context.Context) (vm.MachineExit, error) {
	var exit vm.MachineExit
	err := c.call(ctx, "GET", "/wait", nil, &exit)
	if err == nil || ctx.Err() != nil {
		return exit, err
	}
	if c.gone() {
		return ReadExit(c.runDir), nil
	}
	return exit, vm.Errorf(vm.Unavailable, "", "the VM's monitor has ended, its machine has not: %w", err)
}

// SetNetwork applies an egress policy; connections that it does not allow are
// closed.
func (c *Client) SetNetwork(ctx context.Context, p vm.NetworkPolicy) error {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	return c.call(ctx, "PUT", "/network", p, nil)
}

// CutBy lists the open connections that a policy would close, without setting it.
func (c *Client) CutBy(ctx context.Context, p vm.NetworkPolicy) (list []vm.Connection, err error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	return list, c.call(ctx, "POST", "/network/cuts", p, &list)
}

// Resize changes the size of the running machine. For each part that differs
// (vm.PartCPU, ...) it returns vm.Live, or why only a start can change it.
func (c *Client) Resize(ctx context.Context, want vm.Size) (map[string]string, error) {
	ctx, cancel := within(ctx, startDeadline)
	defer cancel()
	var how map[string]string
	return how, c.call(ctx, "POST", "/resize", want, &how)
}

// Connections returns the last 1,000 connections of the guest, oldest first.
func (c *Client) Connections(ctx context.Context) ([]vm.Connection, error) {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	var list []vm.Connection
	return list, c.call(ctx, "GET", "/connections", nil, &list)
}

// Capture writes the running machine's state to files; see machine.capture.
func (c *Client) Capture(ctx context.Context, s vm.CaptureSpec) (vm.Captured, error) {
	ctx, cancel := within(ctx, startDeadline)
	defer cancel()
	var out vm.Captured
	return out, c.call(ctx, "POST", "/capture", s, &out)
}

// Resume resumes a machine that a capture has left paused.
func (c *Client) Resume(ctx context.Context) error {
	ctx, cancel := within(ctx, thawWait+callDeadline)
	defer cancel()
	return c.call(ctx, "POST", "/resume", nil, nil)
}

// Flatten merges the layers below the machine's disk down to those beneath base. In
// part, it merges only the upper layers and copies little. It blocks while it
// copies, or until ctx ends; the guest keeps running.
func (c *Client) Flatten(ctx context.Context, base string, part bool) error {
	path := "/flatten"
	if part { // an older monitor, which does not know this, merges all
		path += "?part=1"
	}
	return c.call(ctx, "POST", path, base, nil)
}

// Disk returns the file that the machine's disk writes to. It waits for a capture
// in progress.
func (c *Client) Disk(ctx context.Context) (string, error) {
	ctx, cancel := within(ctx, startDeadline)
	defer cancel()
	var path string
	return path, c.call(ctx, "GET", "/disk", nil, &path)
}

// DialAgent opens one stream to the agent in the guest. Kind GuestFault when
// the agent does not answer.
func (c *Client) DialAgent(ctx context.Context) (net.Conn, error) {
	ctx, cancel := within(ctx, linkLongest+callDeadline)
	defer cancel()
	return dialStream(ctx, c.socket, "/agent")
}

// DialPort opens a TCP connection to a port of the guest.
func (c *Client) DialPort(ctx context.Context, port uint16) (net.Conn, error) {
	ctx, cancel := within(ctx, linkLongest+callDeadline)
	defer cancel()
	return dialStream(ctx, c.socket, fmt.Sprintf("/port/%d", port))
}

// call sends body as JSON and decodes the answer into out; both may be nil.
func (c *Client) call(ctx context.Context, method, path string, body, out any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return vm.Errorf(vm.Internal, path, "%w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://monitor"+path, bytes.NewReader(data))
	if err != nil {
		return vm.Errorf(vm.Internal, path, "%w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return vm.Errorf(vm.KindOf(ctx.Err()), "", "the VM's monitor did not answer: %w", ctx.Err())
		}
		return vm.Errorf(vm.Unavailable, "", "the VM's monitor does not answer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return responseError(resp)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return vm.Errorf(vm.Unavailable, "", "the VM's monitor broke off: %w", err)
	}
	return nil
}
