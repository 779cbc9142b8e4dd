// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// Start starts a command in the background, with a log from its first byte.
func (c *Client) Start(ctx context.Context, spec vm.ExecSpec) (vm.Process, error) {
	spec.Background = true
	b, err := c.ask(ctx, "POST", "/start", nil, link.EncodeExec(spec))
	if err != nil {
		return vm.Process{}, err
	}
	return started(b)
}

// started decodes a process that was started. Its id goes into the audit record.
func started(b []byte) (vm.Process, error) {
	p, err := link.DecodeProcess(b)
	if err == nil && len(p.ID) > maxProcessID {
		err = errors.New("an id that is too long")
	}
	return p, odd(err)
}

// maxProcessID limits the length of an id, which is "p" and a number.
const maxProcessID = 32

// Processes lists the commands started by exec, oldest first.
func (c *Client) Processes(ctx context.Context) ([]vm.Process, error) {
	var list []vm.Process
	err := c.askJSON(ctx, "GET", "/processes", nil, &list)
	return list, err
}

// Process returns the process with this id.
func (c *Client) Process(ctx context.Context, id string) (vm.Process, error) {
	var p vm.Process
	err := c.askJSON(ctx, "GET", "/process", url.Values{"id": {id}}, &p)
	return p, err
}

// Wait waits until a process has ended.
func (c *Client) Wait(ctx context.Context, id string) (vm.Process, error) {
	var p vm.Process
	err := c.askJSON(ctx, "POST", "/wait", url.Values{"id": {id}}, &p)
	return p, err
}

// Signal sends a signal, named without SIG, to a process's group.
func (c *Client) Signal(ctx context.Context, id, name string) error {
	_, err := c.ask(ctx, "POST", "/signal", url.Values{"id": {id}, "name": {name}}, nil)
	return err
}

// Forget removes an ended process and its log.
func (c *Client) Forget(ctx context.Context, id string) error {
	_, err := c.ask(ctx, "POST", "/forget", url.Values{"id": {id}}, nil)
	return err
}

// Log reads a background process's log from an absolute offset. If those bytes are no
// longer kept, it begins with the oldest; it returns the actual offset. A negative
// offset counts from the end. With follow it continues until the process has ended.
func (c *Client) Log(ctx context.Context, id string, from int64, follow bool) (io.ReadCloser, int64, error) {
	q := url.Values{"id": {id}, "from": {itoa(from)}}
	if follow {
		q.Set("follow", "1")
	}
	resp, err := c.do(ctx, "GET", "/log", q, nil, 0)
	if err != nil {
		return nil, 0, err
	}
	at, err := strconv.ParseInt(resp.Header.Get("Warren-Offset"), 10, 64)
	if err != nil {
		_ = resp.Body.Close()
		return nil, 0, odd(err)
	}
	return &body{ctx: ctx, r: resp.Body, left: -1}, at, nil
}
