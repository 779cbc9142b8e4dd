// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// recordDeadline bounds one write of a record.
const recordDeadline = 10 * time.Second

// durable bounds a write of a record. The caller's cancellation does not reach
// it: a write whose outcome is not known would be worse than a late one.
func durable(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordDeadline)
}

func (e *Engine) newRecord(ctx context.Context, rec vm.VM) (int64, error) {
	ctx, stop := durable(ctx)
	defer stop()
	return e.cfg.Records.VMs.Create(ctx, rec)
}

func (e *Engine) saveRecord(ctx context.Context, rec vm.VM) (int64, error) {
	ctx, stop := durable(ctx)
	defer stop()
	return e.cfg.Records.VMs.Update(ctx, rec)
}

func (e *Engine) dropRecord(ctx context.Context, rec vm.VM) error {
	ctx, stop := durable(ctx)
	defer stop()
	err := e.cfg.Records.VMs.Delete(ctx, rec)
	if vm.KindOf(err) == vm.NotFound {
		return nil
	}
	return err
}

func (e *Engine) loadRecords(ctx context.Context) ([]vm.VM, error) {
	return e.cfg.Records.VMs.List(ctx)
}

// loadDirectory reads accounts and keys into memory.
func (e *Engine) loadDirectory(ctx context.Context) error {
	accounts, err := e.cfg.Records.Accounts.List(ctx)
	if err != nil {
		return err
	}
	keys, err := e.cfg.Records.Keys.List(ctx)
	if err != nil {
		return err
	}
	e.users = directory{
		accounts: make(map[vm.AccountID]vm.Account, len(accounts)),
		keys:     make(map[vm.KeyID]vm.APIKey, len(keys)),
		byHash:   make(map[string]vm.KeyID, len(keys)),
	}
	for _, a := range accounts {
		e.users.accounts[a.ID] = a
	}
	for _, k := range keys {
		e.users.keys[k.ID] = k
		e.users.byHash[k.Hash] = k.ID
	}
	return nil
}

func (e *Engine) newAccount(ctx context.Context, a vm.Account) (int64, error) {
	ctx, stop := durable(ctx)
	defer stop()
	return e.cfg.Records.Accounts.Create(ctx, a)
}

func (e *Engine) dropAccountRecord(ctx context.Context, a vm.Account) error {
	ctx, stop := durable(ctx)
	defer stop()
	return e.cfg.Records.Accounts.Delete(ctx, a)
}

func (e *Engine) newKey(ctx context.Context, k vm.APIKey) (int64, error) {
	ctx, stop := durable(ctx)
	defer stop()
	return e.cfg.Records.Keys.Create(ctx, k)
}

func (e *Engine) saveKey(ctx context.Context, k vm.APIKey) (int64, error) {
	ctx, stop := durable(ctx)
	defer stop()
	return e.cfg.Records.Keys.Update(ctx, k)
}

func (e *Engine) dropKeyRecord(ctx context.Context, k vm.APIKey) error {
	ctx, stop := durable(ctx)
	defer stop()
	return e.cfg.Records.Keys.Delete(ctx, k)
}
