// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// SnapshotVolume keeps what is in an unlocked volume. One that a running VM
// writes to is kept as of an instant, after what its guest had not written yet.
func (e *Engine) SnapshotVolume(ctx context.Context, c *vm.Call, ref VolumeRef, name string) (snap vm.VolumeSnapshot, err error) {
	defer func() { err = fail(vm.OpVolumeSnapshot, ref.Volume, err) }()
	if name != "" {
		if err := vm.CheckName(name); err != nil {
			return snap, err
		}
	}
	v, err := e.findVolume(c, ref)
	if err != nil {
		return snap, err
	}
	v.work.Lock()
	defer v.work.Unlock()
	rec, err := e.maySnapshot(v, name)
	if err != nil {
		return snap, err
	}
	snap = planVolumeSnapshot(rec, name)
	snap.CreatedAt = e.now()
	rcpt, err := e.recordVolume(ctx, c, vm.OpVolumeSnapshot, rec, map[string]any{"snapshot": snap.ID, "name": name})
	if err != nil {
		return snap, err
	}
	defer func() { rcpt.End(err, nil) }()
	if err := e.keepSnapshot(ctx, v, snap); err != nil {
		return snap, err
	}
	e.emitVolume(v, "volume.snapshot", map[string]any{"snapshot": snap.ID, "label": name})
	return snap, nil
}

func planVolumeSnapshot(rec vm.Volume, name string) vm.VolumeSnapshot {
	return vm.VolumeSnapshot{ID: vm.NewVolumeSnapshotID(), Name: name, SizeMiB: rec.SizeMiB, Formatted: rec.Formatted, Grown: rec.Grown}
}

func (e *Engine) maySnapshot(v *volume, name string) (vm.Volume, error) {
	rec := e.volumeRecord(v)
	if v.isGone(e) {
		return rec, noVolume(rec.Project, rec.Name)
	}
	if _, taken := snapshotOf(rec, name); taken && name != "" {
		return rec, vm.Errorf(vm.Exists, name, "the volume %s has a snapshot of this name", rec.Name).WithCode("VOLUME_EXISTS", "name", name).
			WithHint("choose another name, or remove it: `warren volume snapshot rm %s %s`", rec.Name, name)
	}
	if len(rec.Snapshots) >= vm.MaxVolumeSnapshots {
		return rec, vm.Errorf(vm.Limit, rec.Name, "it has %d snapshots, the most there can be", len(rec.Snapshots)).
			WithCode("VOLUME_LIMIT_EXCEEDED").WithHint("remove some: `warren volume snapshot ls %s`", rec.Name)
	}
	return rec, nil
}

// snapshotOf finds a snapshot by its id or name.
func snapshotOf(rec vm.Volume, ref string) (vm.VolumeSnapshot, bool) {
	for _, s := range rec.Snapshots {
		if !s.Pending && (s.ID == ref || s.Name == ref && ref != "") {
			return s, true
		}
	}
	return vm.VolumeSnapshot{}, false
}

// keepSnapshot makes a snapshot: its record first, so that none is on the disk
// that nobody knows of.
func (e *Engine) keepSnapshot(ctx context.Context, v *volume, snap vm.VolumeSnapshot) error {
	key, err := e.volumeKey(v)
	if err != nil {
		return err
	}
	defer clear(key)
	w, err := e.writerOf(v)
	if err != nil {
		return err
	}
	pending := snap
	pending.Pending = true
	if _, err := e.updateVolume(ctx, v, func(rec *vm.Volume) { rec.Snapshots = append(slices.Clone(rec.Snapshots), pending) }); err != nil {
		return err
	}
	if err = e.step(ctx, "volume-snapshot:disk"); err == nil {
		err = e.takeSnapshot(ctx, v, key, w, snap.ID)
	}
	if err == nil {
		err = e.step(ctx, "volume-snapshot:commit")
	}
	if err == nil {
		_, err = e.updateVolume(ctx, v, func(rec *vm.Volume) { rec.Snapshots = settled(rec.Snapshots, snap) })
	}
	if err != nil && !died(err) {
		return joinUndo(err, e.dropSnapshot(context.WithoutCancel(ctx), v, key, w, snap.ID))
	}
	return err
}

func settled(list []vm.VolumeSnapshot, snap vm.VolumeSnapshot) []vm.VolumeSnapshot {
	list = slices.Clone(list)
	for i := range list {
		if list[i].ID == snap.ID {
			list[i] = snap
		}
	}
	return list
}

// diskWriter is a machine that writes to a volume.
type diskWriter struct {
	machine Machine
	path    string
}

// writerOf finds the machine that writes to a volume; nil when no machine uses
// it. Beside machines that only read nobody can change the disk.
func (e *Engine) writerOf(v *volume) (*diskWriter, error) {
	info := e.volumeInfo(v)
	reader := ""
	for _, m := range info.Mounts {
		s := e.slotOf(m.VM)
		if s == nil || e.snapshot(s).State != vm.Running {
			continue
		}
		r := e.runOf(s)
		switch {
		case !m.RW:
			reader = string(m.VM)
		case r == nil:
			return nil, vm.Errorf(vm.Unavailable, string(m.VM), "its monitor does not answer").WithHint("try again")
		default:
			return &diskWriter{r.machine, m.Path}, nil
		}
	}
	if reader != "" {
		return nil, vm.Errorf(vm.Busy, info.Name, "VMs have it mounted to read, and its disk cannot be changed below them").
			WithCode("VOLUME_IN_USE", "volume", string(v.id), "vmId", reader).WithHint("unmount it there first")
	}
	return nil, nil
}

func (e *Engine) takeSnapshot(ctx context.Context, v *volume, key vm.VolumeKey, w *diskWriter, id string) error {
	if w == nil {
		return e.cfg.Volumes.Snapshot(ctx, v.id, key, id)
	}
	ctx, stop := context.WithTimeout(ctx, mountDeadline)
	defer stop()
	if err := inGuest(ctx, w.machine.Guest(), "sync", "-f", w.path); err != nil {
		return cause(ctx, err)
	}
	if err := w.machine.SnapshotVolume(ctx, v.id, id); err != nil {
		return cause(ctx, err)
	}
	return e.cfg.Volumes.BackUp(v.id)
}

// dropSnapshot lets a snapshot go: from the disk, then from the record.
func (e *Engine) dropSnapshot(ctx context.Context, v *volume, key vm.VolumeKey, w *diskWriter, id string) (err error) {
	if w == nil {
		err = e.cfg.Volumes.DropSnapshot(ctx, v.id, key, id)
	} else if err = w.machine.DropVolumeSnapshot(ctx, v.id, id); err == nil {
		err = e.cfg.Volumes.BackUp(v.id)
	}
	if err != nil {
		return err
	}
	_, err = e.updateVolume(ctx, v, func(rec *vm.Volume) {
		rec.Snapshots = slices.DeleteFunc(slices.Clone(rec.Snapshots), func(s vm.VolumeSnapshot) bool { return s.ID == id })
	})
	return err
}

// finishSnapshots lets go of snapshots that an engine which died has begun, and
// completes a rollback of its. The caller holds work.
func (e *Engine) finishSnapshots(ctx context.Context, v *volume, key vm.VolumeKey) error {
	rec := e.volumeRecord(v)
	if len(rec.Mounts) > 0 {
		return nil // at a later unlock
	}
	for _, s := range rec.Snapshots {
		if s.Pending {
			if err := e.dropSnapshot(ctx, v, key, nil, s.ID); err != nil {
				return err
			}
		}
	}
	if to, ok := snapshotOf(rec, rec.Reverting); ok {
		return e.revert(ctx, v, key, to)
	}
	return nil
}

// RemoveVolumeSnapshot lets a snapshot of an unlocked volume go.
func (e *Engine) RemoveVolumeSnapshot(ctx context.Context, c *vm.Call, ref VolumeRef, snapshot string) (err error) {
	defer func() { err = fail(vm.OpVolumeSnapshot, ref.Volume, err) }()
	v, err := e.findVolume(c, ref)
	if err != nil {
		return err
	}
	v.work.Lock()
	defer v.work.Unlock()
	rec := e.volumeRecord(v)
	snap, ok := snapshotOf(rec, snapshot)
	if !ok {
		return noVolumeSnapshot(rec, snapshot)
	}
	key, err := e.volumeKey(v)
	if err != nil {
		return err
	}
	defer clear(key)
	w, err := e.writerOf(v)
	if err != nil {
		return err
	}
	rcpt, err := e.recordVolume(ctx, c, vm.OpVolumeSnapshot, rec, map[string]any{"snapshot": snap.ID, "name": snap.Name, "removed": true})
	if err != nil {
		return err
	}
	defer func() { rcpt.End(err, nil) }()
	if err := e.dropSnapshot(context.WithoutCancel(ctx), v, key, w, snap.ID); err != nil {
		return err
	}
	e.emitVolume(v, "volume.snapshot-removed", map[string]any{"snapshot": snap.ID})
	return nil
}

func noVolumeSnapshot(rec vm.Volume, ref string) error {
	return vm.Errorf(vm.NotFound, ref, "the volume %s has no such snapshot", rec.Name).WithCode("SNAPSHOT_NOT_FOUND", "snapshotId", ref).
		WithHint("`warren volume snapshot ls %s` lists them", rec.Name)
}

// RollbackVolume puts an unlocked volume that no VM has mounted back to a
// snapshot, by default the newest that was asked for. What it leaves is kept as
// a snapshot, too.
func (e *Engine) RollbackVolume(ctx context.Context, c *vm.Call, ref VolumeRef, to string) (info VolumeInfo, before vm.VolumeSnapshot, err error) {
	defer func() { err = fail(vm.OpVolumeRollback, ref.Volume, err) }()
	v, err := e.findVolume(c, ref)
	if err != nil {
		return info, before, err
	}
	v.work.Lock()
	defer v.work.Unlock()
	if err := e.notMounted(v, "unmount it first"); err != nil {
		return info, before, err
	}
	rec := e.volumeRecord(v)
	target, ok := rollbackTo(rec, to)
	if !ok {
		return info, before, noVolumeSnapshot(rec, to)
	}
	key, err := e.volumeKey(v)
	if err != nil {
		return info, before, err
	}
	defer clear(key)
	rcpt, err := e.recordVolume(ctx, c, vm.OpVolumeRollback, rec, map[string]any{"snapshot": target.ID, "name": target.Name})
	if err != nil {
		return info, before, err
	}
	defer func() { rcpt.End(err, nil) }()
	before = planVolumeSnapshot(rec, "")
	before.CreatedAt, before.Before = e.now(), true
	if err := e.keepSnapshot(ctx, v, before); err != nil {
		return info, before, err
	}
	ctx = context.WithoutCancel(ctx) // half a rollback is nothing that anybody wants
	if err := e.revert(ctx, v, key, target); err != nil {
		if !died(err) {
			err = joinUndo(err, e.revert(ctx, v, key, before))
		}
		return info, before, err
	}
	e.thinSnapshots(ctx, v, key)
	e.emitVolume(v, "volume.rolled-back", map[string]any{"to": target.ID, "before": before.ID})
	return e.volumeInfo(v), before, nil
}

// revert puts a volume back to one of its snapshots. The record says so before:
// a later engine finishes it.
func (e *Engine) revert(ctx context.Context, v *volume, key vm.VolumeKey, to vm.VolumeSnapshot) error {
	if _, err := e.updateVolume(ctx, v, func(rec *vm.Volume) { rec.Reverting = to.ID }); err != nil {
		return err
	}
	if err := e.step(ctx, "volume-rollback:disk"); err != nil {
		return err
	}
	if err := e.cfg.Volumes.Revert(ctx, v.id, key, to.ID); err != nil {
		return err
	}
	if err := e.step(ctx, "volume-rollback:commit"); err != nil {
		return err
	}
	_, err := e.updateVolume(ctx, v, func(rec *vm.Volume) {
		rec.Reverting, rec.SizeMiB, rec.Formatted, rec.Grown = "", to.SizeMiB, to.Formatted, to.Grown
	})
	return err
}

// rollbackTo finds what to go back to.
func rollbackTo(rec vm.Volume, ref string) (vm.VolumeSnapshot, bool) {
	if ref != "" {
		return snapshotOf(rec, ref)
	}
	for _, s := range slices.Backward(rec.Snapshots) {
		if !s.Before && !s.Pending {
			return s, true
		}
	}
	return vm.VolumeSnapshot{}, false
}

// keptBefore is how many of what rollbacks left are kept.
const keptBefore = 4

// thinSnapshots lets go of the oldest of what rollbacks left.
func (e *Engine) thinSnapshots(ctx context.Context, v *volume, key vm.VolumeKey) {
	var left []vm.VolumeSnapshot
	for _, s := range e.volumeRecord(v).Snapshots {
		if s.Before {
			left = append(left, s)
		}
	}
	for _, s := range left[:max(0, len(left)-keptBefore)] {
		if err := e.dropSnapshot(ctx, v, key, nil, s.ID); err != nil {
			e.log.Warn("what an old rollback left stays", "volume", v.id, "snapshot", s.ID, "err", err)
		}
	}
}
