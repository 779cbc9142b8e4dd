// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// recover reconciles records, directories and machines at the start of an
// engine: adopt what runs, bury what is dead, finish or take back what was
// under way, remove what belongs to nothing. It ends with no operation open.
func (e *Engine) recover(ctx context.Context) error {
	if err := e.loadDirectory(ctx); err != nil {
		return err
	}
	if err := e.loadDomains(ctx); err != nil {
		return err
	}
	recs, err := e.loadRecords(ctx)
	if err != nil {
		return err
	}
	if err := e.loadGenerations(ctx); err != nil {
		return err
	}
	if err := e.loadVolumes(ctx); err != nil {
		return err
	}
	now := e.now()
	for i := range recs {
		fitClock(&recs[i], now)
		fitTerminals(&recs[i])
		e.vms[recs[i].ID] = newSlot(recs[i])
	}
	if err := e.loadUsage(ctx); err != nil {
		return err
	}
	if err := e.loadRights(ctx); err != nil {
		return err
	}
	if err := e.loadHolds(ctx); err != nil {
		return err
	}
	if err := e.recoverVMs(ctx, recs); err != nil {
		return err
	}
	if err := e.sweepDirs(ctx); err != nil {
		return err
	}
	if err := e.dropLostMappings(ctx); err != nil {
		return err
	}
	if err := e.recoverGenerations(ctx); err != nil {
		return err
	}
	if err := e.recoverVolumes(ctx); err != nil {
		return err
	}
	if err := e.closePending(ctx); err != nil {
		return err
	}
	return e.endBuilds(ctx)
}

// recoverWidth is how many VMs are recovered at a time: a monitor that does not
// answer must not hold up the others.
const recoverWidth = 8

// recoverVMs recovers every VM, some at a time, and joins the errors.
func (e *Engine) recoverVMs(ctx context.Context, recs []vm.VM) error {
	found, err := e.find(ctx, recs)
	if err != nil {
		return err
	}
	places := make(chan struct{}, recoverWidth)
	errs := make(chan error, len(recs))
	slots := make([]*slot, 0, len(recs))
	for _, rec := range recs {
		slots = append(slots, e.vms[rec.ID])
	}
	for _, s := range slots {
		places <- struct{}{}
		go func() { // ends with its VM; counted below
			errs <- e.notSilent(ctx, s, e.notDamaged(s, e.recoverVM(ctx, s, found)))
			<-places
		}()
	}
	var all []error
	for range slots {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// notDamaged drops the error of a VM with a damaged disk, or with files or
// processes that cannot be got rid of now. It is the misfortune of that VM, whose
// next start says so, and none of the others'. What the record store says is
// everybody's.
func (e *Engine) notDamaged(s *slot, err error) error {
	if died(err) {
		return err
	}
	switch vm.KindOf(err) {
	case vm.Corrupt, vm.Internal, vm.Denied:
		e.log.Error("a VM is not recovered; the others are not concerned", "vm", s.id, "err", err)
		return nil
	}
	return err
}

// notSilent drops the error of a VM that a suspend was at work on and that is
// not recovered, for its monitor does not answer: the reaper tries it again, and
// the others are not held up.
func (e *Engine) notSilent(ctx context.Context, s *slot, err error) error {
	if err == nil || ctx.Err() != nil || e.snapshot(s).State != vm.Suspending {
		return err
	}
	e.log.Warn("a VM that was being suspended is not recovered yet; trying again", "vm", s.id, "err", err)
	return nil
}

// found is what was there at the start. The zero value is for VMs that are
// recovered later.
type found struct {
	bootID string         // of the host; "" = not known or not needed
	left   map[vm.ID]bool // something of a machine: a process, or a run directory
}

func (e *Engine) find(ctx context.Context, recs []vm.VM) (found, error) {
	f := found{bootID: e.bootID(ctx, recs), left: map[vm.ID]bool{}}
	strays, err := e.cfg.Machines.Strays()
	if err != nil {
		return f, err
	}
	for _, id := range strays {
		f.left[id] = true
	}
	return f, orphans(string(e.cfg.Run), func(name string) error {
		f.left[vm.ID(name)] = true
		return nil
	})
}

// sweepLeft ends what is left of the machine of a VM that should have none.
func (e *Engine) sweepLeft(ctx context.Context, s *slot, f found) error {
	if !f.left[s.id] {
		return nil
	}
	return e.sweep(ctx, s.id)
}

// bootID returns the host's boot id, "" when it is not needed or not known: a
// host that can start nothing, for lack of an image, still shows its VMs.
func (e *Engine) bootID(ctx context.Context, recs []vm.VM) string {
	if !slices.ContainsFunc(recs, func(v vm.VM) bool { return v.State == vm.Running }) {
		return ""
	}
	p, err := e.cfg.Host.Platform(ctx)
	if err != nil {
		e.log.Warn("the host's abilities are not known", "err", err)
	}
	return p.BootID
}

// recoverVM brings one VM into a state that is true.
func (e *Engine) recoverVM(ctx context.Context, s *slot, f found) error {
	rec := e.snapshot(s)
	switch {
	case rec.Op == vm.OpCreate || rec.State == vm.Building:
		return e.recoverDelete(ctx, s, "create-interrupted")
	case rec.Op == vm.OpDelete:
		return e.recoverDelete(ctx, s, "")
	case rec.OneShot:
		return e.recoverDelete(ctx, s, "runner-gone")
	case rec.State == vm.Starting:
		return e.recoverStarting(ctx, s)
	case rec.State == vm.Suspending:
		return e.recoverSuspending(ctx, s)
	case rec.State == vm.Suspended:
		return e.recoverSuspended(ctx, s, f)
	case rec.State == vm.Running && f.bootID != "" && rec.Machine.BootID != f.bootID:
		return e.recoverHostRestart(ctx, s)
	case rec.State == vm.Running:
		return e.recoverRunning(ctx, s)
	case rec.State == vm.Stopped:
		if _, err := os.Stat(e.cfg.Dir.Overlay(s.id)); errors.Is(err, fs.ErrNotExist) {
			return notCorrupt(e.markLost(ctx, s, err))
		}
		if err := e.sweepLeft(ctx, s, f); err != nil {
			return err
		}
		return e.settleDisk(ctx, s)
	}
	return nil
}

// notCorrupt drops the error with which markLost tells of its success.
func notCorrupt(err error) error {
	if vm.KindOf(err) == vm.Corrupt {
		return nil
	}
	return err
}

// recoverDelete finishes a delete, or takes back a create.
func (e *Engine) recoverDelete(ctx context.Context, s *slot, reason string) error {
	if err := e.sweep(ctx, s.id); err != nil {
		return err
	}
	if err := e.removeDir(s.id); err != nil {
		return err
	}
	rec := e.snapshot(s)
	if err := e.forget(ctx, s); err != nil {
		return err
	}
	e.emit(rec, "vm.deleted", map[string]any{"reason": reason})
	return nil
}

// recoverHostRestart stops a VM whose machine ended with the host.
func (e *Engine) recoverHostRestart(ctx context.Context, s *slot) error {
	if err := e.sweep(ctx, s.id); err != nil {
		return err
	}
	exit := vm.MachineExit{Reason: "host-restart", Detail: "memory and running processes were lost", Time: e.now()}
	if _, err := e.nowStopped(ctx, s, exit.Reason, exit); err != nil {
		return err
	}
	return e.settleDisk(ctx, s)
}

// recoverRunning adopts a machine, or buries it.
func (e *Engine) recoverRunning(ctx context.Context, s *slot) error {
	attach, stop := context.WithTimeout(ctx, attachDeadline)
	m, st, err := e.cfg.Machines.Attach(attach, e.cfg.Run.VM(s.id))
	stop()
	if err == nil && st.RunState == "paused" { // it was held by a capture
		if err := m.Resume(ctx); err != nil {
			e.log.Warn("a machine stands still", "vm", s.id, "err", err)
		}
	}
	switch {
	case err == nil:
		// A silence of the server is none of the VM.
		e.mu.Lock()
		e.activeLocked(s, vm.ActivityStart)
		e.mu.Unlock()
		e.watch(s, m)
		if err := e.takeSize(ctx, s, st.Size); err != nil {
			return err
		}
		if err := e.settleFolders(ctx, s, m, st.Folders); err != nil {
			return err
		}
		return e.settleDisk(ctx, s)
	case vm.KindOf(err) == vm.NotFound:
		exit := e.exitNote(s.id)
		if err := e.sweep(ctx, s.id); err != nil {
			return err
		}
		if _, err := e.nowStopped(ctx, s, exit.Reason, exit); err != nil {
			return err
		}
		return e.settleDisk(ctx, s)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	e.log.Warn("a machine does not answer; trying again", "vm", s.id, "err", err)
	e.spawn(func(ctx context.Context) { e.regain(ctx, s, nil) })
	return nil
}

// sweepDirs removes directories that belong to no record, and puts those aside
// that may be somebody's.
func (e *Engine) sweepDirs(ctx context.Context) error {
	err := orphans(e.cfg.Dir.VMs(), func(name string) error {
		if layout.IsTemp(name) {
			return os.RemoveAll(filepath.Join(e.cfg.Dir.VMs(), name))
		}
		if !vm.IsID(name) || e.known(vm.ID(name)) {
			return nil
		}
		id := vm.ID(name)
		if err := e.sweep(ctx, id); err != nil {
			return err
		}
		if e.hasRun(id) {
			return e.setAside(e.cfg.Dir.VM(id))
		}
		e.log.Warn("removing the directory of a VM without a record", "vm", name)
		return e.removeDir(id)
	})
	if err != nil {
		return err
	}
	return orphans(string(e.cfg.Run), func(name string) error {
		if vm.IsID(name) && !e.known(vm.ID(name)) {
			e.log.Warn("ending the machine of a VM without a record", "vm", name)
			return e.sweep(ctx, vm.ID(name))
		}
		return nil
	})
}

func (e *Engine) known(id vm.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.vms[id] != nil
}

// orphans calls f with each name in dir; a missing dir has none.
func orphans(dir string, f func(name string) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return diskError(dir, err)
	}
	for _, entry := range entries {
		if err := f(entry.Name()); err != nil {
			return err
		}
	}
	return nil
}
