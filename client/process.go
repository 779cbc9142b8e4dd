// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// ExecAwait runs a shell command and returns its whole output, which the
// server caps.
func (c *Client) ExecAwait(ctx context.Context, ref string, r api.ExecAwait) (api.ExecResult, error) {
	return about[api.ExecResult](ctx, c, "POST", ref, r, nil, "exec-await")
}

// StartProcess starts a command in the background.
func (c *Client) StartProcess(ctx context.Context, ref string, spec vm.ExecSpec) (vm.Process, error) {
	return about[vm.Process](ctx, c, "POST", ref, spec, nil, "processes")
}

// Processes lists the commands that exec started, running or ended.
func (c *Client) Processes(ctx context.Context, ref string) ([]vm.Process, error) {
	out, err := about[api.ProcessList](ctx, c, "GET", ref, nil, nil, "processes")
	return out.Processes, err
}

// Process returns one of them.
func (c *Client) Process(ctx context.Context, ref, id string) (vm.Process, error) {
	return about[vm.Process](ctx, c, "GET", ref, nil, nil, "processes", id)
}

// WaitProcess returns when the process has ended, or, with kind Timeout, after
// timeoutMs; 0 = no limit.
func (c *Client) WaitProcess(ctx context.Context, ref, id string, timeoutMs int64) (vm.Process, error) {
	q := url.Values{}
	if timeoutMs > 0 {
		q.Set("timeoutMs", strconv.FormatInt(timeoutMs, 10))
	}
	return about[vm.Process](ctx, c, "POST", ref, nil, q, "processes", id, "wait")
}

// SignalProcess sends a signal, such as TERM, to the process's group.
func (c *Client) SignalProcess(ctx context.Context, ref, id, signal string) error {
	_, err := about[struct{}](ctx, c, "POST", ref, api.Signal{Signal: signal}, nil, "processes", id, "signal")
	return err
}

// ForgetProcess drops an ended process with its log.
func (c *Client) ForgetProcess(ctx context.Context, ref, id string) error {
	_, err := about[struct{}](ctx, c, "DELETE", ref, nil, nil, "processes", id)
	return err
}

// Log is a log's bytes from an offset on. The caller closes it.
type Log struct {
	io.ReadCloser
	// Offset is that of the first byte, later than asked for when the log was cut.
	Offset int64
}

// ProcessLog returns the output of a process; with follow until it ends.
func (c *Client) ProcessLog(ctx context.Context, ref, id string, from int64, follow bool) (*Log, error) {
	return c.log(ctx, ref, url.Values{}, from, follow, "processes", id, "log")
}

// ConsoleLog returns what the guest wrote to its console.
func (c *Client) ConsoleLog(ctx context.Context, ref string, from int64, follow bool) (*Log, error) {
	return c.log(ctx, ref, url.Values{"source": {"console"}}, from, follow, "logs")
}

func (c *Client) log(ctx context.Context, ref string, q url.Values, from int64, follow bool, rest ...string) (*Log, error) {
	path, err := vmPath(ref, rest...)
	if err != nil {
		return nil, err
	}
	if from > 0 {
		q.Set("from", strconv.FormatInt(from, 10))
	}
	if follow {
		q.Set("follow", "true")
	}
	resp, err := c.send(ctx, call{method: http.MethodGet, path: path, query: q})
	if err != nil {
		return nil, err
	}
	offset, err := strconv.ParseInt(resp.Header.Get(api.HeaderOffset), 10, 64)
	if err != nil {
		offset = from
	}
	return &Log{ReadCloser: &stream{c: c, ctx: ctx, ReadCloser: resp.Body}, Offset: offset}, nil
}

// stream is a body whose failures are *vm.Error.
type stream struct {
	io.ReadCloser
	c   *Client
	ctx context.Context // of the request, to tell an interruption from a broken connection
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = s.c.transportError(s.ctx, err)
	}
	return n, err
}
