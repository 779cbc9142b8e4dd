// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// maxTerminalWait bounds how long one call may wait for a terminal's silence.
const maxTerminalWait = 290 * time.Second

// OpenTerminal starts a program on a new terminal and attaches to it until ctx ends; the
// terminal stays open afterwards. The caller calls Run, or Detach.
func (in *Inside) OpenTerminal(ctx context.Context, c *vm.Call, ref string, spec vm.TerminalSpec) (engine.Terminal, error) {
	if err := checkTerminal(spec); err != nil {
		return nil, vm.WithOp(vm.OpTerminal, ref, err)
	}
	if err := in.approved(ctx, c, ref, terminalAct(spec)); err != nil {
		return nil, err
	}
	detail := map[string]any{"open": true}
	if spec.ID != "" {
		detail["session"] = spec.ID
	}
	if spec.User != "" {
		detail["user"] = spec.User
	}
	subject := "login shell"
	if spec.Command != "" {
		subject = in.execEntry(vm.ExecSpec{Command: spec.Command}).Subject
		in.digest(detail, spec.Command)
	}
	return in.terminal(ctx, c, ref, spec.User, vm.AuditEntry{Op: vm.OpTerminal, Subject: subject, Detail: detail}, func(ctx context.Context, v *visit) (engine.Terminal, error) {
		asked := spec.Cwd
		spec.Cwd, spec.User = v.path(asked), cmp.Or(spec.User, v.rec.User)
		t, err := v.guest.OpenTerminal(ctx, spec)
		return t, v.started(asked, err)
	})
}

// checkTerminal refuses an invalid specification.
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
func (in *Inside) AttachTerminal(ctx context.Context, c *vm.Call, ref, id string, view vm.TerminalView) (engine.Terminal, error) {
	if err := in.approved(ctx, c, ref, access.Act{Verb: vm.OpTerminal, User: view.User, What: "attach to the terminal " + id}); err != nil {
		return nil, err
	}
	entry := vm.AuditEntry{Op: vm.OpTerminal, Subject: clip(id), Detail: map[string]any{"attach": true, "session": clip(id)}}
	return in.terminal(ctx, c, ref, view.User, entry, func(ctx context.Context, v *visit) (engine.Terminal, error) {
		return v.guest.AttachTerminal(ctx, id, view)
	})
}

// terminal attaches to a terminal and writes the audit record.
func (in *Inside) terminal(ctx context.Context, c *vm.Call, ref, user string, entry vm.AuditEntry, f func(context.Context, *visit) (engine.Terminal, error)) (engine.Terminal, error) {
	v, err := in.recorded(ctx, c, ref, user, entry)
	if err != nil {
		return nil, err
	}
	t, err := open(v, func(ctx context.Context) (engine.Terminal, error) { return f(ctx, v) })
	if err != nil {
		return nil, v.session(err)
	}
	v.CountTraffic()
	a := &terminal{Terminal: t, v: v, moved: v.guard(), traffic: &traffic{v: v}}
	a.stop = context.AfterFunc(v.ctx, func() { a.end(v.Fail(v.ctx, context.Cause(v.ctx)), nil) })
	return a, nil
}

// session adds the VM to an error, as the API's contract requires.
func (v *visit) session(err error) error {
	e := vm.AsError(err)
	if err == nil || !strings.HasPrefix(e.Code, "SESSION_") {
		return err
	}
	out := *e
	fields := map[string]any{"vmId": string(v.rec.ID)}
	for k, val := range e.Fields {
		fields[k] = val
	}
	out.Fields = fields
	return &out
}

// terminal is an attached terminal. Its traffic counts as the VM's activity, the
// attachment does not.
type terminal struct {
	engine.Terminal
	v     *visit
	moved *atomic.Int64
	stop  func() bool

	traffic *traffic
	in, out atomic.Int64
}

// count counts n bytes in one direction.
func (t *terminal) count(n int, way *atomic.Int64) {
	way.Add(int64(n))
	t.moved.Add(int64(n))
	t.traffic.count(n)
}

func (t *terminal) Write(p []byte) (int, error) {
	n, err := t.Terminal.Write(p)
	t.count(n, &t.in)
	return n, t.v.Fail(t.v.ctx, err)
}

func (t *terminal) Detach() error {
	t.stop()
	err := t.v.Fail(t.v.ctx, t.Terminal.Detach())
	t.end(err, nil)
	return err
}

func (t *terminal) Run(replay func(vm.TerminalReplay) error, out io.Writer) (vm.ExitStatus, error) {
	drawing := 0 // remaining bytes of a replay, which are no activity
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
	err = t.v.Fail(t.v.ctx, err)
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
	t.v.End(err, d)
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// Terminals lists a VM's terminals, oldest first, including recently ended ones. It does
// not wake the VM: for a suspended VM it lists those at the suspend.
func (in *Inside) Terminals(ctx context.Context, c *vm.Call, ref string) ([]vm.TerminalSession, error) {
	list, err := ask(ctx, in, c, ref, vm.OpStats, "", func(ctx context.Context, v *visit) ([]vm.TerminalSession, error) {
		list, err := v.guest.Terminals(ctx)
		return slices.DeleteFunc(list, func(t vm.TerminalSession) bool { return v.MayActAs(t.User) != nil }), err
	})
	if vm.KindOf(err) == vm.WrongState {
		if list, ok := in.sleepingTerminals(ctx, c, ref); ok {
			return list, nil
		}
	}
	return list, err
}

// sleepingTerminals returns the terminals of a suspended VM from its record.
func (in *Inside) sleepingTerminals(ctx context.Context, c *vm.Call, ref string) ([]vm.TerminalSession, bool) {
	rec, err := in.cfg.Engine.Get(ctx, c, ref)
	if err != nil || rec.State != vm.Suspended {
		return nil, false
	}
	list := slices.DeleteFunc(slices.Clone(rec.Terminals), func(t vm.TerminalSession) bool {
		return in.cfg.Access.May(c.Actor, rec.ID, vm.OpTerminal, t.User) != nil
	})
	for i := range list {
		list[i].Attached, list[i].Suspended = 0, list[i].Running()
	}
	return list, true
}

// CloseTerminal ends a terminal's programs and forgets it.
func (in *Inside) CloseTerminal(ctx context.Context, c *vm.Call, ref, user, id string) (vm.TerminalSession, error) {
	if err := in.approved(ctx, c, ref, access.Act{Verb: vm.OpTerminal, User: user, What: "end the terminal " + id}); err != nil {
		return vm.TerminalSession{}, err
	}
	entry := vm.AuditEntry{Op: vm.OpTerminal, Subject: clip(id), Detail: map[string]any{"close": true, "session": clip(id)}}
	return act(ctx, in, c, ref, user, entry, func(ctx context.Context, v *visit) (vm.TerminalSession, error) {
		t, err := v.guest.CloseTerminal(ctx, user, id)
		return t, v.session(err)
	})
}

// ReadTerminal returns a terminal's screen and its output from an offset on; a negative
// offset returns no output.
func (in *Inside) ReadTerminal(ctx context.Context, c *vm.Call, ref, user, id string, since int64) (vm.TerminalContent, error) {
	return ask(ctx, in, c, ref, vm.OpTerminal, user, func(ctx context.Context, v *visit) (vm.TerminalContent, error) {
		content, err := v.guest.ReadTerminal(ctx, user, id, since)
		return content, v.session(err)
	})
}

// SendTerminal types into a terminal, waits until it is quiet, and returns the output.
// The input is not recorded, because it may be a secret.
func (in *Inside) SendTerminal(ctx context.Context, c *vm.Call, ref, id string, s vm.TerminalSend) (vm.TerminalContent, error) {
	var none vm.TerminalContent
	if s.Quiet < 0 || s.Limit < 0 || s.Limit > maxTerminalWait || s.Quiet > s.Limit {
		return none, vm.WithOp(vm.OpTerminal, ref, (&vm.Error{Kind: vm.Invalid, Msg: "the times to wait are out of range"}).WithCode("INVALID_REQUEST"))
	}
	typed := access.Act{Verb: vm.OpTerminal, User: s.User, What: "type into the terminal " + id, Details: map[string]string{"text": string(s.Data)}}
	if err := in.approved(ctx, c, ref, typed); err != nil {
		return none, err
	}
	entry := vm.AuditEntry{Op: vm.OpTerminal, Subject: clip(id), Detail: map[string]any{"send": len(s.Data), "session": clip(id)}}
	v, err := in.recorded(ctx, c, ref, s.User, entry)
	if err != nil {
		return none, err
	}
	bounded, stop := v.bounded(s.Limit)
	defer stop()
	content, err := v.guest.SendTerminal(bounded, id, s)
	err = v.Fail(bounded, v.session(err))
	v.End(err, nil)
	return content, err
}
