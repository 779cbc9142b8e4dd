// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"io"
	"net/http"
	"slices"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// repoBase is the path of one repository.
const repoBase = "/git/v1/repo/{repo}"

// repoTable are the routes of git hosting, except git's own protocol.
func (s *server) repoTable() []route {
	return slices.Concat(s.repoRoutes(), s.repoContentRoutes(), s.repoSearchRoutes())
}

func (s *server) repoRoutes() []route {
	const refs = repoBase + "/git/refs"
	return []route{
		{"POST", "/git/v1/repo", key, s.createRepo, "Make a repository: empty, from another one (source) or from files or an archive (import).", api.NewRepo{}, api.CreatedRepo{}, false, ""},
		{"GET", "/git/v1/repo", token, s.repos, "Repositories that the caller may read, newest first.", nil, api.RepoList{}, false, "limit offset search"},
		{"GET", repoBase, token, s.repo, "One repository.", nil, api.GitRepo{}, false, ""},
		{"DELETE", repoBase, key, s.removeRepo, "Delete a repository with its history.", nil, okBody{}, false, ""},
		{"GET", repoBase + "/visibility", token, s.repoVisibility, "Whether everybody may read a repository.", nil, api.RepoVisibility{}, false, ""},
		{"PUT", repoBase + "/visibility", key, s.setRepoVisibility, "Make a repository public or private.", api.RepoVisibility{}, api.RepoVisibility{}, false, ""},
		{"GET", repoBase + "/default-branch", token, s.defaultBranch, "The branch that a clone checks out.", nil, api.DefaultBranch{}, false, ""},
		{"PUT", repoBase + "/default-branch", key, s.setDefaultBranch, "Choose the branch that a clone checks out.", api.DefaultBranch{}, okBody{}, false, ""},
		{"GET", repoBase + "/protected-branches", token, s.protectedBranches, "Patterns of branches that nobody deletes or rewinds.", nil, api.ProtectedBranches{}, false, ""},
		{"PUT", repoBase + "/protected-branches/{branch...}", key, s.protect, "Protect the branches that a pattern matches.", nil, api.ProtectedBranches{}, false, ""},
		{"DELETE", repoBase + "/protected-branches/{branch...}", key, s.unprotect, "Remove a pattern of protected branches.", nil, api.ProtectedBranches{}, false, ""},

		{"GET", refs + "/heads/", token, s.branches, "Every branch.", nil, api.BranchList{}, false, ""},
		{"GET", refs + "/heads/{branch...}", token, s.branch, "A branch.", nil, api.Ref{}, false, ""},
		{"POST", refs + "/heads/{branch...}", token, s.createBranch, "Make a branch.", api.NewBranch{}, api.Ref{}, false, ""},
		{"DELETE", refs + "/heads/{branch...}", token, s.deleteBranch, "Delete a branch that is not protected.", nil, okBody{}, false, ""},
		{"GET", refs + "/tags/", token, s.tags, "Every tag.", nil, api.TagList{}, false, ""},
		{"GET", refs + "/tags/{tag...}", token, s.tag, "A tag.", nil, api.Tag{}, false, ""},
		{"GET", repoBase + "/git/tags/{sha}", token, s.tagObject, "An annotated tag by its object id.", nil, api.Tag{}, false, ""},

		{"GET", repoBase + "/github-sync", token, s.githubSync, "GitHub sync: not configured, 404 with plain text, as the SDK wants it.", nil, nil, false, ""},
		{"POST", repoBase + "/github-sync", key, s.githubSync, "GitHub sync is not available.", nil, nil, false, ""},
		{"DELETE", repoBase + "/github-sync", key, s.githubSync, "GitHub sync is not available.", nil, nil, false, ""},
	}
}

// repoRef is the repository in the path, by id or name.
func (q *request) repoRef() string { return q.values["repo"] }

func shownRepo(r vm.Repository) api.GitRepo {
	out := api.GitRepo{
		ID: r.ID, Name: r.Name, AccountID: r.Account, Visibility: "private", DefaultBranch: r.DefaultBranch,
		CreatedAt: r.CreatedAt, PushedAt: moment(r.PushedAt), Bytes: r.Bytes, ProtectedBranches: append([]string{}, r.Protected...),
	}
	if r.Public {
		out.Visibility = "public"
	}
	return out
}

func (s *server) createRepo(q *request) error {
	var in api.NewRepo
	if err := q.decode(&in, maxFileBody); err != nil {
		return err
	}
	req := repo.CreateRequest{Name: in.Name, Public: in.Public, DefaultBranch: in.DefaultBranch}
	var made vm.Repository
	var err error
	switch {
	case in.Source != nil && in.Import != nil:
		return vm.Errorf(vm.Invalid, "source", "source and import exclude each other").WithCode("SOURCE_IMPORT_CONFLICT").WithHint("leave one of them out")
	case in.Source != nil:
		rev := in.Source.Rev
		if rev == "" {
			rev = in.Source.Branch
		}
		made, err = s.Repo.CreateFrom(q.Context(), q.call, req, repo.Source{URL: in.Source.URL, Rev: rev, Depth: in.Source.Depth, All: in.Source.AllBranches})
	case in.Import != nil:
		made, err = s.Repo.CreateImport(q.Context(), q.call, req, repo.Import{
			Type: in.Import.Type, Files: in.Import.Files, URL: in.Import.URL, Dir: in.Import.Dir, Rev: in.Import.Rev,
			Message: in.Import.CommitMessage, AuthorName: in.Import.AuthorName, AuthorEmail: in.Import.AuthorEmail,
		})
	default:
		made, err = s.Repo.Create(q.Context(), q.call, req)
	}
	if err != nil {
		return err
	}
	return q.ok(api.CreatedRepo{RepoID: made.ID})
}

func (s *server) repos(q *request) error {
	p, err := q.page()
	if err != nil {
		return err
	}
	if p.Limit == 0 {
		p.Limit = 10
	}
	list, total, err := s.Repo.List(q.Context(), q.call, repo.Filter{Search: q.query().Get("search"), Limit: p.Limit, Offset: p.Offset})
	if err != nil {
		return err
	}
	out := api.RepoList{Repositories: []api.ListedRepo{}, Total: total, Offset: p.Offset}
	for _, r := range list {
		one, err := s.listedRepo(q, r)
		if vm.KindOf(err) == vm.NotFound { // deleted meanwhile
			continue
		}
		if err != nil {
			return err
		}
		out.Repositories = append(out.Repositories, one)
	}
	return q.ok(out)
}

// listedRepo adds branches and tags.
func (s *server) listedRepo(q *request, r vm.Repository) (api.ListedRepo, error) {
	out := api.ListedRepo{GitRepo: shownRepo(r), Branches: map[string]api.ListedBranch{}, Tags: map[string]api.ListedTag{}}
	branches, err := s.Repo.Branches(q.Context(), q.call, r.ID)
	if err != nil {
		return out, err
	}
	for _, b := range branches {
		out.Branches[b.Name] = api.ListedBranch{Default: b.Name == r.DefaultBranch, Name: b.Name, Target: text(b.Commit)}
	}
	tags, err := s.Repo.Tags(q.Context(), q.call, r.ID)
	for _, t := range tags {
		out.Tags[t.Name] = api.ListedTag{Name: t.Name, Target: t.Target, Message: text(t.Message)}
	}
	return out, err
}

// text returns nil for "".
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (s *server) repo(q *request) error {
	r, err := s.Repo.Get(q.Context(), q.call, q.repoRef())
	if err != nil {
		return err
	}
	return q.ok(shownRepo(r))
}

func (s *server) removeRepo(q *request) error {
	if err := s.Repo.Remove(q.Context(), q.call, q.repoRef()); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) repoVisibility(q *request) error {
	r, err := s.Repo.Get(q.Context(), q.call, q.repoRef())
	if err != nil {
		return err
	}
	return q.ok(api.RepoVisibility{Visibility: shownRepo(r).Visibility})
}

func (s *server) setRepoVisibility(q *request) error {
	var in api.RepoVisibility
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	if in.Visibility != "public" && in.Visibility != "private" {
		return badGit("visibility", "a repository is public or private").WithHint("send {\"visibility\":\"private\"}")
	}
	public := in.Visibility == "public"
	if _, err := s.Repo.Set(q.Context(), q.call, q.repoRef(), repo.Change{Public: &public}); err != nil {
		return err
	}
	return q.ok(in)
}

// badGit is the error for a request that is not what a route of git takes.
func badGit(subject, format string, args ...any) *vm.Error {
	return vm.Errorf(vm.Invalid, subject, format, args...).WithCode("GIT_INVALID_REQUEST")
}

func (s *server) defaultBranch(q *request) error {
	r, err := s.Repo.Get(q.Context(), q.call, q.repoRef())
	if err != nil {
		return err
	}
	return q.ok(api.DefaultBranch{DefaultBranch: r.DefaultBranch})
}

func (s *server) setDefaultBranch(q *request) error {
	var in api.DefaultBranch
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	if in.DefaultBranch == "" {
		return vm.Errorf(vm.Invalid, "defaultBranch", "the name of the branch is missing").WithCode("BRANCH_NAME_EMPTY")
	}
	if _, err := s.Repo.Set(q.Context(), q.call, q.repoRef(), repo.Change{DefaultBranch: &in.DefaultBranch}); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) protectedBranches(q *request) error {
	r, err := s.Repo.Get(q.Context(), q.call, q.repoRef())
	return q.protected(r, err)
}

func (q *request) protected(r vm.Repository, err error) error {
	if err != nil {
		return err
	}
	return q.ok(api.ProtectedBranches{Branches: append([]string{}, r.Protected...)})
}

func (s *server) protect(q *request) error {
	r, err := s.Repo.Protect(q.Context(), q.call, q.repoRef(), q.values["branch"])
	return q.protected(r, err)
}

func (s *server) unprotect(q *request) error {
	r, err := s.Repo.Unprotect(q.Context(), q.call, q.repoRef(), q.values["branch"])
	return q.protected(r, err)
}

func (s *server) branch(q *request) error {
	b, err := s.Repo.Branch(q.Context(), q.call, q.repoRef(), q.values["branch"])
	if err != nil {
		return err
	}
	return q.ok(api.Ref{Name: "refs/heads/" + b.Name, SHA: b.Commit})
}

func (s *server) branches(q *request) error {
	list, err := s.Repo.Branches(q.Context(), q.call, q.repoRef())
	if err != nil {
		return err
	}
	out := api.BranchList{Branches: []api.Branch{}}
	for _, b := range list {
		out.Branches = append(out.Branches, api.Branch{Name: b.Name, Commit: text(b.Commit), Protected: b.Protected})
	}
	return q.ok(out)
}

// brokenBranch is what freestyle@0.1.63 sends in place of a branch's name.
const brokenBranch = "{*branch}"

func (s *server) createBranch(q *request) error {
	name := q.values["branch"]
	switch name {
	case brokenBranch:
		return badGit(name, "this SDK sends its path template in place of the branch's name, so the name never arrives").
			WithHint("make the branch by a commit to its name, or by `git push`")
	case "":
		return vm.Errorf(vm.Invalid, "branch", "the name of the branch is missing").WithCode("BRANCH_NAME_EMPTY")
	}
	var in api.NewBranch
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	b, err := s.Repo.CreateBranch(q.Context(), q.call, q.repoRef(), name, in.SHA)
	if err != nil {
		return err
	}
	return q.ok(api.Ref{Name: "refs/heads/" + b.Name, SHA: b.Commit})
}

func (s *server) deleteBranch(q *request) error {
	if err := s.Repo.DeleteBranch(q.Context(), q.call, q.repoRef(), q.values["branch"]); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func shownTag(t vm.Tag) api.Tag {
	return api.Tag{Name: t.Name, Tagger: t.Tagger, Message: text(t.Message), Target: api.GitObject{SHA: t.Target}, SHA: t.SHA}
}

func (s *server) tag(q *request) error {
	t, err := s.Repo.Tag(q.Context(), q.call, q.repoRef(), q.values["tag"])
	if err != nil {
		return err
	}
	return q.ok(shownTag(t))
}

func (s *server) tags(q *request) error {
	list, err := s.Repo.Tags(q.Context(), q.call, q.repoRef())
	if err != nil {
		return err
	}
	out := api.TagList{Tags: []api.Tag{}}
	for _, t := range list {
		out.Tags = append(out.Tags, shownTag(t))
	}
	return q.ok(out)
}

func (s *server) tagObject(q *request) error {
	t, err := s.Repo.TagObject(q.Context(), q.call, q.repoRef(), q.values["sha"])
	if err != nil {
		return err
	}
	return q.ok(shownTag(t))
}

// githubSync says that there is none. The SDK takes it for "not configured" only if the
// body is not JSON.
func (s *server) githubSync(q *request) error {
	if _, err := s.Repo.Get(q.Context(), q.call, q.repoRef()); err != nil {
		return err
	}
	q.header("text/plain; charset=utf-8")
	q.w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(q.w, "GitHub sync is not configured\n")
	return nil
}
