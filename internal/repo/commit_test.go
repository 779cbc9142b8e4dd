// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// TestCommit: commits by the API are git's own: a clone has them with author, trailers,
// modes and links, and each has its parent.
//
// 001-51, 002-29
func TestCommit(t *testing.T) {
	h := newHost(t)
	owner, key := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{Name: "code"})
	if page, err := h.room.Commits(t.Context(), owner, "code", repo.CommitFilter{}); err != nil || len(page.Commits) != 0 {
		t.Errorf("an empty repository has the commits %+v, %v", page, err)
	}
	odd := "dir/\"quoted\" \\ ü\tname.txt"
	binary := []byte{0, 1, 2, '\n', 0xff}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	first, err := h.room.Commit(t.Context(), owner, "code", repo.CommitRequest{
		Message: "first\n\nwhy", Author: &repo.Signature{Name: "Bea", Email: "bea@example.com", Date: at},
		Trailers: []repo.Trailer{{Key: "Warren-Generation", Value: "sl-1"}},
		Files: []repo.FileEdit{
			{Path: odd, Size: 5, Open: repo.Bytes(binary)},
			{Path: "run.sh", Mode: repo.ModeProgram, Size: 4, Open: repo.Bytes([]byte("#!/x"))},
			{Path: "link", Mode: repo.ModeLink, Size: 6, Open: repo.Bytes([]byte("run.sh"))},
			{Path: "empty", Size: 0, Open: repo.Bytes(nil)},
		},
	})
	h.must(err)
	if len(first.Parents) != 0 || first.Author.Name != "Bea" || !first.Author.Date.Equal(at) || first.Committer != first.Author {
		t.Errorf("the first commit is %+v", first)
	}
	second, err := h.room.Commit(t.Context(), owner, "code", repo.CommitRequest{
		Message: "second", Expected: first.SHA,
		Files: []repo.FileEdit{
			{Path: "dir", Deleted: true},
			{Path: "Dir/new", Size: 1, Open: repo.Bytes([]byte("n"))},
			{Path: "run.sh", Size: 4, Open: repo.Bytes([]byte("#!/y"))},
		},
	})
	h.must(err)
	if len(second.Parents) != 1 || second.Parents[0] != first.SHA || second.Author.Name != "ann" {
		t.Errorf("the second commit is %+v", second)
	}
	g := newClient(t)
	g.git("clone", "-q", h.remote(rec, key), ".")
	g.git("fsck", "--strict")
	if have := g.git("ls-tree", "-r", "--name-only", "HEAD"); have != "Dir/new\nempty\nlink\nrun.sh" {
		t.Errorf("the second commit has the files %q", have)
	}
	if have := g.git("log", "-1", "--format=%an %ae %aI|%(trailers:key=Warren-Generation,valueonly)", first.SHA); have != "Bea bea@example.com 2026-01-02T03:04:05+01:00|sl-1" {
		t.Errorf("git shows the first commit as %q", have)
	}
	if out, err := g.try("cat-file", "blob", first.SHA+":"+odd); err != nil || out != string(binary) {
		t.Errorf("git reads %q, %v of a binary file with an odd name", out, err)
	}
	if st, err := os.Lstat(g.dir + "/run.sh"); err != nil || st.Mode()&0o111 == 0 {
		t.Errorf("a changed program lost its mode: %v, %v", st, err)
	}
	if to, err := os.Readlink(g.dir + "/link"); err != nil || to != "run.sh" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	orphan := h.commit(owner, rec, "pages", "pages", map[string]string{"index.html": "hi"})
	if len(orphan.Parents) != 0 {
		t.Errorf("the first commit of a new branch has the parents %v, want none", orphan.Parents)
	}
	based, err := h.room.Commit(t.Context(), owner, "code", repo.CommitRequest{Branch: "agent/box/fix", Base: "main", Message: "m", Files: edits(map[string]string{"z": "z"})})
	h.must(err)
	if len(based.Parents) != 1 || based.Parents[0] != second.SHA {
		t.Errorf("a branch based on main begins with the parents %v, want %s", based.Parents, second.SHA)
	}
}

// TestCommitAtOnce: of commits on one tip at the same time, exactly one wins; the others
// are told the tip that there is, and leave nothing.
func TestCommitAtOnce(t *testing.T) {
	h := newHost(t)
	owner, _ := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	tip := h.commit(owner, rec, "", "first", map[string]string{"a": "one"})
	const writers = 6
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			_, errs[i] = h.room.Commit(t.Context(), owner, rec.ID, repo.CommitRequest{Message: "m", Expected: tip.SHA, Files: edits(map[string]string{"a": fmt.Sprint(i)})})
		})
	}
	all.Wait()
	won := 0
	now, err := h.room.CommitAt(t.Context(), owner, rec.ID, "main")
	h.must(err)
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		h.refusal("a commit that lost", err, vm.Exists, "CONFLICTING_PARENT")
		if e := vm.AsError(err); e.Fields["expected"] != tip.SHA || e.Fields["actual"] != now.SHA {
			t.Errorf("a commit that lost is told %v, want expected %s and actual %s", e.Fields, tip.SHA, now.SHA)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d commits on one tip won, want 1", won, writers)
	}
	_, err = h.room.Commit(t.Context(), owner, rec.ID, repo.CommitRequest{Message: "m", Expected: strings.Repeat("0", 40), Files: edits(map[string]string{"b": "x"})})
	h.refusal("a commit that expects no branch", err, vm.Exists, "CONFLICTING_PARENT")
	if left, err := os.ReadDir(h.site.Dir.RepoIncoming()); err != nil || len(left) != 0 {
		t.Errorf("%d directories of incoming objects are left, %v", len(left), err)
	}
}

// TestCommitRefused: a commit that is refused says why, and the branch stays as it is.
func TestCommitRefused(t *testing.T) {
	h := newHost(t)
	owner, _ := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	tip := h.commit(owner, rec, "", "first", map[string]string{"README": "one", "src/a": "x", "Straße/b": "y"})
	text := func(path, s string) repo.FileEdit {
		return repo.FileEdit{Path: path, Size: int64(len(s)), Open: repo.Bytes([]byte(s))}
	}
	broken := errors.New("the machine is gone")
	for what, c := range map[string]struct {
		files []repo.FileEdit
		kind  vm.Kind
		code  string
	}{
		".git":                          {[]repo.FileEdit{text(".git/config", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		".GIT":                          {[]repo.FileEdit{text("a/.GIT/config", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		"the short name of .git":        {[]repo.FileEdit{text("git~1/config", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		".git with ignored characters":  {[]repo.FileEdit{text(".g\u200cit/config", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		".git with a dot and a space":   {[]repo.FileEdit{text(".git. /config", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		".git as a stream of NTFS":      {[]repo.FileEdit{text(".git::$INDEX_ALLOCATION/x", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		".git behind a backslash":       {[]repo.FileEdit{text(`a\.git\config`, "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		"..":                            {[]repo.FileEdit{text("a/../../b", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		"an absolute path":              {[]repo.FileEdit{text("/etc/passwd", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		"an empty part":                 {[]repo.FileEdit{text("a//b", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		"an empty path":                 {[]repo.FileEdit{text("", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		"a NUL byte":                    {[]repo.FileEdit{text("a\x00b", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		"case of a file":                {[]repo.FileEdit{text("readme", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		"case of a directory":           {[]repo.FileEdit{text("SRC/b", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		"case beyond ASCII":             {[]repo.FileEdit{text("STRASSE/b", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		"case within the commit":        {[]repo.FileEdit{text("new/x", "x"), text("New/y", "y")}, vm.Invalid, "INVALID_FILE_PATH"},
		"a file below a file":           {[]repo.FileEdit{text("README/x", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		"a file over a directory":       {[]repo.FileEdit{text("src", "x")}, vm.Invalid, "INVALID_FILE_PATH"},
		"a submodule with an option":    {[]repo.FileEdit{text(".gitmodules", "[submodule \"a\"]\n\turl = --upload-pack=touch /tmp/x\n\tpath = a\n")}, vm.Invalid, "INVALID_FILE_PATH"},
		"a submodule with a command":    {[]repo.FileEdit{text(".gitmodules", "[submodule \"a\"]\n\turl = https://x/y\n\tpath = a\n\tupdate = !sh\n")}, vm.Invalid, "INVALID_FILE_PATH"},
		"a submodule that leaves":       {[]repo.FileEdit{text(".GITMODULES", "[submodule \"../../x\"]\n\turl = https://x/y\n\tpath = a\n")}, vm.Invalid, "INVALID_FILE_PATH"},
		"a list of submodules, a link":  {[]repo.FileEdit{{Path: ".gitmodules", Mode: repo.ModeLink, Size: 1, Open: repo.Bytes([]byte("x"))}}, vm.Invalid, "INVALID_FILE_PATH"},
		"a mode of a directory":         {[]repo.FileEdit{{Path: "m", Mode: 0o040000, Size: 1, Open: repo.Bytes([]byte("x"))}}, vm.Invalid, "INVALID_FILE_CHANGE"},
		"neither content nor deletion":  {[]repo.FileEdit{{Path: "m"}}, vm.Invalid, "INVALID_FILE_CHANGE"},
		"content and deletion":          {[]repo.FileEdit{{Path: "README", Deleted: true, Size: 1, Open: repo.Bytes([]byte("x"))}}, vm.Invalid, "INVALID_FILE_CHANGE"},
		"a path twice":                  {[]repo.FileEdit{text("m", "x"), text("m", "y")}, vm.Invalid, "INVALID_FILE_CHANGE"},
		"content shorter than it says":  {[]repo.FileEdit{{Path: "m", Size: 5, Open: repo.Bytes([]byte("x"))}}, vm.Invalid, "INVALID_FILE_CHANGE"},
		"content longer than it says":   {[]repo.FileEdit{{Path: "m", Size: 1, Open: repo.Bytes([]byte("xyz"))}}, vm.Invalid, "INVALID_FILE_CHANGE"},
		"a deletion of nothing":         {[]repo.FileEdit{{Path: "gone", Deleted: true}}, vm.NotFound, "PATH_NOT_FOUND"},
		"nothing new":                   {[]repo.FileEdit{text("README", "one")}, vm.Invalid, "INVALID_FILE_CHANGE"},
		"content that cannot be opened": {[]repo.FileEdit{text("m", "x"), {Path: "n", Size: 1, Open: func() (io.ReadCloser, error) { return nil, broken }}}, vm.Internal, ""},
	} {
		_, err := h.room.Commit(t.Context(), owner, rec.ID, repo.CommitRequest{Message: "m", Files: c.files})
		h.refusal(what, err, c.kind, c.code)
	}
	for what, req := range map[string]repo.CommitRequest{
		"an author with a line break": {Message: "m", Author: &repo.Signature{Name: "a\nb", Email: "x@y"}},
		"an author without a name":    {Message: "m", Author: &repo.Signature{Email: "x@y"}},
		"a message with a NUL byte":   {Message: "a\x00b"},
		"a trailer with a line break": {Message: "m", Trailers: []repo.Trailer{{Key: "K", Value: "a\nb"}}},
	} {
		req.Files = edits(map[string]string{"q": "x"})
		_, err := h.room.Commit(t.Context(), owner, rec.ID, req)
		h.refusal(what, err, vm.Invalid, "GIT_INVALID_REQUEST")
	}
	for _, branch := range []string{"a..b", "-x", "x.lock", "a b", "x\u202ey", "refs/heads/x", strings.Repeat("0", 40), "HEAD"} {
		_, err := h.room.Commit(t.Context(), owner, rec.ID, repo.CommitRequest{Branch: branch, Message: "m", Files: edits(map[string]string{"q": "x"})})
		h.refusal("the branch "+branch, err, vm.Invalid, "GIT_INVALID_REQUEST")
	}
	list, err := h.room.Branches(t.Context(), owner, rec.ID)
	h.must(err)
	if len(list) != 1 || list[0].Commit != tip.SHA {
		t.Errorf("after refusals the branches are %+v, want main at %s", list, tip.SHA)
	}
	if left, err := os.ReadDir(h.site.Dir.RepoIncoming()); err != nil || len(left) != 0 {
		t.Errorf("%d directories of incoming objects are left, %v", len(left), err)
	}
}

// TestRead: contents, trees, blobs, commits and comparisons are what was committed.
func TestRead(t *testing.T) {
	h := newHost(t)
	owner, _ := h.account("ann")
	rec := h.create(owner, repo.CreateRequest{})
	big := bytes.Repeat([]byte("0123456789abcdef"), 300_000)
	first := h.commit(owner, rec, "", "first", map[string]string{"a.txt": "one\n", "d/e/f.txt": "deep\n", "big": string(big)})
	second := h.commit(owner, rec, "", "second", map[string]string{"a.txt": "one\ntwo\n"})
	third := h.commit(owner, rec, "", "third", map[string]string{"b.txt": "b\n"})
	ctx := t.Context()
	for range 5 { // the readers of objects are used again
		file, err := h.room.Contents(ctx, owner, rec.ID, first.SHA, "a.txt", false)
		h.must(err)
		if file.Type != "file" || file.Name != "a.txt" || string(file.Data) != "one\n" || file.Size != 4 {
			t.Fatalf("the file is %+v", file)
		}
	}
	dir, err := h.room.Contents(ctx, owner, rec.ID, "", "", false)
	h.must(err)
	if len(dir.Entries) != 4 || dir.Entries[2].Name != "big" || dir.Entries[2].Size != int64(len(big)) || dir.Entries[3].Type != "dir" || len(dir.Entries[3].Entries) != 0 {
		t.Errorf("the root is %+v", dir)
	}
	all, err := h.room.Contents(ctx, owner, rec.ID, "main", "d", true)
	h.must(err)
	if len(all.Entries) != 1 || all.Entries[0].Path != "d/e" || len(all.Entries[0].Entries) != 1 || all.Entries[0].Entries[0].Path != "d/e/f.txt" {
		t.Errorf("the directory with all below is %+v", all)
	}
	size, content, err := h.room.Blob(ctx, owner, rec.ID, dir.Entries[2].SHA)
	h.must(err)
	data, err := io.ReadAll(content)
	if err != nil || size != int64(len(big)) || !bytes.Equal(data, big) {
		t.Errorf("the blob has %d bytes, %v", len(data), err)
	}
	h.must(content.Close())
	_, content, err = h.room.Blob(ctx, owner, rec.ID, dir.Entries[2].SHA)
	h.must(err)
	h.must(content.Close()) // without reading
	id, tree, err := h.room.Tree(ctx, owner, rec.ID, third.SHA, true)
	h.must(err)
	if id != third.Tree || len(tree) != 6 || tree[4].Path != "d/e" || tree[5].Path != "d/e/f.txt" || tree[5].Size != 5 {
		t.Errorf("the tree is %s %+v", id, tree)
	}
	ids := func(f repo.CommitFilter) (out string) {
		page, err := h.room.Commits(ctx, owner, rec.ID, f)
		h.must(err)
		for _, c := range page.Commits {
			out += strings.TrimSpace(c.Message) + " "
		}
		return fmt.Sprintf("%s%d %v", out, page.Total, page.Next != "")
	}
	for want, f := range map[string]repo.CommitFilter{
		"third second first 3 false": {Count: true},
		"first second third 0 false": {Oldest: true},
		"third 0 true":               {Limit: 1},
		"second 3 true":              {Limit: 1, Offset: 1, Count: true},
		"second third 0 false":       {Oldest: true, Offset: 1},
		"third second 0 false":       {Since: first.SHA},
		"second 0 false":             {Since: first.SHA, Until: second.SHA},
		"second first 0 false":       {Path: "a.txt"},
	} {
		if have := ids(f); have != want {
			t.Errorf("the commits of %+v are %q, want %q", f, have, want)
		}
	}
	cmp, err := h.room.Compare(ctx, owner, rec.ID, first.SHA, "main")
	h.must(err)
	if cmp.Ahead != 2 || cmp.Behind != 0 || len(cmp.Files) != 2 || cmp.Files[0].Additions != 1 || cmp.Files[0].Status != "modified" || cmp.Ancestor != first.SHA {
		t.Errorf("the comparison is %+v", cmp)
	}
	var patch strings.Builder
	h.must(h.room.Patch(ctx, owner, rec.ID, "", second.SHA, &patch))
	if !strings.Contains(patch.String(), "+two\n") {
		t.Errorf("the patch is %q", patch.String())
	}
	made, err := h.room.CommitTree(ctx, owner, rec.ID, repo.TreeCommitRequest{Message: "raw", Tree: first.Tree, Parents: []string{third.SHA}})
	h.must(err)
	if got, err := h.room.CommitAt(ctx, owner, rec.ID, made.SHA); err != nil || got.Tree != first.Tree || got.Message != "raw\n" {
		t.Errorf("the commit of a tree is %+v, %v", got, err)
	}
	readRefusals(h, owner, rec, third)
}

func readRefusals(h *host, owner *vm.Call, rec vm.Repository, tip vm.Commit) {
	h.Helper()
	ctx, none := h.Context(), strings.Repeat("1", 40)
	_, err := h.room.Contents(ctx, owner, rec.ID, "", "nope", false)
	h.refusal("a path that is not there", err, vm.NotFound, "PATH_NOT_FOUND")
	_, err = h.room.Contents(ctx, owner, rec.ID, "nope", "", false)
	h.refusal("a revision that is not there", err, vm.NotFound, "REFERENCE_NOT_FOUND")
	_, err = h.room.Contents(ctx, owner, rec.ID, "a b\nc", "", false)
	h.refusal("what is no revision", err, vm.Invalid, "INVALID_REVISION")
	_, err = h.room.CommitAt(ctx, owner, rec.ID, none)
	h.refusal("a commit that is not there", err, vm.NotFound, "COMMIT_NOT_FOUND")
	_, _, err = h.room.Blob(ctx, owner, rec.ID, none)
	h.refusal("a blob that is not there", err, vm.NotFound, "BLOB_NOT_FOUND")
	_, _, err = h.room.Blob(ctx, owner, rec.ID, tip.Tree)
	h.refusal("a tree that is asked for as a blob", err, vm.NotFound, "BLOB_NOT_FOUND")
	_, _, err = h.room.Tree(ctx, owner, rec.ID, none, false)
	h.refusal("a tree that is not there", err, vm.NotFound, "TREE_NOT_FOUND")
	_, _, err = h.room.Tree(ctx, owner, rec.ID, "HEAD", false)
	h.refusal("what is no id", err, vm.Invalid, "INVALID_OBJECT_ID")
	_, err = h.room.Tag(ctx, owner, rec.ID, "v1")
	h.refusal("a tag that is not there", err, vm.NotFound, "TAG_NOT_FOUND")
	_, err = h.room.Commits(ctx, owner, rec.ID, repo.CommitFilter{Since: tip.Parents[0], Offset: 1})
	h.refusal("an offset with since", err, vm.Invalid, "OFFSET_WITH_SELECTOR")
	_, err = h.room.Commits(ctx, owner, rec.ID, repo.CommitFilter{Branch: "nope"})
	h.refusal("a branch that is not there", err, vm.NotFound, "BRANCH_NOT_FOUND")
	_, err = h.room.CreateBranch(ctx, owner, rec.ID, "main", "")
	h.refusal("a branch that exists", err, vm.Exists, "BRANCH_ALREADY_EXISTS")
	_, err = h.room.CommitTree(ctx, owner, rec.ID, repo.TreeCommitRequest{Message: "m", Tree: tip.Tree, Parents: []string{none}})
	h.refusal("a parent that is not there", err, vm.NotFound, "PARENT_NOT_FOUND")
	empty := h.create(owner, repo.CreateRequest{})
	_, err = h.room.Contents(ctx, owner, empty.ID, "", "", false)
	h.refusal("contents of an empty repository", err, vm.NotFound, "NO_DEFAULT_BRANCH")
}
