// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// captureDeadline bounds one capture of a machine.
const captureDeadline = 2 * time.Minute

// captureOptions say for what and how a generation is captured.
type captureOptions struct {
	why         vm.Why
	diskOnly    bool
	hold        bool // leave the machine paused
	note        string
	snapshot    vm.SnapshotID
	name        string
	template    *vm.Template
	persistence vm.Persistence
	key         string // of a layer
	build       vm.BuildID
	volumes     string // how mounted ones are treated; "" = refuse a capture with memory
	ran         bool   // record what runs
	turn        int    // number of a turn
	actor       string // who marked it
}

// capture saves the VM of op into a new generation, which is ready but not yet durable
// (see publish) and stays pinned until the caller unpins it. The machine resumes
// afterwards, except with hold. A failed capture leaves at most one more layer of the
// VM's disk behind.
func (e *Engine) capture(ctx context.Context, op *operation, o captureOptions) (g vm.Generation, err error) {
	s := op.slot
	if o.why != vm.WhySuspend && !o.diskOnly {
		if err := e.clearMemory(ctx, s, o.volumes); err != nil {
			return g, err
		}
	}
	if err := e.reconcileDisk(ctx, s); err != nil {
		return g, err
	}
	if err := e.answers(ctx, s); err != nil {
		return g, err
	}
	if err := e.shorten(ctx, s); err != nil {
		return g, err
	}
	if err := e.roomFor(ctx, s); err != nil {
		return g, err
	}
	if err := e.step(ctx, "capture:record"); err != nil {
		return g, err
	}
	g, err = e.newGeneration(ctx, e.planGeneration(e.recordOf(s), o))
	if err != nil {
		return g, err
	}
	asked := false
	defer func() {
		if err != nil && !died(err) {
			if asked && o.hold { // even if the answer was lost
				err = joinUndo(err, e.resumeMachine(ctx, s, e.runOf(s)))
			}
			if undoErr := e.captureFailed(context.WithoutCancel(ctx), s, g, err); undoErr != nil {
				err = joinUndo(err, undoErr)
				e.failLater(s, g, err)
			}
		}
	}()
	if err := e.step(ctx, "capture:files"); err != nil {
		return g, err
	}
	if err := e.cfg.Generations.Begin(g.ID, s.id, g.Size.DiskMiB); err != nil {
		return g, err
	}
	if o.ran {
		e.noteRan(ctx, s, g.ID)
	}
	if err := e.step(ctx, "capture:machine"); err != nil {
		return g, err
	}
	asked = true
	out, err := e.captureMachine(ctx, s, g, o)
	if err != nil {
		return g, err
	}
	e.notePrivate(s, out)
	if err := e.step(ctx, "capture:commit"); err != nil {
		return g, err
	}
	return e.captureDone(ctx, s, g, out)
}

// planGeneration returns the first record of a generation of rec.
func (e *Engine) planGeneration(rec vm.VM, o captureOptions) vm.Generation {
	g := vm.Generation{
		ID: vm.NewGenerationID(), Account: rec.Account, VM: rec.ID, VMName: rec.Name,
		Parent: rec.Head, DiskOn: rec.DiskOn, Image: rec.Image, Why: o.why, State: vm.GenBuilding,
		Memory: !o.diskOnly && rec.State != vm.Stopped, Size: rec.Size, CreatedAt: e.now(),
		BootID: rec.Machine.BootID, Note: clip(o.note),
		Snapshot: o.snapshot, Name: o.name, Persistence: o.persistence, Key: o.key, Build: o.build,
		Turn: o.turn, Actor: o.actor, Template: o.template,
	}
	if g.Memory {
		g.VolumesSeen, g.Mounts, g.Cut = rec.VolumesSeen, e.mountedIn(rec), o.volumes == VolumesCut
		g.Folders = foldersIn(rec)
	}
	return g
}

// roomFor refuses a capture that the disk has no room for: the memory image that the VM
// started on, its private memory, and captureRoom. It first evicts what may be evicted.
func (e *Engine) roomFor(ctx context.Context, s *slot) error {
	have, err := e.cfg.Host.Capacity(ctx)
	if err != nil {
		return err
	}
	need := captureRoom + e.memoryOf(ctx, s)
	if have.DiskFree < need {
		short := func(u *usage) int64 { return need - u.have.DiskFree }
		if _, err := e.freeFor(ctx, hostAccount, short); err != nil {
			return err
		}
		if have, err = e.cfg.Host.Capacity(ctx); err != nil {
			return err
		}
	}
	if have.DiskFree >= need {
		return nil
	}
	return vm.Errorf(vm.NoSpace, string(s.id), "its memory needs about %d MiB of disk, %d MiB are free", need>>20, have.DiskFree>>20).
		WithCode("NO_LOCAL_STORAGE_CAPACITY").WithHint("delete snapshots or VMs: `warren storage` shows what each of them frees")
}

// memoryOf estimates the bytes that the memory of a running VM takes on disk.
func (e *Engine) memoryOf(ctx context.Context, s *slot) int64 {
	r := e.runOf(s)
	if r == nil {
		return 0
	}
	bounded, stop := context.WithTimeout(ctx, machineDeadline)
	defer stop()
	st, err := r.machine.Status(bounded)
	if err != nil {
		return 0
	}
	return min(st.RSS, int64(e.recordOf(s).Size.MemoryMiB)<<20)
}

// roomForKept refuses a capture that somebody asks for if the account's quotas have no
// room for it.
func (e *Engine) roomForKept(op *operation, memory bool) error {
	more := vm.Quota{Disk: captureRoom}
	if memory && op.before.State == vm.Running {
		more.MemoryImages = e.memoryOf(op.ctx, op.slot)
		more.Disk += more.MemoryImages
	}
	return e.roomInQuota(op.ctx, op.slot.account, more)
}

// captureRoom is the disk space that a capture needs in addition to the memory.
const captureRoom = 64 << 20

// syncs reports whether a capture has the guest write what its programs have written to
// the disk, so that the disk alone is a state to compare, to commit and to take files
// from. A reseat does not wait for it: nobody reads its disk alone.
func syncs(why vm.Why) bool { return why != vm.WhyReseat }

// captureMachine has the machine save itself. A VM without a machine has only a disk, to
// which nobody writes.
func (e *Engine) captureMachine(ctx context.Context, s *slot, g vm.Generation, o captureOptions) (vm.Captured, error) {
	r := e.runOf(s)
	if r == nil {
		if e.recordOf(s).State == vm.Stopped {
			return vm.Captured{Synced: true}, nil
		}
		return vm.Captured{}, silent(s.id, "monitor")
	}
	dir := layout.GenerationDir(e.cfg.Dir.Generation(g.ID))
	spec := vm.CaptureSpec{
		Overlay: layout.VMDir(e.cfg.Dir.VM(s.id)).NextOverlay(g.ID),
		Note:    dir.Captured(), Freeze: true, Hold: o.hold, Sync: syncs(o.why),
	}
	if g.Memory {
		spec.RAM, spec.Device = dir.RAM(), dir.Device()
	}
	ctx, stop := context.WithTimeout(ctx, captureDeadline)
	defer stop()
	out, err := r.machine.Capture(ctx, spec)
	if err != nil {
		err = e.orGone(ctx, s, r, err)
	}
	return out, err
}

// orGone returns the reason why the machine has ended, if it has, and else err, the error
// of a request to it.
func (e *Engine) orGone(ctx context.Context, s *slot, r *run, err error) error {
	if k := vm.KindOf(err); k != vm.Internal && k != vm.Unavailable {
		return err // the error has another cause
	}
	after, stop := e.cfg.Clock.After(exitPatience)
	defer stop()
	select {
	case <-r.gone:
		e.log.Warn("a machine has ended in the middle of a request", "vm", s.id, "err", err)
		return errGuestGone(s.id, r.exit)
	case <-after:
	case <-ctx.Done():
	}
	return err
}

// captureDone commits a capture. It first writes the VM's record, which keeps the layer
// below its disk, then renames the disk, then writes the generation's record.
func (e *Engine) captureDone(ctx context.Context, s *slot, g vm.Generation, out vm.Captured) (vm.Generation, error) {
	if err := e.layerBelow(ctx, s, g.ID); err != nil {
		return g, err
	}
	if err := e.step(ctx, "capture:advance"); err != nil {
		return g, err
	}
	if err := e.cfg.Generations.Advance(g.ID, s.id); err != nil {
		return g, err
	}
	return e.changeGeneration(ctx, g.ID, func(g *vm.Generation) {
		g.State, g.Synced = vm.GenReady, out.Synced
		g.PauseMs = float64(out.Pause.Microseconds()) / 1000
		g.DataBytes = out.RAMBytes + out.DeviceBytes
	})
}

// layerBelow records the layer below the VM's disk.
func (e *Engine) layerBelow(ctx context.Context, s *slot, id vm.GenerationID) error {
	_, err := e.update(context.WithoutCancel(ctx), s, func(rec *vm.VM) { rec.Head, rec.DiskOn = id, id })
	return err
}

// captureFailed undoes a failed capture; the VM's machine resumes. While it is unknown to
// which disk the machine writes, the generation stays pinned: the next capture or start
// finds out.
func (e *Engine) captureFailed(ctx context.Context, s *slot, g vm.Generation, why error) error {
	if _, err := e.changeGeneration(ctx, g.ID, func(g *vm.Generation) {
		g.State, g.Failure = vm.GenFailed, clip(e.cfg.Journal.ConcealText(why.Error()))
	}); err != nil {
		return err
	}
	if err := e.reconcileDisk(ctx, s); err != nil {
		return err
	}
	defer func() {
		e.unpin(g.ID)
		e.collectLater()
	}()
	if e.recordOf(s).DiskOn == g.ID {
		return nil // it is a layer of the disk now; collect drops the rest
	}
	if err := e.cfg.Generations.Abandon(g.ID, s.id); err != nil {
		return err
	}
	return e.forgetGeneration(ctx, g.ID)
}

// failLater retries what captureFailed could not undo until it succeeds.
func (e *Engine) failLater(s *slot, g vm.Generation, why error) {
	e.spawn(func(ctx context.Context) {
		e.insist(func(ctx context.Context) error {
			op, err := e.beginSlot(ctx, s, vm.OpCapture)
			if err != nil {
				return err
			}
			err = e.captureFailed(op.ctx, s, g, why)
			return joinUndo(err, e.finish(op, nil))
		})
	})
}

// reconcileDisk finishes a capture that was interrupted: it finds out whether the machine
// writes to its next disk. A VM without a machine may always move to that disk. It is
// empty if the machine had not moved, and then shows the layer below it.
func (e *Engine) reconcileDisk(ctx context.Context, s *slot) error {
	if e.recordOf(s).State == vm.Stopped {
		if err := e.takeBackRollback(ctx, s); err != nil {
			return err
		}
	}
	pending, err := e.cfg.Generations.Pending(s.id)
	if err != nil {
		return err
	}
	for _, id := range pending {
		moved, err := e.diskMoved(ctx, s, id)
		if err != nil {
			return err
		}
		if !moved {
			if err := e.cfg.Generations.Abandon(id, s.id); err != nil {
				return err
			}
			continue
		}
		if err := e.layerBelow(ctx, s, id); err != nil {
			return err
		}
		if err := e.cfg.Generations.Advance(id, s.id); err != nil {
			return err
		}
	}
	return e.noteLayer(ctx, s)
}

// diskMoved reports whether a VM's disk is the one that a capture into the generation has
// made. It never guesses: if the machine of a running VM cannot be asked, it fails.
func (e *Engine) diskMoved(ctx context.Context, s *slot, id vm.GenerationID) (bool, error) {
	_, known := e.generationInfo(id)
	r := e.runOf(s)
	if r == nil {
		if e.recordOf(s).State == vm.Running {
			return false, silent(s.id, "monitor")
		}
		return known, nil
	}
	path, err := e.diskOf(ctx, s, r)
	if vm.KindOf(err) == vm.NotFound {
		return known, nil
	}
	if err != nil {
		return false, err
	}
	moved := filepath.Base(path) == filepath.Base(layout.VMDir(e.cfg.Dir.VM(s.id)).NextOverlay(id))
	if moved && !known {
		return false, vm.Errorf(vm.Corrupt, string(s.id), "the machine writes to a disk whose layer %s has no record", id).
			WithHint("copy your files out of the VM while it runs: `warren cp`")
	}
	return moved, nil
}

// diskOf returns the file that a machine writes to. If its monitor died during a capture,
// it asks the new monitor. Kind NotFound when there is no machine.
func (e *Engine) diskOf(ctx context.Context, s *slot, r *run) (string, error) {
	bounded, stop := context.WithTimeout(ctx, machineDeadline)
	path, err := r.machine.Disk(bounded)
	stop()
	if err == nil {
		return path, nil
	}
	attach, stop := context.WithTimeout(ctx, attachDeadline)
	defer stop()
	m, _, err := e.cfg.Machines.Attach(attach, e.cfg.Run.VM(s.id))
	if err != nil {
		return "", err
	}
	defer m.Close()
	path, err = m.Disk(attach)
	if vm.KindOf(err) == vm.NotFound {
		err = vm.Errorf(vm.Unavailable, string(s.id), "the monitor does not report the VM's disk: %w", err)
	}
	return path, err
}

// publish makes a generation durable and complete, in time proportional to its
// data.
func (e *Engine) publish(ctx context.Context, id vm.GenerationID) error {
	if err := e.step(ctx, "capture:publish"); err != nil {
		return err
	}
	g, ok := e.generationInfo(id)
	if !ok {
		return noGeneration(string(id))
	}
	m, err := e.manifest(g)
	if err != nil {
		return err
	}
	m, err = e.cfg.Generations.Publish(ctx, m)
	if err != nil {
		return err
	}
	_, err = e.changeGeneration(ctx, id, func(g *vm.Generation) { g.Durable, g.DataBytes = true, m.DataBytes })
	return err
}

// publishLater runs publish as a task of the engine, which then unpins the generation.
func (e *Engine) publishLater(id vm.GenerationID) {
	ok := e.spawn(func(ctx context.Context) {
		if err := e.publish(ctx, id); err != nil && !died(err) && ctx.Err() == nil {
			e.log.Error("a generation is not durable", "generation", id, "err", err)
		}
		e.unpin(id)
		e.collect(ctx) // it may have become unneeded
	})
	if !ok {
		e.unpin(id)
	}
}

// manifest returns what a start on the generation needs.
func (e *Engine) manifest(g vm.Generation) (vm.Manifest, error) {
	var m vm.Manifest
	if g.Memory && !g.DiskOnly {
		out, err := e.cfg.Generations.Captured(g.ID)
		if err != nil {
			return m, err
		}
		m = out.Machine
	}
	m.Image, m.VM = g.Image, g.VM
	if len(m.GuestKey) > 0 && !m.TrueKey {
		m.OtherKeys = e.otherKeys(m)
	}
	m.Format, m.ID, m.Parent, m.Image, m.VM, m.DiskOn = 1, g.ID, g.Parent, g.Image, g.VM, g.DiskOn
	m.CreatedAt, m.Size = g.CreatedAt, g.Size
	return m, nil
}
