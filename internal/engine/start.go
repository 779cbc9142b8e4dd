// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"os"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Start boots a stopped VM on its disk, or resumes a suspended one, and returns when it
// is usable. Starting a running VM only sets the idle timeout, if given. Start waits for
// a VM that is already starting. If it fails, the VM is stopped or suspended as before.
func (e *Engine) Start(ctx context.Context, c *vm.Call, ref string, r StartRequest) (v vm.VM, err error) {
	if r.DiskOnly || r.IdleTimeout.Set { // only managers of the VM may set these
		if err := c.Actor.OwnerOnly(ref); err != nil {
			return vm.VM{}, fail(vm.OpStart, ref, err)
		}
	}
	op, err := e.begin(ctx, c, ref, vm.OpStart)
	if err != nil {
		return vm.VM{}, fail(vm.OpStart, ref, err)
	}
	op.cancelWith(ctx)
	defer func() { err = e.finish(op, err) }()
	return e.startOp(op, c, vm.AuditEntry{}, r)
}

// startOp carries out a start.
func (e *Engine) startOp(op *operation, c *vm.Call, entry vm.AuditEntry, r StartRequest) (vm.VM, error) {
	if op.before.State == vm.Running {
		return e.keepRunning(op, r)
	}
	claim, err := e.admitOne(op.ctx, op.slot.account, op.slot.id, op.before.Size)
	if err != nil {
		return vm.VM{}, err
	}
	defer e.releaseClaims(claim)
	if err := e.receiptFor(op.ctx, op, c, entry); err != nil {
		return vm.VM{}, err
	}
	limit := r.Deadline
	if limit <= 0 {
		limit = e.cfg.Settings.StartDeadline
	}
	prepare := func(rec *vm.VM) error { return applyIdle(rec, r) }
	if op.before.State == vm.Suspended && !r.DiskOnly {
		return e.resume(op, limit, prepare)
	}
	if op.before.State == vm.Suspended {
		if err := e.leaveMemory(op); err != nil {
			return vm.VM{}, err
		}
	}
	return e.boot(op, limit, prepare)
}

// keepRunning is the start of a running VM.
func (e *Engine) keepRunning(op *operation, r StartRequest) (vm.VM, error) {
	if !r.IdleTimeout.Set {
		return op.before, nil
	}
	probe := op.before
	if err := applyIdle(&probe, r); err != nil {
		return vm.VM{}, err
	}
	return e.update(op.ctx, op.slot, func(rec *vm.VM) {
		rec.IdleTimeout, rec.IdleStops = probe.IdleTimeout, probe.IdleStops
	})
}

func applyIdle(rec *vm.VM, r StartRequest) error {
	if !r.IdleTimeout.Set {
		return nil
	}
	return setIdle(rec, r.IdleTimeout)
}

// boot cold-boots the VM. It serves start and the reboot of a guest.
func (e *Engine) boot(op *operation, limit time.Duration, prepare func(*vm.VM) error) (vm.VM, error) {
	outer, patient := e.patience(limit)
	ctx, stop := context.WithTimeoutCause(op.ctx, outer, startTimeout(op.slot.id, outer))
	defer stop()
	if err := e.step(ctx, "start:record"); err != nil {
		return vm.VM{}, err
	}
	rec, img, err := e.recordStart(ctx, op, prepare)
	if err != nil {
		return vm.VM{}, cause(ctx, err)
	}
	if err := e.reconcileDisk(ctx, op.slot); err != nil { // its machine may have ended during a capture
		return vm.VM{}, cause(ctx, err)
	}
	if err := e.growDisk(ctx, "start:disk", rec); err != nil {
		return vm.VM{}, cause(ctx, err)
	}
	spec, err := e.coldSpec(ctx, rec, img)
	if err != nil {
		return vm.VM{}, cause(ctx, err)
	}
	spec.Deadline, spec.Patient = limit, patient
	if err := e.step(ctx, "start:launch"); err != nil {
		return vm.VM{}, err
	}
	m, st, err := e.launch(ctx, spec, &op.undo)
	if err != nil {
		return vm.VM{}, cause(ctx, err)
	}
	if err := e.step(ctx, "start:commit"); err != nil {
		return vm.VM{}, err
	}
	rec, err = e.nowRunning(ctx, op.slot, st, func(rec *vm.VM) {
		rec.Booted = true
		rec.Generation, rec.Restored, rec.VolumesSeen, rec.Cut = "", []string{"the disk"}, nil, nil
		rec.Losses = []string{"memory and running processes: the VM was booted on its disk"}
	})
	if err != nil {
		return vm.VM{}, cause(ctx, err)
	}
	// From here on the VM runs, even if the request or the server ends.
	if err := e.step(context.WithoutCancel(ctx), "start:done"); err != nil {
		return vm.VM{}, err
	}
	e.watch(op.slot, m)
	e.cfg.Journal.EmitVM(rec, "vm.running", timings(st))
	return rec, nil
}

// recordStart marks the VM as starting. If the start fails, it is stopped again.
func (e *Engine) recordStart(ctx context.Context, op *operation, prepare func(*vm.VM) error) (vm.VM, vm.Image, error) {
	s, verb := op.slot, vm.OpStart
	if op.verb == vm.OpRollback {
		verb = op.verb
	} else if err := e.takeBackRollback(ctx, s); err != nil {
		return vm.VM{}, vm.Image{}, err
	}
	if _, err := os.Stat(e.cfg.Dir.Overlay(s.id)); err != nil {
		return vm.VM{}, vm.Image{}, e.markLost(ctx, s, err)
	}
	img, err := e.cfg.Images.Find(ctx, string(op.before.Image))
	if err != nil {
		return vm.VM{}, vm.Image{}, err
	}
	probe := op.before
	if err := prepare(&probe); err != nil {
		return vm.VM{}, vm.Image{}, err
	}
	e.cfg.Vault.EndMounts(ctx, s.id) // for a guest that reboots
	rec, err := e.update(ctx, s, func(rec *vm.VM) {
		rec.State, rec.Op, rec.Reason = op.next.During, verb, ""
		rec.InstanceID = vm.NewInstanceID()
		rec.Machine, rec.Folders = vm.MachineRef{}, nil
		rec.IdleTimeout, rec.IdleStops = probe.IdleTimeout, probe.IdleStops
	})
	if err != nil {
		return vm.VM{}, vm.Image{}, err
	}
	if verb == vm.OpStart { // a start first restores the disk after a failed rollback
		err = op.undo.add(ctx, "record", func(ctx context.Context) error {
			_, err := e.nowStopped(ctx, s, op.before.Reason, op.before.Exit)
			return err
		})
	}
	if err == nil {
		e.cfg.Journal.EmitVM(rec, "vm.starting", nil)
	}
	return rec, img, err
}

// markLost records that a VM's files are gone.
func (e *Engine) markLost(ctx context.Context, s *slot, why error) error {
	rec, err := e.update(ctx, s, func(rec *vm.VM) {
		rec.State, rec.Op, rec.Reason = vm.Lost, "", "files-missing"
		rec.Machine = vm.MachineRef{}
	})
	if err != nil {
		return err
	}
	e.cfg.Journal.EmitVM(rec, "vm.lost", map[string]any{"detail": why.Error()})
	return vm.Errorf(vm.Corrupt, string(s.id), "its disk is gone or unreadable: %w", why).
		WithCode("VM_DELETED", "vmId", string(s.id)).
		WithHint("delete its remains: `warren rm %s`", label(rec))
}
