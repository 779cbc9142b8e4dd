// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// reseatAfter is how long a VM must have been unused before it gets a new base.
const reseatAfter = 5 * time.Second

// pageSize is the size of a guest's memory page in bytes.
const pageSize = 4096

// notePrivate records the private memory of a VM's machine, which each capture compares
// and copies.
func (e *Engine) notePrivate(s *slot, out vm.Captured) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.private, s.weighed = out.PrivatePages*pageSize, e.now()
}

// reseat captures a running VM and moves it onto that generation, so that its private
// memory is empty again. Calls into the guest wait. If the machine is lost midway, the VM
// is suspended on the generation and is started again.
func (e *Engine) reseat(op *operation) error {
	s := op.slot
	if len(op.before.VolumesSeen)+len(op.before.Folders) > 0 || !e.alone(op) { // volume data must not be written in the clear; files of folders are open
		return nil
	}
	if err := e.step(op.ctx, "reseat:record"); err != nil {
		return err
	}
	terminals := e.terminalsNow(op)
	_, err := e.update(op.ctx, s, func(rec *vm.VM) {
		rec.State, rec.Op = vm.Suspending, vm.OpCapture
		keepTerminals(rec, terminals)
	})
	if err != nil {
		return err
	}
	g, err := e.capture(op.ctx, op, captureOptions{why: vm.WhyReseat, hold: true})
	if err != nil {
		return e.suspendFailed(op, err)
	}
	defer e.publishLater(g.ID)
	if err := e.step(op.ctx, "reseat:machine"); err != nil {
		return e.seatLost(op, g, err)
	}
	src, err := e.seat(g)
	if err == nil {
		err = e.runOf(s).machine.Reseat(op.ctx, src)
	}
	if err != nil {
		return e.seatLost(op, g, err)
	}
	why := e.step(op.ctx, "reseat:commit")
	if died(why) {
		return why
	}
	e.mu.Lock()
	s.private = 0
	e.mu.Unlock()
	_, err = e.update(context.WithoutCancel(op.ctx), s, func(rec *vm.VM) { rec.State, rec.Op, rec.Generation = vm.Running, "", g.ID })
	return errors.Join(why, err)
}

// alone reports whether no call into the guest is open, since it would be cut, and makes
// new calls wait until the operation ends.
func (e *Engine) alone(op *operation) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	op.moves = op.slot.attached+op.slot.byTraffic == 0 && op.slot.run != nil
	return op.moves
}

// seat returns the files of a generation for the machine that was captured.
func (e *Engine) seat(g vm.Generation) (vm.GenerationSource, error) {
	m, fresh, err := e.loadManifest(g)
	if err != nil {
		return vm.GenerationSource{}, err
	}
	src := e.cfg.Generations.Source(g.ID)
	src.Fresh = fresh
	for _, module := range m.Plugged.Modules {
		src.Modules = append(src.Modules, layout.GenerationDir(e.cfg.Dir.Generation(g.ID)).Module(module.ID))
	}
	return src, nil
}

// seatLost resumes a paused machine where it was. If the machine is gone, its whole state
// is in the generation, and the VM is started on it.
func (e *Engine) seatLost(op *operation, g vm.Generation, why error) error {
	if died(why) {
		return why
	}
	s, ctx := op.slot, context.WithoutCancel(op.ctx)
	err := e.resumeMachine(ctx, s, e.runOf(s))
	switch k := vm.KindOf(err); {
	case err == nil:
		seat := e.seatNow(ctx, s) // perhaps only the answer was lost
		_, err = e.update(ctx, s, func(rec *vm.VM) { rec.State, rec.Op, rec.Generation = vm.Running, "", cmp.Or(seat, rec.Generation) })
		return joinUndo(why, err)
	case k == vm.Timeout || k == vm.Unavailable:
		return why // the recovery finds out whether it has moved and resumed: see doubts
	}
	e.sweepEnded(op)
	if err := e.publish(ctx, g.ID); err != nil {
		return joinUndo(why, err)
	}
	if _, err := e.nowSuspended(ctx, s, g.ID, "reseat-failed"); err != nil {
		return joinUndo(why, err)
	}
	e.spawn(func(ctx context.Context) {
		c := &vm.Call{Actor: vm.Actor{Account: s.account, System: "reseat"}}
		if _, err := e.Start(ctx, c, string(s.id), StartRequest{}); err != nil && !died(err) {
			e.log.Error("a VM could not be started again", "vm", s.id, "err", err)
		}
	})
	return why
}

// seatNow is seatOf for the VM's current machine; "" if that does not answer.
func (e *Engine) seatNow(ctx context.Context, s *slot) vm.GenerationID {
	r := e.runOf(s)
	if r == nil {
		return ""
	}
	ctx, stop := context.WithTimeout(ctx, machineDeadline)
	defer stop()
	st, err := r.machine.Status(ctx)
	if err != nil {
		return ""
	}
	return e.seatOf(st)
}

// seatOf returns the generation that a machine maps as its memory; "" = an image's, or
// none.
func (e *Engine) seatOf(st vm.MachineStatus) vm.GenerationID {
	dir := filepath.Dir(st.RAM)
	if filepath.Dir(dir) != filepath.Clean(e.cfg.Dir.Generations()) {
		return ""
	}
	return vm.GenerationID(filepath.Base(dir))
}
