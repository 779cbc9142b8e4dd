// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vt"
	"github.com/warren-vm/warren/vm"
)

const (
	quietDefault = 250 * time.Millisecond
	sendDefault  = 10 * time.Second
)

// ptySession converts a terminal to the contract's form.
func ptySession(t vm.TerminalSession) api.PtySession {
	p := api.PtySession{
		SessionID: t.ID, Running: t.Running() && !t.Suspended, Suspended: t.Suspended, ExitCode: t.ExitCode, Cols: t.Cols, Rows: t.Rows, Exec: t.Command,
		CreatedAtMs: t.CreatedAt.UnixMilli(), AttachedCount: t.Attached, PID: t.PID, Title: t.Title, Lost: t.Lost, StartOffset: t.Start, EndOffset: t.End,
	}
	if t.ExitedAt != nil {
		p.ExitedAtMs = t.ExitedAt.UnixMilli()
	}
	if t.User != "root" {
		p.User = &t.User
	}
	return p
}

func (s *server) ptySessions(q *request) error {
	l, err := s.Inside.Terminals(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	out := api.PtySessionList{Sessions: []api.PtySession{}}
	for _, t := range l {
		out.Sessions = append(out.Sessions, ptySession(t))
	}
	return q.ok(out)
}

func (s *server) closePty(q *request) error {
	t, err := s.Inside.CloseTerminal(q.Context(), q.call, q.ref(), q.user(), q.values["session"])
	if err != nil {
		return err
	}
	return q.ok(api.ClosedPty{SessionID: t.ID, ExitCode: t.ExitCode})
}

// size reads the viewer's size in columns and rows.
func (q *request) size() (cols, rows int, err error) {
	c, err := q.int("cols", vm.TerminalCols)
	if err != nil {
		return 0, 0, err
	}
	r, err := q.int("rows", vm.TerminalRows)
	if err == nil && (c == 0 || r == 0) {
		err = vm.Errorf(vm.Invalid, q.URL.RawQuery, "a terminal has at least one column and one row")
	}
	return int(min(c, vt.MaxCols)), int(min(r, vt.MaxRows)), err
}

// openPty opens a terminal. It refuses before the upgrade.
func (s *server) openPty(q *request) error {
	cols, rows, err := q.size()
	if err != nil {
		return err
	}
	query := q.query()
	spec := vm.TerminalSpec{
		ID: query.Get("sessionId"), Command: query.Get("exec"), Cwd: query.Get("cwd"), User: q.user(), Cols: cols, Rows: rows,
	}
	for _, kv := range query["env"] {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			return vm.Errorf(vm.Invalid, kv, "not a variable").WithHint("write env=NAME=VALUE")
		}
		if spec.Env == nil {
			spec.Env = map[string]string{}
		}
		spec.Env[name] = value
	}
	if query.Has("sessionId") {
		if err := vm.CheckTerminalID(spec.ID); err != nil {
			return err
		}
	}
	return s.ptySocket(q, func(ctx context.Context) (engine.Terminal, error) {
		return s.Inside.OpenTerminal(ctx, q.call, q.ref(), spec)
	})
}

func (s *server) attachPty(q *request) error {
	view := vm.TerminalView{User: q.user(), Since: -1}
	var err error
	if view.Cols, view.Rows, err = q.size(); err != nil {
		return err
	}
	if q.query().Has("since") {
		if view.Since, err = q.int("since", 0); err != nil {
			return err
		}
	}
	return s.ptySocket(q, func(ctx context.Context) (engine.Terminal, error) {
		return s.Inside.AttachTerminal(ctx, q.call, q.ref(), q.values["session"], view)
	})
}

// ptySocket attaches the caller's WebSocket to a terminal.
func (s *server) ptySocket(q *request, find func(context.Context) (engine.Terminal, error)) error {
	if !strings.EqualFold(q.Header.Get("Upgrade"), "websocket") || q.Header.Get("Sec-WebSocket-Key") == "" {
		return vm.Errorf(vm.Invalid, q.URL.Path, "is a WebSocket")
	}
	ctx, cancel := s.connected(q)
	defer cancel()
	t, err := find(ctx)
	if err != nil {
		return err
	}
	conn, err := s.upgrade(q)
	if err != nil {
		_ = t.Detach()
		return nil // Accept has answered
	}
	defer conn.CloseNow()
	k := &ptySocket{socket: socket{ctx: ctx, conn: conn}, t: t, input: make(chan []byte, inputFrames)}
	defer k.readers.Wait()
	defer cancel()
	k.serve(cancel)
	return nil
}

// ptySocket is the server's end of a terminal's WebSocket.
type ptySocket struct {
	socket
	t     engine.Terminal
	input chan []byte
}

// serve runs the attachment until the client leaves or the program ends.
func (k *ptySocket) serve(leave func()) {
	info := ptySession(k.t.Session())
	if err := k.say(api.PtyMessage{Type: "sessionInfo", SessionID: info.SessionID, Session: &info}); err != nil {
		_ = k.t.Detach()
		return
	}
	k.conn.SetReadLimit(frameLimit)
	k.readers.Go(func() { k.listen(); leave() })
	k.readers.Go(k.feed)
	status, err := k.t.Run(func(r vm.TerminalReplay) error {
		return k.say(api.PtyMessage{Type: "replay", Redraw: r.Redraw, Bytes: r.Bytes, Offset: &r.Offset})
	}, k)
	switch {
	case err == nil:
		if k.say(api.PtyMessage{Type: "exited", ExitCode: &status.Code}) == nil {
			_ = k.conn.Close(websocket.StatusNormalClosure, "")
		}
	case closeStatus(err) == websocket.StatusPolicyViolation: // the caller's right has ended
		_ = k.conn.Close(websocket.StatusPolicyViolation, closeReason(err))
	case k.ctx.Err() == nil: // the machine ended; the client may attach again
		_ = k.conn.Close(websocket.StatusGoingAway, "")
	}
}

func (k *ptySocket) say(m api.PtyMessage) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return k.write(websocket.MessageText, data)
}

// Write sends output.
func (k *ptySocket) Write(p []byte) (int, error) {
	if err := k.write(websocket.MessageBinary, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// feed types the client's input. It runs beside listen, so that a kill overtakes input
// that the program does not read.
func (k *ptySocket) feed() {
	for {
		select {
		case data := <-k.input:
			_, _ = k.t.Write(data) // not reading input is no error
		case <-k.ctx.Done():
			return
		}
	}
}

// listen handles the client's frames in order until it disconnects.
func (k *ptySocket) listen() {
	give := func(data []byte) {
		select {
		case k.input <- data:
		case <-k.ctx.Done():
		}
	}
	for {
		kind, data, err := k.conn.Read(k.ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			if len(data) > 0 {
				give(data)
			}
			continue
		}
		var m api.PtyMessage
		if json.Unmarshal(data, &m) != nil {
			continue // unknown frames are ignored
		}
		switch {
		case m.Type == "resize" && m.Cols > 0 && m.Rows > 0:
			_ = k.t.Resize(min(m.Cols, vt.MaxCols), min(m.Rows, vt.MaxRows)) // Run reports a broken link
		case m.Type == "signal" && m.Signal == "SIGINT":
			give([]byte{0x03})
		case m.Type == "signal" && m.Signal == "SIGQUIT":
			give([]byte{0x1c})
		case m.Type == "signal":
			_ = k.t.Signal(strings.TrimPrefix(m.Signal, "SIG"))
		}
	}
}

// screenOf rebuilds a terminal's screen.
func screenOf(c vm.TerminalContent) *vt.Screen {
	s := vt.New(c.Session.Cols, c.Session.Rows)
	_, _ = s.Write(c.Redraw) // never fails
	return s
}

func (s *server) ptyScreen(q *request) error {
	format := q.query().Get("format")
	if format != "" && format != "text" && format != "json" {
		return vm.Errorf(vm.Invalid, "format="+format, "not text or json")
	}
	c, err := s.Inside.ReadTerminal(q.Context(), q.call, q.ref(), q.user(), q.values["session"], -1)
	if err != nil {
		return err
	}
	screen := screenOf(c)
	if format == "json" {
		return q.ok(ptyScreen(c.Session, screen))
	}
	return q.text(screen.Text()+"\n", c.Session.End, c.Session.End)
}

func ptyScreen(t vm.TerminalSession, s *vt.Screen) api.PtyScreen {
	out := api.PtyScreen{
		SessionID: t.ID, Running: t.Running(), ExitCode: t.ExitCode, Alternate: s.Alternate(), BracketedPaste: s.BracketedPaste(),
		Title: s.Title(), Offset: t.End, Text: s.Text(),
	}
	out.Cols, out.Rows = s.Size()
	out.Cursor.X, out.Cursor.Y, out.Cursor.Visible = s.Cursor()
	for y := range out.Rows {
		line := []api.PtyRun{}
		for _, r := range s.Runs(y) {
			line = append(line, api.PtyRun{X: r.X, Text: r.Text, Foreground: r.FG.String(), Background: r.BG.String(), Attributes: r.Attr.Names()})
		}
		out.Lines = append(out.Lines, line)
	}
	return out
}

// text sends plain text with its start and end offsets.
func (q *request) text(t string, from, next int64) error {
	q.w.Header().Set(api.HeaderOffset, strconv.FormatInt(from, 10))
	q.w.Header().Set(api.HeaderNextOffset, strconv.FormatInt(next, 10))
	q.header("text/plain; charset=utf-8")
	q.w.WriteHeader(http.StatusOK)
	_, _ = q.w.Write([]byte(t)) // an error means that the caller is gone
	return nil
}

func (s *server) ptyScrollback(q *request) error {
	since, err := q.int("since", 0)
	if err != nil {
		return err
	}
	raw, err := q.bool("raw")
	if err != nil {
		return err
	}
	c, err := s.Inside.ReadTerminal(q.Context(), q.call, q.ref(), q.user(), q.values["session"], since)
	if err != nil {
		return err
	}
	if raw {
		return q.bytes(bytes.NewReader(c.Output), c.Since, http.StatusOK)
	}
	text, from, next := plain(c, since)
	return q.text(text, from, next)
}

// plain returns the output as text with its start and end offsets. If the kept part
// begins in the middle of an escape sequence, the text begins with the next line.
func plain(c vm.TerminalContent, since int64) (text string, from, next int64) {
	out, from := c.Output, c.Since
	if c.Since > since {
		cut := bytes.IndexByte(out, '\n') + 1
		out, from = out[cut:], from+int64(cut)
	}
	text, used := vt.Plain(out)
	return text, from, from + int64(used)
}

func (s *server) ptyInput(q *request) error {
	var in api.PtyInput
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	send := vm.TerminalSend{User: q.user(), Data: []byte(in.Data), Quiet: quietDefault, Limit: sendDefault}
	if in.Quiet != nil {
		send.Quiet = time.Duration(*in.Quiet)
		send.Limit = max(send.Limit, 2*send.Quiet)
	}
	if in.Timeout != nil {
		send.Limit = time.Duration(*in.Timeout)
		send.Quiet = min(send.Quiet, send.Limit)
	}
	c, err := s.Inside.SendTerminal(q.Context(), q.call, q.ref(), q.values["session"], send)
	if err != nil {
		return err
	}
	text, _, next := plain(c, c.Since)
	return q.ok(api.PtyOutput{
		Output: text, Screen: screenOf(c).Text(), Offset: next, Quiet: c.Quiet, Running: c.Session.Running(), ExitCode: c.Session.ExitCode,
	})
}
