// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// TestRecords: repositories are made, found by id and name, listed, changed and removed,
// each within its account.
func TestRecords(t *testing.T) {
	h := newHost(t)
	ann, _ := h.account("ann")
	bob, _ := h.account("bob")
	ctx := t.Context()
	code := h.create(ann, repo.CreateRequest{Name: "code"})
	h.create(ann, repo.CreateRequest{})
	h.create(bob, repo.CreateRequest{Name: "code"})
	if got, err := h.room.Get(ctx, ann, "code"); err != nil || got.ID != code.ID || got.DefaultBranch != "main" {
		t.Errorf("by its name it is %+v, %v", got, err)
	}
	_, err := h.room.Create(ctx, ann, repo.CreateRequest{Name: "code"})
	h.refusal("a name that is taken", err, vm.Exists, "REPO_ALREADY_EXISTS")
	for _, name := range []string{"a/b", "..", ".x", "a\nb", "a b", code.ID, "x.git", strings.Repeat("a", 101), "ü"} {
		_, err := h.room.Create(ctx, ann, repo.CreateRequest{Name: name})
		h.refusal("the name "+name, err, vm.Invalid, "GIT_INVALID_REQUEST")
	}
	_, err = h.room.Create(ctx, ann, repo.CreateRequest{DefaultBranch: "a..b"})
	h.refusal("a bad default branch", err, vm.Invalid, "GIT_INVALID_REQUEST")
	agent, _ := h.identity(ann, "agent")
	_, err = h.room.Create(ctx, agent, repo.CreateRequest{})
	h.refusal("an identity makes one", err, vm.Denied, "REPOSITORY_ACCESS_DENIED")
	if list, total, err := h.room.List(ctx, ann, repo.Filter{Limit: 1}); err != nil || len(list) != 1 || total != 2 {
		t.Errorf("a page of the list has %d of %d, %v", len(list), total, err)
	}
	if list, total, err := h.room.List(ctx, ann, repo.Filter{Search: "COD"}); err != nil || total != 1 || list[0].ID != code.ID {
		t.Errorf("a search gives %+v, %v", list, err)
	}
	if _, total, err := h.room.List(ctx, agent, repo.Filter{}); err != nil || total != 0 {
		t.Errorf("an identity without permissions sees %d, %v", total, err)
	}
	name, branch := "renamed", "trunk"
	_, err = h.room.Set(ctx, ann, "code", repo.Change{Name: &name, DefaultBranch: &branch})
	h.must(err)
	made := h.commit(ann, code, "", "m", map[string]string{"a": "x"})
	if b, err := h.room.Branch(ctx, ann, name, "trunk"); err != nil || b.Commit != made.SHA || !b.Default {
		t.Errorf("the new default branch is %+v, %v", b, err)
	}
	h.must(h.GrantRepo(ctx, ann, "agent", code.ID, vm.GitRead, false))
	h.must(h.room.Remove(ctx, ann, name))
	_, err = h.room.Get(ctx, ann, code.ID)
	h.refusal("a removed one", err, vm.NotFound, "REPOSITORY_NOT_FOUND")
	if _, err := os.Stat(h.site.Dir.Repo(code.ID)); !os.IsNotExist(err) {
		t.Errorf("the files of a removed repository: %v", err)
	}
	if list, err := h.RepoPermissions(ctx, ann, "agent", access.Page{}); err != nil || len(list) != 0 {
		t.Errorf("the permissions for a removed repository are %+v, %v", list, err)
	}
	h.refusal("an account with a repository is removed without force", h.RemoveAccount(ctx, h.call, bob.Actor.Account, false), vm.Busy, "")
	h.must(h.RemoveAccount(ctx, h.call, bob.Actor.Account, true))
	if n := h.room.Owned(bob.Actor.Account); n != 0 {
		t.Errorf("a removed account has %d repositories", n)
	}
}

// TestReconcile: a start makes files and records agree: it moves aside what has no
// record, deletes objects that never joined, finishes removals and undoes those whose
// record is still there, and keeps a record whose files are gone.
func TestReconcile(t *testing.T) {
	h := newHost(t)
	owner, key := h.account("ann")
	kept := h.create(owner, repo.CreateRequest{Name: "kept"})
	tip := h.commit(owner, kept, "", "m", map[string]string{"a": "x"})
	half := h.create(owner, repo.CreateRequest{Name: "half"})
	gone := h.create(owner, repo.CreateRequest{Name: "gone"})
	h.close(h.House)
	d := h.site.Dir
	stray, removed := vm.NewUUID(), vm.NewUUID()
	for _, path := range []string{d.Repo(stray), filepath.Join(d.RepoIncoming(), "x", "objects"), filepath.Join(d.RepoIncoming(), "removed-"+removed)} {
		h.must(os.MkdirAll(path, 0o700))
	}
	h.must(os.Rename(d.Repo(half.ID), filepath.Join(d.RepoIncoming(), "removed-"+half.ID)))
	h.must(os.RemoveAll(d.Repo(gone.ID)))
	h.must(os.WriteFile(filepath.Join(d.Repo(kept.ID), "refs", "heads", "main.lock"), nil, 0o600))
	h.must(os.WriteFile(filepath.Join(d.Repo(kept.ID), "config"), []byte("[core]\n\tbare = true\n\thooksPath = /tmp\n"), 0o600))
	h.open()
	if left, err := os.ReadDir(d.RepoIncoming()); err != nil || len(left) != 0 {
		t.Errorf("%d directories of incoming objects are left, %v", len(left), err)
	}
	if _, err := os.Stat(filepath.Join(d.Unrecorded(), "repos", stray)); err != nil {
		t.Errorf("the directory without a record was not moved aside: %v", err)
	}
	if _, err := h.room.Branches(t.Context(), owner, half.ID); err != nil {
		t.Errorf("a removal that had not dropped the record is not undone: %v", err)
	}
	if _, err := h.room.Get(t.Context(), owner, gone.ID); err != nil {
		t.Errorf("the record of lost files: %v", err)
	}
	_, err := h.room.Branches(t.Context(), owner, gone.ID)
	h.refusal("branches of a repository whose files are gone", err, vm.Corrupt, "GIT_SERVER_ERROR")
	h.must(h.room.Remove(t.Context(), owner, gone.ID))
	if text, err := os.ReadFile(filepath.Join(d.Repo(kept.ID), "config")); err != nil || strings.Contains(string(text), "hooksPath") {
		t.Errorf("the configuration is %q, %v", text, err)
	}
	next := h.commit(owner, kept, "", "m", map[string]string{"a": "y"})
	if len(next.Parents) != 1 || next.Parents[0] != tip.SHA {
		t.Errorf("after the restart a commit has the parents %v, want %s", next.Parents, tip.SHA)
	}
	newClient(t).git("clone", "-q", h.remote(kept, key), ".")
}

// TestCreateFails: a repository whose record cannot be stored leaves no files.
func TestCreateFails(t *testing.T) {
	h := newHost(t)
	owner, _ := h.account("ann")
	h.site.Backend.Fault = func(_ bool, ops []ledger.Op) error {
		if ops[0].Kind == "repositories" {
			return vm.Errorf(vm.NoSpace, "", "the store is full")
		}
		return nil
	}
	if _, err := h.room.Create(t.Context(), owner, repo.CreateRequest{}); vm.KindOf(err) != vm.NoSpace {
		t.Errorf("a create without its record gives %v, want kind %s", err, vm.NoSpace)
	}
	h.site.Backend.Fault = nil
	if left, err := os.ReadDir(h.site.Dir.Repos()); err != nil || len(left) != 1 {
		t.Errorf("%d directories are left, want that of incoming objects: %v", len(left), err)
	}
}

// TestEvents: each change of a ref is an event with the ids before and after, and an
// audit record of who did it.
func TestEvents(t *testing.T) {
	h := newHost(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{Name: "code"})
	first := h.commit(owner, rec, "", "m", map[string]string{"a": "x"})
	g := newClient(t)
	g.git("clone", "-q", h.remote(rec, key), ".")
	second := g.change("b", "y")
	g.git("push", "-q", "origin", "main")
	var pushed []string
	for _, ev := range h.site.Events.All() {
		if ev.Type == "repo.pushed" {
			pushed = append(pushed, strings.Join([]string{ev.Data["repoId"].(string), ev.Data["ref"].(string), ev.Data["old"].(string), ev.Data["new"].(string)}, " "))
		}
	}
	want := []string{rec.ID + " refs/heads/main " + strings.Repeat("0", 40) + " " + first.SHA, rec.ID + " refs/heads/main " + first.SHA + " " + second}
	if strings.Join(pushed, "\n") != strings.Join(want, "\n") {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(pushed, "\n"), strings.Join(want, "\n"))
	}
	audit, err := h.site.Audit.List(t.Context(), vm.AuditFilter{})
	h.must(err)
	ops := map[vm.Op]int{}
	for _, one := range audit {
		if one.Subject == rec.ID && one.Outcome == "ok" {
			ops[one.Op]++
		}
	}
	if ops[vm.OpRepoCreate] != 1 || ops[vm.OpCommit] != 1 || ops[vm.OpPush] != 1 {
		t.Errorf("the audit records of the repository are %v, want one each of a create, a commit and a push", ops)
	}
}
