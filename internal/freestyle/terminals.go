// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Limits of a terminal's WebSocket.
const (
	frameLimit  = 1 << 20
	inputFrames = 32 // that may wait until a program reads them
	writeWithin = 60 * time.Second
	maxSide     = 1000 // columns or rows
)

// sessionAnswer is a terminal as the SDK lists it. Its number is its program's process id: no two
// terminals that run have the same.
type sessionAnswer struct {
	ID        int    `json:"sessionId"`
	State     string `json:"state"`
	Created   int64  `json:"createdUnix"`
	Cols      int    `json:"cols"`
	Rows      int    `json:"rows"`
	ExitCode  *int   `json:"exitCode,omitempty"`
	LinuxUser string `json:"linuxUser,omitempty"`
	Slug      string `json:"slug,omitempty"`
}

func shownSession(t vm.TerminalSession) sessionAnswer {
	out := sessionAnswer{ID: t.PID, State: "running", Created: t.CreatedAt.Unix(), Cols: t.Cols, Rows: t.Rows, ExitCode: t.ExitCode, LinuxUser: t.User, Slug: slugOf(t)}
	if !t.Running() {
		out.State, out.Slug = "exited", ""
	}
	return out
}

// slugOf is the slug of a terminal; the names that the guest chooses are none.
func slugOf(t vm.TerminalSession) string {
	if strings.HasPrefix(t.ID, "pty-") {
		return ""
	}
	return t.ID
}

// checkSessionSlug refuses what is no slug of a terminal.
func checkSessionSlug(s string) error {
	digits := strings.Trim(s, "0123456789") == ""
	if len(s) > 63 || !slugPattern.MatchString(s) || digits || strings.HasPrefix(s, "pty-") {
		return invalid(vm.Clip(s, 80), "not a slug of a terminal: 1 to 63 of a-z, 0-9 and single hyphens, not only digits, not pty- at the beginning")
	}
	return nil
}

// sessions lists the terminals of a VM.
func (c *caller) sessions(id string) ([]vm.TerminalSession, error) {
	list, err := c.d.Inside.Terminals(c.ctx, c.call, id)
	if named := c.URL.Query().Get("linuxUser"); named != "" {
		list = slices.DeleteFunc(slices.Clone(list), func(t vm.TerminalSession) bool { return t.User != named })
	}
	return list, err
}

func (c *caller) terminals() (answer, error) {
	rec, err := c.find()
	if err != nil {
		return answer{}, err
	}
	list, err := c.sessions(string(rec.ID))
	if err != nil {
		return answer{}, err
	}
	out := []sessionAnswer{}
	for _, t := range list {
		out = append(out, shownSession(t))
	}
	return ok(map[string]any{"sessions": out})
}

// session finds the terminal in the path, by number or slug; one that runs is preferred.
func (c *caller) session(id string) (vm.TerminalSession, error) {
	ref := c.PathValue("session")
	list, err := c.sessions(id)
	if err != nil {
		return vm.TerminalSession{}, err
	}
	var found *vm.TerminalSession
	for i, t := range list {
		if strconv.Itoa(t.PID) == ref || slugOf(t) == ref {
			if found == nil || t.Running() || !found.Running() {
				found = &list[i]
			}
		}
	}
	if found == nil {
		return vm.TerminalSession{}, vm.Errorf(vm.NotFound, vm.Clip(ref, 64), "the VM has no such terminal").WithHint("vm.pty.list() says which there are")
	}
	return *found, nil
}

// asUser is the Linux user of a terminal, as the rooms name it.
func asUser(t vm.TerminalSession) string {
	if t.User == "root" {
		return ""
	}
	return t.User
}

func (c *caller) closeTerminal() (answer, error) {
	rec, err := c.find()
	if err != nil {
		return answer{}, err
	}
	t, err := c.session(string(rec.ID))
	if err != nil {
		return answer{}, err
	}
	ended := t.ExitCode
	if _, err := c.d.Inside.CloseTerminal(c.ctx, c.call, string(rec.ID), asUser(t), t.ID); err != nil {
		return answer{}, err
	}
	return ok(struct {
		ID       int  `json:"sessionId"`
		ExitCode *int `json:"exitCode,omitempty"`
	}{t.PID, ended})
}

// side reads a number of columns or rows.
func (c *caller) side(name string, def int) (int, error) {
	text := c.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, invalid(name, "%q is not a number above 0", vm.Clip(text, 40))
	}
	return int(min(n, maxSide)), nil
}

// isSocket refuses a request that is no WebSocket.
func (c *caller) isSocket() error {
	if !strings.EqualFold(c.Header.Get("Upgrade"), "websocket") || c.Header.Get("Sec-WebSocket-Key") == "" {
		return invalid(c.URL.Path, "is a WebSocket")
	}
	return nil
}

// openTerminal opens a terminal, or joins the one that has its slug.
func (c *caller) openTerminal() error {
	if err := c.isSocket(); err != nil {
		return err
	}
	q := c.URL.Query()
	spec := vm.TerminalSpec{ID: q.Get("slug"), Command: q.Get("exec")}
	var err error
	if spec.Cols, err = c.side("cols", vm.TerminalCols); err != nil {
		return err
	}
	if spec.Rows, err = c.side("rows", vm.TerminalRows); err != nil {
		return err
	}
	if q.Get("replaceOnExit") == "true" {
		return unsupported("replaceOnExit", "this server does not start the program of a terminal again").WithHint("leave it out, and open the terminal again; or run it as a service")
	}
	if spec.ID != "" {
		if err := checkSessionSlug(spec.ID); err != nil {
			return err
		}
	}
	rec, err := c.find()
	if err != nil {
		return err
	}
	u, err := c.linux(rec, q.Get("linuxUser"))
	if err != nil {
		return err
	}
	spec.User, spec.Cwd = u.Name, cmp.Or(u.Home, "/")
	return c.socket(func(ctx context.Context) (engine.Terminal, bool, error) {
		return c.openOrJoin(ctx, string(rec.ID), spec)
	})
}

// openOrJoin reports whether the terminal is new.
func (c *caller) openOrJoin(ctx context.Context, id string, spec vm.TerminalSpec) (engine.Terminal, bool, error) {
	for range 2 { // another caller may open the same one at this moment
		if spec.ID != "" {
			list, err := c.d.Inside.Terminals(ctx, c.call, id)
			if err != nil {
				return nil, false, err
			}
			if i := slices.IndexFunc(list, func(t vm.TerminalSession) bool { return t.ID == spec.ID && !t.Lost }); i >= 0 {
				t, err := c.join(ctx, id, list[i], spec.User, spec.Cols, spec.Rows)
				return t, false, err
			}
		}
		t, err := c.d.Inside.OpenTerminal(ctx, c.again(), id, spec)
		if vm.AsError(err).Code == "FILE_NOT_FOUND" && spec.Cwd != "/" { // the home is missing
			spec.Cwd = "/"
			t, err = c.d.Inside.OpenTerminal(ctx, c.again(), id, spec)
		}
		if err == nil || vm.KindOf(err) != vm.Exists {
			return t, true, err
		}
	}
	return nil, false, vm.Errorf(vm.Busy, spec.ID, "the terminal is being opened and closed at once").WithHint("try again")
}

// join attaches to a terminal and repeats what is kept of its output.
func (c *caller) join(ctx context.Context, id string, t vm.TerminalSession, user string, cols, rows int) (engine.Terminal, error) {
	return c.d.Inside.AttachTerminal(ctx, c.again(), id, t.ID, vm.TerminalView{User: user, Cols: cols, Rows: rows, Since: t.Start})
}

func (c *caller) attachTerminal() error {
	if err := c.isSocket(); err != nil {
		return err
	}
	rec, err := c.find()
	if err != nil {
		return err
	}
	t, err := c.session(string(rec.ID))
	if err != nil {
		return err
	}
	return c.socket(func(ctx context.Context) (engine.Terminal, bool, error) {
		a, err := c.join(ctx, string(rec.ID), t, asUser(t), 0, 0)
		return a, false, err
	})
}

// Messages of a terminal's WebSocket.
type (
	serverMessage struct {
		Type     string `json:"type"`
		ID       int    `json:"sessionId,omitempty"`
		Slug     string `json:"slug,omitempty"`
		Created  *bool  `json:"created,omitempty"`
		ExitCode *int   `json:"exitCode,omitempty"`
		Message  string `json:"message,omitempty"`
	}
	clientMessage struct {
		Type   string `json:"type"`
		Cols   int    `json:"cols"`
		Rows   int    `json:"rows"`
		Signal string `json:"signal"`
	}
)

// socket attaches the caller's WebSocket to a terminal. What is wrong is said before the upgrade.
func (c *caller) socket(find func(context.Context) (engine.Terminal, bool, error)) error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	t, created, err := find(ctx)
	if err != nil {
		return err
	}
	conn, err := websocket.Accept(c.w, c.Request, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		_ = t.Detach()
		return nil //nolint:nilerr // Accept has answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(frameLimit)
	k := &socket{d: c.d, ctx: ctx, conn: conn, t: t, input: make(chan []byte, inputFrames)}
	defer k.readers.Wait()
	defer cancel()
	k.serve(cancel, created)
	return nil
}

// socket is the server's end of a WebSocket.
type socket struct {
	d     *Door
	ctx   context.Context
	conn  *websocket.Conn
	t     engine.Terminal
	input chan []byte

	mu      sync.Mutex // serialises frames
	readers sync.WaitGroup
}

func (k *socket) frame(kind websocket.MessageType, data []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, cancel := context.WithTimeout(k.ctx, writeWithin)
	defer cancel()
	return k.conn.Write(ctx, kind, data)
}

func (k *socket) say(m serverMessage) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return k.frame(websocket.MessageText, data)
}

// Write sends output.
func (k *socket) Write(p []byte) (int, error) {
	if err := k.frame(websocket.MessageBinary, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// serve runs the attachment until the client leaves. The end of the program does not end it: the
// SDK closes the connection itself.
func (k *socket) serve(leave func(), created bool) {
	info := k.t.Session()
	if err := k.say(serverMessage{Type: "sessionInfo", ID: info.PID, Slug: slugOf(info), Created: &created}); err != nil {
		_ = k.t.Detach()
		return
	}
	k.readers.Go(func() { k.listen(); leave() })
	k.readers.Go(k.feed)
	status, err := k.t.Run(func(vm.TerminalReplay) error { return nil }, k)
	if k.ctx.Err() != nil {
		return
	}
	if err == nil {
		if k.say(serverMessage{Type: "exited", ExitCode: &status.Code}) == nil {
			<-k.ctx.Done()
		}
		return
	}
	// The SDK takes a connection that just closes for the end of the program.
	_ = k.say(serverMessage{Type: "error", Message: k.d.describe(err, "").Message})
	code := websocket.StatusGoingAway
	if kind := vm.KindOf(err); kind == vm.Denied || kind == vm.Unauthenticated {
		code = websocket.StatusPolicyViolation
	}
	_ = k.conn.Close(code, "")
}

// feed types the client's input. It runs beside listen, so that a kill overtakes input that the
// program does not read.
func (k *socket) feed() {
	for {
		select {
		case data := <-k.input:
			_, _ = k.t.Write(data) // not reading input is no error
		case <-k.ctx.Done():
			return
		}
	}
}

// listen handles the client's frames in order until it leaves.
func (k *socket) listen() {
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
		var m clientMessage
		if json.Unmarshal(data, &m) != nil {
			continue // unknown frames are ignored
		}
		switch {
		case m.Type == "resize" && m.Cols > 0 && m.Rows > 0:
			_ = k.t.Resize(min(m.Cols, maxSide), min(m.Rows, maxSide)) // Run reports a broken link
		case m.Type == "signal" && m.Signal == "sigint":
			give([]byte{0x03})
		case m.Type == "signal" && m.Signal == "sigkill":
			_ = k.t.Signal("KILL")
		}
	}
}

var _ http.Handler = (*Door)(nil)
