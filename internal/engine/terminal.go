// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/vm"
)

// maxTerminalWait bounds how long one call may wait for a terminal's silence.
const maxTerminalWait = 290 * time.Second

// OpenTerminal starts a program on a new terminal and attaches to it. ctx is
// the attachment's life; the terminal goes on after it. The caller calls Run,
// or Detach.
func (e *Engine) OpenTerminal(ctx context.Context, c *vm.Call, ref string, spec vm.TerminalSpec) (Terminal, error) {
	if err := checkTerminal(spec); err != nil {
		return nil, fail(vm.OpTerminal, ref, err)
	}
	c.User = spec.User
	detail := map[string]any{"open": true}
	if spec.ID != "" {
		detail["session"] = spec.ID
	}
	if spec.User != "" {
		detail["user"] = spec.User
	}
	subject := spec.Command
	if subject == "" {
		subject = "login shell"
	}
	return e.terminal(ctx, c, ref, vm.AuditEntry{Subject: clip(subject), Detail: detail}, func(ctx context.Context, v *visit) (Terminal, error) {
		asked := spec.Cwd
		spec.Cwd = v.path(asked)
		t, err := v.guest.OpenTerminal(ctx, spec)
		return t, v.started(asked, err)
	})
}

// checkTerminal refuses a terminal that no guest could open.
func checkTerminal(s vm.TerminalSpec) error {
	if s.ID != "" {
		if err := vm.CheckTerminalID(s.ID); err != nil {
			return err
		}
	}
	exec := vm.ExecSpec{Command: s.Command, Cwd: s.Cwd, User: s.User, Env: s.Env}
	if s.Command == "" {
		exec.Argv = []string{"sh"}
	}
	return checkExec(exec)
}

// AttachTerminal attaches to a terminal; see OpenTerminal.
func (e *Engine) AttachTerminal(ctx context.Context, c *vm.Call, ref, id string, view vm.TerminalView) (Terminal, error) {
	c.User = view.User
	entry := vm.AuditEntry{Subject: clip(id), Detail: map[string]any{"attach": true, "session": clip(id)}}
	return e.terminal(ctx, c, ref, entry, func(ctx context.Context, v *visit) (Terminal, error) {
		return v.guest.AttachTerminal(ctx, id, view)
	})
}

// terminal is an attachment with its record.
func (e *Engine) terminal(ctx context.Context, c *vm.Call, ref string, entry vm.AuditEntry, f func(context.Context, *visit) (Terminal, error)) (Terminal, error) {
	v, err := e.visit(ctx, c, ref, vm.OpTerminal)
	if err != nil {
		return nil, err
	}
	if err := v.recordAs(ctx, c, entry); err != nil {
		err = v.fail(ctx, err)
		v.end(err, nil)
		return nil, err
	}
	t, err := open(v, func(ctx context.Context) (Terminal, error) { return f(ctx, v) })
	if err != nil {
		return nil, v.session(err)
	}
	v.loosen()
	a := &terminal{Terminal: t, v: v, moved: v.guard(), traffic: &traffic{v: v}}
	a.stop = context.AfterFunc(v.ctx, func() { a.end(v.fail(v.ctx, context.Cause(v.ctx)), nil) })
	return a, nil
}

// session adds to a refusal the VM that it is about, as the contract has it.
func (v *visit) session(err error) error {
	e := vm.AsError(err)
	if err == nil || !strings.HasPrefix(e.Code, "SESSION_") {
		return err
	}
	out := *e
	fields := map[string]any{"vmId": string(v.slot.id)}
	for k, val := range e.Fields {
		fields[k] = val
	}
	out.Fields = fields
	return &out
}

// terminal is an attached terminal. What goes through it is the VM's
// activity; that somebody is attached is not.
type terminal struct {
	Terminal
	v     *visit
	moved *atomic.Int64
	stop  func() bool

	traffic *traffic
	in, out atomic.Int64
}

// count notes bytes that went through.
func (t *terminal) count(n int, way *atomic.Int64) {
	way.Add(int64(n))
	t.moved.Add(int64(n))
	t.traffic.count(n)
}

func (t *terminal) Write(p []byte) (int, error) {
	n, err := t.Terminal.Write(p)
	t.count(n, &t.in)
	return n, t.v.fail(t.v.ctx, err)
}

func (t *terminal) Detach() error {
	t.stop()
	err := t.v.fail(t.v.ctx, t.Terminal.Detach())
	t.end(err, nil)
	return err
}

func (t *terminal) Run(replay func(vm.TerminalReplay) error, out io.Writer) (vm.ExitStatus, error) {
	drawing := 0 // bytes of a replay to come, which are no activity
	st, err := t.Terminal.Run(func(r vm.TerminalReplay) error {
		drawing = r.Bytes
		return replay(r)
	}, writer(func(p []byte) (int, error) {
		if drawing > 0 {
			drawing -= len(p)
			t.moved.Add(int64(len(p)))
		} else {
			t.count(len(p), &t.out)
		}
		return out.Write(p)
	}))
	t.stop()
	err = t.v.fail(t.v.ctx, err)
	t.end(err, &st)
	return st, err
}

func (t *terminal) end(err error, st *vm.ExitStatus) {
	d := map[string]any{"session": t.Session().ID, "bytesIn": t.in.Load(), "bytesOut": t.out.Load()}
	switch {
	case err == nil && st != nil:
		d["exitCode"] = st.Code
	case err == nil || vm.KindOf(err) == vm.Cancelled:
		d["detached"], err = true, nil
	}
	t.v.end(err, d)
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// Terminals lists a VM's terminals, oldest first, those that ended lately too.
// It wakes no VM: of a suspended one it tells those that it fell asleep with.
func (e *Engine) Terminals(ctx context.Context, c *vm.Call, ref string) ([]vm.TerminalSession, error) {
	list, err := ask(ctx, e, c, ref, vm.OpStats, func(ctx context.Context, v *visit) ([]vm.TerminalSession, error) {
		list, err := v.guest.Terminals(ctx)
		return slices.DeleteFunc(list, func(t vm.TerminalSession) bool { return v.mayBe(t.User) != nil }), err
	})
	if vm.KindOf(err) == vm.WrongState {
		if list, ok := e.sleepingTerminals(c, ref); ok {
			return list, nil
		}
	}
	return list, err
}

// terminalsDeadline bounds the question for the terminals of a VM that is about
// to fall asleep.
const terminalsDeadline = 3 * time.Second

// terminalsNow returns the terminals that a VM has before it falls asleep.
func (e *Engine) terminalsNow(op *operation) []vm.TerminalSession {
	r := e.runOf(op.slot)
	if r == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(op.ctx, terminalsDeadline)
	defer stop()
	list, err := r.machine.Guest().Terminals(ctx)
	if err != nil {
		e.log.Warn("the list of terminals of a VM that falls asleep is not known", "vm", op.slot.id, "error", err)
	}
	return list
}

// sleepingTerminals returns the terminals of a suspended VM.
func (e *Engine) sleepingTerminals(c *vm.Call, ref string) ([]vm.TerminalSession, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.lookupLocked(c.Actor, ref)
	if err != nil || s.rec.State != vm.Suspended {
		return nil, false
	}
	list := slices.DeleteFunc(slices.Clone(s.rec.Terminals), func(t vm.TerminalSession) bool {
		return e.mayActLocked(c.Actor, s.id, vm.OpTerminal, t.User) != nil
	})
	for i := range list {
		list[i].Attached, list[i].Suspended = 0, list[i].Running()
	}
	return list, true
}

// CloseTerminal ends a terminal's programs and forgets it.
func (e *Engine) CloseTerminal(ctx context.Context, c *vm.Call, ref, user, id string) (vm.TerminalSession, error) {
	c.User = user
	entry := vm.AuditEntry{Op: vm.OpTerminal, Subject: clip(id), Detail: map[string]any{"close": true, "session": clip(id)}}
	return act(ctx, e, c, ref, entry, func(ctx context.Context, v *visit) (vm.TerminalSession, error) {
		t, err := v.guest.CloseTerminal(ctx, user, id)
		return t, v.session(err)
	})
}

// ReadTerminal returns what a terminal shows, and its output from an offset
// on; a negative one asks for none.
func (e *Engine) ReadTerminal(ctx context.Context, c *vm.Call, ref, user, id string, since int64) (vm.TerminalContent, error) {
	c.User = user
	return ask(ctx, e, c, ref, vm.OpTerminal, func(ctx context.Context, v *visit) (vm.TerminalContent, error) {
		content, err := v.guest.ReadTerminal(ctx, user, id, since)
		return content, v.session(err)
	})
}

// SendTerminal types into a terminal, waits until it is quiet, and returns
// what came of it. What is typed is not recorded: it may be a secret.
func (e *Engine) SendTerminal(ctx context.Context, c *vm.Call, ref, id string, s vm.TerminalSend) (vm.TerminalContent, error) {
	var none vm.TerminalContent
	if s.Quiet < 0 || s.Limit < 0 || s.Limit > maxTerminalWait || s.Quiet > s.Limit {
		return none, fail(vm.OpTerminal, ref, (&vm.Error{Kind: vm.Invalid, Msg: "the times to wait are out of range"}).WithCode("INVALID_REQUEST"))
	}
	c.User = s.User
	v, err := e.visit(ctx, c, ref, vm.OpTerminal)
	if err != nil {
		return none, err
	}
	entry := vm.AuditEntry{Subject: clip(id), Detail: map[string]any{"send": len(s.Data), "session": clip(id)}}
	if err := v.recordAs(ctx, c, entry); err != nil {
		err = v.fail(ctx, err)
		v.end(err, nil)
		return none, err
	}
	limit := s.Limit + v.e.cfg.Settings.GuestDeadline
	bounded, stop := context.WithTimeoutCause(v.ctx, limit, v.noAnswer(limit))
	defer stop()
	content, err := v.guest.SendTerminal(bounded, id, s)
	err = v.fail(bounded, v.session(err))
	v.end(err, nil)
	return content, err
}
