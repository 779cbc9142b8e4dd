// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"context"
	"errors"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// BeginMount notes a mount that is not complete, before the engine makes it. The
// caller has the volume reserved. After an error the mount is not noted, or the
// vault takes it back as soon as the store answers.
func (v *Volume) BeginMount(ctx context.Context, m vm.VolumeMount) error {
	m.Pending = true
	_, err := v.update(ctx, func(rec *vm.Volume) { rec.Mounts = append(rec.Mounts, m) })
	switch vm.KindOf(err) {
	case "", vm.Limit, vm.NoSpace, vm.NotFound, vm.Busy: // it is known what the store has
		return err
	}
	if v.vault.vms.Alive() != nil {
		return err
	}
	return errors.Join(err, v.takeOut(ctx, m, nil))
}

// MountDone notes that a mount is complete. The guest has found or made a file
// system and, if it may write, has grown it to the size of the disk. The caller
// has the volume reserved.
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

// PendMount notes whether a VM's mount is pending: begun and not complete, or
// unmounted in the guest and still plugged in. A later server ends pending mounts.
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

// EndMount takes a VM's mount out of the volume's record. It is no error when there
// is none. After an error the vault tries again until the store answers: the
// machine does not have the disk any more.
func (v *Volume) EndMount(ctx context.Context, id vm.ID) error {
	m, ok := v.Record().MountOf(id)
	if !ok {
		return nil
	}
	return v.takeOut(ctx, m, nil)
}

// takeOut takes this one mount out of the record, now or as soon as the store
// answers, and calls then. From now on nobody is shown the mount.
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
		v.vault.log.Warn("the end of a mount is not recorded yet", "vm", m.VM, "volume", v.ID(), "err", err)
		v.vault.insist(do)
	}
	return err
}

// setEnded changes the list of mounts that have ended and may still be in the
// record. It replaces the list, which readers keep after they released the mutex.
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

// sameMount reports whether both are the same mount, at two times.
func sameMount(a, b vm.VolumeMount) bool { return a.VM == b.VM && a.Since.Equal(b.Since) }

// EndMounts ends every mount of a VM that has no machine any more, now or as soon
// as the store answers. A volume that no VM has mounted any more is locked, unless
// it was unlocked to stay so.
func (vt *Vault) EndMounts(ctx context.Context, id vm.ID) {
	for _, v := range vt.VolumesIn(id) {
		m, ok := v.Record().MountOf(id)
		if !ok {
			continue
		}
		_ = v.takeOut(ctx, m, func() { // what fails is logged, and tried again
			idle := v.lockIdle()
			v.Emit("volume.unmounted", map[string]any{"vm": id, "reason": "the VM has ended"})
			if idle {
				v.lockedBy("its last VM has ended")
			}
		})
	}
}

// lockIdle locks the volume if no VM has it mounted and it was not unlocked to stay
// so. It reports whether it did.
func (v *Volume) lockIdle() bool {
	v.vault.mu.Lock()
	defer v.vault.mu.Unlock()
	if v.key == nil || v.keep || len(v.recordLocked().Mounts) > 0 {
		return false
	}
	v.lockLocked()
	return true
}
