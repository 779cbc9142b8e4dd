// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/url"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Fork makes running copies of a running or suspended VM, all or none.
func (c *Client) Fork(ctx context.Context, ref string, in api.ForkVM) (api.ForkedVM, error) {
	return do[api.ForkedVM](ctx, c, call{method: "POST", path: vmPath(ref, "fork")}, in)
}

// Drain suspends every VM that runs, before the host is shut down; for admins.
func (c *Client) Drain(ctx context.Context) (api.DrainedVMs, error) {
	return do[api.DrainedVMs](ctx, c, call{method: "POST", path: "/v1/drain"}, nil)
}

// Undrain ends a drain: VMs may start again, and those that resume after a
// restart of the host do so now.
func (c *Client) Undrain(ctx context.Context) (api.Undrained, error) {
	return do[api.Undrained](ctx, c, call{method: "DELETE", path: "/v1/drain"}, nil)
}

// SetOnBoot sets what happens to a VM after a restart of the host: resume,
// stay, or "" for the default of its persistence type.
func (c *Client) SetOnBoot(ctx context.Context, ref, onBoot string) (api.VM, error) {
	return do[api.VM](ctx, c, call{method: "PUT", path: vmPath(ref, "on-boot")}, api.SetOnBoot{OnBoot: onBoot})
}

// Suspend saves memory and disk and ends the machine. Start continues the same processes.
func (c *Client) Suspend(ctx context.Context, ref string, in api.SuspendVM) (api.SuspendedVM, error) {
	return do[api.SuspendedVM](ctx, c, call{method: "POST", path: vmPath(ref, "suspend")}, in)
}

// Snapshot captures a snapshot of a VM, which keeps running.
func (c *Client) Snapshot(ctx context.Context, ref string, in api.TakeSnapshot) (api.TakenSnapshot, error) {
	return do[api.TakenSnapshot](ctx, c, call{method: "POST", path: vmPath(ref, "snapshot")}, in)
}

// Snapshots lists the snapshots of images and of the account; all = also the
// deleted and lost ones.
func (c *Client) Snapshots(ctx context.Context, all bool) (api.SnapshotList, error) {
	q := url.Values{}
	if all {
		q.Set("includeDeleted", "true")
		q.Set("includeLost", "true")
	}
	return do[api.SnapshotList](ctx, c, call{method: "GET", path: pathOf("v1", "vms", "snapshots"), query: q}, nil)
}

// GetSnapshot returns a snapshot by its id or name.
func (c *Client) GetSnapshot(ctx context.Context, ref string) (api.Snapshot, error) {
	return do[api.Snapshot](ctx, c, call{method: "GET", path: pathOf("v1", "vms", "snapshots", ref)}, nil)
}

// RenameSnapshot gives a snapshot another name.
func (c *Client) RenameSnapshot(ctx context.Context, ref, name string) error {
	_, err := do[api.ChangedSnapshot](ctx, c, call{method: "PATCH", path: pathOf("v1", "vms", "snapshots", ref)}, api.NameSnapshot{Name: name})
	return err
}

// DeleteSnapshot deletes a snapshot; VMs made from it stay.
func (c *Client) DeleteSnapshot(ctx context.Context, ref string) error {
	_, err := do[api.ChangedSnapshot](ctx, c, call{method: "DELETE", path: pathOf("v1", "vms", "snapshots", ref)}, nil)
	return err
}

// Resize changes a VM's size, while it runs if that is possible, else by a stop and a start.
func (c *Client) Resize(ctx context.Context, ref string, in api.Sizes) (api.ResizedVM, error) {
	return do[api.ResizedVM](ctx, c, call{method: "POST", path: vmPath(ref, "resize")}, in)
}

// Rollback puts a VM back to a generation, by default its newest.
func (c *Client) Rollback(ctx context.Context, ref string, in api.RollbackVM) (api.RolledBackVM, error) {
	return do[api.RolledBackVM](ctx, c, call{method: "POST", path: vmPath(ref, "rollback")}, in)
}

// Lineage returns a VM's relatives and their generations; ref "" = everything.
func (c *Client) Lineage(ctx context.Context, ref string) (api.Lineage, error) {
	path := pathOf("v1", "lineage")
	if ref != "" {
		path = vmPath(ref, "lineage")
	}
	return do[api.Lineage](ctx, c, call{method: "GET", path: path}, nil)
}

// Keep gives a VM the name and place of another VM.
func (c *Client) Keep(ctx context.Context, ref string, in api.KeepVM) (api.KeptVM, error) {
	return do[api.KeptVM](ctx, c, call{method: "POST", path: vmPath(ref, "keep")}, in)
}

// SetSchedule changes the interval of automatic generations.
func (c *Client) SetSchedule(ctx context.Context, ref string, every time.Duration) (api.VM, error) {
	return do[api.VM](ctx, c, call{method: "PUT", path: vmPath(ref, "schedule")}, api.Schedule{CaptureEvery: vm.Seconds(every)})
}
