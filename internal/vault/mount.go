// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"context"
	"errors"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// BeginMount records a pending mount before the engine makes it. The caller has reserved
// the volume. If it fails, the mount is not recorded, or the vault removes it as soon as
// the store answers.
func (v *Volume) BeginMount(ctx context.Context, m vm.VolumeMount) error {
	m.Pending = true
	_, err := v.update(ctx, func(rec *vm.Volume) { rec.Mounts = append(rec.Mounts, m) })
	switch vm.KindOf(err) {
	case "", vm.Limit, vm.NoSpace, vm.NotFound, vm.Busy: // the store's content is known
		return err
	}
	if v.vault.vms.Alive() != nil {
		return err
	}
	return errors.Join(err, v.takeOut(ctx, m, nil))
}

// MountDone records that a mount is complete: the guest has found or made a file system
// and, if it may write, has grown it to the size of the disk. The caller has reserved the
// volume.
func (v *Volume) MountDone(ctx context.Context, m vm.VolumeMount) error {
	m.Pending = false
	_, err := v.update(ctx, func(rec *vm.Volume) {
		rec.Formatted, rec.Grown = true, rec.Grown && !m.RW
		for i := range rec.Mounts {
			if sameMount(rec.Mounts[i], m) {
				rec.Mounts[i] = m
			}
		}
	})
	return err
}

// PendMount records whether a VM's mount is pending: begun and not complete, or unmounted
// in the guest and still attached. A later server ends pending mounts.
func (v *Volume) PendMount(ctx context.Context, id vm.ID, pending bool) error {
	_, err := v.update(ctx, func(rec *vm.Volume) {
		for i := range rec.Mounts {
			if rec.Mounts[i].VM == id {
				rec.Mounts[i].Pending = pending
			}
		}
	})
	return err
}

// EndMount removes a VM's mount from the volume's record, if there is one. After an error
// the vault retries until the store answers, since the machine no longer has the disk.
func (v *Volume) EndMount(ctx context.Context, id vm.ID) error {
	m, ok := v.Record().MountOf(id)
	if !ok {
		return nil
	}
	return v.takeOut(ctx, m, nil)
}

// takeOut removes this mount from the record, now or as soon as the store answers, and
// then calls then. The mount is hidden at once.
func (v *Volume) takeOut(ctx context.Context, m vm.VolumeMount, then func()) error {
	v.setEnded(func(list []vm.VolumeMount) []vm.VolumeMount { return append(list, m) })
	do := func(ctx context.Context) error {
		_, err := v.update(ctx, func(*vm.Volume) {})
		if vm.KindOf(err) == vm.NotFound { // the volume is gone
			return nil
		}
		if err != nil {
			return err
		}
		v.setEnded(func(list []vm.VolumeMount) []vm.VolumeMount { return without(list, []vm.VolumeMount{m}) })
		if then != nil {
			then()
		}
		return nil
	}
	err := do(ctx)
	if err != nil && v.vault.vms.Alive() == nil {
		v.vault.log.Warn("the end of a mount could not be recorded yet", "vm", m.VM, "volume", v.ID(), "err", err)
		v.vault.insist(do)
	}
	return err
}

// setEnded changes the list of ended mounts that may still be in the record. It replaces
// the list, because readers use it without the mutex.
func (v *Volume) setEnded(change func([]vm.VolumeMount) []vm.VolumeMount) {
	v.vault.mu.Lock()
	defer v.vault.mu.Unlock()
	v.ended = change(slices.Clone(v.ended))
}

// without returns the mounts of a list that are not among others.
func without(list, others []vm.VolumeMount) []vm.VolumeMount {
	return slices.DeleteFunc(slices.Clone(list), func(m vm.VolumeMount) bool {
		return slices.ContainsFunc(others, func(o vm.VolumeMount) bool { return sameMount(m, o) })
	})
}

// sameMount reports whether a and b are versions of the same mount.
func sameMount(a, b vm.VolumeMount) bool { return a.VM == b.VM && a.Since.Equal(b.Since) }

// EndMounts ends every mount of a VM that has no machine any more, now or as soon as the
// store answers. A volume that is then unused is locked, unless it was unlocked with
// Keep.
func (vt *Vault) EndMounts(ctx context.Context, id vm.ID) {
	for _, v := range vt.VolumesIn(id) {
		m, ok := v.Record().MountOf(id)
		if !ok {
			continue
		}
		_ = v.takeOut(ctx, m, func() { // failures are logged and retried
			idle := v.lockIdle()
			v.Emit("volume.unmounted", map[string]any{"vm": id, "reason": "the VM has ended"})
			if idle {
				v.lockedBy("its last VM has ended")
			}
		})
	}
}

// lockIdle locks the volume if no VM has it mounted and it was not unlocked with Keep. It
// reports whether it did.
func (v *Volume) lockIdle() bool {
	v.vault.mu.Lock()
	defer v.vault.mu.Unlock()
	if v.key == nil || v.keep || len(v.recordLocked().Mounts) > 0 {
		return false
	}
	v.lockLocked()
	return true
}
