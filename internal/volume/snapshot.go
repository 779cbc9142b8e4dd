// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"strings"

	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/vm"
)

// Snapshots are those of qcow2: they are in the disk, encrypted under the same key,
// and share unchanged data with it. Each changes the first cluster, so the header's
// copy is made again.

// Snapshot makes a snapshot of a disk that no machine uses.
func (s Store) Snapshot(ctx context.Context, id vm.VolumeID, key vm.VolumeKey, snapshot string) error {
	return s.snapshots(ctx, id, key, "-c", snapshot)
}

// Revert restores an unused disk, with its size, from a snapshot. The snapshot
// stays.
func (s Store) Revert(ctx context.Context, id vm.VolumeID, key vm.VolumeKey, snapshot string) error {
	return s.snapshots(ctx, id, key, "-a", snapshot)
}

// DropSnapshot deletes a snapshot. An absent one is no error.
func (s Store) DropSnapshot(ctx context.Context, id vm.VolumeID, key vm.VolumeKey, snapshot string) error {
	err := s.snapshots(ctx, id, key, "-d", snapshot)
	if err != nil && strings.Contains(err.Error(), "not found") {
		return nil
	}
	return err
}

func (s Store) snapshots(ctx context.Context, id vm.VolumeID, key vm.VolumeKey, flag, snapshot string) error {
	d := s.dir(id)
	if err := must(ctx, d.Disk(), []vm.VolumeKey{key}, "snapshot", "--image-opts", flag, snapshot, qcow.Options(d.Disk())); err != nil {
		return err
	}
	return backUp(d)
}

// BackUp copies the header of a disk that a machine has changed.
func (s Store) BackUp(id vm.VolumeID) error { return backUp(s.dir(id)) }
