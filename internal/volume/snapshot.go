// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"strings"

	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/vm"
)

// Snapshots are qcow2's own: they lie in the disk, encrypted under the same key,
// and share with it what did not change since. Each changes the first cluster,
// so the header's copy is made again.

// Snapshot keeps what is on a disk that no machine uses.
func (s Store) Snapshot(ctx context.Context, id vm.VolumeID, key vm.VolumeKey, snapshot string) error {
	return s.snapshots(ctx, id, key, "-c", snapshot)
}

// Revert puts a disk that no machine uses back to a snapshot, with its size of
// then. The snapshot stays.
func (s Store) Revert(ctx context.Context, id vm.VolumeID, key vm.VolumeKey, snapshot string) error {
	return s.snapshots(ctx, id, key, "-a", snapshot)
}

// DropSnapshot lets a snapshot go. One that is not there is no error.
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
