// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Terminal is an attachment to a terminal of a VM. One goroutine calls Run; others
// may call the other methods meanwhile. The terminal outlives the attachment.
type Terminal struct {
	c       *Client
	ctx     context.Context // limits the attachment
	conn    *websocket.Conn
	ref     string // the VM
	session api.PtySession

	mu       sync.Mutex
	detached bool
	left     int   // bytes of a replay that have not come yet
	offset   int64 // of the next byte of output
}

// OpenTerminal starts a program on a new terminal and attaches to it.
func (c *Client) OpenTerminal(ctx context.Context, ref string, spec vm.TerminalSpec) (*Terminal, error) {
	q := size(spec.Cols, spec.Rows)
	for name, value := range map[string]string{"sessionId": spec.ID, "exec": spec.Command, "cwd": spec.Cwd} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		q.Add("env", name+"="+spec.Env[name])
	}
	return c.terminal(ctx, ref, vmPath(ref, "pty"), q, spec.User)
}

// AttachTerminal attaches to a terminal. If view.Since is not negative and
// that output is still kept, it is repeated; else the screen is redrawn.
func (c *Client) AttachTerminal(ctx context.Context, ref, id string, view vm.TerminalView) (*Terminal, error) {
	q := size(view.Cols, view.Rows)
	if view.Since >= 0 {
		q.Set("since", strconv.FormatInt(view.Since, 10))
	}
	return c.terminal(ctx, ref, vmPath(ref, "pty", "sessions", id), q, view.User)
}

func size(cols, rows int) url.Values {
	if cols <= 0 || rows <= 0 {
		cols, rows = vm.TerminalCols, vm.TerminalRows
	}
	return url.Values{"cols": {strconv.Itoa(cols)}, "rows": {strconv.Itoa(rows)}}
}

func (c *Client) terminal(ctx context.Context, ref, path string, q url.Values, user string) (*Terminal, error) {
	conn, err := c.socket(ctx, path, q, as(user))
	if err != nil {
		return nil, err
	}
	t := &Terminal{c: c, ctx: ctx, conn: conn, ref: ref}
	kind, data, err := conn.Read(ctx)
	if err != nil {
		_ = conn.CloseNow()
		return nil, c.broken(ctx, err)
	}
	var m api.PtyMessage
	if kind != websocket.MessageText || json.Unmarshal(data, &m) != nil || m.Type != "sessionInfo" || m.Session == nil {
		_ = conn.CloseNow()
		return nil, vm.Errorf(vm.GuestFault, "", "the server did not say which terminal this is")
	}
	t.session = *m.Session
	return t, nil
}

// Session returns the terminal as it was at the attachment.
func (t *Terminal) Session() api.PtySession { return t.session }

// Offset returns the offset up to which Run has read the terminal's output.
// Attach with it to continue there.
func (t *Terminal) Offset() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offset
}

// Write sends input.
func (t *Terminal) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); sent += inputFrame {
		if err := t.conn.Write(t.ctx, websocket.MessageBinary, p[sent:min(len(p), sent+inputFrame)]); err != nil {
			return sent, t.lost(err)
		}
	}
	return len(p), nil
}

// Resize sets the size of this viewer. The terminal gets the size of its smallest viewer.
func (t *Terminal) Resize(cols, rows int) error {
	return t.say(api.PtyMessage{Type: "resize", Cols: cols, Rows: rows})
}

// Signal sends SIGINT as ^C, and other signals, such as SIGKILL, to the terminal's root process.
func (t *Terminal) Signal(name string) error {
	return t.say(api.PtyMessage{Type: "signal", Signal: name})
}

// Detach ends the attachment: Run returns an error that wraps ErrDetached.
func (t *Terminal) Detach() error {
	t.mu.Lock()
	t.detached = true
	t.mu.Unlock()
	_ = t.conn.CloseNow() // an error says that it was closed already
	return nil
}

func (t *Terminal) say(m api.PtyMessage) error { return say(t.ctx, t.conn, m, t.lost) }

// lost is the error of a connection that ended before the terminal did.
func (t *Terminal) lost(err error) error {
	t.mu.Lock()
	detached := t.detached
	t.mu.Unlock()
	if detached {
		return vm.Errorf(vm.Cancelled, t.session.SessionID, "%w", ErrDetached)
	}
	out := vm.AsError(t.c.broken(t.ctx, err))
	if t.ctx.Err() == nil {
		out = vm.Errorf(vm.Unavailable, t.session.SessionID, "the connection to the terminal broke: %w", err)
	}
	return out.WithHint("the terminal keeps running: attach again with `warren pty attach %s %s`", t.ref, t.session.SessionID)
}

// Run writes output until the terminal's program ends, and returns its exit
// status. A writer that fails detaches. Run closes the connection.
func (t *Terminal) Run(out io.Writer) (vm.ExitStatus, error) {
	defer func() { _ = t.conn.CloseNow() }()
	buf := make([]byte, 64<<10)
	for {
		kind, r, err := t.conn.Reader(t.ctx)
		if err != nil {
			return vm.ExitStatus{}, t.lost(err)
		}
		if kind == websocket.MessageBinary {
			if err := t.output(r, buf, out); err != nil {
				return vm.ExitStatus{}, err
			}
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return vm.ExitStatus{}, t.lost(err)
		}
		var m api.PtyMessage
		if json.Unmarshal(data, &m) != nil {
			continue // sent by a later version
		}
		switch {
		case m.Type == "exited" && m.ExitCode != nil:
			return vm.ExitStatus{Code: *m.ExitCode}, nil
		case m.Type == "replay" && m.Offset != nil:
			t.mu.Lock()
			t.left, t.offset = m.Bytes, *m.Offset
			t.mu.Unlock()
		}
	}
}

// output writes one binary frame.
func (t *Terminal) output(r io.Reader, buf []byte, out io.Writer) error {
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return err
			}
			t.mu.Lock()
			repeated := min(t.left, n)
			t.left -= repeated
			t.offset += int64(n - repeated)
			t.mu.Unlock()
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return t.lost(err)
		}
	}
}

// Terminals returns a VM's terminals, including recently ended ones.
func (c *Client) Terminals(ctx context.Context, ref string) ([]api.PtySession, error) {
	l, err := do[api.PtySessionList](ctx, c, call{method: "GET", path: vmPath(ref, "pty", "sessions")}, nil)
	return l.Sessions, err
}

// CloseTerminal ends a terminal's programs and removes it. user is the Linux
// user that it was opened as, "" = root; the same in the methods below.
func (c *Client) CloseTerminal(ctx context.Context, ref, user, id string) (api.ClosedPty, error) {
	return do[api.ClosedPty](ctx, c, call{method: "DELETE", path: vmPath(ref, "pty", "sessions", id), header: as(user)}, nil)
}

// TerminalScreen returns a terminal's screen.
func (c *Client) TerminalScreen(ctx context.Context, ref, user, id string) (api.PtyScreen, error) {
	return do[api.PtyScreen](ctx, c, call{
		method: "GET", path: vmPath(ref, "pty", "sessions", id, "screen"), query: url.Values{"format": {"json"}}, header: as(user),
	}, nil)
}

// TerminalText returns a terminal's output from an offset as text, and the
// offset to continue from.
func (c *Client) TerminalText(ctx context.Context, ref, user, id string, since int64) (string, int64, error) {
	q := call{
		method: "GET", path: vmPath(ref, "pty", "sessions", id, "scrollback"),
		query: url.Values{"since": {strconv.FormatInt(since, 10)}}, header: as(user),
	}
	resp, err := c.send(ctx, q)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", 0, c.broken(ctx, err)
	}
	next, err := strconv.ParseInt(resp.Header.Get(api.HeaderNextOffset), 10, 64)
	if err != nil {
		return "", 0, c.foreign(resp)
	}
	return string(data), next, nil
}

// SendTerminal types into a terminal, waits until its output pauses, and
// returns that output.
func (c *Client) SendTerminal(ctx context.Context, ref, user, id string, in api.PtyInput) (api.PtyOutput, error) {
	return do[api.PtyOutput](ctx, c, call{method: http.MethodPost, path: vmPath(ref, "pty", "sessions", id, "input"), header: as(user)}, in)
}
