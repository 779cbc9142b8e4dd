// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// recoverStarting undoes an interrupted start: the VM is suspended or stopped again.
func (e *Engine) recoverStarting(ctx context.Context, s *slot) error {
	rec := e.recordOf(s)
	if err := e.sweep(ctx, s.id); err != nil {
		return err
	}
	if g, ok := e.generationInfo(rec.Generation); ok && g.Whole() {
		_, err := e.nowSuspended(ctx, s, g.ID, "start-interrupted")
		return err
	}
	if err := e.takeBackRollback(ctx, s); err != nil {
		return err
	}
	if _, err := e.nowStopped(ctx, s, "start-interrupted", rec.Exit); err != nil {
		return err
	}
	return e.reconcileDisk(ctx, s)
}

// recoverSuspending finishes an interrupted suspend if its memory is saved completely.
// Otherwise the machine keeps running, or the VM is stopped if it has none.
func (e *Engine) recoverSuspending(ctx context.Context, s *slot) error {
	m, st, err := e.continued(ctx, s.id)
	switch {
	case err == nil:
		// The generation may lack its last bytes: the machine has all of them.
		_, err := e.update(ctx, s, func(rec *vm.VM) {
			rec.State, rec.Op = vm.Running, ""
			rec.LastActive, rec.LastKind = e.now(), vm.ActivityStart // the time without a server does not count as idle
			if id := e.seatOf(st); id != "" {
				rec.Generation = id
			}
		})
		if err != nil {
			m.Close()
			return err
		}
		e.watch(s, m)
		return e.reconcileDisk(ctx, s)
	case vm.KindOf(err) == vm.NotFound:
	case vm.KindOf(err) == vm.Internal && e.written(s): // it does not resume, and all of it is saved
		e.log.Error("a machine that a capture had paused does not resume; ending it", "vm", s.id, "err", err)
	default:
		return err
	}
	exit := e.exitNote(s.id)
	if err := e.sweep(ctx, s.id); err != nil {
		return err
	}
	if err := e.reconcileDisk(ctx, s); err != nil {
		return err
	}
	if g, ok := e.putDownAs(s); ok {
		if ok, err := e.completed(ctx, g); err != nil {
			return err
		} else if ok {
			_, err := e.nowSuspended(ctx, s, g.ID, "suspend")
			return err
		}
	}
	_, err = e.nowStopped(ctx, s, "suspend-interrupted", exit)
	return err
}

// putDownAs returns the generation that an interrupted suspend of the VM was writing.
func (e *Engine) putDownAs(s *slot) (vm.Generation, bool) {
	g, ok := e.generationInfo(e.recordOf(s).Head)
	return g, ok && g.VM == s.id && (g.Why == vm.WhySuspend || g.Why == vm.WhyReseat)
}

// written reports whether that generation holds all of the VM's machine.
func (e *Engine) written(s *slot) bool {
	g, ok := e.putDownAs(s)
	if !ok {
		return false
	}
	_, err := e.cfg.Generations.Captured(g.ID)
	return err == nil
}

// continueTries is how often a machine that a capture paused is asked to resume.
const continueTries = 50

// continued finds a machine that a capture paused and resumes it. A machine that is
// ending, because its monitor completes the capture or lost its QEMU, does not resume and
// is then not found. continued ends no machine.
func (e *Engine) continued(ctx context.Context, id vm.ID) (Machine, vm.MachineStatus, error) {
	var last error
	for range continueTries {
		attach, stop := context.WithTimeout(ctx, attachDeadline)
		m, st, err := e.cfg.Machines.Attach(attach, e.cfg.Run.VM(id))
		stop()
		if err != nil {
			return nil, st, err
		}
		if last = m.Resume(ctx); last == nil {
			return m, st, nil
		}
		m.Close()
		if k := vm.KindOf(last); k == vm.Timeout || k == vm.GuestFault {
			return nil, st, last // it has waited long enough itself
		}
		select {
		case <-time.After(continuePause):
		case <-ctx.Done():
			return nil, st, context.Cause(ctx)
		}
	}
	return nil, vm.MachineStatus{}, last
}

// continuePause is the pause between two tries.
const continuePause = 100 * time.Millisecond

// completed reports whether a generation is complete. It makes it durable if that was
// interrupted.
func (e *Engine) completed(ctx context.Context, g vm.Generation) (bool, error) {
	if g.State == vm.GenReady && g.Durable {
		return true, nil
	}
	if _, err := e.cfg.Generations.Captured(g.ID); err != nil {
		return false, nil
	}
	if e.hostRestarted(ctx, g) {
		return false, nil // data that was not fsynced may be torn
	}
	_, err := e.changeGeneration(ctx, g.ID, func(g *vm.Generation) { g.State, g.Failure = vm.GenReady, "" })
	if err != nil {
		return false, err
	}
	return true, e.publish(ctx, g.ID)
}

func (e *Engine) hostRestarted(ctx context.Context, g vm.Generation) bool {
	p, err := e.cfg.Host.Platform(ctx)
	return err != nil || g.BootID != "" && g.BootID != p.BootID
}

// recoverSuspended ends the remains of the VM's machine and checks that its files exist.
func (e *Engine) recoverSuspended(ctx context.Context, s *slot, f found) error {
	if err := e.sweepLeft(ctx, s, f); err != nil {
		return err
	}
	id := e.recordOf(s).Generation
	disk, memory := e.cfg.Generations.Present(id)
	if g, ok := e.generationInfo(id); ok && disk && (memory || len(g.SealKey) > 0) {
		return e.reconcileDisk(ctx, s)
	}
	if !disk {
		return notCorrupt(e.markLost(ctx, s, noGeneration(string(id))))
	}
	_, err := e.nowStopped(ctx, s, "memory-lost", vm.MachineExit{Reason: "memory-lost", Detail: "the files of its memory are gone", Time: e.now()})
	return err
}

// recoverGenerations corrects the state of every generation, and removes directories
// without one.
func (e *Engine) recoverGenerations(ctx context.Context) error {
	for _, g := range e.generations(func(*vm.Generation) bool { return true }) {
		if e.doubtful(g.VM) {
			continue // decided when the doubt about its VM ends
		}
		if err := e.recoverGeneration(ctx, g); err != nil {
			if died(err) || ctx.Err() != nil {
				return err
			}
			e.log.Error("a generation could not be recovered", "generation", g.ID, "err", err)
		}
	}
	ids, err := e.cfg.Generations.List()
	if err != nil {
		return err
	}
	written := e.maybeWritten()
	for _, id := range ids {
		if _, known := e.generationInfo(id); !known && !written[id] || layout.IsTemp(string(id)) {
			if err := e.dropUnrecorded(id); err != nil {
				if died(err) {
					return err
				}
				e.log.Error("files without a record could not be moved aside", "generation", id, "err", err)
			}
		}
	}
	e.collectLater()
	return nil
}

// maybeWritten returns the generations above whose disk a VM in doubt may write.
func (e *Engine) maybeWritten() map[vm.GenerationID]bool {
	e.mu.Lock()
	var doubtful []*slot
	for _, s := range e.vms {
		if s.doubt != nil {
			doubtful = append(doubtful, s)
		}
	}
	e.mu.Unlock()
	ids := map[vm.GenerationID]bool{}
	for _, s := range doubtful {
		pending, err := e.cfg.Generations.Pending(s.id)
		if err != nil {
			e.log.Warn("the disks of a VM cannot be listed", "vm", s.id, "err", err)
		}
		if id, err := e.cfg.Generations.DiskOn(s.id); err == nil {
			pending = append(pending, id)
		}
		for _, id := range pending {
			ids[id] = true
		}
	}
	return ids
}

// dropUnrecorded removes the files of a generation without a record; complete ones are
// moved aside.
func (e *Engine) dropUnrecorded(id vm.GenerationID) error {
	if _, err := e.cfg.Generations.Load(id); err == nil {
		return e.setAside(e.cfg.Dir.Generation(id))
	}
	e.log.Warn("removing the files of a generation without a record", "generation", id)
	return e.cfg.Generations.Remove(id)
}

// dropAgain removes the files that a generation should no longer have, in case of a crash
// after its record was changed and before they were removed.
func (e *Engine) dropAgain(g vm.Generation) error {
	switch {
	case g.Gone:
		return e.cfg.Generations.Remove(g.ID)
	case g.DiskOnly:
		return e.cfg.Generations.DropMemory(g.ID)
	}
	return nil
}

func (e *Engine) recoverGeneration(ctx context.Context, g vm.Generation) error {
	if err := e.dropAgain(g); err != nil || g.Gone || g.State == vm.GenLost {
		return err
	}
	if len(g.SealKey) > 0 && !g.Sealed { // it may have been sealed: opening it tells
		var err error
		if g, err = e.changeGeneration(ctx, g.ID, func(g *vm.Generation) { g.Sealed = true }); err != nil {
			return err
		}
	}
	e.repairKeys(g)
	if g.State == vm.GenReady && !g.Durable && !e.hostRestarted(ctx, g) && e.pin(g.ID) {
		e.publishLater(g.ID)
		return nil
	}
	if g.State == vm.GenReady && g.Durable {
		if disk, memory := e.cfg.Generations.Present(g.ID); disk && (memory || !g.Memory || g.DiskOnly || len(g.SealKey) > 0) {
			return nil
		}
	}
	if g.State == vm.GenFailed && g.DiskOnly {
		return nil
	}
	why := "the server ended before it was complete"
	state := vm.GenFailed
	if g.Durable {
		state, why = vm.GenLost, "its files are gone"
	}
	_, err := e.changeGeneration(ctx, g.ID, func(g *vm.Generation) { g.State, g.Failure = state, why })
	return err
}
