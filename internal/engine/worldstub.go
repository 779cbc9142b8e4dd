// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

func notBuilt(op vm.Op) error { return vm.Errorf(vm.Unsupported, "", "%s is not built yet", op) }

// Fork makes running copies of a running or suspended VM, all or none.
func (e *Engine) Fork(ctx context.Context, c *vm.Call, ref string, r ForkRequest) (Forked, error) {
	return Forked{}, notBuilt(vm.OpFork)
}

// Suspend writes memory and disk down and ends the machine.
func (e *Engine) Suspend(ctx context.Context, c *vm.Call, ref string, r SuspendRequest) (vm.VM, error) {
	return vm.VM{}, notBuilt(vm.OpSuspend)
}

// Snapshot captures a generation that is kept under a name.
func (e *Engine) Snapshot(ctx context.Context, c *vm.Call, ref string, r SnapshotRequest) (vm.GenerationInfo, error) {
	return vm.GenerationInfo{}, notBuilt(vm.OpSnapshot)
}

// Snapshots lists the account's snapshots, oldest first, without those of images;
// with all also every other generation and the deleted ones.
func (e *Engine) Snapshots(ctx context.Context, c *vm.Call, all bool) ([]vm.GenerationInfo, error) {
	return nil, notBuilt(vm.OpList)
}

// FindSnapshot resolves a snapshot id (sc-), a generation id (sl-) or a name.
func (e *Engine) FindSnapshot(ctx context.Context, c *vm.Call, ref string) (vm.GenerationInfo, error) {
	return vm.GenerationInfo{}, vm.Errorf(vm.NotFound, ref, "no such snapshot")
}

// RenameSnapshot changes a snapshot's name.
func (e *Engine) RenameSnapshot(ctx context.Context, c *vm.Call, ref, name string) (vm.GenerationInfo, error) {
	return vm.GenerationInfo{}, notBuilt(vm.OpSnapshotRename)
}

// RemoveSnapshot deletes a snapshot; VMs made of it go on.
func (e *Engine) RemoveSnapshot(ctx context.Context, c *vm.Call, ref string) (vm.GenerationInfo, error) {
	return vm.GenerationInfo{}, notBuilt(vm.OpSnapshotRemove)
}

// Rollback puts a VM back to a generation, keeping id, name and mappings.
func (e *Engine) Rollback(ctx context.Context, c *vm.Call, ref string, r RollbackRequest) (RolledBack, error) {
	return RolledBack{}, notBuilt(vm.OpRollback)
}

// Lineage returns a VM's ancestors, descendants and generations; ref "" = those
// of the whole account.
func (e *Engine) Lineage(ctx context.Context, c *vm.Call, ref string) (Lineage, error) {
	return Lineage{}, notBuilt(vm.OpGet)
}

// Keep makes a VM take another's name and place. The other is renamed, or with
// remove deleted.
func (e *Engine) Keep(ctx context.Context, c *vm.Call, ref, over string, remove bool) (Kept, error) {
	return Kept{}, notBuilt(vm.OpKeep)
}

// CaptureFirst captures a generation before something risky; note says what.
func (e *Engine) CaptureFirst(ctx context.Context, c *vm.Call, ref, note string) (vm.GenerationInfo, error) {
	return vm.GenerationInfo{}, notBuilt(vm.OpCapture)
}

// SetSchedule changes how often a generation is captured of its own; 0 = never.
func (e *Engine) SetSchedule(ctx context.Context, c *vm.Call, ref string, everySeconds int64) (vm.VM, error) {
	return vm.VM{}, notBuilt(vm.OpCapture)
}

// Resize changes what a VM gets of the host.
func (e *Engine) Resize(ctx context.Context, c *vm.Call, ref string, r ResizeRequest) (Resized, error) {
	return Resized{}, notBuilt(vm.OpResize)
}
