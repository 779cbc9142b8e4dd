// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// RepoPermission is a permission with its repository.
type RepoPermission struct {
	vm.GitPermission
	Repository vm.Repository
}

// repository finds a repository of the caller's account.
func (a *Access) repository(ctx context.Context, c *vm.Call, id string) (vm.Repository, error) {
	missing := vm.Errorf(vm.NotFound, id, "no such repository").WithCode("GIT_REPOSITORY_NOT_FOUND")
	if a.rooms.Repositories == nil {
		return vm.Repository{}, missing
	}
	r, err := a.rooms.Repositories.Repository(ctx, id)
	switch {
	case vm.KindOf(err) == vm.NotFound:
		return r, missing
	case err == nil && r.Account != c.Actor.Account:
		return r, vm.Errorf(vm.Denied, id, "the repository belongs to another account").WithCode("GIT_REPOSITORY_ACCESS_DENIED")
	}
	return r, err
}

// GrantRepo lets an identity use a repository. Without change the identity must have
// no permission for it yet, kind Exists; with change it must have one, kind NotFound.
// branches are patterns of the branches that it may push to; none = vm.AgentBranches.
func (a *Access) GrantRepo(ctx context.Context, c *vm.Call, identity, repo string, access vm.GitAccess, change bool, branches ...string) (err error) {
	defer func() { err = vm.WithOp(vm.OpGrant, repo, err) }()
	i, err := a.ownIdentity(c, identity)
	if err != nil {
		return err
	}
	if access != vm.GitRead && access != vm.GitWrite {
		return vm.Errorf(vm.Invalid, string(access), "not an access mode for a repository").WithCode("INVALID_REQUEST").WithHint("use read or write")
	}
	found, err := a.repository(ctx, c, repo)
	if err != nil {
		return err
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpGrant, Subject: string(i.ID), Detail: map[string]any{"repo": found.ID, "access": string(access), "branches": branches}})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	a.idWrite.Lock()
	defer a.idWrite.Unlock()
	if i, err = a.ownIdentity(c, string(i.ID)); err != nil { // it may have been deleted meanwhile
		return err
	}
	old, ok := first(a.repos, byGrant, pair(i.ID, found.ID))
	switch {
	case ok && !change:
		return vm.Errorf(vm.Exists, repo, "the identity has a permission for this repository").
			WithCode("PERMISSION_ALREADY_EXISTS").WithHint("change it with PUT")
	case !ok && change:
		return noRepoPermission(repo)
	case !ok:
		return a.repos.Create(ctx, vm.GitPermission{
			ID: vm.NewUUID(), Identity: i.ID, Account: i.Account, Repo: found.ID, Access: access, Branches: branches, GrantedAt: a.now(),
		})
	}
	_, err = a.repos.Change(ctx, old.ID, func(p *vm.GitPermission) error {
		p.Access, p.Branches, p.GrantedAt = access, branches, a.now()
		return nil
	})
	if err == nil {
		a.recheck()
	}
	return err
}

func noRepoPermission(repo string) error {
	return vm.Errorf(vm.NotFound, repo, "the identity has no permission for this repository").WithCode("PERMISSION_NOT_FOUND")
}

// RepoAccess returns what an identity may do with a repository; Access "" = nothing.
func (a *Access) RepoAccess(ctx context.Context, c *vm.Call, identity, repo string) (vm.GitPermission, error) {
	i, err := a.ownIdentity(c, identity)
	if err != nil {
		return vm.GitPermission{}, vm.WithOp(vm.OpGet, repo, err)
	}
	found, err := a.repository(ctx, c, repo)
	if err != nil {
		return vm.GitPermission{}, vm.WithOp(vm.OpGet, repo, err)
	}
	p, ok := first(a.repos, byGrant, pair(i.ID, found.ID))
	if !ok {
		p = vm.GitPermission{Identity: i.ID, Account: i.Account, Repo: found.ID}
	}
	return p, nil
}

// RepoPermissions returns one page of an identity's permissions for repositories, oldest
// first, without those whose repository is gone.
func (a *Access) RepoPermissions(ctx context.Context, c *vm.Call, identity string, pg Page) ([]RepoPermission, error) {
	i, err := a.ownIdentity(c, identity)
	if err != nil {
		return nil, vm.WithOp(vm.OpList, identity, err)
	}
	list := a.repos.By(byIdentity, string(i.ID))
	slices.SortStableFunc(list, func(a, b vm.GitPermission) int { return a.GrantedAt.Compare(b.GrantedAt) })
	var out []RepoPermission
	for _, p := range list {
		switch r, err := a.repository(ctx, c, p.Repo); {
		case err == nil:
			out = append(out, RepoPermission{p, r})
		case vm.KindOf(err) != vm.NotFound:
			return nil, vm.WithOp(vm.OpList, identity, err)
		}
	}
	out, err = page(out, pg)
	return out, vm.WithOp(vm.OpList, identity, err)
}

// RepoRight returns the permission of an identity or a VM for a repository of its
// account, by the repository's id; ok is false if it has none.
func (a *Access) RepoRight(who vm.Actor, repo string) (p vm.GitPermission, ok bool) {
	if who.Identity != "" {
		return first(a.repos, byGrant, pair(who.Identity, repo))
	}
	v, known := a.rooms.VMs.VMOf(who.VM)
	if !known || v.Account != who.Account {
		return p, false
	}
	g, ok := v.RepoGrant(repo)
	return vm.GitPermission{Account: v.Account, Repo: repo, Access: g.Access, Branches: g.Branches, GrantedAt: g.GrantedAt}, ok
}

// DropRepoGrants removes the permissions of all identities for a repository that is gone.
func (a *Access) DropRepoGrants(ctx context.Context, repo string) error {
	return dropAll(ctx, a.repos.By(byRepo, repo), a.dropRepoGrant)
}

// RevokeRepo removes an identity's permission for a repository.
func (a *Access) RevokeRepo(ctx context.Context, c *vm.Call, identity, repo string) (err error) {
	defer func() { err = vm.WithOp(vm.OpRevoke, repo, err) }()
	p, err := a.RepoAccess(ctx, c, identity, repo)
	if err != nil {
		return err
	}
	if p.Access == "" {
		return noRepoPermission(repo)
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpRevoke, Subject: string(p.Identity), Detail: map[string]any{"repo": p.Repo}})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	return a.dropRepoGrant(ctx, p)
}

func (a *Access) dropRepoGrant(ctx context.Context, p vm.GitPermission) error {
	err := a.repos.Drop(ctx, p.ID)
	if err == nil {
		a.recheck()
	}
	return err
}
