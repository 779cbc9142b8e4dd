// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package mcpd

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type terminalIn struct {
	Machine  string            `json:"machine" jsonschema:"name or id of the machine; a sleeping one wakes"`
	Action   string            `json:"action" jsonschema:"open, send, screen, close or list"`
	Terminal string            `json:"terminal,omitempty" jsonschema:"id of the terminal: the answer of open has it; needed for send, screen and close"`
	User     string            `json:"user,omitempty" jsonschema:"Linux user; default root. The same one as at open"`
	Command  string            `json:"command,omitempty" jsonschema:"open: the program; default the login shell"`
	Cwd      string            `json:"cwd,omitempty" jsonschema:"open: its directory"`
	Env      map[string]string `json:"env,omitempty" jsonschema:"open: further variables"`
	Cols     int               `json:"cols,omitempty" jsonschema:"open: columns; default 80"`
	Rows     int               `json:"rows,omitempty" jsonschema:"open: lines; default 24"`
	Keep     bool              `json:"keep,omitempty" jsonschema:"open: keep it when this client leaves; default false"`
	Text     string            `json:"text,omitempty" jsonschema:"send: what is typed. End a line with \\r; ^C is \\u0003, escape \\u001b. Empty: only wait for output"`
	Quiet    int               `json:"quiet_ms,omitempty" jsonschema:"send: answer when nothing was printed for this long; default 250"`
	Timeout  int               `json:"timeout_ms,omitempty" jsonschema:"send: answer after this time at the latest; default 10000, at most 600000"`
}

type terminalInfo struct {
	ID       string `json:"id"`
	Command  string `json:"command,omitempty"`
	User     string `json:"user"`
	Running  bool   `json:"running"`
	ExitCode *int   `json:"exit_code,omitempty"`
}

type terminalOut struct {
	Terminal  string         `json:"terminal,omitempty"`
	Terminals []terminalInfo `json:"terminals,omitempty" jsonschema:"of list"`
	Screen    string         `json:"screen,omitempty" jsonschema:"the screen as text"`
	Output    string         `json:"output,omitempty" jsonschema:"of send: what was printed meanwhile, without control sequences"`
	Quiet     bool           `json:"quiet,omitempty" jsonschema:"of send: the program waits, as far as its output tells"`
	Running   bool           `json:"running"`
	ExitCode  *int           `json:"exit_code,omitempty"`
}

func (s *Server) addTerminals() {
	add(s, &mcp.Tool{
		Name: "terminal", Annotations: runs("Use a terminal"),
		Description: "Programs on a terminal of a machine, for what needs one: shells that keep their state, editors, prompts, full-screen programs. open starts one, send types and returns what came, screen shows it as a person sees it, close ends it. Terminals that this client opened end when it leaves, unless keep is set.",
	}, s.terminal)
}

func (s *Server) terminal(ctx context.Context, k *call, in terminalIn) (out terminalOut, err error) {
	if in.Terminal == "" && (in.Action == "send" || in.Action == "screen" || in.Action == "close") {
		return out, vm.Errorf(vm.Invalid, "terminal", "no terminal is named").WithHint("action open makes one, list shows those that are there")
	}
	out.Terminal = in.Terminal
	switch in.Action {
	case "open":
		return s.openTerminal(ctx, k, in)
	case "send":
		send := api.PtyInput{Data: in.Text}
		if in.Quiet > 0 {
			send.Quiet = ms(in.Quiet)
		}
		if in.Timeout > 0 {
			send.Timeout = ms(min(in.Timeout, 600_000))
		}
		o, err := k.c.SendTerminal(ctx, in.Machine, in.User, in.Terminal, send)
		out.Output, out.Screen, out.Quiet, out.Running, out.ExitCode = endOf(o.Output), o.Screen, o.Quiet, o.Running, o.ExitCode
		return out, err
	case "screen":
		o, err := k.c.TerminalScreen(ctx, in.Machine, in.User, in.Terminal)
		out.Screen, out.Running, out.ExitCode = o.Text, o.Running, o.ExitCode
		return out, err
	case "close":
		o, err := k.c.CloseTerminal(ctx, in.Machine, in.User, in.Terminal)
		out.ExitCode = o.ExitCode
		s.disown(k.session, terminalKey{in.Machine, in.Terminal, in.User})
		return out, err
	case "list":
		l, err := k.c.Terminals(ctx, in.Machine)
		for _, t := range l[:min(len(l), listMost)] {
			user := "root"
			if t.User != nil {
				user = *t.User
			}
			out.Terminals = append(out.Terminals, terminalInfo{ID: t.SessionID, Command: vm.Clip(t.Exec, 500), User: user, Running: t.Running, ExitCode: t.ExitCode})
		}
		return out, err
	}
	return out, unknownAction(in.Action, "open, send, screen, close or list")
}

func ms(n int) *vm.Millis {
	d := vm.Millis(time.Duration(n) * time.Millisecond)
	return &d
}

// endOf keeps the end of a long text.
func endOf(text string) string {
	c := &clip{most: outputDefault}
	_, _ = c.Write([]byte(text)) // never fails
	return c.text()
}

// openTerminal opens a terminal and lets go of it: send and screen need no attachment.
func (s *Server) openTerminal(ctx context.Context, k *call, in terminalIn) (out terminalOut, err error) {
	t, err := k.c.OpenTerminal(ctx, in.Machine, vm.TerminalSpec{Command: in.Command, User: in.User, Cwd: in.Cwd, Env: in.Env, Cols: in.Cols, Rows: in.Rows})
	if err != nil {
		return out, err
	}
	_ = t.Detach() // always nil
	id := t.Session().SessionID
	if !in.Keep {
		s.own(ctx, k, terminalKey{in.Machine, id, in.User})
	}
	wait := ms(2000)
	o, err := k.c.SendTerminal(ctx, in.Machine, in.User, id, api.PtyInput{Timeout: wait}) // the prompt
	return terminalOut{Terminal: id, Screen: o.Screen, Running: o.Running, ExitCode: o.ExitCode}, err
}

// own ends a terminal when the session ends. A client without a session (revision
// 2026-07-28 over HTTP) owns nothing.
func (s *Server) own(ctx context.Context, k *call, t terminalKey) {
	if k.stateless {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if all, ok := s.owned[k.session]; ok {
		all[t] = k.c
		return
	}
	s.owned[k.session] = map[terminalKey]*client.Client{t: k.c}
	ctx = context.WithoutCancel(ctx)
	s.cleaning.Go(func() { // ends with the session
		_ = k.session.Wait() // how it ended makes no difference
		s.mu.Lock()
		all := s.owned[k.session]
		delete(s.owned, k.session)
		s.mu.Unlock()
		limit, cancel := context.WithTimeout(ctx, endWithin)
		defer cancel()
		for t, c := range all {
			_, _ = c.CloseTerminal(limit, t.machine, t.user, t.id) // it may be gone, with its machine
		}
	})
}

func (s *Server) disown(session *mcp.ServerSession, t terminalKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owned[session], t)
}
