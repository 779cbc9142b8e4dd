// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// account returns an account, or the zero value when there is none.
func (e *Engine) account(id vm.AccountID) vm.Account {
	a, _ := e.cfg.Access.Lookup(id)
	return a
}

// EmptyAccount deletes the VMs, volumes, snapshots and layers of an account. Without
// force it fails with kind Busy if the account has VMs, volumes or snapshots.
func (e *Engine) EmptyAccount(ctx context.Context, c *vm.Call, a vm.Account, force bool) error {
	sub := &vm.Call{Actor: vm.Actor{Account: a.ID, Key: c.Actor.Key, System: "account-remove"}, Request: c.Request}
	list, n, _, err := e.List(ctx, sub, Filter{})
	if err != nil {
		return err
	}
	volumes, err := e.cfg.Vault.Volumes(ctx, sub, "", "")
	if err != nil {
		return err
	}
	snapshots := e.generations(func(g *vm.Generation) bool { return g.Account == a.ID && g.Snapshot != "" && keptForItself(*g) })
	if n+len(volumes)+len(snapshots) > 0 && !force {
		return vm.Errorf(vm.Busy, a.Name, "the account has %d VMs, %d volumes and %d snapshots", n, len(volumes), len(snapshots)).WithHint("delete them first, or use --force")
	}
	for _, v := range list {
		if _, err := e.Delete(ctx, sub, string(v.ID)); err != nil && vm.KindOf(err) != vm.NotFound {
			return err
		}
	}
	for _, v := range volumes {
		if _, err := e.cfg.Vault.RemoveVolume(ctx, sub, vault.Ref{Volume: string(v.ID)}); err != nil && vm.KindOf(err) != vm.NotFound {
			return err
		}
	}
	for _, g := range snapshots {
		if _, err := e.RemoveSnapshot(ctx, sub, string(g.Snapshot)); err != nil && vm.AsError(err).Code != "SNAPSHOT_ALREADY_DELETED" && vm.KindOf(err) != vm.NotFound {
			return err
		}
	}
	for _, g := range e.generations(func(g *vm.Generation) bool { return g.Account == a.ID && keptForItself(*g) }) { // layers
		if _, err := e.changeGeneration(ctx, g.ID, func(g *vm.Generation) { g.Deleted = true }); err != nil {
			return err
		}
	}
	e.collectLater()
	return nil
}
