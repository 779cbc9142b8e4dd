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
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// recover reconciles records, directories and machines when the engine starts. It adopts
// running machines, records dead ones as stopped, finishes or undoes interrupted
// operations, and removes files without an owner. Afterwards no operation is open.
func (e *Engine) recover(ctx context.Context) error {
	recs := e.loadRecords()
	e.loadGenerations()
	if err := e.openMeter(ctx); err != nil {
		return err
	}
	if err := e.sweepHolds(ctx); err != nil {
		return err
	}
	if err := e.recoverVMs(ctx, recs); err != nil {
		return err
	}
	if err := e.sweepDirs(ctx); err != nil {
		return err
	}
	if err := e.recoverGenerations(ctx); err != nil {
		return err
	}
	if err := e.recoverVolumes(ctx); err != nil {
		return err
	}
	if err := e.cfg.Journal.ClosePending(ctx); err != nil {
		return err
	}
	return e.endBuilds(ctx)
}

// recoverWidth is how many VMs are recovered at a time. A VM that takes longer than
// RecoverWait no longer counts.
const recoverWidth = 8

// errRecovering is the doubt about every VM before its recovery.
var errRecovering = vm.Errorf(vm.Unavailable, "", "it is being recovered")

// recoverVMs recovers every VM, some at a time. It returns when it has tried each, or
// after RecoverWait. VMs that are not recovered by then are in doubt, and their recovery
// continues.
func (e *Engine) recoverVMs(ctx context.Context, recs []vm.VM) error {
	if err := e.findLeft(ctx, recs); err != nil {
		return err
	}
	places := make(chan struct{}, recoverWidth)
	errs := make(chan error, len(recs))
	left := 0
	e.mu.Lock()
	for _, s := range e.vms {
		if s.doubt != nil { // its record cannot be read
			continue
		}
		op, err := e.attachLocked(vm.OpRecover, s)
		if err != nil {
			e.mu.Unlock()
			return err
		}
		op.own, s.doubt = true, errRecovering
		left++
		e.spawnLocked(func(ctx context.Context) {
			select {
			case places <- struct{}{}:
				give := sync.OnceFunc(func() { <-places })
				late := time.AfterFunc(e.cfg.Settings.RecoverWait, give)
				defer late.Stop()
				defer give()
			case <-ctx.Done(): // the recoveries end at once
			}
			errs <- e.recoverFirst(op)
		})
	}
	e.mu.Unlock()
	wait := time.NewTimer(e.cfg.Settings.RecoverWait)
	defer wait.Stop()
	for ; left > 0; left-- {
		select {
		case err := <-errs:
			if err != nil {
				return err
			}
		case <-wait.C:
			e.log.Error("some VMs are not recovered yet; the others are ready", "vms", left)
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// found is what the start of the engine found. The zero value is for VMs that are
// recovered later.
type found struct {
	bootID string         // of the host; "" = unknown or not needed
	left   map[vm.ID]bool // remains of a machine: a process, or a run directory

	unreadable []*slot // VMs whose records cannot be decoded
}

// findLeft notes what the host has of machines before the VMs are recovered.
func (e *Engine) findLeft(ctx context.Context, recs []vm.VM) error {
	e.found.bootID, e.found.left = e.bootID(ctx, recs), map[vm.ID]bool{}
	strays, err := e.cfg.Machines.Strays()
	if err != nil {
		return err
	}
	for _, id := range strays {
		e.found.left[id] = true
	}
	return orphans(string(e.cfg.Run), func(name string) error {
		e.found.left[vm.ID(name)] = true
		return nil
	})
}

// sweepLeft ends the remains of a machine of a VM that should have none.
func (e *Engine) sweepLeft(ctx context.Context, s *slot, f found) error {
	if !f.left[s.id] {
		return nil
	}
	return e.sweep(ctx, s.id)
}

// bootID returns the host's boot id, or "" if it is not needed or unknown. A host that
// can start nothing, because it has no image, still shows its VMs.
func (e *Engine) bootID(ctx context.Context, recs []vm.VM) string {
	if !slices.ContainsFunc(recs, func(v vm.VM) bool { return v.State == vm.Running }) {
		return ""
	}
	p, err := e.cfg.Host.Platform(ctx)
	if err != nil {
		e.log.Warn("the host's platform could not be determined", "err", err)
	}
	return p.BootID
}

// recoverVM corrects the state of one VM.
func (e *Engine) recoverVM(ctx context.Context, s *slot, f found) error {
	rec := e.recordOf(s)
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
		return e.reconcileDisk(ctx, s)
	}
	return nil
}

// notCorrupt drops the Corrupt error that markLost returns on success.
func notCorrupt(err error) error {
	if vm.KindOf(err) == vm.Corrupt {
		return nil
	}
	return err
}

// recoverDelete finishes a delete, or undoes a create.
func (e *Engine) recoverDelete(ctx context.Context, s *slot, reason string) error {
	if err := e.sweep(ctx, s.id); err != nil {
		return err
	}
	if err := e.emptyDir(ctx, s); err != nil {
		return err
	}
	rec := e.recordOf(s)
	if err := e.forget(ctx, s); err != nil {
		return err
	}
	e.cfg.Journal.EmitVM(rec, "vm.deleted", map[string]any{"reason": reason})
	return e.cfg.Names.VMGone(ctx, s.id)
}

// recoverHostRestart records a VM as stopped whose machine ended with the host.
func (e *Engine) recoverHostRestart(ctx context.Context, s *slot) error {
	if err := e.sweep(ctx, s.id); err != nil {
		return err
	}
	exit := vm.MachineExit{Reason: "host-restart", Detail: "memory and running processes were lost", Time: e.now()}
	if _, err := e.nowStopped(ctx, s, exit.Reason, exit); err != nil {
		return err
	}
	return e.reconcileDisk(ctx, s)
}

// recoverRunning adopts a VM's machine, or records the VM as stopped.
func (e *Engine) recoverRunning(ctx context.Context, s *slot) error {
	m, st, found, err := e.machineOf(ctx, s)
	switch {
	case err == nil && found:
		// The time without a server does not count as idle.
		e.mu.Lock()
		e.activeLocked(s, vm.ActivityStart)
		e.mu.Unlock()
		e.letGo(s, errors.New("the connection to its monitor was lost"))
		e.watch(s, m)
		fallthrough
	case err == nil:
		return e.takeUp(ctx, s, m, st)
	case vm.KindOf(err) != vm.NotFound:
		return err
	}
	exit := e.exitNote(s.id)
	if err := e.sweep(ctx, s.id); err != nil {
		return err
	}
	if _, err := e.nowStopped(ctx, s, exit.Reason, exit); err != nil {
		return err
	}
	return e.reconcileDisk(ctx, s)
}

// sweepDirs removes directories without a record, and moves those aside that may hold
// data. The next start tries again what cannot be removed now.
func (e *Engine) sweepDirs(ctx context.Context) error {
	stays := func(name string, err error) error {
		if err == nil || died(err) || ctx.Err() != nil {
			return err
		}
		e.log.Error("the remains of a VM without a record could not be removed", "vm", name, "err", err)
		return nil
	}
	err := orphans(e.cfg.Dir.VMs(), func(name string) error {
		if layout.IsTemp(name) {
			return stays(name, os.RemoveAll(filepath.Join(e.cfg.Dir.VMs(), name)))
		}
		if !vm.IsID(name) || e.hasRecord(vm.ID(name)) {
			return nil
		}
		return stays(name, e.sweepUnrecorded(ctx, vm.ID(name)))
	})
	if err != nil {
		return err
	}
	return orphans(string(e.cfg.Run), func(name string) error {
		if vm.IsID(name) && !e.hasRecord(vm.ID(name)) {
			e.log.Warn("ending the machine of a VM without a record", "vm", name)
			return stays(name, e.sweep(ctx, vm.ID(name)))
		}
		return nil
	})
}

func (e *Engine) sweepUnrecorded(ctx context.Context, id vm.ID) error {
	if err := e.sweep(ctx, id); err != nil {
		return err
	}
	if e.hasRun(id) {
		return e.setAside(e.cfg.Dir.VM(id))
	}
	e.log.Warn("removing the directory of a VM without a record", "vm", id)
	return e.removeDir(id)
}

func (e *Engine) hasRecord(id vm.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.vms[id] != nil
}

// orphans calls f with each name in dir, which may be missing.
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
