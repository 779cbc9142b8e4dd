// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// CreateRequest describes a new repository.
type CreateRequest struct {
	Name          string // a label; "" = none
	Public        bool
	DefaultBranch string // "" = main
}

// A name is a label that cannot be mistaken for an id and is safe in a path and a URL.
var goodName = vm.NewPattern(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$`)

var uuid = vm.NewPattern(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func checkName(name string) error {
	if name == "" || goodName.MatchString(name) && !uuid.MatchString(name) && !strings.HasSuffix(name, ".git") && !strings.Contains(name, "..") {
		return nil
	}
	return vm.Errorf(vm.Invalid, vm.GuestPath(name).String(), "is not a name of a repository").WithCode("GIT_INVALID_REQUEST").
		WithHint("use up to 100 letters, digits, dots, dashes and underscores; begin with a letter or digit; do not end in .git")
}

// Create makes an empty repository. Kinds Denied for an identity, Invalid, Limit, and
// Exists with code REPO_ALREADY_EXISTS.
func (r *Repo) Create(ctx context.Context, c *vm.Call, req CreateRequest) (rec vm.Repository, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoCreate, req.Name, err) }()
	if err := ownersOnly(c, req.Name); err != nil {
		return rec, err
	}
	req.DefaultBranch = cmp.Or(req.DefaultBranch, "main")
	if err := cmp.Or(checkName(req.Name), checkBranch(req.DefaultBranch)); err != nil {
		return rec, err
	}
	rec = vm.Repository{
		ID: vm.NewUUID(), Account: c.Actor.Account, Name: req.Name, Public: req.Public, DefaultBranch: req.DefaultBranch,
		CreatedAt: r.cfg.Now().UTC(),
	}
	receipt, err := r.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpRepoCreate, Subject: rec.ID, Detail: map[string]any{"name": rec.Name, "public": rec.Public}})
	if err != nil {
		return rec, err
	}
	defer func() { receipt.End(err, nil) }()
	r.naming.Lock()
	defer r.naming.Unlock()
	if err := r.nameFree(rec.Account, rec.Name, ""); err != nil {
		return rec, err
	}
	if err := r.place(ctx, rec); err != nil {
		return rec, err
	}
	r.emit(c, "repo.created", rec, nil)
	return rec, nil
}

// place makes a repository's files and then its record. When the record cannot be
// stored, the files are removed; when the server ends between the two, the next start
// moves them aside.
func (r *Repo) place(ctx context.Context, rec vm.Repository) error {
	tmp := filepath.Join(r.cfg.Dir.RepoIncoming(), "new-"+rec.ID)
	if err := makeFiles(tmp, rec.DefaultBranch); err != nil {
		_ = os.RemoveAll(tmp)
		return err
	}
	dir := r.cfg.Dir.Repo(rec.ID)
	if err := layout.Publish(tmp, dir); err != nil {
		_ = os.RemoveAll(tmp)
		return err
	}
	if err := r.table.Create(ctx, rec); err != nil {
		if undo := os.RemoveAll(dir); undo != nil {
			r.cfg.Log.Warn("the files of a repository that was not made remain", "path", dir, "err", undo)
		}
		return err
	}
	return nil
}

// nameFree refuses a name that another repository of the account has.
func (r *Repo) nameFree(account vm.AccountID, name, except string) error {
	if name == "" {
		return nil
	}
	for _, other := range r.table.By(byName, string(account)+"/"+name) {
		if other.ID != except {
			return vm.Errorf(vm.Exists, name, "a repository has this name").WithCode("REPO_ALREADY_EXISTS", "repoId", other.ID).
				WithHint("choose another name; `warren repo ls` lists those that are taken")
		}
	}
	return nil
}

// Get returns a repository.
func (r *Repo) Get(_ context.Context, c *vm.Call, ref string) (vm.Repository, error) {
	rec, _, err := r.find(c, ref, Read)
	return rec, vm.WithOp(vm.OpGet, ref, err)
}

// Filter selects repositories of the caller's account.
type Filter struct {
	Search string // part of a name or an id; "" = all
	Limit  int    // 0 = all
	Offset int
}

// List returns repositories that the caller may read, newest first, and how many match
// in all.
func (r *Repo) List(_ context.Context, c *vm.Call, f Filter) (list []vm.Repository, total int, err error) {
	if f.Limit < 0 || f.Offset < 0 {
		return nil, 0, vm.WithOp(vm.OpList, "", vm.Errorf(vm.Invalid, "", "limit and offset are not negative").WithCode("GIT_INVALID_REQUEST"))
	}
	for _, rec := range r.table.By(byAccount, string(c.Actor.Account)) {
		if f.Search != "" && !strings.Contains(strings.ToLower(rec.Name), strings.ToLower(f.Search)) && !strings.Contains(rec.ID, f.Search) {
			continue
		}
		if r.rightOf(c.Actor, rec).Access != "" {
			list = append(list, rec)
		}
	}
	slices.SortFunc(list, func(a, b vm.Repository) int { return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	total = len(list)
	list = list[min(f.Offset, total):]
	if f.Limit > 0 {
		list = list[:min(f.Limit, len(list))]
	}
	return list, total, nil
}

// Change sets what is not nil.
type Change struct {
	Name          *string
	Public        *bool
	DefaultBranch *string
}

// Set changes a repository's record. Only keys of its account may.
func (r *Repo) Set(ctx context.Context, c *vm.Call, ref string, ch Change) (rec vm.Repository, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoChange, ref, err) }()
	detail := map[string]any{}
	if ch.Name != nil {
		if err := checkName(*ch.Name); err != nil {
			return rec, err
		}
		detail["name"] = *ch.Name
	}
	if ch.DefaultBranch != nil {
		if err := checkBranch(*ch.DefaultBranch); err != nil {
			return rec, err
		}
		detail["defaultBranch"] = *ch.DefaultBranch
	}
	if ch.Public != nil {
		detail["public"] = *ch.Public
	}
	rec, end, err := r.begin(ctx, c, vm.OpRepoChange, ref, detail)
	if err != nil {
		return rec, err
	}
	defer func() { end(err) }()
	r.naming.Lock()
	defer r.naming.Unlock()
	if ch.Name != nil {
		if err := r.nameFree(rec.Account, *ch.Name, rec.ID); err != nil {
			return rec, err
		}
	}
	rec, err = r.table.Change(ctx, rec.ID, func(rec *vm.Repository) error {
		if ch.Name != nil {
			rec.Name = *ch.Name
		}
		if ch.Public != nil {
			rec.Public = *ch.Public
		}
		if ch.DefaultBranch != nil {
			rec.DefaultBranch = *ch.DefaultBranch
		}
		return nil
	})
	if err != nil {
		return rec, err
	}
	r.emit(c, "repo.changed", rec, detail)
	return rec, writeOwn(r.cfg.Dir.Repo(rec.ID), rec.DefaultBranch) // a start repairs it after a crash here
}

// begin finds a repository that the caller owns, and writes the audit record of a
// change to it.
func (r *Repo) begin(ctx context.Context, c *vm.Call, op vm.Op, ref string, detail map[string]any) (vm.Repository, func(error), error) {
	rec, _, err := r.find(c, ref, Own)
	if err != nil {
		return rec, nil, err
	}
	receipt, err := r.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: op, Subject: rec.ID, Detail: detail})
	if err != nil {
		return rec, nil, err
	}
	return rec, func(err error) { receipt.End(err, nil) }, nil
}

const maxPatterns = 100 // of protected branches

// CheckPattern refuses what is not a pattern of branches; see vm.MatchBranch.
func CheckPattern(pattern string) error {
	plain := strings.ReplaceAll(strings.TrimPrefix(pattern, "refs/tags/"), "*", "x")
	if strings.Count(pattern, "*") <= 4 && checkBranch(plain) == nil {
		return nil
	}
	return vm.Errorf(vm.Invalid, vm.GuestPath(pattern).String(), "is not a pattern of branches").WithCode("GIT_INVALID_REQUEST").
		WithHint("use a name such as main, or release/* for one level, or agent/** for all below; at most four stars")
}

// Protect protects the branches that a pattern matches; see vm.MatchBranch. Only keys of
// the account may.
func (r *Repo) Protect(ctx context.Context, c *vm.Call, ref, pattern string) (vm.Repository, error) {
	if err := CheckPattern(pattern); err != nil {
		return vm.Repository{}, vm.WithOp(vm.OpRepoChange, ref, err)
	}
	return r.protection(ctx, c, ref, map[string]any{"protect": pattern}, func(rec *vm.Repository) error {
		if slices.Contains(rec.Protected, pattern) {
			return nil
		}
		if len(rec.Protected) >= maxPatterns {
			return vm.Errorf(vm.Limit, rec.ID, "it has %d patterns of protected branches, and may have no more", len(rec.Protected)).WithHint("use a wildcard: `release/*`")
		}
		rec.Protected = append(slices.Clone(rec.Protected), pattern)
		return nil
	})
}

// Unprotect removes a pattern that Protect added; kind NotFound when there is none.
func (r *Repo) Unprotect(ctx context.Context, c *vm.Call, ref, pattern string) (vm.Repository, error) {
	return r.protection(ctx, c, ref, map[string]any{"unprotect": pattern}, func(rec *vm.Repository) error {
		i := slices.Index(rec.Protected, pattern)
		if i < 0 {
			return vm.Errorf(vm.NotFound, vm.GuestPath(pattern).String(), "the repository does not protect this").WithCode("NOT_FOUND").
				WithHint("it protects: %s", cmp.Or(strings.Join(rec.Protected, ", "), "nothing"))
		}
		rec.Protected = slices.Delete(slices.Clone(rec.Protected), i, i+1)
		return nil
	})
}

func (r *Repo) protection(ctx context.Context, c *vm.Call, ref string, detail map[string]any, f func(*vm.Repository) error) (rec vm.Repository, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoChange, ref, err) }()
	rec, end, err := r.begin(ctx, c, vm.OpRepoChange, ref, detail)
	if err != nil {
		return rec, err
	}
	defer func() { end(err) }()
	if rec, err = r.table.Change(ctx, rec.ID, f); err == nil {
		r.emit(c, "repo.changed", rec, detail)
	}
	return rec, err
}

// Remove deletes a repository with its files and the permissions for it.
func (r *Repo) Remove(ctx context.Context, c *vm.Call, ref string) (err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRemove, ref, err) }()
	rec, _, err := r.find(c, ref, Own)
	if err != nil {
		return err
	}
	receipt, err := r.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpRepoRemove, Subject: rec.ID, Detail: map[string]any{"name": rec.Name}})
	if err != nil {
		return err
	}
	defer func() { receipt.End(err, nil) }()
	if err := r.drop(ctx, rec); err != nil {
		return err
	}
	r.emit(c, "repo.removed", rec, nil)
	return nil
}

// drop moves a repository's files away, drops its record, and deletes the files. If the
// record cannot be dropped, the files come back.
func (r *Repo) drop(ctx context.Context, rec vm.Repository) error {
	dir, away := r.cfg.Dir.Repo(rec.ID), filepath.Join(r.cfg.Dir.RepoIncoming(), removedPrefix+rec.ID)
	err := os.Rename(dir, away)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return layout.Error(dir, err)
	}
	moved := err == nil
	if err := r.table.Drop(ctx, rec.ID); err != nil {
		if moved {
			if undo := os.Rename(away, dir); undo != nil {
				r.cfg.Log.Error("the files of a repository were not moved back: the next start does it", "repository", rec.ID, "err", undo)
			}
		}
		return err
	}
	r.dropCats(rec.ID)
	if err := r.dropTriggers(ctx, rec.ID); err != nil {
		r.cfg.Log.Warn("triggers of a removed repository remain, without effect", "repository", rec.ID, "err", err)
	}
	if err := r.cfg.Access.DropRepoGrants(ctx, rec.ID); err != nil {
		r.cfg.Log.Warn("permissions for a removed repository remain, without effect", "repository", rec.ID, "err", err)
	}
	if err := os.RemoveAll(away); err != nil {
		r.cfg.Log.Warn("the files of a removed repository remain until the next start", "repository", rec.ID, "err", err)
	}
	return nil
}

// Owned is the number of repositories of an account.
func (r *Repo) Owned(account vm.AccountID) int { return len(r.table.By(byAccount, string(account))) }

// All returns the repositories of all accounts, by id.
func (r *Repo) All() []vm.Repository { return r.table.All() }

// Forget removes the repositories of an account that is deleted.
func (r *Repo) Forget(ctx context.Context, account vm.AccountID) error {
	for _, rec := range r.table.By(byAccount, string(account)) {
		if err := r.drop(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}

// emit stores an event about a repository.
func (r *Repo) emit(c *vm.Call, kind string, rec vm.Repository, data map[string]any) {
	out := map[string]any{"repoId": rec.ID}
	if rec.Name != "" {
		out["name"] = rec.Name
	}
	for k, v := range data {
		out[k] = v
	}
	r.cfg.Journal.Emit(vm.Event{Type: kind, VM: c.Actor.VM, Actor: actorName(c.Actor), Account: rec.Account, Data: out})
}
