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
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

const (
	maxFrame   = 1 << 20  // received from the socket
	inputFrame = 31 << 10 // sent to the socket; with its channel byte below the default limit of sockets
)

// ErrDetached is wrapped by the error that Run returns after Detach.
var ErrDetached = errors.New("detached")

// Exec is a command with an attached client. One goroutine calls Run, which
// reads everything; other goroutines may call the other methods meanwhile. If
// the connection ends before the command (by Detach, the context or a fault),
// the command keeps running as a background process with a log.
type Exec struct {
	c    *Client
	ctx  context.Context // limits the attachment
	conn *websocket.Conn
	ref  string // the VM
	proc vm.Process
	turn *vm.Turn
	sum  *vm.ExecSummary // after Run

	wmu  sync.Mutex   // one writer at a time
	buf  []byte       // used by Write
	sent atomic.Int64 // bytes of input

	mu       sync.Mutex
	detached bool
}

// Exec starts a command and stays attached. The context limits the start and the attachment.
func (c *Client) Exec(ctx context.Context, ref string, spec vm.ExecSpec) (*Exec, error) {
	conn, err := c.socket(ctx, vmPath(ref, "exec"), nil, http.Header{})
	if err != nil {
		return nil, err
	}
	e := &Exec{c: c, ctx: ctx, conn: conn, ref: ref}
	if err := e.start(spec); err != nil {
		_ = conn.CloseNow()
		return nil, err
	}
	return e, nil
}

// socket opens a WebSocket. A refusal is the server's own error.
func (c *Client) socket(ctx context.Context, path string, query url.Values, h http.Header) (*websocket.Conn, error) {
	if c.baseErr != nil {
		return nil, c.baseErr
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	c.authorize(h)
	door := &refusal{next: c.http.Transport}
	//nolint:bodyclose // the package leaves nothing to close
	conn, _, err := websocket.Dial(ctx, c.address(path, query), &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: door, CheckRedirect: c.http.CheckRedirect}, HTTPHeader: h,
	})
	switch {
	case door.resp != nil && ctx.Err() == nil:
		return nil, c.failure(door.resp)
	case err != nil:
		return nil, c.broken(ctx, err)
	}
	conn.SetReadLimit(maxFrame)
	return conn, nil
}

// refusal keeps the whole answer if the server does not upgrade: the
// WebSocket package returns only the beginning of its body.
type refusal struct {
	next http.RoundTripper
	resp *http.Response // its body is in memory
}

// RoundTrip makes the request.
func (r *refusal) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		return nil, err
	}
	kept := *resp
	kept.Body, resp.Body = io.NopCloser(bytes.NewReader(data)), http.NoBody
	r.resp = &kept
	return resp, nil
}

// start sends the command and waits until the server says that it runs.
func (e *Exec) start(spec vm.ExecSpec) error {
	data, err := json.Marshal(spec)
	if err != nil {
		return vm.Errorf(vm.Invalid, "", "the command cannot be sent: %w", err)
	}
	if err := e.conn.Write(e.ctx, websocket.MessageText, data); err != nil {
		return e.c.broken(e.ctx, err)
	}
	typ, r, err := e.conn.Reader(e.ctx)
	if err != nil {
		return e.c.broken(e.ctx, err)
	}
	if typ != websocket.MessageText {
		return vm.Errorf(vm.GuestFault, "", "output came before the command had started")
	}
	m, err := e.message(r)
	if err != nil {
		return err
	}
	if m.Type != "started" || m.Process == nil {
		return vm.Errorf(vm.GuestFault, "", "the server said %q before the command had started", m.Type)
	}
	e.proc, e.turn = *m.Process, m.Turn
	return nil
}

// message decodes a text frame; one that holds an error is that error.
func (e *Exec) message(r io.Reader) (api.ExecMessage, error) {
	var m api.ExecMessage
	data, err := io.ReadAll(r)
	if err != nil {
		return m, e.c.broken(e.ctx, err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, vm.Errorf(vm.GuestFault, e.proc.ID, "an unknown message: %w", err)
	}
	if m.Type == "error" {
		if m.Error == nil {
			return m, vm.Errorf(vm.GuestFault, e.proc.ID, "the command failed, and the server gave no reason")
		}
		return m, api.DecodeError(*m.Error)
	}
	return m, nil
}

// Turn returns the turn that was marked before the start; nil = none was asked for.
func (e *Exec) Turn() *vm.Turn { return e.turn }

// Summary returns what the command changed, once Run has returned; nil = it was not asked
// for.
func (e *Exec) Summary() *vm.ExecSummary { return e.sum }

// Process returns the process as it was started.
func (e *Exec) Process() vm.Process { return e.proc }

// Write sends input. It waits while the process does not read.
func (e *Exec) Write(p []byte) (int, error) {
	e.wmu.Lock()
	defer e.wmu.Unlock()
	sent := 0
	for sent < len(p) {
		n := min(len(p)-sent, inputFrame)
		e.sent.Add(int64(n))
		e.buf = append(append(e.buf[:0], api.ChannelStdin), p[sent:sent+n]...)
		if err := e.conn.Write(e.ctx, websocket.MessageBinary, e.buf); err != nil {
			return sent, e.lost(err)
		}
		sent += n
	}
	return sent, nil
}

// CloseStdin ends the input.
func (e *Exec) CloseStdin() error { return e.say(api.ExecMessage{Type: "stdinEof"}) }

// inputWaits is the amount of input after which the server may stop reading
// if the process reads none. Messages sent after that may be delayed.
const inputWaits = 512 << 10

// Signal sends a signal, named without SIG, to the process group. It
// overtakes input that the process does not read.
func (e *Exec) Signal(name string) error {
	if e.sent.Load() > inputWaits {
		return e.c.SignalProcess(e.ctx, e.ref, e.proc.ID, name)
	}
	return e.say(api.ExecMessage{Type: "signal", Signal: name})
}

// Detach ends the attachment: Run returns an error of kind Cancelled and the
// command continues as a background process.
func (e *Exec) Detach() error {
	e.mu.Lock()
	e.detached = true
	e.mu.Unlock()
	err := e.say(api.ExecMessage{Type: "detach"})
	_ = e.conn.CloseNow()
	return err
}

// Close ends the connection without a message. A command that has not ended
// keeps running in the background.
func (e *Exec) Close() error {
	_ = e.conn.CloseNow() // an error says that it was closed already
	return nil
}

func (e *Exec) say(m api.ExecMessage) error { return say(e.ctx, e.conn, m, e.lost) }

// say sends a text frame. The socket serialises frames of concurrent writers.
func say(ctx context.Context, conn *websocket.Conn, message any, lost func(error) error) error {
	data, err := json.Marshal(message)
	if err != nil {
		return vm.Errorf(vm.Invalid, "", "a message cannot be sent: %w", err)
	}
	if err := conn.Write(ctx, websocket.MessageText, data); err != nil {
		return lost(err)
	}
	return nil
}

// lost is the error of a connection that ended before the command did.
func (e *Exec) lost(err error) error {
	e.mu.Lock()
	detached := e.detached
	e.mu.Unlock()
	out := vm.AsError(e.c.broken(e.ctx, err))
	switch {
	case detached:
		out = vm.Errorf(vm.Cancelled, e.proc.ID, "%w", ErrDetached)
	case e.ctx.Err() == nil:
		out = vm.Errorf(vm.Unavailable, e.proc.ID, "the connection to the server broke while the command ran: %w", err)
	}
	return out.WithHint("the command keeps running in the background: `warren ps %s` shows it, `warren logs %s %s` its output", e.ref, e.ref, e.proc.ID)
}

// Run writes the command's output until the command ends, and returns its
// exit status. A writer that fails detaches: the command keeps running. Run
// closes the connection.
func (e *Exec) Run(stdout, stderr io.Writer) (vm.ExitStatus, error) {
	defer func() { _ = e.conn.CloseNow() }()
	buf := make([]byte, 64<<10)
	for {
		typ, r, err := e.conn.Reader(e.ctx)
		if err != nil {
			return vm.ExitStatus{}, e.lost(err)
		}
		if typ == websocket.MessageBinary {
			if err := e.output(r, buf, stdout, stderr); err != nil {
				return vm.ExitStatus{}, err
			}
			continue
		}
		m, err := e.message(r)
		if err != nil {
			return vm.ExitStatus{}, err
		}
		if m.Type == "exit" && m.Status != nil {
			e.sum = m.Summary
			return *m.Status, nil
		} // others are warnings, or sent by later versions
	}
}

// output writes one binary frame.
func (e *Exec) output(r io.Reader, buf []byte, stdout, stderr io.Writer) error {
	w := stdout
	for first := true; ; {
		n, err := r.Read(buf)
		p := buf[:n]
		if first && n > 0 {
			first = false
			switch p[0] {
			case api.ChannelStdout:
			case api.ChannelStderr:
				w = stderr
			default:
				return vm.Errorf(vm.GuestFault, e.proc.ID, "output on channel %d", p[0])
			}
			p = p[1:]
		}
		if len(p) > 0 {
			if _, err := w.Write(p); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		default:
			return e.lost(err)
		}
	}
}
