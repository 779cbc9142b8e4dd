// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// Page is one page of a list. The zero value is all of it.
type Page struct {
	Limit  int // 0 = all
	Offset int
}

func page[T any](list []T, p Page) ([]T, error) {
	if p.Limit < 0 || p.Offset < 0 {
		return nil, (&vm.Error{Kind: vm.Invalid, Msg: "limit and offset must not be negative"}).WithCode("INVALID_REQUEST")
	}
	list = list[min(p.Offset, len(list)):]
	if p.Limit > 0 {
		list = list[:min(p.Limit, len(list))]
	}
	return list, nil
}

// CreateIdentity makes an identity of the caller's account that may do nothing
// yet. A name is optional, and is no other's in the account.
func (e *Engine) CreateIdentity(ctx context.Context, c *vm.Call, name string) (i vm.Identity, err error) {
	defer func() { err = fail(vm.OpIdentityCreate, name, err) }()
	if name != "" && !accountName.MatchString(name) {
		return i, vm.Errorf(vm.Invalid, name, "not a name for an identity").
			WithCode("INVALID_REQUEST").WithHint("use a-z, 0-9 and . _ @ -, beginning with a letter or digit")
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpIdentityCreate, Subject: name})
	if err != nil {
		return i, err
	}
	defer func() { r.End(err, map[string]any{"identity": string(i.ID)}) }()
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	i = vm.Identity{ID: vm.IdentityID(vm.NewUUID()), Account: c.Actor.Account, Name: name, CreatedAt: e.now()}
	if err := e.identityNameFree(i); err != nil {
		return vm.Identity{}, err
	}
	if i.Revision, err = saved(ctx, i, e.cfg.Records.Identities.Create); err != nil {
		return vm.Identity{}, err
	}
	e.mu.Lock()
	e.rights.identities[i.ID] = i
	e.mu.Unlock()
	e.cfg.Journal.Emit(vm.Event{Type: "identity.created", Account: i.Account, Data: map[string]any{"identity": string(i.ID), "name": name}})
	return i, nil
}

func (e *Engine) identityNameFree(i vm.Identity) error {
	if i.Name == "" {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.rights.identities {
		if o.Account == i.Account && (o.Name == i.Name || string(o.ID) == i.Name) {
			return vm.Errorf(vm.Exists, i.Name, "an identity with this name exists").WithHint("choose another name")
		}
	}
	return nil
}

// Identities lists the identities of the caller's account, oldest first, one
// page of them; total counts all.
func (e *Engine) Identities(_ context.Context, c *vm.Call, p Page) (list []vm.Identity, total int, err error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, 0, fail(vm.OpList, "identities", err)
	}
	e.mu.Lock()
	for _, i := range e.rights.identities {
		if i.Account == c.Actor.Account {
			list = append(list, i)
		}
	}
	e.mu.Unlock()
	slices.SortFunc(list, func(a, b vm.Identity) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	total = len(list)
	list, err = page(list, p)
	return list, total, fail(vm.OpList, "identities", err)
}

// ownIdentity finds an identity of the caller's account by id or name.
func (e *Engine) ownIdentity(c *vm.Call, ref string) (vm.Identity, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return vm.Identity{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if i, ok := e.rights.identities[vm.IdentityID(ref)]; ok {
		if i.Account == c.Actor.Account {
			return i, nil
		}
		return vm.Identity{}, vm.Errorf(vm.Denied, ref, "the identity belongs to another account").WithCode("IDENTITY_ACCESS_DENIED")
	}
	for _, i := range e.rights.identities {
		if i.Account == c.Actor.Account && i.Name == ref && ref != "" {
			return i, nil
		}
	}
	return vm.Identity{}, vm.Errorf(vm.NotFound, ref, "no such identity").
		WithCode("IDENTITY_NOT_FOUND").WithHint("`warren identity ls` lists identities")
}

// DeleteIdentity removes an identity with its tokens, keys and permissions. All
// that acts as it is cut.
func (e *Engine) DeleteIdentity(ctx context.Context, c *vm.Call, ref string) (i vm.Identity, err error) {
	defer func() { err = fail(vm.OpIdentityDelete, ref, err) }()
	if i, err = e.ownIdentity(c, ref); err != nil {
		return i, err
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpIdentityDelete, Subject: string(i.ID)})
	if err != nil {
		return i, err
	}
	defer func() { r.End(err, nil) }()
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	return i, e.dropIdentity(ctx, i)
}

// dropIdentity removes an identity and all that is its own. Its own record goes
// first: without it the rest counts for nothing, and a later engine removes
// what is left. The caller holds idWrite.
func (e *Engine) dropIdentity(ctx context.Context, i vm.Identity) error {
	if _, err := saved(ctx, i, deleting(e.cfg.Records.Identities)); err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.rights.identities, i.ID)
	e.cutLocked()
	e.mu.Unlock()
	e.cfg.Journal.Emit(vm.Event{Type: "identity.deleted", Account: i.Account, Data: map[string]any{"identity": string(i.ID), "name": i.Name}})
	return e.pruneRights(ctx)
}

// dropIdentitiesOf removes the identities of an account.
func (e *Engine) dropIdentitiesOf(ctx context.Context, id vm.AccountID) error {
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	e.mu.Lock()
	var own []vm.Identity
	for _, i := range e.rights.identities {
		if i.Account == id {
			own = append(own, i)
		}
	}
	e.mu.Unlock()
	for _, i := range own {
		if err := e.dropIdentity(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// pruneRights removes tokens, keys and permissions of identities that are gone,
// and permissions for VMs that are. The caller holds idWrite.
func (e *Engine) pruneRights(ctx context.Context) error {
	e.mu.Lock()
	orphan := func(id vm.IdentityID) bool { _, ok := e.rights.identities[id]; return !ok }
	var tokens []vm.IdentityToken
	for _, t := range e.rights.tokens {
		if orphan(t.Identity) {
			tokens = append(tokens, t)
		}
	}
	var keys []vm.IdentityKey
	for _, k := range e.rights.keys {
		if orphan(k.Identity) {
			keys = append(keys, k)
		}
	}
	var grants []vm.VMPermission
	for _, p := range e.rights.grants {
		if e.vms[p.VM] == nil || orphan(p.Identity) {
			grants = append(grants, p)
		}
	}
	var repos []vm.GitPermission
	for _, p := range e.rights.repos {
		if orphan(p.Identity) {
			repos = append(repos, p)
		}
	}
	e.mu.Unlock()
	for _, t := range tokens {
		if err := e.dropToken(ctx, t); err != nil {
			return err
		}
	}
	for _, k := range keys {
		if err := e.dropSSHKey(ctx, k); err != nil {
			return err
		}
	}
	for _, p := range grants {
		if err := e.dropGrant(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range repos {
		if err := e.dropRepoGrant(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// loadRights reads identities and what they may do into memory, and drops what
// belongs to none.
func (e *Engine) loadRights(ctx context.Context) error {
	e.rights = rights{
		identities: map[vm.IdentityID]vm.Identity{}, tokens: map[vm.TokenID]vm.IdentityToken{}, byHash: map[string]vm.TokenID{},
		keys: map[vm.SSHKeyID]vm.IdentityKey{}, grants: map[grant]vm.VMPermission{}, repos: map[repoGrant]vm.GitPermission{},
		sessions: map[*session]struct{}{},
	}
	rec := e.cfg.Records
	for _, load := range []func() error{
		func() error { return each(ctx, rec.Identities, func(i vm.Identity) { e.rights.identities[i.ID] = i }) },
		func() error {
			return each(ctx, rec.Tokens, func(t vm.IdentityToken) { e.rights.tokens[t.ID], e.rights.byHash[t.Hash] = t, t.ID })
		},
		func() error { return each(ctx, rec.SSHKeys, func(k vm.IdentityKey) { e.rights.keys[k.ID] = k }) },
		func() error {
			return each(ctx, rec.VMPermissions, func(p vm.VMPermission) { e.rights.grants[grant{p.Identity, p.VM}] = p })
		},
		func() error {
			return each(ctx, rec.GitPermissions, func(p vm.GitPermission) { e.rights.repos[repoGrant{p.Identity, p.Repo}] = p })
		},
	} {
		if err := load(); err != nil {
			return err
		}
	}
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	return e.pruneRights(ctx)
}

// each calls f for every record.
func each[T any](ctx context.Context, c Collection[T], f func(T)) error {
	list, err := c.List(ctx)
	for _, rec := range list {
		f(rec)
	}
	return err
}
