// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"path"
	"strconv"
	"unicode/utf8"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

func (s *server) repoContentRoutes() []route {
	return []route{
		{"POST", repoBase + "/commits", token, s.commitFiles, "Write and delete files in one commit on a branch, which is made if it does not exist.", api.NewCommit{}, api.CreatedCommit{}, false, ""},
		{"GET", repoBase + "/git/commits", token, s.commits, "Commits of a branch. since is the older end, left out; until the newer end, included.", nil, api.CommitList{}, false, "branch limit order since until offset disableTotalCount path"},
		{"POST", repoBase + "/git/commits", token, s.plainCommit, "Make a commit of an existing tree; no branch is moved.", api.NewPlainCommit{}, api.CreatedCommit{}, false, ""},
		{"GET", repoBase + "/git/commits/{sha}", token, s.commitAt, "One commit, by its id, a branch or a tag.", nil, api.GitCommit{}, false, ""},
		{"GET", repoBase + "/contents/{path...}", token, s.contents, "A file, or a directory's entries, at a revision.", nil, api.RepoContent{}, false, "rev recursive"},
		{"GET", repoBase + "/git/trees/{sha}", token, s.tree, "The entries of a tree.", nil, api.GitTree{}, false, "recursive"},
		{"GET", repoBase + "/git/blobs/{sha}", token, s.blob, "The content of a blob.", nil, api.GitBlob{}, false, ""},
		{"GET", repoBase + "/compare", token, s.compareRevs, "What head has that base has not.", nil, api.GitComparison{}, false, "base head"},
		{"GET", repoBase + "/patch", token, s.repoPatch, "The changes of a commit, or from base to head, as a unified diff.", nil, nil, true, "base head"},
		{"GET", repoBase + "/tarball", token, s.archive("tar"), "The files of a revision as a tar.", nil, nil, true, "rev"},
		{"GET", repoBase + "/zip", token, s.archive("zip"), "The files of a revision as a zip.", nil, nil, true, "rev"},
	}
}

func shownCommit(c vm.Commit) api.GitCommit {
	out := api.GitCommit{SHA: c.SHA, Message: c.Message, Author: c.Author, Committer: c.Committer, Tree: api.GitObject{SHA: c.Tree}, Parents: []api.GitObject{}}
	for _, p := range c.Parents {
		out.Parents = append(out.Parents, api.GitObject{SHA: p})
	}
	return out
}

// signature returns nil for nil.
func signature(a *api.GitAuthor) *repo.Signature {
	if a == nil {
		return nil
	}
	out := &repo.Signature{Name: a.Name, Email: a.Email}
	if a.Date != nil {
		out.Date = *a.Date
	}
	return out
}

func (s *server) commitFiles(q *request) error {
	var in api.NewCommit
	if err := q.decode(&in, maxFileBody); err != nil {
		return err
	}
	req := repo.CommitRequest{Branch: in.Branch, Message: in.Message, Author: signature(in.Author), Expected: in.ExpectedSHA}
	for _, f := range in.Files {
		edit, err := fileEdit(f)
		if err != nil {
			return err
		}
		req.Files = append(req.Files, edit)
	}
	made, err := s.Repo.Commit(q.Context(), q.call, q.repoRef(), req)
	if err != nil {
		return err
	}
	return q.ok(api.CreatedCommit{Commit: shownCommit(made)})
}

func fileEdit(f api.FileChange) (repo.FileEdit, error) {
	out := repo.FileEdit{Path: f.Path, Deleted: f.Deleted}
	if f.Deleted == (f.Content != nil) {
		return out, vm.Errorf(vm.Invalid, f.Path, "a file has either content or deleted").WithCode("INVALID_FILE_CHANGE", "path", f.Path)
	}
	switch f.Mode {
	case "":
	case "100644", "100755", "120000":
		mode, _ := strconv.ParseUint(f.Mode, 8, 32)
		out.Mode = uint32(mode)
	default:
		return out, vm.Errorf(vm.Invalid, f.Path, "%q is not the mode of a file", f.Mode).WithCode("INVALID_FILE_CHANGE", "path", f.Path).WithHint("use 100644, 100755 or 120000")
	}
	if f.Deleted {
		return out, nil
	}
	data := []byte(*f.Content)
	switch f.Encoding {
	case "", "utf8", "utf-8":
	case "base64":
		var err error
		if data, err = base64.StdEncoding.DecodeString(*f.Content); err != nil {
			return out, vm.Errorf(vm.Invalid, f.Path, "the content is not base64").WithCode("INVALID_BASE64_CONTENT", "path", f.Path)
		}
	default:
		return out, vm.Errorf(vm.Invalid, f.Path, "%q is not an encoding", f.Encoding).WithCode("INVALID_FILE_CHANGE", "path", f.Path).WithHint("use utf8 or base64")
	}
	out.Size = int64(len(data))
	out.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	return out, nil
}

// The page sizes of commits, from the contract.
const (
	commitsPage = 50
	maxCommits  = 500
)

func (s *server) commits(q *request) error {
	p, err := q.page()
	if err != nil {
		return err
	}
	v := q.query()
	noTotal, err := q.bool("disableTotalCount")
	if err != nil {
		return err
	}
	f := repo.CommitFilter{Branch: v.Get("branch"), Since: v.Get("since"), Until: v.Get("until"), Path: v.Get("path"), Limit: p.Limit, Offset: p.Offset, Count: !noTotal}
	if f.Limit == 0 {
		f.Limit = commitsPage
	}
	if f.Limit > maxCommits {
		return badGit("limit", "a page has at most %d commits", maxCommits)
	}
	order := v.Get("order")
	switch order {
	case "", "desc":
		order = "desc"
	case "asc":
		f.Oldest = true
	default:
		return badGit("order", "%q is not an order", order).WithHint("use asc or desc")
	}
	if v.Get("offset") != "" && f.Offset > 0 && (f.Since != "" || f.Until != "") {
		return vm.Errorf(vm.Invalid, "offset", "offset does not go with since or until").WithCode("OFFSET_WITH_SELECTOR")
	}
	list, err := s.Repo.Commits(q.Context(), q.call, q.repoRef(), f)
	if err != nil {
		return err
	}
	out := api.CommitList{Commits: []api.GitCommit{}, Count: len(list.Commits), Limit: f.Limit, Order: order, Selector: selector(f), NextCommit: text(list.Next)}
	for _, c := range list.Commits {
		out.Commits = append(out.Commits, shownCommit(c))
	}
	if f.Count {
		out.Total = &list.Total
	}
	if out.Selector == nil {
		out.Offset = &f.Offset
	}
	return q.ok(out)
}

// selector repeats the ends of a range in the contract's spelling.
func selector(f repo.CommitFilter) any {
	switch {
	case f.Since != "" && f.Until != "":
		return map[string]any{"Range": map[string]string{"since": f.Since, "until": f.Until}}
	case f.Since != "":
		return map[string]string{"Since": f.Since}
	case f.Until != "":
		return map[string]string{"Until": f.Until}
	}
	return nil
}

func (s *server) plainCommit(q *request) error {
	var in api.NewPlainCommit
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	made, err := s.Repo.CommitTree(q.Context(), q.call, q.repoRef(), repo.TreeCommitRequest{
		Message: in.Message, Tree: in.Tree, Parents: in.Parents, Author: signature(in.Author), Committer: signature(in.Committer),
	})
	if err != nil {
		return err
	}
	return q.ok(api.CreatedCommit{Commit: shownCommit(made)})
}

func (s *server) commitAt(q *request) error {
	c, err := s.Repo.CommitAt(q.Context(), q.call, q.repoRef(), q.values["sha"])
	if err != nil {
		return err
	}
	return q.ok(shownCommit(c))
}

func shownContent(c vm.Content) api.RepoContent {
	out := api.RepoContent{Type: c.Type, Name: c.Name, Path: c.Path, SHA: c.SHA}
	if c.Type == "dir" {
		list := make([]api.RepoContent, 0, len(c.Entries))
		for _, one := range c.Entries {
			list = append(list, shownContent(one))
		}
		out.Entries = &list
		return out
	}
	out.Size = &c.Size
	return out
}

func (s *server) contents(q *request) error {
	recursive, err := q.bool("recursive")
	if err != nil {
		return err
	}
	c, err := s.Repo.Contents(q.Context(), q.call, q.repoRef(), q.rev(), q.values["path"], recursive)
	if err != nil {
		return err
	}
	out := shownContent(c)
	if c.Type != "dir" {
		if len(c.Data) > maxBody {
			if err := q.reserve(3 * int64(len(c.Data))); err != nil {
				return err
			}
		}
		encoded := base64.StdEncoding.EncodeToString(c.Data)
		out.Content = &encoded
	}
	return q.ok(out)
}

// rev is the revision in the query. The SDK calls it ref in searches.
func (q *request) rev() string {
	if r := q.query().Get("rev"); r != "" {
		return r
	}
	return q.query().Get("ref")
}

func (s *server) tree(q *request) error {
	recursive, err := q.bool("recursive")
	if err != nil {
		return err
	}
	id, entries, err := s.Repo.Tree(q.Context(), q.call, q.repoRef(), q.values["sha"], recursive)
	if err != nil {
		return err
	}
	out := api.GitTree{SHA: id, Tree: []api.GitTreeEntry{}}
	for _, e := range entries {
		one := api.GitTreeEntry{Type: e.Type, Path: e.Path, SHA: e.SHA, Mode: fmt.Sprintf("%06o", e.Mode)}
		if e.Type == "blob" {
			one.Size = &e.Size
		}
		out.Tree = append(out.Tree, one)
	}
	return q.ok(out)
}

func (s *server) blob(q *request) error {
	sha := q.values["sha"]
	size, content, err := s.Repo.Blob(q.Context(), q.call, q.repoRef(), sha)
	if err != nil {
		return err
	}
	defer content.Close()
	if size > maxFileBody {
		return vm.Errorf(vm.Limit, sha, "a blob of %d bytes is too large for JSON", size).WithHint("clone the repository, or download its tarball")
	}
	if size > maxBody {
		if err := q.reserve(3 * size); err != nil {
			return err
		}
	}
	data, err := io.ReadAll(io.LimitReader(content, size))
	if err != nil {
		return err
	}
	return q.ok(api.GitBlob{SHA: sha, Size: size, Encoding: "base64", Content: base64.StdEncoding.EncodeToString(data)})
}

func (s *server) compareRevs(q *request) error {
	base, head := q.query().Get("base"), q.query().Get("head")
	if base == "" || head == "" {
		return badGit("base", "base and head are needed")
	}
	c, err := s.Repo.Compare(q.Context(), q.call, q.repoRef(), base, head)
	if err != nil {
		return err
	}
	out := api.GitComparison{Status: "identical", AheadBy: c.Ahead, BehindBy: c.Behind, TotalCommits: c.Ahead, Files: []api.ComparedFile{}}
	switch {
	case c.Ahead > 0 && c.Behind > 0:
		out.Status = "diverged"
	case c.Ahead > 0:
		out.Status = "ahead"
	case c.Behind > 0:
		out.Status = "behind"
	}
	for _, f := range c.Files {
		out.Files = append(out.Files, api.ComparedFile{
			SHA: text(f.SHA), Filename: f.Path, Status: f.Status, Additions: f.Additions, Deletions: f.Deletions,
			Changes: f.Additions + f.Deletions, PreviousFilename: text(f.Was),
		})
	}
	return q.ok(out)
}

func (s *server) repoPatch(q *request) error {
	ctx, end := s.streaming(q)
	defer end()
	w := q.later("text/x-diff; charset=utf-8", "")
	err := s.Repo.Patch(ctx, q.call, q.repoRef(), q.query().Get("base"), q.query().Get("head"), w)
	if err == nil {
		_, err = w.Write(nil) // a patch may be empty
	}
	return err
}

// archive sends the files of a revision.
func (s *server) archive(format string) func(*request) error {
	return func(q *request) error {
		r, err := s.Repo.Get(q.Context(), q.call, q.repoRef())
		if err != nil {
			return err
		}
		ctx, end := s.streaming(q)
		defer end()
		name := r.Name
		if name == "" || !utf8.ValidString(name) {
			name = r.ID
		}
		kind := map[string]string{"tar": "application/x-tar", "zip": "application/zip"}[format]
		w := q.later(kind, path.Base(name)+"."+format)
		return s.Repo.Archive(ctx, q.call, q.repoRef(), q.rev(), format, w)
	}
}
