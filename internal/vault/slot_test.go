// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault_test

import (
	"testing"

	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// TestVolumeSlots: ways to unlock are added and removed while it is unlocked.
func TestVolumeSlots(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	newVolume(t, e, c, "work")
	_, err := e.AddVolumeSlot(ctx, c, ref("work"), vm.VolumeSlotSpec{Passphrase: "p"})
	refused(t, err, vm.WrongState, "VOLUME_LOCKED")
	unlock(t, e, c, "work")
	slot, err := e.AddVolumeSlot(ctx, c, ref("work"), vm.VolumeSlotSpec{Passphrase: "p"})
	if err != nil || slot.Kind != vm.SlotPassphrase {
		t.Fatalf("the new slot is %+v (%v), want one of a passphrase", slot, err)
	}
	if _, err := e.LockVolume(ctx, c, ref("work"), false); err != nil {
		t.Fatal(err)
	}
	refused(t, e.RemoveVolumeSlot(ctx, c, ref("work"), slot.ID), vm.WrongState, "VOLUME_LOCKED")
	if _, _, err := e.UnlockVolume(ctx, c, ref("work"), vault.UnlockRequest{Secret: vm.VolumeSecret{Passphrase: "p"}}); err != nil {
		t.Fatal(err)
	}
	if err := e.RemoveVolumeSlot(ctx, c, ref("work"), slot.ID); err != nil {
		t.Fatal(err)
	}
	if v, err := e.VolumeOf(ctx, c, ref("work")); err != nil || len(v.Slots) != 1 {
		t.Errorf("slots %v, %v", v.Slots, err)
	}
	newBox(t, e, c)
	mount(t, e, c, "work", "/data")
	refused(t, e.RotateVolume(ctx, c, ref("work")), vm.Busy, "VOLUME_IN_USE")
	if err := e.Unmount(ctx, c, "box", "/data", false); err != nil {
		t.Fatal(err)
	}
	if err := e.RotateVolume(ctx, c, ref("work")); err != nil {
		t.Fatal(err)
	}
	mount(t, e, c, "work", "/data") // with the new key
}
