// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/warren-vm/warren/vm"
)

// Delete removes a VM in any state: its machine, disk, logs and record. It interrupts any
// other operation on the VM and continues when ctx ends. It returns the VM's last record.
func (e *Engine) Delete(ctx context.Context, c *vm.Call, ref string) (v vm.VM, err error) {
	op, err := e.begin(ctx, c, ref, vm.OpDelete)
	if err != nil {
		return vm.VM{}, fail(vm.OpDelete, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	return e.deleteSlot(op, c, "")
}

// deleteSlot carries out a delete. The reason goes into the event; "" = requested by a
// caller.
func (e *Engine) deleteSlot(op *operation, c *vm.Call, reason string) (vm.VM, error) {
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: reason}); err != nil {
		return vm.VM{}, err
	}
	if err := e.step(op.ctx, "delete:record"); err != nil {
		return vm.VM{}, err
	}
	if err := e.markDeleting(op); err != nil {
		return vm.VM{}, err
	}
	if err := e.remove(op.ctx, op.slot); err != nil {
		return vm.VM{}, err
	}
	data := map[string]any{}
	if reason != "" {
		data["reason"] = reason
	}
	e.cfg.Journal.EmitVM(op.before, "vm.deleted", data)
	e.collectLater()
	// The VM is gone: nothing can be undone from here on.
	if err := e.step(op.ctx, "delete:done"); died(err) {
		return vm.VM{}, err
	}
	return op.before, nil
}

// markDeleting makes the delete durable, so that a later engine finishes it. If this
// engine fails midway, the remaining files decide what the VM is.
func (e *Engine) markDeleting(op *operation) error {
	if _, err := e.update(op.ctx, op.slot, func(rec *vm.VM) { rec.Op = vm.OpDelete }); err != nil {
		return err
	}
	return op.undo.add(op.ctx, "mark", func(ctx context.Context) error { return e.unmark(ctx, op) })
}

// unmark removes the mark of a failed delete.
func (e *Engine) unmark(ctx context.Context, op *operation) error {
	_, missing := os.Stat(e.cfg.Dir.Overlay(op.slot.id))
	switch r := e.runOf(op.slot); {
	case missing != nil && op.before.State != vm.Lost:
		if err := e.markLost(ctx, op.slot, missing); vm.KindOf(err) != vm.Corrupt {
			return err
		}
		return nil
	case r != nil || op.before.State != vm.Running:
		_, err := e.update(ctx, op.slot, func(rec *vm.VM) { rec.Op = "" })
		return err
	default:
		_, err := e.nowStopped(ctx, op.slot, "kill", vm.MachineExit{Reason: "kill", Time: e.now()})
		return err
	}
}

// remove ends the machine, then removes the directory, then the record. A crash leaves at
// worst a record without files.
func (e *Engine) remove(ctx context.Context, s *slot) error {
	if err := e.step(ctx, "delete:machine"); err != nil {
		return err
	}
	if err := e.endMachine(ctx, s, e.runOf(s)); err != nil {
		return err
	}
	e.letGo(s, errors.New("the VM was deleted"))
	if err := e.step(ctx, "delete:dir"); err != nil {
		return err
	}
	if err := e.emptyDir(ctx, s); err != nil {
		return err
	}
	if err := e.step(ctx, "delete:forget"); err != nil {
		return err
	}
	if err := e.forget(ctx, s); err != nil {
		return err
	}
	return e.cfg.Names.VMGone(ctx, s.id)
}

// emptyDir removes the directory of a VM that has a record, after BeforeRemove.
func (e *Engine) emptyDir(ctx context.Context, s *slot) error {
	if e.cfg.BeforeRemove != nil && !e.dead.Load() {
		e.cfg.BeforeRemove(ctx, e.recordOf(s))
	}
	return e.removeDir(s.id)
}

// removeDir removes a VM's directory, if there is one.
func (e *Engine) removeDir(id vm.ID) error {
	if e.dead.Load() {
		return ErrDied
	}
	if err := os.RemoveAll(e.cfg.Dir.VM(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError(e.cfg.Dir.VM(id), err)
	}
	return nil
}
