// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/warren-vm/warren/vm"
)

// drained is the reason of a VM that Drain has suspended. The next engine starts it if
// its onBoot setting says so.
const drained = "host-shutdown"

// Drained is the result for one VM.
type Drained struct {
	VM  vm.VM
	Err error // not suspended: its memory is lost when the host stops
}

var errDraining = &vm.Error{
	Kind: vm.Unavailable, Code: "SERVICE_UNAVAILABLE", Msg: "the host is being shut down: no VM starts",
	Hint: "start the VM after the host has restarted, or end the drain: `warren drain --undo`",
}

// Drain suspends every running VM of every account before the host shuts down or
// restarts. When it returns, their memory is on disk. No VM starts from its beginning
// until Undrain or a restart of the server. Drain waits for VMs that are being started.
// For admins.
func (e *Engine) Drain(ctx context.Context, c *vm.Call) ([]Drained, error) {
	if err := c.Actor.AdminOnly(); err != nil {
		return nil, fail(vm.OpDrain, "", err)
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpDrain})
	if err != nil {
		return nil, fail(vm.OpDrain, "", err)
	}
	e.setDraining(true)
	out, err := e.drainUntilStill(ctx, c)
	r.End(err, map[string]any{"vms": len(out)})
	slices.SortFunc(out, func(a, b Drained) int {
		return strings.Compare(a.VM.Name+"\x00"+string(a.VM.ID), b.VM.Name+"\x00"+string(b.VM.ID))
	})
	return out, fail(vm.OpDrain, "", err)
}

// drainUntilStill suspends running VMs until no others are being started.
func (e *Engine) drainUntilStill(ctx context.Context, c *vm.Call) (out []Drained, err error) {
	seen := make(map[*slot]bool)
	for {
		list, calm := e.toDrain(seen)
		out = append(out, e.drainAll(ctx, c, list)...)
		switch {
		case len(list) > 0:
		case calm == nil:
			return out, nil
		default:
			select {
			case <-calm:
			case <-ctx.Done():
				return out, context.Cause(ctx)
			}
		}
	}
}

func (e *Engine) setDraining(on bool) {
	e.mu.Lock()
	e.draining = on
	e.mu.Unlock()
}

// isDraining is for starts that need no admission.
func (e *Engine) isDraining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

// toDrain returns the running VMs that are not in seen, and a channel that is closed when
// no admitted VM is still starting; nil = none is.
func (e *Engine) toDrain(seen map[*slot]bool) (list []*slot, calm <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.vms {
		if running(s.rec.State) && !seen[s] {
			seen[s], list = true, append(list, s)
		}
	}
	if len(e.claims) == 0 {
		return list, nil
	}
	if e.calm == nil {
		e.calm = make(chan struct{})
	}
	return list, e.calm
}

// drainAll suspends VMs, at most StartWidth at a time.
func (e *Engine) drainAll(ctx context.Context, c *vm.Call, running []*slot) []Drained {
	out := make([]Drained, len(running))
	places := make(chan struct{}, cap(e.starts))
	var wg sync.WaitGroup
	for i, s := range running {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			rec, err := e.drainOne(ctx, c, s)
			out[i] = Drained{VM: rec, Err: fail(vm.OpSuspend, string(s.id), err)}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(out, func(d Drained) bool { return d.Err == nil && d.VM.ID == "" })
}

// Undrain ends a drain of a host that keeps running. VMs that would resume after a
// restart resume now; it returns their number. For admins.
func (e *Engine) Undrain(ctx context.Context, c *vm.Call) (n int, err error) {
	defer func() { err = fail(vm.OpUndrain, "", err) }()
	if err := c.Actor.AdminOnly(); err != nil {
		return 0, err
	}
	if !e.isDraining() {
		return 0, vm.Errorf(vm.WrongState, "drain", "the host is not being drained")
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpUndrain})
	if err != nil {
		return 0, err
	}
	e.setDraining(false)
	n = e.resumeAfterBoot()
	r.End(nil, map[string]any{"vms": n})
	return n, nil
}

// SetOnBoot sets whether a VM that Drain suspended resumes after the host has restarted.
func (e *Engine) SetOnBoot(ctx context.Context, c *vm.Call, ref, setting string) (v vm.VM, err error) {
	to, err := vm.ParseOnBoot(setting)
	if err != nil {
		return vm.VM{}, fail(vm.OpOnBoot, ref, vm.AsError(err).WithCode("INVALID_REQUEST"))
	}
	op, err := e.begin(ctx, c, ref, vm.OpOnBoot)
	if err != nil {
		return vm.VM{}, fail(vm.OpOnBoot, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	entry := vm.AuditEntry{Detail: map[string]any{"from": string(op.before.OnBoot), "to": setting}}
	if err := e.receiptFor(op.ctx, op, c, entry); err != nil {
		return vm.VM{}, err
	}
	return e.update(op.ctx, op.slot, func(rec *vm.VM) { rec.OnBoot = to })
}

// drainOne suspends one VM. It returns a zero VM if there is nothing to suspend any more.
func (e *Engine) drainOne(ctx context.Context, c *vm.Call, s *slot) (rec vm.VM, err error) {
	op, err := e.beginSlot(ctx, s, vm.OpSuspend)
	if err != nil {
		if k := vm.KindOf(err); k == vm.NotFound || k == vm.WrongState {
			return vm.VM{}, nil
		}
		return e.recordOf(s), err
	}
	defer func() { err = e.finish(op, err) }()
	if op.before.State != vm.Running {
		return vm.VM{}, nil
	}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: drained}); err != nil {
		return op.before, err
	}
	if rec, err = e.suspendMachine(op, drained); err != nil {
		return op.before, err
	}
	return rec, nil
}

// resumeAfterBoot resumes the VMs that Drain has suspended and that are set to resume, one
// after the other in the background, and returns their number.
func (e *Engine) resumeAfterBoot() int {
	e.mu.Lock()
	var list []*slot
	for _, s := range e.vms {
		if s.rec.State == vm.Suspended && s.rec.Reason == drained && s.rec.ResumesOnBoot() {
			list = append(list, s)
		}
	}
	e.mu.Unlock()
	if len(list) == 0 {
		return 0
	}
	e.spawn(func(ctx context.Context) {
		for _, s := range list {
			c := &vm.Call{Actor: vm.Actor{Account: s.account, System: "boot"}}
			if err := e.wakeUp(ctx, c, s, vm.ActivityBoot); err != nil && ctx.Err() == nil {
				e.log.Warn("a VM was not resumed after the host's restart", "vm", s.id, "err", err)
			}
		}
	})
	return len(list)
}
