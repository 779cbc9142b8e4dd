// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/url"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// inProject is the query that names a project; "" = the default one.
func inProject(project string) url.Values {
	q := url.Values{}
	if project != "" {
		q.Set("project", project)
	}
	return q
}

// volumePath is the path of something that belongs to a volume.
func volumePath(volume string, rest ...string) string {
	return pathOf(append([]string{"v1", "volumes", volume}, rest...)...)
}

// Volumes lists managed volumes: of a project ("" = all) and, with a VM, only
// those that it has mounted.
func (c *Client) Volumes(ctx context.Context, project, ofVM string) ([]api.Volume, error) {
	q := inProject(project)
	if ofVM != "" {
		q.Set("vm", ofVM)
	}
	l, err := do[api.VolumeList](ctx, c, call{method: "GET", path: pathOf("v1", "volumes"), query: q}, nil)
	return l.Volumes, err
}

// CreateVolume creates an encrypted volume, which is locked.
func (c *Client) CreateVolume(ctx context.Context, in api.NewVolume) (api.Volume, error) {
	return do[api.Volume](ctx, c, call{method: "POST", path: pathOf("v1", "volumes")}, in)
}

// Volume returns a volume by its name or id, like every volume of this file.
func (c *Client) Volume(ctx context.Context, project, volume string) (api.Volume, error) {
	return do[api.Volume](ctx, c, call{method: "GET", path: volumePath(volume), query: inProject(project)}, nil)
}

// RemoveVolume erases a volume that no VM has mounted.
func (c *Client) RemoveVolume(ctx context.Context, project, volume string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: volumePath(volume), query: inProject(project)}, nil)
	return err
}

// UnlockVolume makes a volume ready to be mounted.
func (c *Client) UnlockVolume(ctx context.Context, project, volume string, in api.UnlockVolume) (api.UnlockedVolume, error) {
	return do[api.UnlockedVolume](ctx, c, call{method: "POST", path: volumePath(volume, "unlock"), query: inProject(project)}, in)
}

// LockVolume removes a volume's key from memory.
func (c *Client) LockVolume(ctx context.Context, project, volume string, in api.LockVolume) (api.Volume, error) {
	return do[api.Volume](ctx, c, call{method: "POST", path: volumePath(volume, "lock"), query: inProject(project)}, in)
}

// ResizeVolume enlarges an unlocked volume that no VM has mounted.
func (c *Client) ResizeVolume(ctx context.Context, project, volume string, sizeMib int) (api.Volume, error) {
	return do[api.Volume](ctx, c, call{method: "POST", path: volumePath(volume, "resize"), query: inProject(project)}, api.ResizeVolume{SizeMib: sizeMib})
}

// SnapshotVolume makes a snapshot of an unlocked volume.
func (c *Client) SnapshotVolume(ctx context.Context, project, volume, name string) (vm.VolumeSnapshot, error) {
	return do[vm.VolumeSnapshot](ctx, c, call{method: "POST", path: volumePath(volume, "snapshots"), query: inProject(project)}, api.NewVolumeSnapshot{Name: name})
}

// RemoveVolumeSnapshot deletes a snapshot of a volume, by its id or name.
func (c *Client) RemoveVolumeSnapshot(ctx context.Context, project, volume, snapshot string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: volumePath(volume, "snapshots", snapshot), query: inProject(project)}, nil)
	return err
}

// RollbackVolume puts an unlocked volume that no VM has mounted back to a
// snapshot; "" = the newest that a user made.
func (c *Client) RollbackVolume(ctx context.Context, project, volume, to string) (api.RolledBackVolume, error) {
	return do[api.RolledBackVolume](ctx, c, call{method: "POST", path: volumePath(volume, "rollback"), query: inProject(project)}, api.RollbackVolume{To: to})
}

// AddVolumeKey adds a way to unlock a volume, which must be unlocked.
func (c *Client) AddVolumeKey(ctx context.Context, project, volume string, in vm.VolumeSlotSpec) (vm.VolumeSlot, error) {
	return do[vm.VolumeSlot](ctx, c, call{method: "POST", path: volumePath(volume, "keys"), query: inProject(project)}, in)
}

// RemoveVolumeKey removes a way to unlock a volume.
func (c *Client) RemoveVolumeKey(ctx context.Context, project, volume, slot string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: volumePath(volume, "keys", slot), query: inProject(project)}, nil)
	return err
}

// RotateVolume gives an unlocked volume that no VM has mounted a new key.
func (c *Client) RotateVolume(ctx context.Context, project, volume string) error {
	_, err := do[none](ctx, c, call{method: "POST", path: volumePath(volume, "rotate"), query: inProject(project)}, nil)
	return err
}

// Mounts lists the volumes that a VM has mounted.
func (c *Client) Mounts(ctx context.Context, ref string) ([]api.Mount, error) {
	l, err := do[api.MountList](ctx, c, call{method: "GET", path: vmPath(ref, "mounts")}, nil)
	return l.Mounts, err
}

// Mount mounts an unlocked volume in a VM; it wakes a suspended VM.
func (c *Client) Mount(ctx context.Context, ref string, in api.NewMount) (api.Mount, error) {
	return do[api.Mount](ctx, c, call{method: "POST", path: vmPath(ref, "mounts")}, in)
}

// Unmount unmounts a volume, by its path in the guest, its name or its id. With
// force, programs that use it are killed.
func (c *Client) Unmount(ctx context.Context, ref, path string, force bool) error {
	q := url.Values{"path": {path}}
	if force {
		q.Set("force", "true")
	}
	_, err := do[none](ctx, c, call{method: "DELETE", path: vmPath(ref, "mounts"), query: q}, nil)
	return err
}
