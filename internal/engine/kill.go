// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// Kill ends a VM's machine at once; its disk is as of the guest's last sync. It
// interrupts a running start or stop and continues when ctx ends. Killing a stopped VM
// succeeds.
func (e *Engine) Kill(ctx context.Context, c *vm.Call, ref string) (v vm.VM, err error) {
	op, err := e.begin(ctx, c, ref, vm.OpKill)
	if err != nil {
		return vm.VM{}, fail(vm.OpKill, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{}); err != nil {
		return vm.VM{}, err
	}
	if op.before.State == vm.Stopped {
		return op.before, nil
	}
	if err := e.step(op.ctx, "kill:machine"); err != nil {
		return vm.VM{}, err
	}
	if err := e.endMachine(op.ctx, op.slot, e.runOf(op.slot)); err != nil {
		return vm.VM{}, err
	}
	if err := e.step(op.ctx, "kill:commit"); err != nil {
		return vm.VM{}, err
	}
	rec, err := e.nowStopped(op.ctx, op.slot, "kill", vm.MachineExit{Reason: "kill", Time: e.now()})
	if err != nil {
		return vm.VM{}, err
	}
	return rec, e.step(op.ctx, "kill:done")
}
