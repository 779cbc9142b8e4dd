// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

const (
	// machineDeadline bounds one request to a monitor that does not involve the guest.
	machineDeadline = 15 * time.Second
	// attachDeadline bounds the adoption of a machine, which may need a new monitor and a
	// new link to the guest.
	attachDeadline = 60 * time.Second
	// exitPatience is how long a stop waits to learn how the machine ended.
	exitPatience = 2 * time.Second
)

// runOf returns the VM's current machine, or nil.
func (e *Engine) runOf(s *slot) *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.run
}

// watch gives the VM its machine and waits for the machine's end.
func (e *Engine) watch(s *slot, m Machine) {
	r := &run{machine: m, gone: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(e.life)
	e.mu.Lock()
	s.run, s.private = r, 0 // a new machine has no private memory yet
	s.touchLocked()
	e.mu.Unlock()
	e.spawn(func(ctx context.Context) { e.awaitEnd(ctx, s, r) })
}

// awaitEnd ends with the machine or with the engine.
func (e *Engine) awaitEnd(ctx context.Context, s *slot, r *run) {
	exit, err := r.machine.Wait(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if e.runOf(s) != r {
			return // released
		}
		e.mu.Lock()
		r.lost = true
		e.mu.Unlock()
		e.doubts(s, err)
		return
	}
	e.ended(ctx, s, r, exit)
}

// ended records the end of a machine, unless the operation that ended it has done so.
func (e *Engine) ended(ctx context.Context, s *slot, r *run, exit vm.MachineExit) {
	r.exit = exit
	close(r.gone)
	r.cancel(errGuestGone(s.id, exit))
	verb := vm.OpKill // legal in every state with a machine
	if exit.Reason == "guest-reboot" {
		verb = vm.OpStart
	}
	op, err := e.beginSlot(ctx, s, verb)
	if err != nil {
		return
	}
	if e.runOf(s) != r || op.before.State != vm.Running {
		_ = e.finish(op, nil)
		return
	}
	if verb == vm.OpStart {
		e.reboot(op, exit)
		return
	}
	e.sweepEnded(op)
	_, err = e.nowStopped(op.ctx, s, exit.Reason, exit)
	if err = e.finish(op, err); err != nil && !died(err) {
		e.log.Error("a machine has ended and its VM could not be recorded as stopped", "vm", s.id, "err", err)
	}
}

// sweepEnded cleans up after a machine that is gone. The next start sweeps what it cannot
// remove.
func (e *Engine) sweepEnded(op *operation) {
	if err := e.sweep(op.ctx, op.slot.id); err != nil && !died(err) {
		e.log.Warn("what a machine left could not be removed", "vm", op.slot.id, "err", err)
	}
}

// reboot starts the machine again for a guest that asked for a reboot.
func (e *Engine) reboot(op *operation, exit vm.MachineExit) {
	s := op.slot
	e.letGo(s, errors.New("the guest rebooted"))
	op.next = vm.Next{During: vm.Starting, After: vm.Running}
	op.before.Reason, op.before.Exit = exit.Reason, exit
	err := op.undo.add(op.ctx, "reboot", func(ctx context.Context) error {
		_, err := e.nowStopped(ctx, s, exit.Reason, exit)
		return err
	})
	if err == nil {
		err = e.sweep(op.ctx, s.id)
	}
	if err == nil {
		var rec vm.VM
		rec, err = e.boot(op, e.cfg.Settings.StartDeadline, func(*vm.VM) error { return nil })
		if err == nil {
			e.cfg.Journal.EmitVM(rec, "vm.rebooted", nil)
		}
	}
	if err = e.finish(op, err); err != nil && !died(err) {
		e.log.Error("a guest rebooted and could not be started again", "vm", s.id, "err", err)
	}
}

// letGo releases the machine of a VM and ends the calls into its guest.
func (e *Engine) letGo(s *slot, why error) {
	e.mu.Lock()
	r := s.run
	s.run = nil
	s.touchLocked()
	e.mu.Unlock()
	if r != nil {
		r.cancel(vm.Errorf(vm.GuestFault, string(s.id), "%w", why).WithHint("`warren inspect %s` shows how it ended", s.id))
		r.machine.Close()
	}
}

func errGuestGone(id vm.ID, exit vm.MachineExit) error {
	return vm.Errorf(vm.GuestFault, string(id), "its machine has ended (%s)", exit.Reason).
		WithHint("start it again: `warren start %s`", id)
}

// exitNote reads the exit status that a machine left on disk.
func (e *Engine) exitNote(id vm.ID) vm.MachineExit {
	var exit vm.MachineExit
	err := layout.ReadJSON(layout.RunVM(e.cfg.Run.VM(id)).Exit(), &exit)
	if err != nil || exit.Reason == "" {
		return vm.MachineExit{Reason: "qemu-crash", Detail: vm.ExitUnseen, Time: e.now()}
	}
	return exit
}
