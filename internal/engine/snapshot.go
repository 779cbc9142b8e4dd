// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/vm"
)

// maxSnapshotName bounds a snapshot's label.
const maxSnapshotName = 200

// Snapshot captures a generation that is kept until it is deleted: with the memory of a
// running or suspended VM, or only the disk of a stopped one. The VM's state does not
// change. The snapshot is durable when Snapshot returns.
func (e *Engine) Snapshot(ctx context.Context, c *vm.Call, ref string, r SnapshotRequest) (out Taken, err error) {
	o, err := e.planSnapshot(ctx, c, r)
	if err != nil {
		return out, fail(vm.OpSnapshot, ref, err)
	}
	act := access.Act{Verb: vm.OpSnapshot, What: "take a snapshot " + r.Name, All: r, Details: map[string]string{"memory": yesNo(!r.DiskOnly), "volumes": r.Volumes}}
	if err := e.approved(ctx, c, ref, e.cfg.Access.ApproveAsOwner, act); err != nil {
		return out, err
	}
	op, err := e.begin(ctx, c, ref, vm.OpSnapshot)
	if err != nil {
		return out, fail(vm.OpSnapshot, ref, err)
	}
	op.cancelWith(ctx)
	defer func() { err = e.finish(op, err) }()
	if err := e.roomForKept(op, !r.DiskOnly); err != nil {
		return out, err
	}
	entry := vm.AuditEntry{Subject: r.Name, Detail: map[string]any{"snapshot": string(o.snapshot), "diskOnly": r.DiskOnly}}
	if err := e.receiptFor(op.ctx, op, c, entry); err != nil {
		return out, err
	}
	err = e.withoutVolumes(op, r.Volumes, func() (err error) {
		out.Generation, err = e.take(op, o)
		return err
	})
	out.Instance = op.before.InstanceID
	return out, err
}

func (e *Engine) planSnapshot(ctx context.Context, c *vm.Call, r SnapshotRequest) (captureOptions, error) {
	o := captureOptions{why: vm.WhySnapshot, snapshot: vm.NewSnapshotID(), name: r.Name, note: r.Note, diskOnly: r.DiskOnly, volumes: r.Volumes, template: r.Template.Clone()}
	if err := checkVolumesMode(r.Volumes, VolumesCut, VolumesDetach); err != nil {
		return o, err
	}
	if err := e.snapshotNameFree(c.Actor.Account, r.Name, ""); err != nil {
		return o, err
	}
	if err := e.roomInQuota(ctx, c.Actor.Account, vm.Quota{Snapshots: 1}); err != nil {
		return o, err
	}
	rec := vm.VM{}
	if err := fillPersistence(&rec, CreateRequest{Persistence: r.Persistence}, vm.Image{}); err != nil {
		return o, vm.AsError(err).WithCode("SNAPSHOT_VM_BAD_REQUEST", "message", vm.AsError(err).Msg)
	}
	if rec.Persistence.Type == vm.Ephemeral {
		return o, vm.Errorf(vm.Invalid, "persistence", "a snapshot is sticky or persistent").
			WithCode("SNAPSHOT_VM_BAD_REQUEST", "message", "a snapshot is sticky or persistent")
	}
	o.persistence = rec.Persistence
	return o, nil
}

// snapshotNameFree refuses a name that another snapshot of the account has.
func (e *Engine) snapshotNameFree(account vm.AccountID, name string, except vm.GenerationID) error {
	if name == "" {
		return nil
	}
	if len(name) > maxSnapshotName {
		return vm.Errorf(vm.Invalid, name[:20]+"…", "a name has at most %d bytes", maxSnapshotName).
			WithCode("SNAPSHOT_VM_BAD_REQUEST", "message", "the name is too long")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range e.gens {
		i := g.info
		if i.Account == account && i.ID != except && i.Snapshot != "" && !i.Deleted && i.Name == name {
			return vm.Errorf(vm.Exists, name, "a snapshot has this name: %s", i.Snapshot).
				WithCode("SNAPSHOT_VM_BAD_REQUEST", "message", "a snapshot has this name: "+string(i.Snapshot)).
				WithHint("choose another name, or delete that snapshot: `warren snapshot rm %s`", name)
		}
	}
	return nil
}

// take captures a generation of the VM of op that is kept. It is durable when take
// returns.
func (e *Engine) take(op *operation, o captureOptions) (vm.Generation, error) {
	if op.before.State == vm.Suspended {
		g, err := e.alias(op.ctx, op.before, o)
		e.collectLater() // seals both again if necessary
		return g, err
	}
	g, err := e.capture(op.ctx, op, o)
	if err != nil {
		return g, err
	}
	err = e.publish(op.ctx, g.ID)
	e.unpin(g.ID)
	if err != nil {
		if !died(err) {
			e.insist(func(ctx context.Context) error { return e.unkeep(ctx, g.ID) })
		}
		return g, err
	}
	e.sealSeen(op.ctx, g)
	g, _ = e.generationInfo(g.ID)
	e.cfg.Journal.EmitVM(op.before, "vm.captured", map[string]any{"generation": string(g.ID), "why": string(g.Why), "pauseMs": g.PauseMs})
	return g, nil
}

// unkeep lets collect remove an incomplete generation.
func (e *Engine) unkeep(ctx context.Context, id vm.GenerationID) error {
	_, err := e.changeGeneration(ctx, id, func(g *vm.Generation) { g.Deleted, g.State = true, vm.GenFailed })
	e.collectLater()
	return err
}

// alias keeps a suspended VM's generation a second time, under a name, with the same
// files. With diskOnly it keeps only the disk, to which nobody writes.
func (e *Engine) alias(ctx context.Context, rec vm.VM, o captureOptions) (g vm.Generation, err error) {
	if !o.diskOnly {
		if err := e.volumesGiven(rec, o.volumes); err != nil {
			return g, err
		}
	}
	if !e.pin(rec.Generation) {
		return g, noGeneration(string(rec.Generation))
	}
	defer e.unpin(rec.Generation)
	from, _ := e.generationInfo(rec.Generation)
	var m vm.Manifest
	if !o.diskOnly {
		if from, err = e.opened(ctx, from); err != nil {
			return from, err
		}
		if m, err = e.cfg.Generations.Load(from.ID); err != nil {
			return from, err
		}
	}
	g = e.planGeneration(rec, o)
	g.Parent, g.DiskOn, g.CreatedAt, g.DataBytes, g.Synced = from.ID, from.DiskOn, from.CreatedAt, from.DataBytes, from.Synced
	if g, err = e.newGeneration(ctx, g); err != nil {
		return g, err
	}
	defer e.unpin(g.ID)
	if o.diskOnly {
		m, err = e.manifest(g)
	}
	m.ID, m.Parent = g.ID, from.ID
	if err == nil {
		err = e.cfg.Generations.Alias(from.ID, m)
	}
	if err != nil {
		return g, joinUndo(err, e.forgetGeneration(context.WithoutCancel(ctx), g.ID))
	}
	if o.diskOnly { // the manifest was made for other files
		if err := e.publish(ctx, g.ID); err != nil {
			return g, joinUndo(err, e.unkeep(context.WithoutCancel(ctx), g.ID))
		}
	}
	return e.changeGeneration(ctx, g.ID, func(g *vm.Generation) { g.State, g.Durable = vm.GenReady, true })
}

// Snapshots lists the account's snapshots, oldest first, without those of images. With
// all it includes deleted ones and every other generation.
func (e *Engine) Snapshots(_ context.Context, c *vm.Call, all bool) ([]vm.Generation, error) {
	return e.generations(func(g *vm.Generation) bool {
		return g.Account == c.Actor.Account && (all || g.Snapshot != "" && !g.Deleted)
	}), nil
}

// FindSnapshot resolves a snapshot id (sc-), a generation id (sl-) or a
// snapshot's name.
func (e *Engine) FindSnapshot(_ context.Context, c *vm.Call, ref string) (vm.Generation, error) {
	g, err := e.findGeneration(c.Actor.Account, ref)
	return g, fail(vm.OpGet, ref, err)
}

// RenameSnapshot changes a snapshot's name.
func (e *Engine) RenameSnapshot(ctx context.Context, c *vm.Call, ref, name string) (g vm.Generation, err error) {
	defer func() { err = fail(vm.OpSnapshotRename, ref, err) }()
	if g, err = e.liveSnapshot(c, ref); err != nil {
		return g, err
	}
	if err := e.snapshotNameFree(c.Actor.Account, name, g.ID); err != nil {
		return g, err
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpSnapshotRename, VM: g.VM, Subject: string(g.Snapshot), Detail: map[string]any{"from": g.Name, "to": name}})
	if err != nil {
		return g, err
	}
	g, err = e.renameGeneration(ctx, g.ID, func() error { // check again: with nameSnap held no other can get the name
		return e.snapshotNameFree(c.Actor.Account, name, g.ID)
	}, func(g *vm.Generation) { g.Name = name })
	r.End(err, nil)
	return g, err
}

// RemoveSnapshot deletes a snapshot. VMs made from it, and their forks, keep working: the
// files that they need stay until they no longer need them.
func (e *Engine) RemoveSnapshot(ctx context.Context, c *vm.Call, ref string) (g vm.Generation, err error) {
	defer func() { err = fail(vm.OpSnapshotRemove, ref, err) }()
	if g, err = e.liveSnapshot(c, ref); err != nil {
		return g, err
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpSnapshotRemove, VM: g.VM, Subject: string(g.Snapshot), Detail: map[string]any{"name": g.Name, "generation": string(g.ID)}})
	if err != nil {
		return g, err
	}
	g, err = e.changeGeneration(ctx, g.ID, func(g *vm.Generation) { g.Deleted = true })
	r.End(err, nil)
	if err == nil {
		e.cfg.Journal.Emit(vm.Event{Type: "snapshot.deleted", VM: g.VM, Account: g.Account, Data: map[string]any{"snapshot": string(g.Snapshot), "name": g.Name}})
		e.collectLater()
	}
	return g, err
}

// liveSnapshot finds a generation that may be renamed or deleted: a snapshot, an
// automatic generation, a turn or a layer.
func (e *Engine) liveSnapshot(c *vm.Call, ref string) (vm.Generation, error) {
	g, err := e.findGeneration(c.Actor.Account, ref)
	if err != nil {
		return g, err
	}
	switch {
	case g.Deleted:
		return g, vm.Errorf(vm.Exists, ref, "the snapshot was deleted already").WithCode("SNAPSHOT_ALREADY_DELETED", "snapshotId", ref)
	case g.Snapshot == "" && !automatic(g.Why) && g.Why != vm.WhyLayer && g.Why != vm.WhyTurn:
		return g, vm.Errorf(vm.WrongState, ref, "a generation made for %s is not a snapshot; it is removed when nothing needs it", g.Why).
			WithHint("`warren tree` shows what needs it")
	}
	return g, nil
}

func (e *Engine) captureAs(ctx context.Context, c *vm.Call, ref string, o captureOptions) (g vm.Generation, err error) {
	op, err := e.begin(ctx, c, ref, vm.OpCapture)
	if err != nil {
		return g, fail(vm.OpCapture, ref, err)
	}
	op.cancelWith(ctx)
	defer func() { err = e.finish(op, err) }()
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: clip(o.note), Detail: map[string]any{"why": string(o.why)}}); err != nil {
		return g, err
	}
	return e.take(op, o)
}

// SetSchedule sets the interval of automatic generations; 0 = never.
func (e *Engine) SetSchedule(ctx context.Context, c *vm.Call, ref string, every vm.Seconds) (v vm.VM, err error) {
	if err := checkSchedule(every); err != nil {
		return vm.VM{}, fail(vm.OpCapture, ref, err)
	}
	op, err := e.begin(ctx, c, ref, vm.OpCapture)
	if err != nil {
		return vm.VM{}, fail(vm.OpCapture, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Detail: map[string]any{"everySeconds": every}}); err != nil {
		return vm.VM{}, err
	}
	return e.update(op.ctx, op.slot, func(rec *vm.VM) { rec.CaptureEvery = every })
}

// minSchedule is the shortest interval of automatic generations.
const minSchedule = vm.Seconds(10 * time.Second)

func checkSchedule(every vm.Seconds) error {
	if every == 0 || every >= minSchedule && every <= vm.Seconds(vm.MaxDuration) {
		return nil
	}
	return vm.Errorf(vm.Invalid, "captureEverySeconds", "%s is out of range", every).
		WithCode("INVALID_REQUEST").WithHint("use %s seconds or more, or 0 for never", minSchedule)
}
