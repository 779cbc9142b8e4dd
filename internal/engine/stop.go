// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"github.com/warren-vm/warren/vm"
)

// Stop asks the guest to power off, kills the machine if it does not in time, and keeps
// the disk. A suspended VM has no machine and only loses its memory. Stop continues when
// ctx ends.
func (e *Engine) Stop(ctx context.Context, c *vm.Call, ref string) (v vm.VM, err error) {
	op, err := e.begin(ctx, c, ref, vm.OpStop)
	if err != nil {
		return vm.VM{}, fail(vm.OpStop, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{}); err != nil {
		return vm.VM{}, err
	}
	return e.stopMachine(op, "stop")
}

// stopMachine carries out a recorded stop.
func (e *Engine) stopMachine(op *operation, reason string) (vm.VM, error) {
	if err := e.step(op.ctx, "stop:machine"); err != nil {
		return vm.VM{}, err
	}
	exit, err := e.powerOff(op)
	if err != nil {
		return vm.VM{}, err
	}
	if err := e.step(op.ctx, "stop:commit"); err != nil {
		return vm.VM{}, err
	}
	rec, err := e.nowStopped(op.ctx, op.slot, reason, exit)
	if err != nil {
		return vm.VM{}, err
	}
	return rec, e.step(op.ctx, "stop:done")
}

// powerOff asks the machine to power off, and kills it if that fails.
func (e *Engine) powerOff(op *operation) (vm.MachineExit, error) {
	r := e.runOf(op.slot)
	if r == nil {
		return vm.MachineExit{Reason: "stop", Time: e.now()}, e.sweep(op.ctx, op.slot.id)
	}
	ctx, stop := context.WithTimeout(op.ctx, e.cfg.Settings.StopGrace+machineDeadline)
	defer stop()
	e.countLast(ctx, op.slot.id, r)
	if err := r.machine.Stop(ctx, e.cfg.Settings.StopGrace); err != nil {
		if op.ctx.Err() != nil {
			return vm.MachineExit{}, context.Cause(op.ctx)
		}
		e.log.Warn("a machine did not stop when asked; ending it", "vm", op.slot.id, "err", err)
		return vm.MachineExit{Reason: "stop", Detail: "did not stop when asked", Time: e.now()}, e.endMachine(op.ctx, op.slot, r)
	}
	return e.exitOf(op.ctx, r, "stop"), e.sweep(op.ctx, op.slot.id)
}

// endMachine kills a machine and sweeps its remains.
func (e *Engine) endMachine(ctx context.Context, s *slot, r *run) error {
	if r != nil {
		e.countLast(ctx, s.id, r)
		bounded, stop := context.WithTimeout(ctx, machineDeadline)
		err := r.machine.Kill(bounded)
		stop()
		if err != nil && vm.KindOf(err) != vm.NotFound {
			e.log.Warn("a monitor could not end its machine; sweeping", "vm", s.id, "err", err)
		}
	}
	return e.sweep(ctx, s.id)
}

// sweep ends the remains of a VM's machine, if any, and removes its run directory.
func (e *Engine) sweep(ctx context.Context, id vm.ID) error {
	if e.dead.Load() {
		return ErrDied
	}
	ctx, stop := context.WithTimeout(ctx, machineDeadline)
	defer stop()
	return e.cfg.Machines.Sweep(ctx, e.cfg.Run.VM(id))
}

// exitOf waits briefly until the watcher knows how the machine ended.
func (e *Engine) exitOf(ctx context.Context, r *run, reason string) vm.MachineExit {
	after, stop := e.cfg.Clock.After(exitPatience)
	defer stop()
	select {
	case <-r.gone:
		if r.exit.Reason != "" {
			return r.exit
		}
	case <-after:
	case <-ctx.Done():
	}
	return vm.MachineExit{Reason: reason, Time: e.now()}
}

// nowStopped records that a VM has no machine, and releases the machine.
func (e *Engine) nowStopped(ctx context.Context, s *slot, reason string, exit vm.MachineExit) (vm.VM, error) {
	ctx = context.WithoutCancel(ctx)
	exit.Detail = e.cfg.Journal.ConcealText(exit.Detail)
	rec, err := e.update(ctx, s, func(rec *vm.VM) {
		rec.State, rec.Op, rec.Reason = vm.Stopped, "", reason
		rec.Exit = exit
		rec.Machine, rec.Generation = vm.MachineRef{}, ""
		rec.VolumesSeen, rec.Cut, rec.Folders = nil, nil, nil
	})
	if err != nil {
		return vm.VM{}, err
	}
	e.letGo(s, errors.New("the VM was stopped"))
	e.cfg.Vault.EndMounts(ctx, s.id)
	e.mu.Lock()
	s.scrubbed = false
	e.mu.Unlock()
	e.collectLater()
	data := map[string]any{"reason": reason}
	if exit.Detail != "" {
		data["detail"] = exit.Detail
	}
	e.cfg.Journal.EmitVM(rec, "vm.stopped", data)
	return rec, nil
}
