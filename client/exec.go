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
	"sync"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

const (
	maxFrame   = 4 << 20  // largest frame that is accepted
	stdinChunk = 64 << 10 // largest piece of input sent at once
)

// Exec is one attached command. Call Run exactly once; the other methods may
// be called beside it, from any goroutine.
type Exec struct {
	c       *Client
	ctx     context.Context // life of the attachment
	conn    *websocket.Conn
	process vm.Process

	mu       sync.Mutex // guards the field below
	detached bool
}

// Exec starts a command and stays attached to it. ctx is the attachment's
// life: when it ends, or the connection breaks, the command goes on in the
// background with a log.
func (c *Client) Exec(ctx context.Context, ref string, spec vm.ExecSpec) (*Exec, error) {
	path, err := vmPath(ref, "exec")
	if err != nil {
		return nil, err
	}
	conn, err := c.socket(ctx, path)
	if err != nil {
		return nil, err
	}
	x := &Exec{c: c, ctx: ctx, conn: conn}
	if err := x.start(spec); err != nil {
		_ = conn.CloseNow() // the reason is err
		return nil, err
	}
	return x, nil
}

// socket opens a WebSocket. A refusal is the server's error.
func (c *Client) socket(ctx context.Context, path string) (*websocket.Conn, error) {
	refusal := &refusals{next: c.http.Transport}
	h := http.Header{}
	c.dress(h)
	conn, resp, err := websocket.Dial(ctx, c.base+path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: refusal, CheckRedirect: c.http.CheckRedirect},
		HTTPHeader: h,
	})
	if err != nil {
		if resp != nil && refusal.status != 0 {
			return nil, c.decodeError(refusal.status, refusal.body)
		}
		return nil, c.transportError(ctx, err)
	}
	conn.SetReadLimit(maxFrame)
	return conn, nil
}

// refusals keeps the whole body of an answer that is no upgrade: the WebSocket
// package gives only the first part of it.
type refusals struct {
	next   http.RoundTripper
	status int
	body   []byte
}

func (r *refusals) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		data = nil
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	r.status, r.body = resp.StatusCode, data
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// start sends the specification and waits until the command runs.
func (x *Exec) start(spec vm.ExecSpec) error {
	data, err := json.Marshal(spec)
	if err != nil {
		return vm.Errorf(vm.Invalid, "", "command: %w", err)
	}
	if err := x.conn.Write(x.ctx, websocket.MessageText, data); err != nil {
		return x.broken(err)
	}
	typ, r, err := x.conn.Reader(x.ctx)
	if err != nil {
		return x.broken(err)
	}
	if typ != websocket.MessageText {
		return vm.Errorf(vm.Internal, x.c.base, "output came before the command had started")
	}
	m, err := x.message(r)
	if err != nil {
		return err
	}
	if m.Type != "started" || m.Process == nil {
		return vm.Errorf(vm.Internal, x.c.base, "the server said %q where the command should have started", m.Type)
	}
	x.process = *m.Process
	return nil
}

// message reads a text frame; an error frame is its error.
func (x *Exec) message(r io.Reader) (api.ExecMessage, error) {
	var m api.ExecMessage
	data, err := io.ReadAll(r)
	if err != nil {
		return m, x.broken(err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, vm.Errorf(vm.Internal, x.c.base, "a message is not understood: %w", err)
	}
	if m.Type == "error" && m.Error != nil {
		return m, api.DecodeError(*m.Error)
	}
	return m, nil
}

// broken says why the connection ended before the command.
func (x *Exec) broken(err error) error {
	var e *vm.Error
	if errors.As(err, &e) {
		return e
	}
	if x.ctx.Err() == nil && websocket.CloseStatus(err) != -1 {
		return vm.Errorf(vm.Unavailable, x.c.base, "the server ended the connection before the command had ended").
			WithHint("the command goes on in the background: `warren ps NAME`")
	}
	if id := x.process.ID; id != "" && x.ctx.Err() == nil {
		return vm.Errorf(vm.Unavailable, x.c.base, "the connection broke before the command had ended").
			WithHint("the command goes on in the background as %s: `warren logs NAME %s`", id, id)
	}
	return x.c.transportError(x.ctx, err)
}

// Process describes the command as it was started.
func (x *Exec) Process() vm.Process { return x.process }

// Write sends standard input. It blocks while the command does not read.
func (x *Exec) Write(p []byte) (int, error) {
	n := 0
	frame := make([]byte, 0, min(len(p), stdinChunk)+1)
	for n < len(p) {
		part := p[n:min(len(p), n+stdinChunk)]
		frame = append(append(frame[:0], api.ChannelStdin), part...)
		if err := x.conn.Write(x.ctx, websocket.MessageBinary, frame); err != nil {
			return n, x.broken(err)
		}
		n += len(part)
	}
	return n, nil
}

// CloseStdin ends standard input.
func (x *Exec) CloseStdin() error { return x.tell(api.ExecMessage{Type: "stdinEof"}) }

// Signal sends a signal, such as INT, to the command's group.
func (x *Exec) Signal(name string) error {
	return x.tell(api.ExecMessage{Type: "signal", Signal: name})
}

// Detach leaves the command to the background and ends Run.
func (x *Exec) Detach() error {
	x.mu.Lock()
	x.detached = true
	x.mu.Unlock()
	err := x.tell(api.ExecMessage{Type: "detach"})
	return errors.Join(err, x.Close())
}

func (x *Exec) tell(m api.ExecMessage) error {
	data, err := json.Marshal(m)
	if err != nil {
		return vm.Errorf(vm.Internal, "", "message: %w", err)
	}
	if err := x.conn.Write(x.ctx, websocket.MessageText, data); err != nil {
		return x.broken(err)
	}
	return nil
}

// Close drops the connection. A command that has not ended goes on in the
// background.
func (x *Exec) Close() error {
	_ = x.conn.CloseNow() // an error says that it was closed already
	return nil
}

// ErrDetached is what Run returns after Detach.
var ErrDetached = errors.New("detached")

// Run copies output until the command has ended. A slow writer slows the
// command; an error of a writer is returned as it is, with the command still
// attached. Kind Unavailable when the connection broke first.
func (x *Exec) Run(stdout, stderr io.Writer) (vm.ExitStatus, error) {
	buf := make([]byte, 64<<10)
	for {
		typ, r, err := x.conn.Reader(x.ctx)
		if err != nil {
			return vm.ExitStatus{}, x.ended(err)
		}
		if typ == websocket.MessageBinary {
			if err := x.output(r, buf, stdout, stderr); err != nil {
				return vm.ExitStatus{}, x.ended(err)
			}
			continue
		}
		m, err := x.message(r)
		if err != nil {
			return vm.ExitStatus{}, x.ended(err)
		}
		if m.Type == "exit" && m.Status != nil {
			_ = x.conn.Close(websocket.StatusNormalClosure, "") // the status is here; how the goodbye goes does not matter
			return *m.Status, nil
		}
	}
}

// writeError is a failure of the caller's writer.
type writeError struct{ error }

func (w writeError) Unwrap() error { return w.error }

func (x *Exec) output(r io.Reader, buf []byte, stdout, stderr io.Writer) error {
	var w io.Writer
	for {
		n, err := r.Read(buf)
		data := buf[:n]
		if w == nil && n > 0 {
			switch data[0] {
			case api.ChannelStdout:
				w = stdout
			case api.ChannelStderr:
				w = stderr
			default:
				w = io.Discard
			}
			data = data[1:]
		}
		if len(data) > 0 {
			if _, err := w.Write(data); err != nil {
				return writeError{err}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// ended tells what made Run end.
func (x *Exec) ended(err error) error {
	var w writeError
	if errors.As(err, &w) {
		return w.error
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.detached {
		return ErrDetached
	}
	return x.broken(err)
}
