// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

const (
	maxEnv     = 256      // variables that a client may set
	maxEnvSize = 64 << 10 // bytes of one
	// failed is the exit status of a session that Warren could not start, the same as ssh's own.
	failed = 255
	// hangUpGrace is how long a command may take to end after its client has left.
	hangUpGrace = 2 * time.Second
	// lastWords limits the clean-up after a client has left.
	lastWords = 30 * time.Second

	// sessionVariable names a shell's terminal, which then persists.
	sessionVariable = "WARREN_SESSION"
)

// session is one session channel: a command, a shell or a file transfer.
type session struct {
	c   *client
	ch  ssh.Channel
	env map[string]string

	ctx    context.Context // outlives the connection, for the clean-up
	cancel context.CancelFunc
	gone   chan struct{} // closed when the client has left
	over   sync.WaitGroup

	term       string // type of the client's terminal; "" = none
	cols, rows int
	agent      engine.SocketListener // the forwarded SSH agent, in the guest
	started    bool
	answered   chan struct{} // closed when the client knows of the start; nil = it does

	mu      sync.Mutex
	running runner // guarded by mu
}

// runner receives window changes and signals.
type runner interface {
	Signal(name string) error
}

func (c *client) session(nc ssh.NewChannel) {
	ch, requests, err := nc.Accept()
	if err != nil {
		return
	}
	s := &session{c: c, ch: ch, env: map[string]string{}, gone: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(c.ctx))
	defer s.cancel()
	defer shut(ch)
	for r := range requests {
		ok := s.request(r)
		_ = r.Reply(ok, nil) // an error says that the client has left
		if s.answered != nil {
			close(s.answered)
			s.answered = nil
		}
	}
	close(s.gone)
	if s.agent != nil && !s.started {
		_ = s.agent.Close()
	}
	s.over.Wait()
}

// request executes a request of the client for the session.
func (s *session) request(r *ssh.Request) bool {
	switch r.Type {
	case "env":
		var p struct{ Name, Value string }
		if ssh.Unmarshal(r.Payload, &p) != nil || s.started || len(s.env) >= maxEnv || len(r.Payload) > maxEnvSize {
			return false
		}
		if p.Name == "" || strings.ContainsAny(p.Name, "=\x00") || strings.ContainsRune(p.Value, 0) {
			return false
		}
		s.env[p.Name] = p.Value
		return true
	case "pty-req":
		return !s.started && s.pty(r.Payload)
	case "window-change":
		return s.resize(r.Payload)
	case "signal":
		var p struct{ Name string }
		return ssh.Unmarshal(r.Payload, &p) == nil && s.signal(p.Name)
	case "auth-agent-req@openssh.com":
		return s.c.agent && !s.started && s.forwardAgent()
	case "shell":
		return s.start(func() { s.shell("") })
	case "exec":
		var p struct{ Command string }
		if ssh.Unmarshal(r.Payload, &p) != nil {
			return false
		}
		return s.start(func() { s.shell(p.Command) })
	case "subsystem":
		var p struct{ Name string }
		if ssh.Unmarshal(r.Payload, &p) != nil || p.Name != "sftp" {
			return false
		}
		return s.start(s.sftp)
	}
	return false
}

// start runs the one thing that a session is for.
func (s *session) start(f func()) bool {
	if s.started {
		return false
	}
	s.started = true
	answered := make(chan struct{})
	s.answered = answered
	s.over.Go(func() {
		<-answered // a short command would close the channel before the reply
		defer shut(s.ch)
		if s.agent != nil {
			defer shut(s.agent)
		}
		f()
	})
	return true
}

func (s *session) pty(payload []byte) bool {
	var p struct {
		Term          string
		Cols, Rows    uint32
		Width, Height uint32
		Modes         string
	}
	if ssh.Unmarshal(payload, &p) != nil {
		return false
	}
	s.term = p.Term
	if s.term == "" {
		s.term = "dumb"
	}
	s.cols, s.rows = size(p.Cols, vm.TerminalCols), size(p.Rows, vm.TerminalRows)
	return true
}

// size limits a dimension that a client sends.
func size(n uint32, unknown int) int {
	if n == 0 {
		return unknown
	}
	return int(min(n, 4096))
}

func (s *session) resize(payload []byte) bool {
	var p struct{ Cols, Rows, Width, Height uint32 }
	if ssh.Unmarshal(payload, &p) != nil {
		return false
	}
	cols, rows := size(p.Cols, vm.TerminalCols), size(p.Rows, vm.TerminalRows)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cols, s.rows = cols, rows
	if t, ok := s.running.(engine.Terminal); ok {
		return t.Resize(cols, rows) == nil
	}
	return true
}

func (s *session) signal(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running != nil && s.running.Signal(strings.TrimPrefix(name, "SIG")) == nil
}

// runs sets what is running now, and passes on a size that changed in the meantime.
func (s *session) runs(r runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = r
	if t, ok := r.(engine.Terminal); ok && (t.Session().Cols != s.cols || t.Session().Rows != s.rows) {
		_ = t.Resize(s.cols, s.rows) // a terminal that ended reports it to its reader
	}
}

// refuse tells the client why the session failed.
func (s *session) refuse(err error) {
	_, _ = io.WriteString(s.ch.Stderr(), explain(s.c.s.cfg.Engine.Conceal(err))) // an error says that the client has left
	s.exit(vm.ExitStatus{Code: failed})
}

// exit sends the exit status.
func (s *session) exit(st vm.ExitStatus) {
	_ = s.ch.CloseWrite() // an error says that the client has left; the same below
	if st.Signal != "" {
		_, _ = s.ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name    string
			Core    bool
			Message string
			Lang    string
		}{Name: strings.TrimPrefix(st.Signal, "SIG")}))
		return
	}
	_, _ = s.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(st.Code)}))
}

// shell runs a command or the user's shell, with or without a terminal.
func (s *session) shell(command string) {
	s.env["SSH_CONNECTION"] = "10.0.2.2 22 10.0.2.15 22" // as the guest sees its host
	s.env["SSH_CLIENT"] = "10.0.2.2 22 22"
	if s.agent != nil {
		s.env["SSH_AUTH_SOCK"] = s.agent.Address()
	}
	if s.term != "" {
		s.terminal(command)
		return
	}
	spec := vm.ExecSpec{Command: command, User: s.c.name, Env: s.env, Stdin: true}
	if command == "" {
		user, err := s.c.user()
		if err != nil {
			s.refuse(err)
			return
		}
		spec.Argv = []string{loginShell(user), "-l"}
	}
	s.command(spec)
}

func loginShell(u vm.LinuxUser) string {
	if u.Shell == "" {
		return "/bin/sh"
	}
	return u.Shell
}

// beginning returns the session's context, which also ends if the client leaves before
// begun is called: a call that waits for an approval then does not run.
func (s *session) beginning() (ctx context.Context, begun func()) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	started := make(chan struct{})
	s.over.Go(func() {
		select {
		case <-s.gone:
			cancel(vm.Errorf(vm.Cancelled, s.c.ref, "the SSH client has left"))
		case <-started:
		}
	})
	return ctx, func() { close(started) }
}

// command runs a program whose input and output are the channel.
func (s *session) command(spec vm.ExecSpec) {
	ctx, begun := s.beginning()
	x, err := s.c.s.cfg.Engine.Exec(ctx, s.c.call(), s.c.ref, spec)
	begun()
	if err != nil {
		s.refuse(err)
		return
	}
	s.runs(x)
	s.over.Go(func() {
		_, _ = copyStream(x, s.ch) // the program may not read all
		_ = x.CloseStdin()
	})
	done := make(chan struct{})
	s.over.Go(func() {
		select {
		case <-done:
			return
		case <-s.gone:
		}
		// As if its terminal had closed; a program that ignores this keeps
		// running in the background.
		_ = x.Signal("HUP")
		select {
		case <-done:
		case <-time.After(hangUpGrace):
			s.cancel()
		}
	})
	st, err := x.Run(s.ch, s.ch.Stderr())
	close(done)
	if err != nil {
		s.tidy(func(ctx context.Context, c *vm.Call) {
			_ = s.c.s.cfg.Engine.SignalProcess(ctx, c, s.c.ref, s.c.name, x.Process().ID, "HUP") // it may have ended
		})
		s.refuse(err)
		return
	}
	s.exit(st)
}

// terminal runs a program on a terminal of the agent. The terminal ends with
// the session, unless the client has named it.
func (s *session) terminal(command string) {
	e, name := s.c.s.cfg.Engine, s.env[sessionVariable]
	delete(s.env, sessionVariable)
	s.env["TERM"] = s.term
	ctx, begun := s.beginning()
	t, err := s.open(ctx, name, vm.TerminalSpec{
		ID: name, Command: command, User: s.c.name, Env: s.env, Cols: s.cols, Rows: s.rows,
	})
	begun()
	if err != nil {
		s.refuse(err)
		return
	}
	s.runs(t)
	s.over.Go(func() { _, _ = copyStream(t, s.ch) }) // ends with the channel
	done := make(chan struct{})
	s.over.Go(func() {
		select {
		case <-done:
		case <-s.gone:
			_ = t.Detach()
		}
	})
	st, err := t.Run(func(vm.TerminalReplay) error { return nil }, s.ch)
	close(done)
	if name == "" { // nobody will attach to it again
		s.tidy(func(ctx context.Context, c *vm.Call) {
			_, _ = e.CloseTerminal(ctx, c, s.c.ref, s.c.name, t.Session().ID) // it may have been closed
		})
	}
	if err != nil {
		s.refuse(err)
		return
	}
	s.exit(st)
}

// tidy removes what the session leaves in the guest, in the name of Warren itself,
// because the client may have lost its right. It does not wake a suspended VM.
func (s *session) tidy(f func(ctx context.Context, c *vm.Call)) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(s.ctx), lastWords)
	defer stop()
	c := &vm.Call{Actor: vm.Actor{Account: s.c.actor.Account, System: "ssh"}, Request: vm.NewRequestID()}
	rec, err := s.c.s.cfg.Engine.MayEnter(ctx, c.Actor, s.c.ref, "")
	if err == nil && rec.State == vm.Running {
		f(ctx, c)
	}
}

// open opens a terminal, or attaches to the one with that name.
func (s *session) open(ctx context.Context, name string, spec vm.TerminalSpec) (engine.Terminal, error) {
	e := s.c.s.cfg.Engine
	if name != "" {
		list, err := e.Terminals(ctx, s.c.call(), s.c.ref)
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			if t.ID == name && t.Running() {
				return e.AttachTerminal(ctx, s.c.call(), s.c.ref, name, vm.TerminalView{User: s.c.name, Cols: s.cols, Rows: s.rows, Since: -1})
			}
		}
	}
	return e.OpenTerminal(ctx, s.c.call(), s.c.ref, spec)
}
