// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"

	"github.com/warren-vm/warren/vm"
)

var accountName = regexp.MustCompile(`^[a-z0-9][a-z0-9._@-]{0,62}$`)

// CreateAccount makes an account and its first key. Only this call returns the key's
// secret. Admins only.
func (a *Access) CreateAccount(ctx context.Context, c *vm.Call, name string) (acc vm.Account, k vm.APIKey, secret string, err error) {
	defer func() { err = vm.WithOp(vm.OpAccountCreate, name, err) }()
	if err := c.Actor.AdminOnly(); err != nil {
		return acc, k, "", err
	}
	if !accountName.MatchString(name) {
		return acc, k, "", vm.Errorf(vm.Invalid, name, "not a name for an account").
			WithCode("INVALID_REQUEST").WithHint("use a-z, 0-9 and . _ @ -, beginning with a letter or digit")
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpAccountCreate, Subject: name})
	if err != nil {
		return acc, k, "", err
	}
	defer func() { end(err, map[string]any{"account": string(acc.ID)}) }()
	acc = vm.Account{ID: vm.AccountID(vm.NewUUID()), Name: name, CreatedAt: a.now()}
	if err = a.addAccount(ctx, acc); err != nil {
		return vm.Account{}, k, "", err
	}
	if k, secret, err = a.addKey(ctx, acc.ID, "first"); err != nil {
		if undo := a.dropAccount(context.WithoutCancel(ctx), acc.ID); undo != nil {
			err = errors.Join(err, undo)
		}
		return vm.Account{}, k, "", err
	}
	a.cfg.Journal.Emit(vm.Event{Type: "account.created", Account: acc.ID, Data: map[string]any{"name": name}})
	return acc, k, secret, nil
}

// addAccount stores an account under a name that no other account has.
func (a *Access) addAccount(ctx context.Context, acc vm.Account) error {
	a.accountWrite.Lock()
	defer a.accountWrite.Unlock()
	if _, taken := first(a.accounts, byName, acc.Name); taken {
		return vm.Errorf(vm.Exists, acc.Name, "an account with this name exists").WithHint("choose another name")
	}
	return a.accounts.Create(ctx, acc)
}

// Accounts lists all accounts by name. Callers who are not admins see only their own.
func (a *Access) Accounts(_ context.Context, c *vm.Call) ([]vm.Account, error) {
	list := a.AllAccounts()
	if !c.Actor.Admin {
		list = slices.DeleteFunc(list, func(acc vm.Account) bool { return acc.ID != c.Actor.Account })
	}
	slices.SortFunc(list, func(a, b vm.Account) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// AllAccounts returns every account, ordered by id, for the server's own use.
func (a *Access) AllAccounts() []vm.Account { return a.accounts.All() }

// Lookup returns the account with an id.
func (a *Access) Lookup(id vm.AccountID) (vm.Account, bool) { return a.accounts.Get(id) }

// FirstAdmin returns the account that inherits things without an owner: the admin account
// with the lowest id. "" = there is none.
func (a *Access) FirstAdmin() vm.AccountID {
	for _, acc := range a.accounts.All() {
		if acc.Admin {
			return acc.ID
		}
	}
	return ""
}

// Account returns the caller's account.
func (a *Access) Account(_ context.Context, c *vm.Call) (vm.Account, error) {
	acc, ok := a.accounts.Get(c.Actor.Account)
	if !ok {
		return acc, vm.Errorf(vm.NotFound, string(c.Actor.Account), "no such account").WithCode("NOT_FOUND")
	}
	return acc, nil
}

// AccountOf finds an account by its id or name; "" = the caller's. Callers who are not
// admins find only their own.
func (a *Access) AccountOf(c *vm.Call, ref vm.AccountID) (vm.Account, error) {
	acc, ok := a.accounts.Get(c.Actor.Account)
	if ref != "" {
		acc, ok = a.byRef(ref)
	}
	if !ok || !c.Actor.Admin && acc.ID != c.Actor.Account {
		return vm.Account{}, vm.Errorf(vm.NotFound, string(ref), "no such account").WithCode("NOT_FOUND").WithHint("`warren account ls` lists accounts")
	}
	return acc, nil
}

// byRef finds an account by its name or id.
func (a *Access) byRef(ref vm.AccountID) (vm.Account, bool) {
	if acc, ok := first(a.accounts, byName, string(ref)); ok {
		return acc, true
	}
	return a.accounts.Get(ref)
}

// PutQuota durably sets an account's quota. The caller has checked the account's use and
// written the audit record.
func (a *Access) PutQuota(ctx context.Context, id vm.AccountID, q vm.Quota) error {
	acc, err := a.accounts.Change(ctx, id, func(acc *vm.Account) error {
		acc.Quota = q
		return nil
	})
	if err == nil {
		a.cfg.Journal.Emit(vm.Event{Type: "account.quota", Account: id, Data: map[string]any{"name": acc.Name}})
	}
	return err
}

// RemoveAccount removes an account with its keys and identities. If the account has VMs,
// volumes or snapshots, it fails with kind Busy; with force they are deleted. Admins
// only, and never their own.
func (a *Access) RemoveAccount(ctx context.Context, c *vm.Call, id vm.AccountID, force bool) (err error) {
	defer func() { err = vm.WithOp(vm.OpAccountRemove, string(id), err) }()
	if err := c.Actor.AdminOnly(); err != nil {
		return err
	}
	acc, ok := a.byRef(id)
	switch {
	case !ok:
		return vm.Errorf(vm.NotFound, string(id), "no such account").WithCode("NOT_FOUND").WithHint("`warren account ls` lists accounts")
	case acc.ID == c.Actor.Account:
		return vm.Errorf(vm.Denied, acc.Name, "admins cannot remove their own account").WithCode("FORBIDDEN")
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpAccountRemove, Subject: acc.Name, Detail: map[string]any{"account": string(acc.ID), "force": force}})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	if err := a.rooms.Empty(ctx, c, acc, force); err != nil {
		return err
	}
	return a.dropAccount(ctx, acc.ID)
}

// dropAccount removes the account's keys and identities, its records in other rooms, and
// then the account.
func (a *Access) dropAccount(ctx context.Context, id vm.AccountID) error {
	if err := dropAll(ctx, a.keys.By(byAccount, string(id)), a.dropKey); err != nil {
		return err
	}
	if err := a.dropIdentitiesOf(ctx, id); err != nil {
		return err
	}
	for _, forget := range a.rooms.Forget {
		if err := forget(ctx, id); err != nil {
			return err
		}
	}
	return a.accounts.Drop(ctx, id)
}

// EnsureAdmin makes the admin account with its key if no admin account has a key, as at
// the very first start. Only then it returns the secret.
func (a *Access) EnsureAdmin(ctx context.Context) (secret string, created bool, err error) {
	defer func() { err = vm.WithOp(vm.OpServe, "admin", err) }()
	var admin vm.Account
	for _, acc := range a.accounts.All() {
		if !acc.Admin {
			continue
		}
		if admin = acc; len(a.keys.By(byAccount, string(acc.ID))) > 0 {
			return "", false, nil
		}
	}
	c := &vm.Call{Actor: vm.Actor{System: "first-start", Admin: true}}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpAccountCreate, Subject: "admin"})
	if err != nil {
		return "", false, err
	}
	defer func() { end(err, nil) }()
	if admin.ID == "" {
		admin = vm.Account{ID: vm.AccountID(vm.NewUUID()), Name: "admin", Admin: true, CreatedAt: a.now()}
		if err = a.addAccount(ctx, admin); err != nil {
			return "", false, err
		}
	}
	_, secret, err = a.addKey(ctx, admin.ID, "admin.key")
	return secret, err == nil, err
}
