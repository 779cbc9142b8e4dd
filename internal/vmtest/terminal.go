// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vt"
	"github.com/warren-vm/warren/vm"
)

// terminal is a simulated terminal: it echoes input, and the shell runs each line.
type terminal struct {
	g   *guest
	sh  *shell
	end context.CancelFunc

	mu sync.Mutex
	// guarded by mu
	info    vm.TerminalSession
	screen  *vt.Screen
	output  []byte
	line    []byte
	viewers map[*attachedTerminal]struct{}
	changed chan struct{} // closed and replaced after output and at the end
}

func (g *guest) OpenTerminal(ctx context.Context, spec vm.TerminalSpec) (engine.Terminal, error) {
	if err := g.enter(ctx, "pty"); err != nil {
		return nil, err
	}
	if _, err := g.disk.uid(spec.User); err != nil {
		return nil, err
	}
	cwd, err := g.disk.begin(spec.User, spec.Cwd)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	running := 0
	for _, t := range g.terms {
		if t.view().Running() {
			running++
		}
	}
	if running >= vm.MaxTerminals {
		return nil, vm.Errorf(vm.Limit, "", "too many terminals").WithCode("SESSION_CAP_REACHED", "limit", vm.MaxTerminals)
	}
	g.seq++
	if spec.ID == "" {
		spec.ID = "pty-" + strconv.Itoa(g.seq)
	}
	if t := g.terms[spec.ID]; t != nil && t.view().Running() {
		return nil, vm.Errorf(vm.Exists, spec.ID, "is in use").WithCode("SESSION_ALREADY_EXISTS", "sessionId", spec.ID)
	}
	user := spec.User
	if user == "" {
		user = "root"
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	t := &terminal{
		g: g, end: end, screen: vt.New(spec.Cols, spec.Rows), viewers: map[*attachedTerminal]struct{}{}, changed: make(chan struct{}),
		info: vm.TerminalSession{
			ID: spec.ID, User: user, Command: spec.Command, PID: 100 + g.seq, CreatedAt: time.Now().UTC(), Cols: spec.Cols, Rows: spec.Rows,
		},
	}
	t.sh = &shell{disk: g.disk, user: spec.User, cwd: cwd, ctx: life, env: map[string]string{"HOME": home(spec.User), "TERM": "xterm-256color"}}
	maps.Copy(t.sh.env, spec.Env)
	t.sh.stdout = streamWriter{func(_ bool, data []byte) { t.print(string(data)) }, false}
	t.sh.stderr = t.sh.stdout
	g.terms[spec.ID] = t
	a := t.attach(ctx, vm.TerminalView{Cols: spec.Cols, Rows: spec.Rows})
	if spec.Command != "" {
		go func() { t.exit(t.sh.script(spec.Command)) }() // ends with the command or the terminal
	} else {
		t.print("$ ")
	}
	return a, nil
}

func (t *terminal) attach(ctx context.Context, view vm.TerminalView) *attachedTerminal {
	a := &attachedTerminal{t: t, ctx: ctx, cols: view.Cols, rows: view.Rows, at: int(view.Since), gone: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.viewers[a] = struct{}{}
	t.fit()
	return a
}

// fit sets the size to the smallest of the viewers'.
func (t *terminal) fit() {
	cols, rows := 0, 0
	for a := range t.viewers {
		if a.cols > 0 && (cols == 0 || a.cols < cols) {
			cols = a.cols
		}
		if a.rows > 0 && (rows == 0 || a.rows < rows) {
			rows = a.rows
		}
	}
	if cols > 0 && rows > 0 {
		t.info.Cols, t.info.Rows = cols, rows
		t.screen.Resize(cols, rows)
	}
}

func (t *terminal) print(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := []byte(strings.ReplaceAll(text, "\n", "\r\n"))
	t.output = append(t.output, b...)
	_, _ = t.screen.Write(b) // never fails
	t.tell()
}

func (t *terminal) tell() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// exit ends the terminal, once.
func (t *terminal) exit(code int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.info.ExitCode == nil {
		now := time.Now().UTC()
		t.info.ExitCode, t.info.ExitedAt = &code, &now
		t.end()
		t.tell()
	}
}

func (t *terminal) view() vm.TerminalSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.info
	v.Attached, v.Title, v.End = len(t.viewers), t.screen.Title(), int64(len(t.output))
	return v
}

// input handles typed input.
func (t *terminal) input(p []byte) {
	for _, c := range p {
		switch c {
		case 0x03:
			t.line = nil
			t.print("^C\n$ ")
		case '\r', '\n':
			t.print("\n")
			line := string(t.line)
			t.line = nil
			if code := t.sh.script(line); t.sh.exited() {
				t.exit(code)
				return
			}
			t.print("$ ")
		default:
			t.line = append(t.line, c)
			t.print(string(c))
		}
	}
}

func (g *guest) terminal(user, id string) (*terminal, error) {
	g.mu.Lock()
	t := g.terms[id]
	g.mu.Unlock()
	if user == "" {
		user = "root"
	}
	switch {
	case t == nil:
		return nil, vm.Errorf(vm.NotFound, id, "no such terminal").WithCode("SESSION_NOT_FOUND", "sessionId", id)
	case t.view().User != user:
		return nil, vm.Errorf(vm.Denied, id, "the terminal belongs to another Linux user").WithCode("SESSION_USER_MISMATCH", "sessionId", id)
	}
	return t, nil
}

func (g *guest) AttachTerminal(ctx context.Context, id string, view vm.TerminalView) (engine.Terminal, error) {
	if err := g.enter(ctx, "pty"); err != nil {
		return nil, err
	}
	t, err := g.terminal(view.User, id)
	if err != nil {
		return nil, err
	}
	a := t.attach(ctx, view)
	a.replay = true
	return a, nil
}

func (g *guest) Terminals(ctx context.Context) ([]vm.TerminalSession, error) {
	if err := g.enter(ctx, "pty"); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []vm.TerminalSession
	for _, t := range g.terms {
		list = append(list, t.view())
	}
	slices.SortFunc(list, func(a, b vm.TerminalSession) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list, nil
}

// LoseTerminals hangs up a VM's terminals, as if its agent had died.
func (w *World) LoseTerminals(id vm.ID) {
	m := w.find(id)
	if m == nil {
		return
	}
	m.guest.mu.Lock()
	defer m.guest.mu.Unlock()
	for _, t := range m.guest.terms {
		t.exit(129)
		t.mu.Lock()
		t.info.Lost = true
		t.mu.Unlock()
	}
}

func (g *guest) CloseTerminal(ctx context.Context, user, id string) (vm.TerminalSession, error) {
	if err := g.enter(ctx, "pty"); err != nil {
		return vm.TerminalSession{}, err
	}
	t, err := g.terminal(user, id)
	if err != nil {
		return vm.TerminalSession{}, err
	}
	t.exit(129)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.terms, id)
	return t.view(), nil
}

func (g *guest) ReadTerminal(ctx context.Context, user, id string, since int64) (vm.TerminalContent, error) {
	if err := g.enter(ctx, "pty"); err != nil {
		return vm.TerminalContent{}, err
	}
	t, err := g.terminal(user, id)
	if err != nil {
		return vm.TerminalContent{}, err
	}
	c := vm.TerminalContent{Session: t.view()}
	t.mu.Lock()
	defer t.mu.Unlock()
	c.Redraw = t.screen.Redraw()
	if since >= 0 {
		c.Since = min(since, int64(len(t.output)))
		c.Output = bytes.Clone(t.output[c.Since:])
	}
	return c, nil
}

func (g *guest) SendTerminal(ctx context.Context, id string, s vm.TerminalSend) (vm.TerminalContent, error) {
	before, err := g.ReadTerminal(ctx, s.User, id, -1)
	if err != nil {
		return before, err
	}
	t, err := g.terminal(s.User, id)
	if err != nil {
		return before, err
	}
	if !before.Session.Running() {
		return before, vm.Errorf(vm.WrongState, id, "its program has ended")
	}
	t.input(s.Data)
	c, err := g.ReadTerminal(ctx, s.User, id, before.Session.End)
	c.Quiet = true
	return c, err
}

// attachedTerminal implements engine.Terminal.
type attachedTerminal struct {
	t          *terminal
	ctx        context.Context
	cols, rows int
	at         int
	replay     bool
	gone       chan struct{}
	once       sync.Once
}

func (a *attachedTerminal) Session() vm.TerminalSession { return a.t.view() }

func (a *attachedTerminal) Write(p []byte) (int, error) {
	a.t.input(p)
	return len(p), nil
}

func (a *attachedTerminal) Resize(cols, rows int) error {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	a.cols, a.rows = cols, rows
	a.t.fit()
	return nil
}

func (a *attachedTerminal) Signal(name string) error {
	n := signalNumbers[name]
	if n == 0 {
		return vm.Errorf(vm.Invalid, name, "no such signal")
	}
	a.t.exit(128 + n)
	return nil
}

func (a *attachedTerminal) Detach() error {
	a.once.Do(func() {
		close(a.gone)
		a.t.mu.Lock()
		delete(a.t.viewers, a)
		a.t.fit()
		a.t.mu.Unlock()
	})
	return nil
}

func (a *attachedTerminal) Run(replay func(vm.TerminalReplay) error, out io.Writer) (vm.ExitStatus, error) {
	defer a.Detach()
	if a.replay {
		a.t.mu.Lock()
		r := vm.TerminalReplay{Offset: int64(len(a.t.output))}
		var b []byte
		if a.at < 0 || a.at > len(a.t.output) {
			r.Redraw, b = true, a.t.screen.Redraw()
		} else {
			b = bytes.Clone(a.t.output[a.at:])
		}
		a.at, r.Bytes = len(a.t.output), len(b)
		a.t.mu.Unlock()
		if err := replay(r); err != nil {
			return vm.ExitStatus{}, err
		}
		if _, err := out.Write(b); err != nil {
			return vm.ExitStatus{}, err
		}
	}
	for {
		a.t.mu.Lock()
		b, changed, code := a.t.output[a.at:], a.t.changed, a.t.info.ExitCode
		a.at = len(a.t.output)
		a.t.mu.Unlock()
		if len(b) > 0 {
			if _, err := out.Write(b); err != nil {
				return vm.ExitStatus{}, err
			}
		}
		if code != nil {
			return vm.ExitStatus{Code: *code}, nil
		}
		select {
		case <-changed:
		case <-a.gone:
			return vm.ExitStatus{}, vm.Errorf(vm.GuestFault, "", "detached")
		case <-a.ctx.Done():
			return vm.ExitStatus{}, context.Cause(a.ctx)
		case <-a.t.g.m.gone:
			return vm.ExitStatus{}, vm.Errorf(vm.GuestFault, "", "the link is broken")
		}
	}
}
