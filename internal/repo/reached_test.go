// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"crypto/sha1" //nolint:gosec // git names blobs by it
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

func blobID(text string) string {
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))) //nolint:gosec // see above
}

// Reached finds contents and commits of any branch or tag, also old ones, and nothing that
// no ref reaches any more. Others' repositories are not searched.
func TestReached(t *testing.T) {
	h := newHost(t)
	owner, _ := h.account("ann")
	stranger, _ := h.account("eve")
	rec := h.create(owner, repo.CreateRequest{})
	first := h.commit(owner, rec, "", "first", map[string]string{"a": "one\n", "b": "kept\n"})
	h.commit(owner, rec, "", "second", map[string]string{"a": "two\n"})
	side := h.commit(owner, rec, "side", "side", map[string]string{"c": "side\n"})
	ids := []string{first.SHA, side.SHA, first.Tree, blobID("one\n"), blobID("two\n"), blobID("kept\n"), blobID("side\n"), blobID("nobody's\n"), strings.Repeat("ab", 20)}
	found, err := h.room.Reached(t.Context(), owner, rec.ID, ids)
	h.must(err)
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, slices.Sorted(slices.Values(ids[:7]))) {
		t.Errorf("reached are %q, want the first 7 of %q", got, ids)
	}
	h.must(h.room.DeleteBranch(t.Context(), owner, rec.ID, "side"))
	found, err = h.room.Reached(t.Context(), owner, rec.ID, ids)
	h.must(err)
	if found[side.SHA] || found[blobID("side\n")] || !found[first.SHA] {
		t.Errorf("after the branch was deleted, reached are %v, want nothing of it", found)
	}
	if found, err = h.room.Reached(t.Context(), owner, rec.ID, nil); err != nil || len(found) != 0 {
		t.Errorf("of no ids, %v is reached (%v)", found, err)
	}
	_, err = h.room.Reached(t.Context(), owner, rec.ID, []string{"--all"})
	h.refusal("an id that is none", err, vm.Invalid, "INVALID_OBJECT_ID")
	_, err = h.room.Reached(t.Context(), stranger, rec.ID, ids)
	h.refusal("a search in another account's repository", err, vm.NotFound, "REPOSITORY_NOT_FOUND")
}

// FilesOf lists the contents of a commit by their paths, and BranchWith names a branch that
// has it, the default branch first.
func TestFilesOfACommit(t *testing.T) {
	h := newHost(t)
	owner, _ := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	odd := "dir/odd\tname \"ü\""
	first := h.commit(owner, rec, "", "first", map[string]string{"a": "one\n", odd: "odd\n"})
	second := h.commit(owner, rec, "agent/x", "second", map[string]string{"b": "two\n"})
	files, err := h.room.FilesOf(t.Context(), owner, rec.ID, first.SHA)
	h.must(err)
	if want := map[string]string{"a": blobID("one\n"), odd: blobID("odd\n")}; !maps.Equal(files, want) {
		t.Errorf("the files are %q, want %q", files, want)
	}
	for commit, want := range map[string]string{first.SHA: "main", second.SHA: "agent/x", strings.Repeat("ab", 20): ""} {
		if got, err := h.room.BranchWith(t.Context(), owner, rec.ID, commit); got != want || (err != nil) != (want == "") {
			t.Errorf("the branch with %s is %q (%v), want %q", commit, got, err, want)
		}
	}
}
