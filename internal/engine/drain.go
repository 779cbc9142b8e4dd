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

// drained is the reason of a VM that Drain has suspended. The next engine
// starts those of them whose setting says so.
const drained = "host-shutdown"

// Drained is what became of one VM.
type Drained struct {
	VM  vm.VM
	Err error // it runs on, and what it has in memory ends with the host
}

// Drain suspends every VM of every account that runs, before the host is shut
// down or restarted: memory and programs are on disk when it returns. VMs that
// come up meanwhile are not waited for. For admins.
func (e *Engine) Drain(ctx context.Context, c *vm.Call) ([]Drained, error) {
	if err := needAdmin(c); err != nil {
		return nil, fail(vm.OpSuspend, "", err)
	}
	e.mu.Lock()
	var running []*slot
	for _, s := range e.vms {
		if s.rec.State == vm.Running || s.rec.State == vm.Starting {
			running = append(running, s)
		}
	}
	e.mu.Unlock()
	out := make([]Drained, len(running))
	places := make(chan struct{}, cap(e.starts))
	var wg sync.WaitGroup
	for i, s := range running {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			rec, err := e.drain(ctx, c, s)
			out[i] = Drained{VM: rec, Err: fail(vm.OpSuspend, string(s.id), err)}
		})
	}
	wg.Wait()
	out = slices.DeleteFunc(out, func(d Drained) bool { return d.Err == nil && d.VM.ID == "" })
	slices.SortFunc(out, func(a, b Drained) int {
		return strings.Compare(a.VM.Name+"\x00"+string(a.VM.ID), b.VM.Name+"\x00"+string(b.VM.ID))
	})
	return out, nil
}

// drain suspends one VM. One that has come to its end meanwhile is none.
func (e *Engine) drain(ctx context.Context, c *vm.Call, s *slot) (rec vm.VM, err error) {
	op, err := e.beginSlot(ctx, s, vm.OpSuspend)
	if err != nil {
		if k := vm.KindOf(err); k == vm.NotFound || k == vm.WrongState {
			return vm.VM{}, nil
		}
		return e.snapshot(s), err
	}
	defer func() { err = e.finish(op, err) }()
	if op.before.State != vm.Running {
		return vm.VM{}, nil
	}
	if err := e.receiptFor(op.ctx, op, c, AuditEntry{Subject: drained}); err != nil {
		return op.before, err
	}
	if rec, err = e.suspendMachine(op, drained); err != nil {
		return op.before, err
	}
	return rec, nil
}

// goOnAfterBoot starts, one after the other, what Drain has suspended and is to
// go on. It ends with the engine.
func (e *Engine) goOnAfterBoot() {
	e.mu.Lock()
	var list []*slot
	for _, s := range e.vms {
		if s.rec.State == vm.Suspended && s.rec.Reason == drained && s.rec.ResumesOnBoot() {
			list = append(list, s)
		}
	}
	e.mu.Unlock()
	if len(list) == 0 {
		return
	}
	e.spawn(func(ctx context.Context) {
		for _, s := range list {
			c := &vm.Call{Actor: vm.Actor{Account: s.account, System: "boot"}}
			if err := e.wakeUp(ctx, c, s, vm.ActivityBoot); err != nil && ctx.Err() == nil {
				e.log.Warn("not resumed after the host's start", "vm", s.id, "err", err)
			}
		}
	})
}
