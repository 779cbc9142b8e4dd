// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// recoverStarting takes an interrupted start back: to what the VM was
// suspended on, or to its disk.
func (e *Engine) recoverStarting(ctx context.Context, s *slot) error {
	rec := e.snapshot(s)
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
	return e.settleDisk(ctx, s)
}

// recoverSuspending finishes an interrupted suspend when its memory is written
// down whole; else the machine keeps running, and where there is none, the VM
// is stopped.
func (e *Engine) recoverSuspending(ctx context.Context, s *slot) error {
	m, st, err := e.continued(ctx, s.id)
	switch {
	case err == nil:
		// What was written may lack its last bytes: the machine knows better.
		_, err := e.update(ctx, s, func(rec *vm.VM) {
			rec.State, rec.Op = vm.Running, ""
			rec.LastActive, rec.LastKind = e.now(), vm.ActivityStart // a silence of the server is none of the VM
			if id := e.seatOf(st); id != "" {
				rec.Generation = id
			}
		})
		if err != nil {
			m.Close()
			return err
		}
		e.watch(s, m)
		return e.settleDisk(ctx, s)
	case vm.KindOf(err) == vm.NotFound:
	case vm.KindOf(err) == vm.Internal && e.written(s): // it does not continue, and all of it is written down
		e.log.Error("a machine that a capture held does not continue; it is ended", "vm", s.id, "err", err)
	default:
		return err
	}
	exit := e.exitNote(s.id)
	if err := e.sweep(ctx, s.id); err != nil {
		return err
	}
	if err := e.settleDisk(ctx, s); err != nil {
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

// putDownAs is the generation that a suspend has begun to write a VM down as.
func (e *Engine) putDownAs(s *slot) (vm.Generation, bool) {
	g, ok := e.generationInfo(e.snapshot(s).Head)
	return g, ok && g.VM == s.id && (g.Why == vm.WhySuspend || g.Why == vm.WhyReseat)
}

// written reports whether all of a VM's machine is in the generation that a
// suspend has begun.
func (e *Engine) written(s *slot) bool {
	g, ok := e.putDownAs(s)
	if !ok {
		return false
	}
	_, err := e.cfg.Generations.Captured(g.ID)
	return err == nil
}

// continueTries is how often a machine is asked to resume that a capture
// held.
const continueTries = 50

// continued finds a machine that a capture has held and resumes it. One that is
// about to end, as its monitor completes the capture or has lost its QEMU, does
// not continue, and is then not found. None is ended for not continuing.
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
			return nil, st, last // it was patient enough itself
		}
		select {
		case <-time.After(continuePause):
		case <-ctx.Done():
			return nil, st, context.Cause(ctx)
		}
	}
	return nil, vm.MachineStatus{}, last
}

// continuePause is between two tries.
const continuePause = 100 * time.Millisecond

// completed reports whether a generation is whole, making it durable where
// that was interrupted.
func (e *Engine) completed(ctx context.Context, g vm.Generation) (bool, error) {
	if g.State == vm.GenReady && g.Durable {
		return true, nil
	}
	if _, err := e.cfg.Generations.Captured(g.ID); err != nil {
		return false, nil
	}
	if e.hostRestarted(ctx, g) {
		return false, nil // what was not fsynced may be torn
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

// recoverSuspended ends what may be left of its machine and looks whether its
// files are there.
func (e *Engine) recoverSuspended(ctx context.Context, s *slot, f found) error {
	if err := e.sweepLeft(ctx, s, f); err != nil {
		return err
	}
	id := e.snapshot(s).Generation
	disk, memory := e.cfg.Generations.Present(id)
	if g, ok := e.generationInfo(id); ok && disk && (memory || len(g.SealKey) > 0) {
		return e.settleDisk(ctx, s)
	}
	if !disk {
		return notCorrupt(e.markLost(ctx, s, noGeneration(string(id))))
	}
	_, err := e.nowStopped(ctx, s, "memory-lost", vm.MachineExit{Reason: "memory-lost", Detail: "the files of its memory are gone", Time: e.now()})
	return err
}

// recoverGenerations brings every generation into a state that is true, and
// removes directories that belong to none.
func (e *Engine) recoverGenerations(ctx context.Context) error {
	for _, g := range e.generations(func(*vm.Generation) bool { return true }) {
		if e.doubtful(g.VM) {
			continue // known when its VM is
		}
		if err := e.recoverGeneration(ctx, g); err != nil {
			if died(err) || ctx.Err() != nil {
				return err
			}
			e.log.Error("a generation is not recovered; the others are not concerned", "generation", g.ID, "err", err)
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
				e.log.Error("files without a record stay where they are", "generation", id, "err", err)
			}
		}
	}
	e.collectLater()
	return nil
}

// maybeWritten are the generations above whose disk a VM in doubt may write.
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

// dropUnrecorded gets files of a generation out of the way that has no record: a
// complete one is kept aside.
func (e *Engine) dropUnrecorded(id vm.GenerationID) error {
	if _, err := e.cfg.Generations.Load(id); err == nil {
		return e.setAside(e.cfg.Dir.Generation(id))
	}
	e.log.Warn("removing the files of a generation without a record", "generation", id)
	return e.cfg.Generations.Remove(id)
}

// dropAgain removes the files that a generation should no longer have: its
// record says so first, and a death may have come before they went.
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
	if len(g.SealKey) > 0 && !g.Sealed { // it may have been sealed: opening it finds out
		var err error
		if g, err = e.changeGeneration(ctx, g.ID, func(g *vm.Generation) { g.Sealed = true }); err != nil {
			return err
		}
	}
	e.mendKeys(g)
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
	why := "the server ended before it was written down"
	state := vm.GenFailed
	if g.Durable {
		state, why = vm.GenLost, "its files are gone"
	}
	_, err := e.changeGeneration(ctx, g.ID, func(g *vm.Generation) { g.State, g.Failure = state, why })
	return err
}
