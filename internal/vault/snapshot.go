// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"context"
	"errors"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// SnapshotVolume keeps the content of an unlocked volume. If a running VM writes to the
// volume, the snapshot shows one instant, including data that the guest had cached.
func (vt *Vault) SnapshotVolume(ctx context.Context, c *vm.Call, ref Ref, name string) (snap vm.VolumeSnapshot, err error) {
	defer func() { err = vt.fail(vm.OpVolumeSnapshot, ref.Volume, err) }()
	if name != "" {
		if err := vm.CheckName(name); err != nil {
			return snap, err
		}
	}
	v, err := vt.FindVolume(c, ref)
	if err != nil {
		return snap, err
	}
	v.Reserve()
	defer v.Release()
	rec, err := v.maySnapshot(name)
	if err != nil {
		return snap, err
	}
	snap = vt.planSnapshot(rec, name)
	end, err := vt.record(ctx, c, vm.OpVolumeSnapshot, rec, map[string]any{"snapshot": snap.ID, "name": name})
	if err != nil {
		return snap, err
	}
	defer func() { end(err, nil) }()
	if err := v.keepSnapshot(ctx, snap); err != nil {
		return snap, err
	}
	v.Emit("volume.snapshot", map[string]any{"snapshot": snap.ID, "label": name})
	return snap, nil
}

func (vt *Vault) planSnapshot(rec vm.Volume, name string) vm.VolumeSnapshot {
	return vm.VolumeSnapshot{ID: vm.NewVolumeSnapshotID(), Name: name, SizeMiB: rec.SizeMiB, Formatted: rec.Formatted, Grown: rec.Grown, CreatedAt: vt.now()}
}

func (v *Volume) maySnapshot(name string) (vm.Volume, error) {
	rec := v.Record()
	if v.Gone() {
		return rec, v.NotThere()
	}
	if _, taken := snapshotOf(rec, name); taken && name != "" {
		return rec, vm.Errorf(vm.Exists, name, "the volume %s has a snapshot of this name", rec.Name).WithCode("VOLUME_EXISTS", "name", name).
			WithHint("choose another name, or remove it: `warren volume snapshot rm %s %s`", rec.Name, name)
	}
	if len(rec.Snapshots) >= vm.MaxVolumeSnapshots {
		return rec, vm.Errorf(vm.Limit, rec.Name, "the volume has %d snapshots, which is the maximum", len(rec.Snapshots)).
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

// keepSnapshot makes a snapshot. It writes the record first, so that every snapshot on a
// disk has one.
func (v *Volume) keepSnapshot(ctx context.Context, snap vm.VolumeSnapshot) error {
	key, err := v.Key()
	if err != nil {
		return err
	}
	defer clear(key)
	d, err := v.snapshotDisk()
	if err != nil {
		return err
	}
	pending := snap
	pending.Pending = true
	if _, err := v.update(ctx, func(rec *vm.Volume) { rec.Snapshots = append(rec.Snapshots, pending) }); err != nil {
		return err
	}
	vms := v.vault.vms
	if err = vms.Step(ctx, "volume-snapshot:disk"); err == nil {
		err = v.takeSnapshot(ctx, key, d, snap.ID)
	}
	if err == nil {
		err = vms.Step(ctx, "volume-snapshot:commit")
	}
	if err == nil {
		_, err = v.update(ctx, func(rec *vm.Volume) {
			for i := range rec.Snapshots {
				if rec.Snapshots[i].ID == snap.ID {
					rec.Snapshots[i] = snap
				}
			}
		})
	}
	if err != nil && vms.Alive() == nil {
		return errors.Join(err, v.dropSnapshot(context.WithoutCancel(ctx), key, d, snap.ID))
	}
	return err
}

// snapshotDisk returns the volume's disk in the machine that writes to it, or nil when no
// machine uses the volume. If machines only read the volume, it fails: its disk must not
// change below them.
func (v *Volume) snapshotDisk() (Disk, error) {
	rec := v.Record()
	reader := ""
	for _, m := range rec.Mounts {
		d, running := v.vault.vms.Plugged(rec.ID, m)
		switch {
		case !running:
		case !m.RW:
			reader = string(m.VM)
		case d == nil:
			return nil, vm.Errorf(vm.Unavailable, string(m.VM), "the VM's monitor does not answer").WithHint("try again")
		default:
			return d, nil
		}
	}
	if reader != "" {
		return nil, vm.Errorf(vm.Busy, rec.Name, "VMs read the volume, and its disk cannot change below them").
			WithCode("VOLUME_IN_USE", "volume", string(rec.ID), "vmId", reader).WithHint("unmount it there first")
	}
	return nil, nil
}

func (v *Volume) takeSnapshot(ctx context.Context, key vm.VolumeKey, d Disk, id string) error {
	files := v.vault.files
	if d == nil {
		return files.Snapshot(ctx, v.ID(), key, id)
	}
	if err := d.Snapshot(ctx, id); err != nil {
		return err
	}
	return files.BackUp(v.ID())
}

// dropSnapshot removes a snapshot from the disk and then from the record.
func (v *Volume) dropSnapshot(ctx context.Context, key vm.VolumeKey, d Disk, id string) (err error) {
	files := v.vault.files
	if d == nil {
		err = files.DropSnapshot(ctx, v.ID(), key, id)
	} else if err = d.DropSnapshot(ctx, id); err == nil {
		err = files.BackUp(v.ID())
	}
	if err != nil {
		return err
	}
	_, err = v.update(ctx, func(rec *vm.Volume) {
		rec.Snapshots = slices.DeleteFunc(rec.Snapshots, func(s vm.VolumeSnapshot) bool { return s.ID == id })
	})
	return err
}

// finishSnapshots removes snapshots that an earlier server began and did not complete,
// and completes its rollback. The caller has reserved the volume.
func (v *Volume) finishSnapshots(ctx context.Context, key vm.VolumeKey) error {
	rec := v.Record()
	if len(rec.Mounts) > 0 {
		return nil // at a later unlock
	}
	for _, s := range rec.Snapshots {
		if s.Pending {
			if err := v.dropSnapshot(ctx, key, nil, s.ID); err != nil {
				return err
			}
		}
	}
	if to, ok := snapshotOf(rec, rec.Reverting); ok {
		return v.revert(ctx, key, to)
	}
	return nil
}

// RemoveVolumeSnapshot removes a snapshot of an unlocked volume.
func (vt *Vault) RemoveVolumeSnapshot(ctx context.Context, c *vm.Call, ref Ref, snapshot string) (err error) {
	defer func() { err = vt.fail(vm.OpVolumeSnapshot, ref.Volume, err) }()
	v, err := vt.FindVolume(c, ref)
	if err != nil {
		return err
	}
	v.Reserve()
	defer v.Release()
	rec := v.Record()
	snap, ok := snapshotOf(rec, snapshot)
	if !ok {
		return noSnapshot(rec, snapshot)
	}
	key, err := v.Key()
	if err != nil {
		return err
	}
	defer clear(key)
	d, err := v.snapshotDisk()
	if err != nil {
		return err
	}
	end, err := vt.record(ctx, c, vm.OpVolumeSnapshot, rec, map[string]any{"snapshot": snap.ID, "name": snap.Name, "removed": true})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	if err := v.dropSnapshot(context.WithoutCancel(ctx), key, d, snap.ID); err != nil {
		return err
	}
	v.Emit("volume.snapshot-removed", map[string]any{"snapshot": snap.ID})
	return nil
}

func noSnapshot(rec vm.Volume, ref string) error {
	return vm.Errorf(vm.NotFound, ref, "the volume %s has no such snapshot", rec.Name).WithCode("SNAPSHOT_NOT_FOUND", "snapshotId", ref).
		WithHint("`warren volume snapshot ls %s` lists them", rec.Name)
}
