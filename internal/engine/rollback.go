// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Rollback restores a generation of a VM, by default the newest in its own history:
// memory and disk change, and the id, name and mappings stay. The current state is
// captured first. If the start fails, the VM is as before. Rollback continues when ctx
// ends.
func (e *Engine) Rollback(ctx context.Context, c *vm.Call, ref string, r RollbackRequest) (out RolledBack, err error) {
	if err := checkVolumesMode(r.Volumes, VolumesCut, VolumesDetach); err != nil {
		return out, fail(vm.OpRollback, ref, err)
	}
	op, err := e.begin(ctx, c, ref, vm.OpRollback)
	if err != nil {
		return out, fail(vm.OpRollback, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	if e.isDraining() {
		return out, errDraining
	}
	to, err := e.rollbackTarget(op.before, r.To)
	if err == nil && (r.Volumes == "" || op.before.State != vm.Running) {
		err = e.volumesAttached(op.before)
	}
	if err != nil {
		return out, err
	}
	if !e.pin(to.ID) {
		return out, noGeneration(string(to.ID))
	}
	defer e.unpin(to.ID)
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: string(to.ID)}); err != nil {
		return out, err
	}
	if to, err = e.opened(op.ctx, to); err != nil {
		return out, err
	}
	to.Cut = to.Cut || r.Volumes != "" // for this start only
	// Check that the target can start before giving anything up.
	if to.Whole() {
		if _, err := e.generationSpec(op.ctx, op.before, to); err != nil {
			return out, err
		}
	}
	var away []Mounted
	if r.Volumes == VolumesDetach {
		if away, err = e.detachAll(op); err != nil {
			return out, e.reattachAll(op, away, err)
		}
	}
	before, err := e.leave(op)
	if err != nil {
		return out, e.reattachAll(op, away, err)
	}
	limit := r.Deadline
	if limit <= 0 {
		limit = e.cfg.Settings.StartDeadline
	}
	rec, err := e.goBack(op, to, limit)
	if err != nil {
		if died(err) {
			return out, err
		}
		return out, e.reattachAll(op, away, e.stay(op, before, limit, err))
	}
	e.cfg.Vault.EndMounts(op.ctx, op.slot.id) // the mounts belong to the old memory
	e.sealSeen(op.ctx, before)
	e.cfg.Journal.EmitVM(rec, "vm.rolled-back", map[string]any{"to": string(to.ID), "before": string(before.ID)})
	e.collectLater()
	return RolledBack{VM: rec, To: to, Before: before, NotUndone: vm.NotUndone}, nil
}

// rollbackTarget finds the generation to go back to.
func (e *Engine) rollbackTarget(rec vm.VM, ref string) (vm.Generation, error) {
	if ref != "" {
		g, err := e.findGeneration(rec.Account, ref)
		switch {
		case err != nil:
			return g, err
		case g.State != vm.GenReady || g.Gone || g.DiskOnly && g.Why != vm.WhyTurn || g.Deleted:
			return g, vm.Errorf(vm.WrongState, ref, "its files are no longer kept").
				WithHint("`warren tree %s` shows the generations that can be restored", label(rec))
		case g.Image != rec.Image:
			return g, vm.Errorf(vm.Invalid, ref, "it was made of another image")
		}
		return g, nil
	}
	list := e.generations(func(g *vm.Generation) bool {
		return g.VM == rec.ID && g.Whole() && !g.Deleted && g.Why != vm.WhyBeforeRollback && g.Why != vm.WhyReseat
	})
	if g, ok := e.generationInfo(rec.Generation); len(list) == 0 && ok && g.Whole() {
		list = append(list, g) // it was forked or made from this one
	}
	if len(list) == 0 {
		return vm.Generation{}, vm.Errorf(vm.NotFound, label(rec), "there is no generation to restore").
			WithCode("SNAPSHOT_NOT_FOUND", "snapshotId", "").
			WithHint("take one before risky work: `warren snapshot create %s`, or mark a turn: `warren turn %s NOTE`", label(rec), label(rec))
	}
	return list[len(list)-1], nil
}

// leave captures the VM's current state and ends its machine. From here on the VM is
// suspended or stopped on that generation, so that a crash restores it.
func (e *Engine) leave(op *operation) (vm.Generation, error) {
	o := captureOptions{why: vm.WhyBeforeRollback, volumes: volumesOwn}
	switch op.before.State {
	case vm.Running:
		terminals := e.terminalsNow(op)
		if _, err := e.update(op.ctx, op.slot, func(rec *vm.VM) { keepTerminals(rec, terminals) }); err != nil {
			return vm.Generation{}, err
		}
		rec, err := e.putDown(op, o, "rollback")
		if err != nil {
			return vm.Generation{}, err
		}
		g, _ := e.generationInfo(rec.Generation)
		return g, nil
	default:
		return e.take(op, o)
	}
}

// goBack starts the VM on the target.
func (e *Engine) goBack(op *operation, to vm.Generation, limit time.Duration) (vm.VM, error) {
	none := func(context.Context) error { return nil } // stay restores it
	prepare := func(*vm.VM) error { return nil }
	if to.Whole() {
		return e.startOn(op, to, limit, prepare, none)
	}
	if err := e.step(op.ctx, "rollback:record"); err != nil {
		return vm.VM{}, err
	}
	if e.recordOf(op.slot).State == vm.Stopped { // a start replaces a suspended VM's disk anyway
		if _, err := e.update(op.ctx, op.slot, func(rec *vm.VM) { rec.Op = vm.OpRollback }); err != nil {
			return vm.VM{}, err
		}
	}
	if err := e.step(op.ctx, "rollback:disk"); err != nil {
		return vm.VM{}, err
	}
	if err := e.freshDisk(op.ctx, op.slot, to); err != nil {
		return vm.VM{}, err
	}
	return e.boot(op, limit, prepare)
}

// takeBackRollback restores a VM's disk after an unfinished rollback. The record marks
// the rollback from before the disk changes until the VM runs.
func (e *Engine) takeBackRollback(ctx context.Context, s *slot) error {
	rec := e.recordOf(s)
	if rec.Op != vm.OpRollback {
		return nil
	}
	list := e.generations(func(g *vm.Generation) bool {
		return g.VM == s.id && g.Why == vm.WhyBeforeRollback && g.State == vm.GenReady && !g.Gone
	})
	if n := len(list); n > 0 {
		if err := e.freshDisk(ctx, s, list[n-1]); err != nil {
			return err
		}
	}
	if rec.State != vm.Stopped {
		return nil // the caller sets the state
	}
	_, err := e.update(ctx, s, func(rec *vm.VM) { rec.Op = "" })
	return err
}

// stay restores a VM after a failed rollback.
func (e *Engine) stay(op *operation, before vm.Generation, limit time.Duration, why error) error {
	ctx := context.WithoutCancel(op.ctx)
	if err := op.undo.run(ctx); err != nil {
		e.log.Error("a failed start could not be undone", "vm", op.slot.id, "err", err)
	}
	op.undo.reset()
	why = vm.AsError(why).WithHint("nothing was rolled back; the VM is as it was before")
	disk := e.freshDisk(ctx, op.slot, before)
	if !before.Whole() {
		if disk != nil { // the next start, or the next server, tries again
			_, err := e.update(ctx, op.slot, func(rec *vm.VM) {
				rec.State, rec.Op, rec.Machine = vm.Stopped, vm.OpRollback, vm.MachineRef{}
			})
			return errors.Join(why, disk, err)
		}
		_, err := e.nowStopped(ctx, op.slot, op.before.Reason, op.before.Exit)
		return joinUndo(why, err)
	}
	suspended := func(ctx context.Context) error { // its start makes the disk again
		_, err := e.nowSuspended(ctx, op.slot, before.ID, "rollback-failed")
		return err
	}
	if err := errors.Join(suspended(ctx), disk); err != nil || op.before.State != vm.Running {
		return joinUndo(why, err)
	}
	if _, err := e.startOn(op, before, limit, func(*vm.VM) error { return nil }, suspended); err != nil {
		return joinUndo(vm.AsError(why).WithHint("the VM is suspended as it was before: `warren start %s`", label(op.before)), err)
	}
	op.undo.reset() // it runs: nothing to undo
	return why
}
