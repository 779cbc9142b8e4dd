// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"regexp"
	"slices"

	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// directory is the engine's memory of accounts and keys; the store has them
// durably. It is guarded by Engine.mu.
type directory struct {
	accounts map[vm.AccountID]vm.Account
	keys     map[vm.KeyID]vm.APIKey
	byHash   map[string]vm.KeyID
}

var accountName = regexp.MustCompile(`^[a-z0-9][a-z0-9._@-]{0,62}$`)

// CreateAccount makes an account with a first key, whose secret is returned
// this once. Admins only.
func (e *Engine) CreateAccount(ctx context.Context, c *vm.Call, name string) (a vm.Account, k vm.APIKey, secret string, err error) {
	defer func() { err = fail(vm.OpAccountCreate, name, err) }()
	if err := c.Actor.AdminOnly(); err != nil {
		return a, k, "", err
	}
	if !accountName.MatchString(name) {
		return a, k, "", vm.Errorf(vm.Invalid, name, "not a name for an account").
			WithCode("INVALID_REQUEST").WithHint("use a-z, 0-9 and . _ @ -, beginning with a letter or digit")
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpAccountCreate, Subject: name})
	if err != nil {
		return a, k, "", err
	}
	defer func() { r.End(err, map[string]any{"account": string(a.ID)}) }()
	a = vm.Account{ID: vm.AccountID(vm.NewUUID()), Name: name, CreatedAt: e.now()}
	if a, err = e.addAccount(ctx, a); err != nil {
		return vm.Account{}, k, "", err
	}
	if k, secret, err = e.addKey(ctx, a.ID, "first"); err != nil {
		return vm.Account{}, k, "", joinUndo(err, e.dropAccount(context.WithoutCancel(ctx), a.ID))
	}
	e.cfg.Journal.Emit(vm.Event{Type: "account.created", Account: a.ID, Data: map[string]any{"name": name}})
	return a, k, secret, nil
}

// addAccount stores an account under a name that no other has.
func (e *Engine) addAccount(ctx context.Context, a vm.Account) (vm.Account, error) {
	e.mu.Lock()
	for _, o := range e.users.accounts {
		if o.Name == a.Name {
			e.mu.Unlock()
			return a, vm.Errorf(vm.Exists, a.Name, "an account with this name exists").WithHint("choose another name")
		}
	}
	e.users.accounts[a.ID] = a // claims the name
	e.mu.Unlock()
	rev, err := e.newAccount(ctx, a)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		delete(e.users.accounts, a.ID)
		return a, err
	}
	a.Revision = rev
	e.users.accounts[a.ID] = a
	return a, nil
}

// Accounts lists all accounts by name; without admin rights, only the
// caller's.
func (e *Engine) Accounts(_ context.Context, c *vm.Call) ([]vm.Account, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []vm.Account
	for _, a := range e.users.accounts {
		if c.Actor.Admin || a.ID == c.Actor.Account {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b vm.Account) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Account returns the caller's account.
func (e *Engine) Account(_ context.Context, c *vm.Call) (vm.Account, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, ok := e.users.accounts[c.Actor.Account]
	if !ok {
		return a, vm.Errorf(vm.NotFound, string(c.Actor.Account), "no such account").WithCode("NOT_FOUND")
	}
	return a, nil
}

// RemoveAccount removes an account and its keys. It is refused while the
// account has VMs, unless force, which deletes them. Admins only, and never
// their own.
func (e *Engine) RemoveAccount(ctx context.Context, c *vm.Call, id vm.AccountID, force bool) (err error) {
	defer func() { err = fail(vm.OpAccountRemove, string(id), err) }()
	if err := c.Actor.AdminOnly(); err != nil {
		return err
	}
	e.mu.Lock()
	id = e.users.accountLocked(id)
	a, ok := e.users.accounts[id]
	e.mu.Unlock()
	switch {
	case !ok:
		return vm.Errorf(vm.NotFound, string(id), "no such account").WithCode("NOT_FOUND").WithHint("`warren account ls` lists accounts")
	case id == c.Actor.Account:
		return vm.Errorf(vm.Denied, a.Name, "an admin cannot remove the own account").WithCode("FORBIDDEN")
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpAccountRemove, Subject: a.Name, Detail: map[string]any{"account": string(id), "force": force}})
	if err != nil {
		return err
	}
	defer func() { r.End(err, nil) }()
	if err := e.emptyAccount(ctx, c, a, force); err != nil {
		return err
	}
	return e.dropAccount(ctx, id)
}

// accountLocked resolves an account's name to its id.
func (d *directory) accountLocked(ref vm.AccountID) vm.AccountID {
	for id, a := range d.accounts {
		if a.Name == string(ref) {
			return id
		}
	}
	return ref
}

// emptyAccount deletes the VMs of an account, or refuses.
func (e *Engine) emptyAccount(ctx context.Context, c *vm.Call, a vm.Account, force bool) error {
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

// dropAccount removes the keys, domains and identities, then the account.
func (e *Engine) dropAccount(ctx context.Context, id vm.AccountID) error {
	e.mu.Lock()
	var keys []vm.APIKey
	for _, k := range e.users.keys {
		if k.Account == id {
			keys = append(keys, k)
		}
	}
	a := e.users.accounts[id]
	e.mu.Unlock()
	for _, k := range keys {
		if err := e.dropKey(ctx, k); err != nil {
			return err
		}
	}
	if err := e.cfg.Names.Forget(ctx, id); err != nil {
		return err
	}
	if err := e.dropIdentitiesOf(ctx, id); err != nil {
		return err
	}
	if err := e.dropJobs(ctx, id, 0); err != nil {
		return err
	}
	if err := e.cfg.Meter.Forget(ctx, id); err != nil {
		return err
	}
	if err := e.dropAccountRecord(ctx, a); err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.users.accounts, id)
	e.mu.Unlock()
	return nil
}

// EnsureAdmin makes the admin account with its key at the very first start;
// the secret is returned only then.
func (e *Engine) EnsureAdmin(ctx context.Context) (secret string, created bool, err error) {
	defer func() { err = fail(vm.OpServe, "admin", err) }()
	e.mu.Lock()
	for _, a := range e.users.accounts {
		if a.Admin && e.users.hasKeyLocked(a.ID) {
			e.mu.Unlock()
			return "", false, nil
		}
	}
	var admin vm.Account
	for _, a := range e.users.accounts {
		if a.Admin {
			admin = a
		}
	}
	e.mu.Unlock()
	c := &vm.Call{Actor: vm.Actor{System: "first-start", Admin: true}}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpAccountCreate, Subject: "admin"})
	if err != nil {
		return "", false, err
	}
	defer func() { r.End(err, nil) }()
	if admin.ID == "" {
		admin = vm.Account{ID: vm.AccountID(vm.NewUUID()), Name: "admin", Admin: true, CreatedAt: e.now()}
		if admin, err = e.addAccount(ctx, admin); err != nil {
			return "", false, err
		}
	}
	_, secret, err = e.addKey(ctx, admin.ID, "admin.key")
	return secret, err == nil, err
}

func (d *directory) hasKeyLocked(id vm.AccountID) bool {
	for _, k := range d.keys {
		if k.Account == id {
			return true
		}
	}
	return false
}
