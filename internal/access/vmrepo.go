// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// maxVMRepos bounds the repositories of one VM.
const maxVMRepos = 100

// GrantVMRepo lets the programs of a VM use a repository of its account as the VM itself,
// or changes what they may do. Without branches the VM may push below agent/NAME/ and
// agent/ID/ only. Kinds NotFound, Denied, Invalid and Limit.
func (a *Access) GrantVMRepo(ctx context.Context, c *vm.Call, ref, repo string, access vm.GitAccess, branches []string) (v vm.VM, err error) {
	defer func() { err = vm.WithOp(vm.OpGrant, repo, err) }()
	switch {
	case access != vm.GitRead && access != vm.GitWrite:
		return v, vm.Errorf(vm.Invalid, string(access), "not an access mode for a repository").WithCode("INVALID_REQUEST").WithHint("use read or write")
	case access == vm.GitRead && len(branches) > 0:
		return v, vm.Errorf(vm.Invalid, repo, "branches to push to need write access").WithCode("INVALID_REQUEST")
	case len(branches) > maxVMRepos || slices.ContainsFunc(branches, notBranch):
		return v, vm.Errorf(vm.Invalid, repo, "not a list of patterns of branches").WithCode("INVALID_REQUEST").WithHint("such as main, release/* or agent/**")
	}
	found, err := a.repository(ctx, c, repo)
	if err != nil {
		return v, err
	}
	grant := vm.RepoGrant{Repo: found.ID, Access: access, Branches: slices.Clone(branches), GrantedAt: a.now()}
	detail := map[string]any{"repo": found.ID, "access": string(access), "branches": branches}
	return a.changeVMRepos(ctx, c, ref, vm.OpGrant, detail, func(list []vm.RepoGrant) ([]vm.RepoGrant, error) {
		list = slices.DeleteFunc(list, func(g vm.RepoGrant) bool { return g.Repo == found.ID })
		if len(list) >= maxVMRepos {
			return nil, vm.Errorf(vm.Limit, ref, "the VM has %d repositories", maxVMRepos).WithHint("revoke one first: `warren repo revoke REPO --vm NAME`")
		}
		return append(list, grant), nil
	})
}

func notBranch(pattern string) bool {
	return pattern == "" || len(pattern) > 256 || strings.ContainsAny(pattern, " ~^:?[\\\x00\n\t") || strings.HasPrefix(pattern, "-")
}

// RevokeVMRepo ends a VM's use of a repository, and the sessions that use it.
func (a *Access) RevokeVMRepo(ctx context.Context, c *vm.Call, ref, repo string) (v vm.VM, err error) {
	defer func() { err = vm.WithOp(vm.OpRevoke, repo, err) }()
	return a.changeVMRepos(ctx, c, ref, vm.OpRevoke, map[string]any{"repo": repo}, func(list []vm.RepoGrant) ([]vm.RepoGrant, error) {
		kept := slices.DeleteFunc(list, func(g vm.RepoGrant) bool { return g.Repo == repo })
		if len(kept) == len(list) {
			return nil, noVMRepo(repo)
		}
		return kept, nil
	})
}

func noVMRepo(repo string) error {
	return vm.Errorf(vm.NotFound, repo, "the VM has no permission for this repository").WithCode("PERMISSION_NOT_FOUND").
		WithHint("`warren repo grant REPO --vm NAME` gives it one")
}

// changeVMRepos replaces the grants of a VM, with one audit record. change gets a copy.
func (a *Access) changeVMRepos(ctx context.Context, c *vm.Call, ref string, op vm.Op, detail map[string]any, change func([]vm.RepoGrant) ([]vm.RepoGrant, error)) (v vm.VM, err error) {
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return v, err
	}
	if v, err = a.rooms.VMs.Find(c.Actor, ref); err != nil {
		return v, err
	}
	if _, err := change(slices.Clone(v.Repos)); err != nil { // before an audit record says that it was tried
		return v, err
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: op, VM: v.ID, Detail: detail})
	if err != nil {
		return v, err
	}
	defer func() { end(err, nil) }()
	v, err = a.rooms.VMs.ChangeRepos(ctx, v.ID, change)
	if err == nil {
		a.recheck()
	}
	return v, err
}
