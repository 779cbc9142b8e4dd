// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// A VM is in doubt while the engine does not know the state of its machine: which file it
// writes to, whether it is paused, whether it exists. The usual reason is a monitor that
// does not answer. No file of such a VM is collected, sealed or renamed; see needsLocked
// and diskMoved. For every doubt a task runs that ends it: keepRecovering.

const (
	// recoverEvery is the first pause between two attempts to recover a VM in doubt. It
	// doubles up to recoverMost.
	recoverEvery = time.Second
	recoverMost  = 30 * time.Second
)

// NotRecovered is the reason shown for a VM in doubt.
const NotRecovered = "not-recovered"

// doubtfulLocked reports whether there is a VM with that id and it is in doubt.
func (e *Engine) doubtfulLocked(id vm.ID) bool {
	s := e.vms[id]
	return s != nil && s.doubt != nil
}

func (e *Engine) doubtful(id vm.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.doubtfulLocked(id)
}

// shownLocked is the record of a VM as callers see it.
func (s *slot) shownLocked() vm.VM {
	rec := s.rec
	if s.doubt != nil && rec.State != vm.Lost {
		rec.Reason = NotRecovered
	}
	return rec
}

// doubts puts a VM in doubt and starts its recovery. The caller may be an operation on
// the VM: the recovery waits until it has ended.
func (e *Engine) doubts(s *slot, why error) {
	if died(why) {
		return
	}
	e.log.Warn("the state of a VM's machine is unknown; trying again", "vm", s.id, "err", why)
	e.mu.Lock()
	defer e.mu.Unlock()
	s.doubt, s.doubted = why, s.doubted+1
	if !s.recovering {
		s.recovering = e.spawnLocked(func(ctx context.Context) { e.keepRecovering(ctx, s) })
	}
}

// keepRecovering tries to recover a VM in doubt until that succeeds or the VM is gone. It kills no
// machine for being silent.
func (e *Engine) keepRecovering(ctx context.Context, s *slot) {
	for wait := recoverEvery; !e.tryRecover(ctx, s); wait = min(2*wait, recoverMost) {
		after, stop := e.cfg.Clock.After(wait)
		select {
		case <-after:
		case <-ctx.Done():
			stop()
			return
		}
	}
}

// tryRecover makes one attempt. It reports whether no other is needed.
func (e *Engine) tryRecover(ctx context.Context, s *slot) (done bool) {
	op, err := e.beginSlot(ctx, s, vm.OpRecover)
	if err != nil { // the VM is gone or lost, or the engine closes
		return true
	}
	defer func() { _ = e.finish(op, nil) }()
	e.mu.Lock()
	doubted := s.doubted
	e.mu.Unlock()
	if err = e.recoverAgain(op.ctx, s); died(err) {
		return true
	}
	if err == nil {
		return e.known(s, doubted)
	}
	e.mu.Lock()
	news := s.doubt == nil || s.doubt.Error() != err.Error()
	s.doubt = err
	e.mu.Unlock()
	if news {
		e.log.Warn("a VM is not recovered yet; trying again", "vm", s.id, "err", err)
	}
	return false
}

// known ends the doubt about a VM, unless it was doubted again since the count was read.
// It reports whether it did.
func (e *Engine) known(s *slot, doubted int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.doubted != doubted {
		return false
	}
	s.doubt, s.recovering, s.maybePaused = nil, false, false
	s.touchLocked()
	e.collectLaterLocked()
	return true
}

// recoverAgain recovers a VM that is in doubt or that a failure left between two states,
// and the generations and leases that waited for it.
func (e *Engine) recoverAgain(ctx context.Context, s *slot) error {
	if err := e.recoverVM(ctx, s, e.found); err != nil {
		return err
	}
	idle := func(g *vm.Generation) bool { return g.VM == s.id && e.gens[g.ID].pins == 0 } // operations use the others
	for _, g := range e.generations(idle) {
		if err := e.recoverGeneration(ctx, g); err != nil {
			return err
		}
	}
	return e.recoverLeases(ctx, s.id)
}

// recoverLeases reconciles the volume leases of a VM that was in doubt.
func (e *Engine) recoverLeases(ctx context.Context, id vm.ID) error {
	for _, v := range e.cfg.Vault.VolumesIn(id) {
		if m, ok := v.Record().MountOf(id); ok {
			if err := e.recoverLease(ctx, v, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// recoverFirst recovers a VM when the engine starts. If that fails, the VM is in doubt;
// the start continues.
func (e *Engine) recoverFirst(op *operation) error {
	s := op.slot
	err := e.recoverVM(op.ctx, s, e.found)
	if err == nil {
		e.known(s, 0)
	} else if e.life.Err() == nil {
		e.doubts(s, err)
	}
	_ = e.finish(op, nil)
	if died(err) {
		return err
	}
	return nil
}

// leftPaused puts a VM in doubt whose machine a capture may have left paused.
func (e *Engine) leftPaused(s *slot, why error) {
	e.mu.Lock()
	s.maybePaused = true
	e.mu.Unlock()
	e.doubts(s, why)
}

// checkPaused checks in the background whether the machine of an unresponsive guest is
// paused though no operation holds it.
func (e *Engine) checkPaused(s *slot, r *run) {
	e.spawn(func(ctx context.Context) {
		ctx, stop := context.WithTimeout(ctx, machineDeadline)
		defer stop()
		st, err := r.machine.Status(ctx)
		e.mu.Lock()
		idle := s.op == nil && s.run == r
		e.mu.Unlock()
		if err == nil && idle && st.RunState == "paused" {
			e.leftPaused(s, vm.Errorf(vm.Unavailable, string(s.id), "the machine is paused, but no operation holds it"))
		}
	})
}

// takeUp makes the record of a VM agree with its running machine.
func (e *Engine) takeUp(ctx context.Context, s *slot, m Machine, st vm.MachineStatus) error {
	e.mu.Lock()
	paused := s.maybePaused
	e.mu.Unlock()
	if st.RunState == "paused" || paused { // a capture has paused it
		if err := m.Resume(ctx); err != nil {
			return vm.Errorf(vm.KindOf(err), string(s.id), "its machine is paused: %w", err)
		}
	}
	if err := e.takeSize(ctx, s, st.Size); err != nil {
		return err
	}
	if err := e.reconcileFolders(ctx, s, m, st.Folders); err != nil {
		return err
	}
	return e.reconcileDisk(ctx, s)
}

// machineOf returns the machine of a VM whose record says that it runs: the known one if
// it answers, else the one that the host finds. found reports that it is new to the
// engine.
func (e *Engine) machineOf(ctx context.Context, s *slot) (m Machine, st vm.MachineStatus, found bool, err error) {
	e.mu.Lock()
	r := s.run
	if r != nil && r.lost {
		r = nil
	}
	e.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, attachDeadline)
	defer stop()
	if r != nil {
		if st, err = r.machine.Status(ctx); err == nil {
			return r.machine, st, false, nil
		}
	}
	m, st, err = e.cfg.Machines.Attach(ctx, e.cfg.Run.VM(s.id))
	return m, st, true, err
}
