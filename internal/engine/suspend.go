// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"github.com/warren-vm/warren/vm"
)

// Suspend saves memory and disk of a running VM durably and ends its machine. A start
// resumes the same processes. Suspending a suspended VM succeeds and does nothing.
// Suspend continues when ctx ends. If it fails, the VM still runs, or is stopped if its
// machine has ended meanwhile.
func (e *Engine) Suspend(ctx context.Context, c *vm.Call, ref string, r SuspendRequest) (Suspended, error) {
	if s, err := e.lookup(c, ref); err == nil && e.cfg.BeforeSuspend != nil {
		e.cfg.BeforeSuspend(ctx, s.id)
	}
	op, err := e.begin(ctx, c, ref, vm.OpSuspend)
	if err != nil {
		return Suspended{}, fail(vm.OpSuspend, ref, err)
	}
	rec, err := e.suspendAsked(op, c, r)
	if err = e.finish(op, err); err != nil {
		return Suspended{}, err
	}
	g, _ := e.generationInfo(rec.Generation) // 0 bytes if it was collected meanwhile
	disk, logs := e.diskUse(rec.ID)
	return Suspended{VM: rec, MemoryBytes: g.DataBytes, DiskBytes: disk, LogBytes: logs}, nil
}

// suspendAsked carries out a suspend that a caller requested.
func (e *Engine) suspendAsked(op *operation, c *vm.Call, r SuspendRequest) (vm.VM, error) {
	if op.before.State == vm.Suspended && r.Cold {
		return op.before, e.sealSuspended(op)
	}
	if op.before.State == vm.Suspended {
		return op.before, nil
	}
	if err := e.roomForKept(op, true); err != nil {
		return vm.VM{}, err
	}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{}); err != nil {
		return vm.VM{}, err
	}
	rec, err := e.suspendMachine(op, "suspend")
	if err == nil && r.Cold {
		err = e.sealSuspended(op)
	}
	return rec, err
}

// suspendMachine carries out a recorded suspend.
func (e *Engine) suspendMachine(op *operation, reason string) (vm.VM, error) {
	if err := e.step(op.ctx, "suspend:record"); err != nil {
		return vm.VM{}, err
	}
	terminals := e.terminalsNow(op)
	_, err := e.update(op.ctx, op.slot, func(rec *vm.VM) {
		rec.State, rec.Op = vm.Suspending, vm.OpSuspend
		keepTerminals(rec, terminals)
	})
	if err != nil {
		return vm.VM{}, err
	}
	rec, err := e.putDown(op, captureOptions{why: vm.WhySuspend}, reason)
	if err != nil {
		return vm.VM{}, e.suspendFailed(op, err)
	}
	if len(rec.VolumesSeen) > 0 { // volume data stays encrypted
		err = e.sealSuspended(op)
	}
	return rec, err
}

// putDown captures a running VM durably and ends its machine: the VM is then suspended on
// the generation.
func (e *Engine) putDown(op *operation, o captureOptions, reason string) (vm.VM, error) {
	o.hold = true
	r := e.runOf(op.slot)
	g, err := e.capture(op.ctx, op, o)
	if err != nil {
		return vm.VM{}, err
	}
	defer e.unpin(g.ID)
	err = e.publish(op.ctx, g.ID)
	if err == nil {
		err = e.step(op.ctx, "suspend:commit")
	}
	if err != nil {
		if died(err) {
			return vm.VM{}, err
		}
		return vm.VM{}, joinUndo(err, e.resumeMachine(op.ctx, op.slot, r))
	}
	e.countLast(op.ctx, op.slot.id, r)
	rec, err := e.nowSuspended(op.ctx, op.slot, g.ID, reason)
	if err != nil {
		return vm.VM{}, joinUndo(err, e.resumeMachine(op.ctx, op.slot, r))
	}
	if err := e.step(op.ctx, "suspend:machine"); died(err) {
		return vm.VM{}, err
	}
	e.sweepEnded(op) // the next start sweeps what it leaves
	return rec, nil
}

// resumeMachine resumes a machine that a capture paused, or may have paused. If the machine does
// not answer, it is tried again in the background until it does.
func (e *Engine) resumeMachine(ctx context.Context, s *slot, r *run) error {
	if r == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*machineDeadline)
	defer stop()
	err := r.machine.Resume(ctx)
	if err != nil {
		e.leftPaused(s, vm.Errorf(vm.KindOf(err), string(s.id), "its machine may be paused: %w", err))
	}
	return err
}

// nowSuspended records that a VM is suspended on a generation, and releases its machine.
func (e *Engine) nowSuspended(ctx context.Context, s *slot, id vm.GenerationID, reason string) (vm.VM, error) {
	rec, err := e.update(context.WithoutCancel(ctx), s, func(rec *vm.VM) {
		rec.State, rec.Op, rec.Reason = vm.Suspended, "", reason
		rec.Generation, rec.Machine = id, vm.MachineRef{}
		rec.Exit = vm.MachineExit{Reason: reason, Time: e.now()}
	})
	if err != nil {
		return vm.VM{}, err
	}
	e.letGo(s, errors.New("the VM was suspended"))
	e.mu.Lock()
	s.scrubbed = false // refers to the memory that was saved
	e.mu.Unlock()
	e.cfg.Journal.EmitVM(rec, "vm.suspended", map[string]any{"reason": reason, "generation": string(id)})
	e.collectLater()
	return rec, nil
}

// suspendFailed sets the state of a VM after a failed suspend.
func (e *Engine) suspendFailed(op *operation, why error) error {
	if died(why) {
		return why
	}
	s, ctx := op.slot, context.WithoutCancel(op.ctx)
	goes, err := errors.Is(why, errSilent), error(nil) // a machine that hung before was not touched
	if !goes {
		goes, err = e.stillRuns(ctx, s)
	}
	if goes || err != nil { // the recovery finds out what the machine does: see doubts
		_, uerr := e.update(ctx, s, func(rec *vm.VM) { rec.State, rec.Op = vm.Running, "" })
		if err != nil {
			e.leftPaused(s, err)
			return joinUndo(why, uerr)
		}
		return joinUndo(vm.AsError(why).WithCode("SUSPEND_FAILED_VM_RESUMED", "message", why.Error()), uerr)
	}
	exit := e.exitNote(s.id)
	e.sweepEnded(op)
	if _, err := e.nowStopped(ctx, s, exit.Reason, exit); err != nil {
		return joinUndo(vm.AsError(why).WithCode("SUSPEND_FAILED_AND_STOP_FAILED"), err)
	}
	return vm.AsError(why).WithCode("SUSPEND_FAILED_AND_STOPPED")
}

// stillRuns reports whether the machine of a VM still runs after a failed suspend. If only
// its monitor has died, it gets a new one. An error means unknown.
func (e *Engine) stillRuns(ctx context.Context, s *slot) (bool, error) {
	r := e.runOf(s)
	if r == nil {
		return false, nil
	}
	bounded, stop := context.WithTimeout(ctx, machineDeadline)
	defer stop()
	if st, err := r.machine.Status(bounded); err == nil && (st.RunState != "paused" || r.machine.Resume(bounded) == nil) {
		return true, nil
	}
	m, _, err := e.continued(ctx, s.id)
	if vm.KindOf(err) == vm.NotFound {
		e.log.Warn("a machine that could not be suspended does not resume", "vm", s.id, "err", err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e.letGo(s, errors.New("its monitor has died"))
	e.watch(s, m)
	return true, nil
}
