// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"context"
	"io"
	"slices"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/vm"
)

// StartProcess starts a command in the background. It has a log from its first byte, and
// an id that stays valid after its end.
func (in *Inside) StartProcess(ctx context.Context, c *vm.Call, ref string, spec vm.ExecSpec) (vm.Process, error) {
	if err := checkExec(spec); err != nil {
		return vm.Process{}, vm.WithOp(vm.OpExec, ref, err)
	}
	spec.Background = true
	if err := in.approved(ctx, c, ref, execAct(spec)); err != nil {
		return vm.Process{}, err
	}
	entry := in.execEntry(spec)
	entry.Op = vm.OpExec
	return act(ctx, in, c, ref, spec.User, entry, func(ctx context.Context, v *visit) (vm.Process, error) {
		asked := spec.Cwd
		spec.Cwd = v.path(asked)
		p, err := v.guest.Start(ctx, spec)
		return p, v.started(asked, err)
	})
}

// Processes lists the commands that exec has started, except forgotten ones.
func (in *Inside) Processes(ctx context.Context, c *vm.Call, ref string) ([]vm.Process, error) {
	return ask(ctx, in, c, ref, vm.OpStats, "", func(ctx context.Context, v *visit) ([]vm.Process, error) {
		list, err := v.guest.Processes(ctx)
		return slices.DeleteFunc(list, func(p vm.Process) bool { return v.MayActAs(p.User) != nil }), err
	})
}

// mayHave checks that the caller may act as the Linux user of a process.
func (v *visit) mayHave(ctx context.Context, id string) error {
	if v.actor.Identity == "" {
		return nil
	}
	p, err := v.guest.Process(ctx, id)
	if err != nil {
		return err
	}
	return v.MayActAs(p.User)
}

// Process returns a process; kind NotFound when there is none with that id.
func (in *Inside) Process(ctx context.Context, c *vm.Call, ref, id string) (vm.Process, error) {
	return ask(ctx, in, c, ref, vm.OpStats, "", func(ctx context.Context, v *visit) (vm.Process, error) {
		p, err := v.guest.Process(ctx, id)
		if err == nil {
			err = v.MayActAs(p.User)
		}
		if err != nil {
			return vm.Process{}, err
		}
		return p, nil
	})
}

// WaitProcess returns when the process has ended, or ctx.
func (in *Inside) WaitProcess(ctx context.Context, c *vm.Call, ref, id string) (vm.Process, error) {
	v, err := in.visit(ctx, c, ref, vm.OpStats, "")
	if err != nil {
		return vm.Process{}, err
	}
	v.CountAs(vm.ActivityExec)
	v.guard()
	var p vm.Process
	if err = v.mayHave(v.ctx, id); err == nil {
		p, err = v.guest.Wait(v.ctx, id)
	}
	err = v.Fail(v.ctx, err)
	v.End(err, nil)
	return p, err
}

// SignalProcess sends a signal (a name such as "TERM") to the process group of
// a process.
func (in *Inside) SignalProcess(ctx context.Context, c *vm.Call, ref, user, id, name string) error {
	if err := in.approved(ctx, c, ref, access.Act{Verb: vm.OpSignal, User: user, What: "send the signal " + name + " to the process " + id}); err != nil {
		return err
	}
	_, err := act(ctx, in, c, ref, user, vm.AuditEntry{Op: vm.OpSignal, Subject: clip(id + " " + name)},
		func(ctx context.Context, v *visit) (nothing, error) {
			if err := v.mayHave(ctx, id); err != nil {
				return nothing{}, err
			}
			return nothing{}, v.guest.Signal(ctx, id, name)
		})
	return err
}

// ForgetProcess removes an ended process and its log.
func (in *Inside) ForgetProcess(ctx context.Context, c *vm.Call, ref, user, id string) error {
	if err := in.approved(ctx, c, ref, onPath(vm.OpRemove, user, "the process "+id+" and its log", nil)); err != nil {
		return err
	}
	_, err := act(ctx, in, c, ref, user, vm.AuditEntry{Op: vm.OpRemove, Subject: clip("process " + id)},
		func(ctx context.Context, v *visit) (nothing, error) {
			if err := v.mayHave(ctx, id); err != nil {
				return nothing{}, err
			}
			return nothing{}, v.guest.Forget(ctx, id)
		})
	return err
}

// ProcessLog returns a process's output from an absolute offset. The second result is the
// offset of the first byte, which is later if older bytes were dropped. With follow it
// ends with the process. The caller closes it.
func (in *Inside) ProcessLog(ctx context.Context, c *vm.Call, ref, user, id string, from int64, follow bool) (io.ReadCloser, int64, error) {
	if from < 0 {
		return nil, 0, vm.WithOp(vm.OpRead, ref, vm.Errorf(vm.Invalid, id, "the offset is negative"))
	}
	v, err := in.visit(ctx, c, ref, vm.OpRead, user)
	if err != nil {
		return nil, 0, err
	}
	offset := from
	r, err := open(v, func(ctx context.Context) (io.ReadCloser, error) {
		if err := v.mayHave(ctx, id); err != nil {
			return nil, err
		}
		r, at, err := v.guest.Log(ctx, id, from, follow)
		offset = at
		return r, err
	})
	if err != nil {
		return nil, 0, err
	}
	out := newReader(v, r)
	if follow { // a program may be silent for days
		v.CountTraffic()
		out.traffic = &traffic{v: v}
	}
	return out, offset, nil
}
