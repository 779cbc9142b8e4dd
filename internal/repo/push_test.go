// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// TestPushAndClone: with real git, source goes through a repository with branches, diffs,
// commits and tags, and another clone gets all of it.
//
// 000-16, 001-51
func TestPushAndClone(t *testing.T) {
	h := newHost(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{Name: "code"})
	g := newClient(t)
	g.git("clone", "-q", h.remote(rec, key), ".")
	g.git("checkout", "-q", "-b", "main")
	first := g.change("a.txt", "one\n")
	g.git("push", "-q", "origin", "main")
	g.git("checkout", "-q", "-b", "feature/x")
	second := g.change("b.txt", strings.Repeat("two\n", 10_000))
	g.git("tag", "-a", "v1", "-m", "the first")
	g.git("push", "-q", "origin", "feature/x", "v1")

	other := newClient(t)
	other.git("clone", "-q", h.remote(rec, key), ".")
	if have := other.git("rev-parse", "origin/main", "origin/feature/x", "v1^{commit}"); have != first+"\n"+second+"\n"+second {
		t.Errorf("the clone has %s, want %s and twice %s", have, first, second)
	}
	list, err := h.room.Branches(t.Context(), owner, "code")
	h.must(err)
	if len(list) != 2 || list[0].Name != "feature/x" || list[0].Commit != second || !list[1].Default || list[1].Commit != first {
		t.Errorf("the branches are %+v", list)
	}
	tags, err := h.room.Tags(t.Context(), owner, "code")
	h.must(err)
	if len(tags) != 1 || tags[0].Name != "v1" || tags[0].Target != second || tags[0].Message != "the first\n" || tags[0].Tagger == nil || tags[0].Tagger.Name != "Ann" {
		t.Errorf("the tags are %+v", tags)
	}
	cmp, err := h.room.Compare(t.Context(), owner, "code", "main", "feature/x")
	h.must(err)
	if cmp.Ahead != 1 || cmp.Behind != 0 || len(cmp.Files) != 1 || cmp.Files[0].Path != "b.txt" || cmp.Files[0].Status != "added" || cmp.Files[0].Additions != 10_000 {
		t.Errorf("the comparison is %+v", cmp)
	}
	g.git("push", "-q", "--force", "origin", first+":refs/heads/feature/x")
	g.git("push", "-q", "origin", ":v1")
	if b, err := h.room.Branch(t.Context(), owner, "code", "feature/x"); err != nil || b.Commit != first {
		t.Errorf("after the forced push the branch is %+v, %v", b, err)
	}
	if tags, err := h.room.Tags(t.Context(), owner, "code"); err != nil || len(tags) != 0 {
		t.Errorf("after its deletion the tags are %+v, %v", tags, err)
	}
}

// TestPushRights: every way in asks for the same right: an account's key may do all in
// its account, an identity what it was granted, and nobody sees another account's
// repository.
func TestPushRights(t *testing.T) {
	h := newHost(t)
	owner, key := h.account("ann")
	stranger, strange := h.account("bob")
	agent, token := h.identity(owner, "agent")
	rec := h.create(owner, repo.CreateRequest{Name: "code"})
	h.commit(owner, rec, "", "first", map[string]string{"a": "one\n"})
	g := newClient(t)
	g.git("clone", "-q", h.remote(rec, key), ".")
	clone := func(what, secret, text string) {
		t.Helper()
		newClient(t).refused(what, text, "clone", h.remote(rec, secret), ".")
	}
	clone("another account clones", strange, "not found")
	clone("an identity without a permission clones", token, "403")
	clone("nobody clones", "", "could not read Username")
	_, err := h.room.Get(t.Context(), stranger, rec.ID)
	h.refusal("another account gets it", err, vm.NotFound, "REPOSITORY_NOT_FOUND")
	_, err = h.room.Contents(t.Context(), agent, rec.ID, "", "a", false)
	h.refusal("an identity without a permission reads", err, vm.Denied, "REPOSITORY_ACCESS_DENIED")

	h.must(h.GrantRepo(t.Context(), owner, "agent", rec.ID, vm.GitRead, false))
	a := newClient(t)
	a.git("clone", "-q", h.remote(rec, token), ".")
	a.change("b", "two\n")
	a.refused("a reader pushes", "403", "push", "origin", "HEAD:agent/x")
	_, err = h.room.Commit(t.Context(), agent, rec.ID, repo.CommitRequest{Branch: "agent/x", Message: "m", Files: edits(map[string]string{"c": "x"})})
	h.refusal("a reader commits", err, vm.Denied, "REPOSITORY_ACCESS_DENIED")

	h.must(h.GrantRepo(t.Context(), owner, "agent", rec.ID, vm.GitWrite, true))
	a.git("push", "-q", "origin", "HEAD:refs/heads/agent/x")
	a.refused("an agent pushes to main", "the caller may not push to this branch", "push", "origin", "HEAD:main")
	a.refused("an agent pushes a tag", "the caller may not change this tag", "push", "origin", "HEAD:refs/tags/v1")
	a.refused("an agent deletes main", "the default branch cannot be deleted", "push", "origin", ":main")
	_, err = h.room.Commit(t.Context(), agent, rec.ID, repo.CommitRequest{Message: "m", Files: edits(map[string]string{"c": "x"})})
	h.refusal("an agent commits to main", err, vm.Denied, "REPOSITORY_ACCESS_DENIED")
	_, err = h.room.CreateBranch(t.Context(), agent, rec.ID, "other", "")
	h.refusal("an agent makes a branch elsewhere", err, vm.Denied, "REPOSITORY_ACCESS_DENIED")
	h.refusal("an agent removes the repository", h.room.Remove(t.Context(), agent, rec.ID), vm.Denied, "REPOSITORY_ACCESS_DENIED")
	if b, err := h.room.Branches(t.Context(), agent, rec.ID); err != nil || len(b) != 2 {
		t.Errorf("the agent sees the branches %+v, %v", b, err)
	}

	public := true
	_, err = h.room.Set(t.Context(), owner, rec.ID, repo.Change{Public: &public})
	h.must(err)
	newClient(t).git("clone", "-q", h.remote(rec, ""), ".")
	newClient(t).git("clone", "-q", h.remote(rec, strange), ".")
	_, err = h.room.Commit(t.Context(), stranger, rec.ID, repo.CommitRequest{Message: "m", Files: edits(map[string]string{"c": "x"})})
	h.refusal("another account commits to a public one", err, vm.Denied, "REPOSITORY_ACCESS_DENIED")
	g.refused("nobody pushes to a public one", "could not read Username", "push", h.remote(rec, ""), "HEAD:main")
}

// TestProtection: a protected branch is neither deleted nor rewound by anybody, and an
// identity changes it only if its permission names it.
func TestProtection(t *testing.T) {
	h := newHost(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	first := h.commit(owner, rec, "", "first", map[string]string{"a": "one\n"})
	h.commit(owner, rec, "release/1", "first", map[string]string{"a": "one\n"})
	for _, p := range []string{"main", "release/*"} {
		_, err := h.room.Protect(t.Context(), owner, rec.ID, p)
		h.must(err)
	}
	g := newClient(t)
	g.git("clone", "-q", h.remote(rec, key), ".")
	g.change("b", "two\n")
	g.git("push", "-q", "origin", "main")
	g.git("reset", "-q", "--hard", first.SHA)
	rewound := g.change("c", "three\n")
	g.refused("a non-fast-forward", "the branch is protected and cannot be rewound", "push", "--force", "origin", "main")
	g.refused("a deletion", "the branch is protected and cannot be deleted", "push", "origin", ":release/1")
	h.refusal("a deletion by the API", h.room.DeleteBranch(t.Context(), owner, rec.ID, "release/1"), vm.Denied, "REPOSITORY_ACCESS_DENIED")
	out, err := g.try("push", "--force", "origin", "main", "HEAD:free")
	if err == nil || !strings.Contains(out, "HEAD -> free") || !strings.Contains(out, "[remote rejected] main -> main") {
		t.Errorf("a push of two refs, one of them protected: %s", out)
	}
	if b, err := h.room.Branch(t.Context(), owner, rec.ID, "free"); err != nil || b.Commit != rewound {
		t.Errorf("the ref that was not protected is %+v, %v", b, err)
	}
	g.refused("an atomic push", "another ref of this atomic push is refused", "push", "--atomic", "--force", "origin", "main", "HEAD:free2")
	if _, err := h.room.Branch(t.Context(), owner, rec.ID, "free2"); vm.AsError(err).Code != "BRANCH_NOT_FOUND" {
		t.Errorf("an atomic push changed one ref: %v", err)
	}
	_, token := h.identity(owner, "agent")
	h.must(h.GrantRepo(t.Context(), owner, "agent", rec.ID, vm.GitWrite, false, "**"))
	a := newClient(t)
	a.git("clone", "-q", h.remote(rec, token), ".")
	a.change("d", "four\n")
	a.git("push", "-q", "origin", "HEAD:topic")
	a.refused("an identity whose permission has only a wildcard", "the caller's permission does not name it", "push", "origin", "HEAD:main")
	h.must(h.GrantRepo(t.Context(), owner, "agent", rec.ID, vm.GitWrite, true, "main"))
	a.git("push", "-q", "origin", "HEAD:main")
	_, err = h.room.Unprotect(t.Context(), owner, rec.ID, "release/*")
	h.must(err)
	g.git("push", "-q", "origin", ":release/1")
}
