// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// CreateIdentity makes an identity of the caller's account, which has no rights yet. Its
// name is optional and unique in the account.
func (a *Access) CreateIdentity(ctx context.Context, c *vm.Call, name string) (i vm.Identity, err error) {
	defer func() { err = vm.WithOp(vm.OpIdentityCreate, name, err) }()
	if name != "" && !accountName.MatchString(name) {
		return i, vm.Errorf(vm.Invalid, name, "not a name for an identity").
			WithCode("INVALID_REQUEST").WithHint("use a-z, 0-9 and . _ @ -, beginning with a letter or digit")
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpIdentityCreate, Subject: name})
	if err != nil {
		return i, err
	}
	defer func() { end(err, map[string]any{"identity": string(i.ID)}) }()
	a.idWrite.Lock()
	defer a.idWrite.Unlock()
	if _, taken := a.identityOf(c.Actor.Account, name); taken {
		return i, vm.Errorf(vm.Exists, name, "an identity with this name exists").WithHint("choose another name")
	}
	i = vm.Identity{ID: vm.IdentityID(vm.NewUUID()), Account: c.Actor.Account, Name: name, CreatedAt: a.now()}
	if err = a.identities.Create(ctx, i); err != nil {
		return vm.Identity{}, err
	}
	a.cfg.Journal.Emit(vm.Event{Type: "identity.created", Account: i.Account, Data: map[string]any{"identity": string(i.ID), "name": name}})
	return i, nil
}

// identityOf finds an identity of an account by its id or name.
func (a *Access) identityOf(account vm.AccountID, ref string) (vm.Identity, bool) {
	if i, ok := a.identities.Get(vm.IdentityID(ref)); ok && i.Account == account {
		return i, true
	}
	return first(a.identities, byName, pair(account, ref))
}

// Identities returns one page of the identities of the caller's account, oldest first;
// total counts all.
func (a *Access) Identities(_ context.Context, c *vm.Call, p Page) (list []vm.Identity, total int, err error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, 0, vm.WithOp(vm.OpList, "identities", err)
	}
	list = a.identities.By(byAccount, string(c.Actor.Account))
	slices.SortStableFunc(list, func(a, b vm.Identity) int { return a.CreatedAt.Compare(b.CreatedAt) })
	total = len(list)
	list, err = page(list, p)
	return list, total, vm.WithOp(vm.OpList, "identities", err)
}

// FindIdentity finds an identity of the caller's account by its id or name, for rooms that
// grant things to identities. Kinds Denied and NotFound.
func (a *Access) FindIdentity(c *vm.Call, ref string) (vm.Identity, error) {
	return a.ownIdentity(c, ref)
}

// HasIdentity reports whether an identity exists in an account.
func (a *Access) HasIdentity(account vm.AccountID, id vm.IdentityID) bool {
	i, ok := a.identities.Get(id)
	return ok && i.Account == account
}

// ownIdentity finds an identity of the caller's account by its id or name.
func (a *Access) ownIdentity(c *vm.Call, ref string) (vm.Identity, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return vm.Identity{}, err
	}
	i, ok := a.identityOf(c.Actor.Account, ref)
	if _, there := a.identities.Get(vm.IdentityID(ref)); there && string(i.ID) != ref {
		return vm.Identity{}, vm.Errorf(vm.Denied, ref, "the identity belongs to another account").WithCode("IDENTITY_ACCESS_DENIED")
	}
	if !ok {
		return vm.Identity{}, vm.Errorf(vm.NotFound, ref, "no such identity").
			WithCode("IDENTITY_NOT_FOUND").WithHint("`warren identity ls` lists identities")
	}
	return i, nil
}

// DeleteIdentity removes an identity with its tokens, keys and permissions, and ends its
// sessions.
func (a *Access) DeleteIdentity(ctx context.Context, c *vm.Call, ref string) (i vm.Identity, err error) {
	defer func() { err = vm.WithOp(vm.OpIdentityDelete, ref, err) }()
	if i, err = a.ownIdentity(c, ref); err != nil {
		return i, err
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpIdentityDelete, Subject: string(i.ID)})
	if err != nil {
		return i, err
	}
	defer func() { end(err, nil) }()
	a.idWrite.Lock()
	defer a.idWrite.Unlock()
	return i, a.dropIdentity(ctx, i)
}

// dropIdentity removes an identity, then its tokens, keys and permissions. Those have no
// effect without the identity; the next start removes those that a crash leaves. The
// caller holds idWrite.
func (a *Access) dropIdentity(ctx context.Context, i vm.Identity) error {
	if err := a.identities.Drop(ctx, i.ID); err != nil {
		return err
	}
	a.recheck()
	a.cfg.Journal.Emit(vm.Event{Type: "identity.deleted", Account: i.Account, Data: map[string]any{"identity": string(i.ID), "name": i.Name}})
	return a.dropRights(ctx, i.ID)
}

// dropRights removes the tokens, SSH keys and permissions of an identity. The caller
// holds idWrite.
func (a *Access) dropRights(ctx context.Context, id vm.IdentityID) error {
	if err := dropAll(ctx, a.tokens.By(byIdentity, string(id)), a.dropToken); err != nil {
		return err
	}
	if err := dropAll(ctx, a.sshKeys.By(byIdentity, string(id)), a.dropSSHKey); err != nil {
		return err
	}
	if err := dropAll(ctx, a.grants.By(byIdentity, string(id)), a.dropGrant); err != nil {
		return err
	}
	return dropAll(ctx, a.repos.By(byIdentity, string(id)), a.dropRepoGrant)
}

// dropIdentitiesOf removes the identities of an account.
func (a *Access) dropIdentitiesOf(ctx context.Context, id vm.AccountID) error {
	a.idWrite.Lock()
	defer a.idWrite.Unlock()
	return dropAll(ctx, a.identities.By(byAccount, string(id)), a.dropIdentity)
}

// prune removes records of identities that are gone, and permissions for VMs that are
// gone, after a crash between two removals.
func (a *Access) prune(ctx context.Context) error {
	a.idWrite.Lock()
	defer a.idWrite.Unlock()
	owners := map[vm.IdentityID]bool{}
	for _, t := range a.tokens.All() {
		owners[t.Identity] = true
	}
	for _, k := range a.sshKeys.All() {
		owners[k.Identity] = true
	}
	for _, p := range a.repos.All() {
		owners[p.Identity] = true
	}
	var lost []vm.VMPermission
	for _, p := range a.grants.All() {
		owners[p.Identity] = true
		if _, there := a.rooms.VMs.VMOf(p.VM); !there {
			lost = append(lost, p)
		}
	}
	for _, u := range a.identities.Unreadable() { // they are there
		delete(owners, vm.IdentityID(u.ID))
	}
	for id := range owners {
		if _, ok := a.identities.Get(id); ok {
			continue
		}
		if err := a.dropRights(ctx, id); err != nil {
			return err
		}
	}
	return dropAll(ctx, lost, a.dropGrant)
}
