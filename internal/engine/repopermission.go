// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// RepoPermission is a permission with the repository that it is for.
type RepoPermission struct {
	vm.GitPermission
	Repository vm.Repository
}

// repository finds a repository of the caller's account.
func (e *Engine) repository(ctx context.Context, c *vm.Call, id string) (vm.Repository, error) {
	missing := vm.Errorf(vm.NotFound, id, "no such repository").WithCode("GIT_REPOSITORY_NOT_FOUND")
	if e.cfg.Repositories == nil {
		return vm.Repository{}, missing
	}
	r, err := e.cfg.Repositories.Repository(ctx, id)
	switch {
	case vm.KindOf(err) == vm.NotFound:
		return r, missing
	case err == nil && r.Account != c.Actor.Account:
		return r, vm.Errorf(vm.Denied, id, "the repository belongs to another account").WithCode("GIT_REPOSITORY_ACCESS_DENIED")
	}
	return r, err
}

// GrantRepo lets an identity use a repository. change says whether there is a
// permission already; kinds Exists and NotFound when that is not so.
func (e *Engine) GrantRepo(ctx context.Context, c *vm.Call, identity, repo string, access vm.GitAccess, change bool) (err error) {
	defer func() { err = fail(vm.OpGrant, repo, err) }()
	i, err := e.ownIdentity(c, identity)
	if err != nil {
		return err
	}
	if access != vm.GitRead && access != vm.GitWrite {
		return vm.Errorf(vm.Invalid, string(access), "not an access to a repository").WithCode("INVALID_REQUEST").WithHint("use read or write")
	}
	found, err := e.repository(ctx, c, repo)
	if err != nil {
		return err
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpGrant, Subject: string(i.ID), Detail: map[string]any{"repo": found.ID, "access": string(access)}})
	if err != nil {
		return err
	}
	defer func() { r.End(err, nil) }()
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	if i, err = e.ownIdentity(c, string(i.ID)); err != nil { // as it is now
		return err
	}
	at := repoGrant{i.ID, found.ID}
	e.mu.Lock()
	p, ok := e.rights.repos[at]
	e.mu.Unlock()
	write := e.cfg.Records.GitPermissions.Update
	switch {
	case ok && !change:
		return vm.Errorf(vm.Exists, repo, "the identity has a permission for this repository").
			WithCode("PERMISSION_ALREADY_EXISTS").WithHint("change it with PUT")
	case !ok && change:
		return noRepoPermission(repo)
	case !ok:
		write = e.cfg.Records.GitPermissions.Create
		p = vm.GitPermission{ID: vm.NewUUID(), Identity: i.ID, Account: i.Account, Repo: found.ID}
	}
	p.Access, p.GrantedAt = access, e.now()
	if p.Revision, err = saved(ctx, p, write); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rights.repos[at] = p
	return nil
}

func noRepoPermission(repo string) error {
	return vm.Errorf(vm.NotFound, repo, "the identity has no permission for this repository").WithCode("PERMISSION_NOT_FOUND")
}

// RepoAccess says what an identity may do with a repository; "" = nothing.
func (e *Engine) RepoAccess(ctx context.Context, c *vm.Call, identity, repo string) (vm.GitPermission, error) {
	i, err := e.ownIdentity(c, identity)
	if err != nil {
		return vm.GitPermission{}, fail(vm.OpGet, repo, err)
	}
	found, err := e.repository(ctx, c, repo)
	if err != nil {
		return vm.GitPermission{}, fail(vm.OpGet, repo, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p, ok := e.rights.repos[repoGrant{i.ID, found.ID}]
	if !ok {
		p = vm.GitPermission{Identity: i.ID, Account: i.Account, Repo: found.ID}
	}
	return p, nil
}

// RepoPermissions lists an identity's permissions for repositories, oldest
// first, one page of them. One whose repository is gone is not listed.
func (e *Engine) RepoPermissions(ctx context.Context, c *vm.Call, identity string, pg Page) ([]RepoPermission, error) {
	i, err := e.ownIdentity(c, identity)
	if err != nil {
		return nil, fail(vm.OpList, identity, err)
	}
	e.mu.Lock()
	var list []vm.GitPermission
	for _, p := range e.rights.repos {
		if p.Identity == i.ID {
			list = append(list, p)
		}
	}
	e.mu.Unlock()
	slices.SortFunc(list, func(a, b vm.GitPermission) int {
		return cmp.Or(a.GrantedAt.Compare(b.GrantedAt), cmp.Compare(a.ID, b.ID))
	})
	var out []RepoPermission
	for _, p := range list {
		switch r, err := e.repository(ctx, c, p.Repo); {
		case err == nil:
			out = append(out, RepoPermission{p, r})
		case vm.KindOf(err) != vm.NotFound:
			return nil, fail(vm.OpList, identity, err)
		}
	}
	out, err = page(out, pg)
	return out, fail(vm.OpList, identity, err)
}

// RevokeRepo takes an identity's permission for a repository back.
func (e *Engine) RevokeRepo(ctx context.Context, c *vm.Call, identity, repo string) (err error) {
	defer func() { err = fail(vm.OpRevoke, repo, err) }()
	p, err := e.RepoAccess(ctx, c, identity, repo)
	if err != nil {
		return err
	}
	if p.Access == "" {
		return noRepoPermission(repo)
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpRevoke, Subject: string(p.Identity), Detail: map[string]any{"repo": p.Repo}})
	if err != nil {
		return err
	}
	defer func() { r.End(err, nil) }()
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	return e.dropRepoGrant(ctx, p)
}

// dropRepoGrant removes a permission durably, then from memory. The caller
// holds idWrite.
func (e *Engine) dropRepoGrant(ctx context.Context, p vm.GitPermission) error {
	at := repoGrant{p.Identity, p.Repo}
	e.mu.Lock()
	p, ok := e.rights.repos[at] // as it is now
	e.mu.Unlock()
	if !ok {
		return nil
	}
	if _, err := saved(ctx, p, deleting(e.cfg.Records.GitPermissions)); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.rights.repos, at)
	return nil
}
