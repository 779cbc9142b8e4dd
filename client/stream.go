// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// NewOver is New with a transport of the caller's, such as one that reaches a server in
// this process. The client does not close it.
func NewOver(transport http.RoundTripper, baseURL, key string) *Client {
	c := New(baseURL, key)
	c.http.Transport = transport
	return c
}

// Streamed is a command whose output comes as the answer of one request, over a connection
// that later requests use again. It is cheaper than an Exec, which also takes signals and
// input while it runs.
type Streamed struct {
	l    *lines
	ref  string
	proc vm.Process
	turn *vm.Turn
}

// Stream starts a command with its whole input and returns when it runs. If the request ends
// before the command, in.Owned says what becomes of the command.
func (c *Client) Stream(ctx context.Context, ref string, in api.ExecChunked) (*Streamed, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, ref, "the command cannot be sent: %w", err)
	}
	l, err := c.lines(ctx, call{
		method: http.MethodPost, path: vmPath(ref, "exec"), header: http.Header{"Content-Type": {"application/json"}},
		body: bytes.NewReader(data), size: int64(len(data)),
	})
	if err != nil {
		return nil, err
	}
	s := &Streamed{l: l, ref: ref}
	m, err := s.next()
	if err == nil && (m.Type != "started" || m.Process == nil) {
		err = vm.Errorf(vm.GuestFault, ref, "the server said %q before the command had started", m.Type)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	s.proc, s.turn = *m.Process, m.Turn
	return s, nil
}

// next reads one message; one that holds an error is that error.
func (s *Streamed) next() (m api.ExecMessage, err error) {
	line, err := s.l.message()
	if errors.Is(err, io.EOF) {
		err = vm.Errorf(vm.Unavailable, s.proc.ID, "the connection to the server broke while the command ran").
			WithHint("`warren ps %s` shows whether it still runs", s.ref)
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return m, vm.Errorf(vm.GuestFault, s.proc.ID, "an unknown message: %w", err)
	}
	if m.Type == "error" {
		if m.Error == nil {
			return m, vm.Errorf(vm.GuestFault, s.proc.ID, "the command failed, and the server gave no reason")
		}
		return m, api.DecodeError(*m.Error)
	}
	return m, nil
}

// Process returns the process as it was started.
func (s *Streamed) Process() vm.Process { return s.proc }

// Turn returns the turn that was marked before the start; nil = none was asked for.
func (s *Streamed) Turn() *vm.Turn { return s.turn }

// Run writes the output until the command ends, and returns its exit status. It ends the
// request.
func (s *Streamed) Run(stdout, stderr io.Writer) (vm.ExitStatus, error) {
	defer func() { _ = s.l.Close() }()
	for {
		m, err := s.next()
		if err != nil {
			return vm.ExitStatus{}, err
		}
		switch m.Type {
		case "stdout":
			_, err = stdout.Write(m.Data)
		case "stderr":
			_, err = stderr.Write(m.Data)
		case "exit":
			if m.Status != nil {
				_, _ = io.Copy(io.Discard, io.LimitReader(&s.l.stream, maxError)) // the connection is used again
				return *m.Status, nil
			}
		}
		if err != nil {
			return vm.ExitStatus{}, err
		}
	}
}

// Close ends the request.
func (s *Streamed) Close() error { return s.l.Close() }
