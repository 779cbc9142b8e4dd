// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"context"
	"path"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// visit is an engine.Visit with what this package needs of it.
type visit struct {
	*engine.Visit
	in    *Inside
	actor vm.Actor
	rec   vm.VM
	guest engine.Guest
	ctx   context.Context // of the visit
}

// visit enters a guest; see engine.Visit.
func (in *Inside) visit(ctx context.Context, c *vm.Call, ref string, verb vm.Op, user string) (*visit, error) {
	v, err := in.cfg.Engine.Visit(ctx, c, ref, verb, user)
	if err != nil {
		return nil, err
	}
	return &visit{Visit: v, in: in, actor: c.Actor, rec: v.Record(), guest: v.Guest(), ctx: v.Context()}, nil
}

// visitBeyond is visit for a visit that outlives ctx, which bounds only the wait.
func (in *Inside) visitBeyond(ctx context.Context, c *vm.Call, ref string, verb vm.Op, user string) (*visit, error) {
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	v, err := in.visit(life, c, ref, verb, user)
	if !unhook() && err == nil {
		err = v.Fail(life, context.Cause(ctx))
		v.End(err, nil)
		return nil, err
	}
	return v, err
}

// bounded returns the visit's context with the deadline of one short answer plus extra
// time.
func (v *visit) bounded(extra time.Duration) (context.Context, context.CancelFunc) {
	return v.within(extra + v.in.cfg.Settings.GuestDeadline)
}

func (v *visit) within(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(v.ctx, limit, v.noAnswer(limit))
}

func (v *visit) noAnswer(d time.Duration) error {
	return vm.Errorf(vm.Timeout, string(v.rec.ID), "the guest did not answer within %v", d).
		WithHint("look at the console: `warren logs %s`; end it with `warren kill %s`", label(v.rec), label(v.rec))
}

// path resolves a path of the caller for a file or a command's directory. A relative path
// is relative to the VM's working directory, and "" is that directory. If the VM has
// none, the path does not change, and the guest resolves it in the Linux user's home.
func (v *visit) path(p string) string {
	if v.rec.Workdir == "" || path.IsAbs(p) {
		return p
	}
	return path.Join(v.rec.Workdir, p)
}

// ask makes one short call into a guest without an audit record.
func ask[T any](ctx context.Context, in *Inside, c *vm.Call, ref string, verb vm.Op, user string, f func(ctx context.Context, v *visit) (T, error)) (T, error) {
	var none T
	v, err := in.visit(ctx, c, ref, verb, user)
	if err != nil {
		return none, err
	}
	bounded, stop := v.bounded(0)
	defer stop()
	out, err := f(bounded, v)
	err = v.Fail(bounded, err)
	v.End(err, nil)
	if err != nil {
		return none, err
	}
	return out, nil
}

// act makes one short call with an audit record.
func act[T any](ctx context.Context, in *Inside, c *vm.Call, ref, user string, entry vm.AuditEntry, f func(ctx context.Context, v *visit) (T, error)) (T, error) {
	return ask(ctx, in, c, ref, entry.Op, user, func(ctx context.Context, v *visit) (T, error) {
		if err := v.Begin(ctx, entry); err != nil {
			var none T
			return none, err
		}
		return f(ctx, v)
	})
}

// recorded is visit with an audit record.
func (in *Inside) recorded(ctx context.Context, c *vm.Call, ref, user string, entry vm.AuditEntry) (*visit, error) {
	v, err := in.visit(ctx, c, ref, entry.Op, user)
	if err != nil {
		return nil, err
	}
	if err := v.Begin(ctx, entry); err != nil {
		err = v.Fail(ctx, err)
		v.End(err, nil)
		return nil, err
	}
	return v, nil
}

// nothing is the result of verbs without one.
type nothing struct{}

// clip bounds a command or path in an audit record.
func clip(s string) string { return vm.Clip(s, 1024) }

// label is a VM's name, or its id if it has none.
func label(v vm.VM) string {
	if v.Name != "" {
		return v.Name
	}
	return string(v.ID)
}
