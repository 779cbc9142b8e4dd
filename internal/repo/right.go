// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Need is the right that a verb needs.
type Need int

// The rights, each of which includes those before it.
const (
	Read  Need = iota // commits and contents
	Write             // refs, as far as right.MayPush allows
	Own               // the record: only keys of the account
)

// right is what a caller may do with a repository.
type right struct {
	vm.GitPermission
	owner bool // a key of the account
}

// rightOf returns the right of a caller. Every way in decides by it.
func (r *Repo) rightOf(who vm.Actor, rec vm.Repository) right {
	all := right{vm.GitPermission{Account: rec.Account, Repo: rec.ID, Access: vm.GitWrite}, true}
	public := right{GitPermission: vm.GitPermission{Account: rec.Account, Repo: rec.ID}}
	if rec.Public {
		public.Access = vm.GitRead
	}
	switch {
	case who.Account != rec.Account:
		return public
	case who.Identity == "" && who.VM == "":
		return all
	}
	if p, ok := r.cfg.Access.RepoRight(who, rec.ID); ok {
		return right{GitPermission: p}
	}
	return public
}

// find returns the repository that ref names, with the caller's right to it. A name is
// one of the caller's account, an id that of any account.
func (r *Repo) find(c *vm.Call, ref string, need Need) (vm.Repository, right, error) {
	rec, ok := r.table.Get(strings.ToLower(ref))
	if !ok && c.Actor.Account != "" {
		if list := r.table.By(byName, string(c.Actor.Account)+"/"+ref); len(list) > 0 {
			rec, ok = list[0], true
		}
	}
	shown := vm.GuestPath(vm.Clip(ref, 200)).String()
	if !ok {
		return rec, right{}, missing(shown)
	}
	p := r.rightOf(c.Actor, rec)
	switch {
	case p.Access == "" && rec.Account != c.Actor.Account:
		return vm.Repository{}, p, missing(shown)
	case p.Access == "":
		return vm.Repository{}, p, ungranted(c, shown, "the caller has no permission for this repository")
	case need >= Write && p.Access != vm.GitWrite:
		return vm.Repository{}, p, ungranted(c, shown, "the caller may only read this repository")
	case need == Own && (c.Actor.Identity != "" || c.Actor.VM != ""):
		return vm.Repository{}, p, ownersOnly(c, shown)
	}
	return rec, p, nil
}

// reach is find for a verb that needs the repository's files.
func (r *Repo) reach(c *vm.Call, ref string, need Need) (rec vm.Repository, p right, dir string, err error) {
	if rec, p, err = r.find(c, ref, need); err != nil {
		return rec, p, "", err
	}
	dir = r.cfg.Dir.Repo(rec.ID)
	if _, err := os.Stat(dir); err != nil {
		return rec, p, "", vm.Errorf(vm.Corrupt, rec.ID, "the files of the repository are gone").WithCode("GIT_SERVER_ERROR").
			WithHint("put them back from a backup to %s below the data directory, or remove the repository", filepath.Join("repos", rec.ID))
	}
	return rec, p, dir, nil
}

func denied(ref, why string) *vm.Error {
	return vm.Errorf(vm.Denied, ref, "%s", why).WithCode("REPOSITORY_ACCESS_DENIED", "repoId", ref).
		WithHint("the account's owner can grant it: `warren repo grant REPO --identity IDENTITY --write`")
}

// ungranted is denied, with the command that grants the right to the caller.
func ungranted(c *vm.Call, ref, why string) error {
	err := denied(ref, why)
	if c.Actor.VM != "" {
		return err.WithHint("the account's owner can grant it: `warren repo grant %s --vm %s --write`", ref, c.Actor.VM)
	}
	return err
}

// ownersOnly refuses an identity or a VM.
func ownersOnly(c *vm.Call, ref string) error {
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return denied(ref, "only the account's owner may do this").WithHint("use an API key of the account")
	}
	return nil
}

// mayChange refuses a change of a ref that the caller has no right to. branch is "" for
// what is no branch. deleted says that the ref is deleted.
func mayChange(rec *vm.Repository, p right, name string, deleted bool) error {
	branch, is := strings.CutPrefix(name, "refs/heads/")
	if !is {
		if !p.owner && !p.MayPush(name, false) {
			return denied(name, "the caller may not change this tag").WithHint("%s", grantHint(p))
		}
		return nil
	}
	protected := rec.Protects(branch)
	switch {
	case deleted && protected:
		return vm.Errorf(vm.Denied, branch, "the branch is protected and cannot be deleted").WithCode("REPOSITORY_ACCESS_DENIED", "branch", branch).
			WithHint("end its protection first: `warren repo unprotect %s %s`", cmp.Or(rec.Name, rec.ID), branch)
	case deleted && branch == rec.DefaultBranch:
		return vm.Errorf(vm.Denied, branch, "the default branch cannot be deleted").WithCode("REPOSITORY_ACCESS_DENIED", "branch", branch).
			WithHint("make another branch the default first")
	case p.owner || p.MayPush(branch, protected):
		return nil
	case protected && p.MayPush(branch, false):
		return denied(branch, "the branch is protected; the caller's permission does not name it").WithHint("push to a branch below agent/, and let the owner merge it")
	}
	return denied(branch, "the caller may not push to this branch").WithHint("%s", grantHint(p))
}

// grantHint names the branches that a caller may push to.
func grantHint(p right) string {
	patterns := p.Branches
	if len(patterns) == 0 {
		patterns = vm.AgentBranches
	}
	return "the caller may push to: " + strings.Join(patterns, ", ")
}

// actorName is who did something, for events and reflogs.
func actorName(a vm.Actor) string {
	switch {
	case a.System != "":
		return "system " + a.System
	case a.VM != "":
		return "vm " + string(a.VM)
	case a.Identity != "":
		return "identity " + string(a.Identity)
	}
	return "key " + string(a.Key)
}
