// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"context"
	"errors"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// RollbackVolume restores a snapshot of an unlocked volume that no VM has mounted, by
// default the newest that a caller made. It first keeps the current content as a
// snapshot.
func (vt *Vault) RollbackVolume(ctx context.Context, c *vm.Call, ref Ref, to string) (info Info, before vm.VolumeSnapshot, err error) {
	defer func() { err = vt.fail(vm.OpVolumeRollback, ref.Volume, err) }()
	v, err := vt.FindVolume(c, ref)
	if err != nil {
		return info, before, err
	}
	v.Reserve()
	defer v.Release()
	if err := v.notMounted("unmount it first"); err != nil {
		return info, before, err
	}
	rec := v.Record()
	target, ok := rollbackTo(rec, to)
	if !ok {
		return info, before, noSnapshot(rec, to)
	}
	key, err := v.Key()
	if err != nil {
		return info, before, err
	}
	defer clear(key)
	end, err := vt.record(ctx, c, vm.OpVolumeRollback, rec, map[string]any{"snapshot": target.ID, "name": target.Name})
	if err != nil {
		return info, before, err
	}
	defer func() { end(err, nil) }()
	before = vt.planSnapshot(rec, "")
	before.Before = true
	if err := v.keepSnapshot(ctx, before); err != nil {
		return info, before, err
	}
	ctx = context.WithoutCancel(ctx) // half a rollback would leave an unusable volume
	if err := v.revert(ctx, key, target); err != nil {
		if vt.vms.Alive() == nil {
			err = errors.Join(err, v.revert(ctx, key, before))
		}
		return info, before, err
	}
	v.thinSnapshots(ctx, key)
	v.Emit("volume.rolled-back", map[string]any{"to": target.ID, "before": before.ID})
	return v.Info(), before, nil
}

// revert restores one of the volume's snapshots. It first records the target, so that a
// later server can complete it.
func (v *Volume) revert(ctx context.Context, key vm.VolumeKey, to vm.VolumeSnapshot) error {
	if _, err := v.update(ctx, func(rec *vm.Volume) { rec.Reverting = to.ID }); err != nil {
		return err
	}
	if err := v.vault.vms.Step(ctx, "volume-rollback:disk"); err != nil {
		return err
	}
	if err := v.vault.files.Revert(ctx, v.ID(), key, to.ID); err != nil {
		return err
	}
	if err := v.vault.vms.Step(ctx, "volume-rollback:commit"); err != nil {
		return err
	}
	_, err := v.update(ctx, func(rec *vm.Volume) {
		rec.Reverting, rec.SizeMiB, rec.Formatted, rec.Grown = "", to.SizeMiB, to.Formatted, to.Grown
	})
	return err
}

// rollbackTo finds the snapshot to go back to.
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

// keptBefore is how many snapshots made by rollbacks are kept.
const keptBefore = 4

// thinSnapshots removes the oldest snapshots made by rollbacks.
func (v *Volume) thinSnapshots(ctx context.Context, key vm.VolumeKey) {
	var left []vm.VolumeSnapshot
	for _, s := range v.Record().Snapshots {
		if s.Before {
			left = append(left, s)
		}
	}
	for _, s := range left[:max(0, len(left)-keptBefore)] {
		if err := v.dropSnapshot(ctx, key, nil, s.ID); err != nil {
			v.vault.log.Warn("an old snapshot made by a rollback could not be removed", "volume", v.ID(), "snapshot", s.ID, "err", err)
		}
	}
}
