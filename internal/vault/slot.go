// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// AddVolumeSlot adds a way to unlock a volume, which must be unlocked.
func (vt *Vault) AddVolumeSlot(ctx context.Context, c *vm.Call, ref Ref, spec vm.VolumeSlotSpec) (slot vm.VolumeSlot, err error) {
	err = vt.changeSlots(ctx, c, ref, map[string]any{"add": spec.Kind(), "slot": spec.Name}, func(v *Volume) error {
		key, err := v.Key()
		if err != nil {
			return err
		}
		defer clear(key)
		slot, err = vt.files.AddSlot(v.ID(), key, spec)
		return err
	})
	return slot, err
}

// RemoveVolumeSlot removes a way to unlock a volume, except the last one. The volume must
// be unlocked: only a caller who can open it may decide who else can.
func (vt *Vault) RemoveVolumeSlot(ctx context.Context, c *vm.Call, ref Ref, slot string) error {
	return vt.changeSlots(ctx, c, ref, map[string]any{"remove": slot}, func(v *Volume) error {
		key, err := v.Key()
		if err != nil {
			return err
		}
		clear(key)
		return vt.files.RemoveSlot(v.ID(), slot)
	})
}

// RotateVolume gives an unlocked volume that no VM has mounted a new key. Older copies of
// its slots no longer open it.
func (vt *Vault) RotateVolume(ctx context.Context, c *vm.Call, ref Ref) error {
	return vt.changeSlots(ctx, c, ref, map[string]any{"rotate": true}, func(v *Volume) error {
		if err := v.notMounted("unmount it first"); err != nil {
			return err
		}
		key, err := v.Key()
		if err != nil {
			return err
		}
		defer clear(key)
		next, err := vt.files.Rotate(context.WithoutCancel(ctx), v.ID(), key)
		vt.mu.Lock()
		defer vt.mu.Unlock()
		if next != nil && v.key != nil {
			clear(v.key)
			v.key = next
		} else {
			clear(next) // it was locked meanwhile
		}
		return err
	})
}

func (vt *Vault) changeSlots(ctx context.Context, c *vm.Call, ref Ref, detail map[string]any, change func(*Volume) error) (err error) {
	defer func() { err = vt.fail(vm.OpVolumeSlot, ref.Volume, err) }()
	v, err := vt.FindVolume(c, ref)
	if err != nil {
		return err
	}
	detail["sensitive"] = true
	end, err := vt.record(ctx, c, vm.OpVolumeSlot, v.Record(), detail)
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	v.Reserve()
	defer v.Release()
	if v.Gone() {
		return NoVolume(ref.Project, ref.Volume)
	}
	if err := change(v); err != nil {
		return err
	}
	v.Emit("volume.slots", nil)
	return nil
}
