// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// Files keeps the files of managed volumes; volume.Store implements it. Calls about one
// volume do not overlap.
type Files interface {
	Create(ctx context.Context, id vm.VolumeID, sizeMiB int, slot vm.VolumeSlotSpec) error
	Remove(id vm.VolumeID) error
	List() ([]vm.VolumeID, error)
	// Open checks a volume's disk and returns its key if the secret is valid. recovered
	// reports that the header was damaged and was restored. Kinds: Denied, Corrupt,
	// NotFound.
	Open(ctx context.Context, id vm.VolumeID, secret vm.VolumeSecret, inUse bool) (key vm.VolumeKey, recovered bool, err error)
	Slots(id vm.VolumeID) ([]vm.VolumeSlot, error)
	AddSlot(id vm.VolumeID, key vm.VolumeKey, spec vm.VolumeSlotSpec) (vm.VolumeSlot, error)
	RemoveSlot(id vm.VolumeID, slot string) error
	// Rotate gives a volume that no machine uses a new key and returns it, even if only
	// the last step failed. Kind WrongState with a passphrase.
	Rotate(ctx context.Context, id vm.VolumeID, key vm.VolumeKey) (vm.VolumeKey, error)
	Grow(ctx context.Context, id vm.VolumeID, key vm.VolumeKey, sizeMiB int) error
	// Snapshot, Revert and DropSnapshot are for disks that no machine uses. Dropping a
	// missing snapshot is no error.
	Snapshot(ctx context.Context, id vm.VolumeID, key vm.VolumeKey, snapshot string) error
	Revert(ctx context.Context, id vm.VolumeID, key vm.VolumeKey, snapshot string) error
	DropSnapshot(ctx context.Context, id vm.VolumeID, key vm.VolumeKey, snapshot string) error
	// BackUp copies the header of a disk after a machine has changed it.
	BackUp(id vm.VolumeID) error
	Disk(id vm.VolumeID) string
	Used(id vm.VolumeID) (int64, error)
}
