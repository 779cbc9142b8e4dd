// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Tags lists the tags, by name.
func (r *Repo) Tags(ctx context.Context, c *vm.Call, ref string) (list []vm.Tag, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	rec, _, dir, err := r.reach(c, ref, Read)
	if err != nil {
		return nil, err
	}
	rows, err := r.refs(ctx, dir, "refs/tags/")
	if err != nil {
		return nil, err
	}
	o, err := r.objectsOf(ctx, rec.ID)
	if err != nil {
		return nil, err
	}
	defer o.close()
	list = []vm.Tag{}
	for _, row := range rows {
		t, err := o.tag(strings.TrimPrefix(row.name, "refs/tags/"), row.id, row.kind)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// tag is the tag with a short name, whose ref names an object of a kind.
func (o *objects) tag(name, id, kind string) (vm.Tag, error) {
	if kind != "tag" {
		return vm.Tag{Name: name, SHA: id, Target: id}, nil
	}
	_, data, err := o.read(id, maxParsed)
	if err != nil {
		return vm.Tag{}, err
	}
	t := parseTag(id, data)
	t.Name = cmp.Or(name, t.Name)
	return t, nil
}

// Tag returns the tag with a name. Kind NotFound, code TAG_NOT_FOUND.
func (r *Repo) Tag(ctx context.Context, c *vm.Call, ref, name string) (vm.Tag, error) {
	if name == "" {
		return vm.Tag{}, vm.WithOp(vm.OpRepoRead, ref, vm.Errorf(vm.Invalid, "", "the name of the tag is empty").WithCode("EMPTY_TAG"))
	}
	if badRef(name) != "" {
		return vm.Tag{}, vm.WithOp(vm.OpRepoRead, ref, noTag(name))
	}
	return r.tagBy(ctx, c, ref, name, "refs/tags/"+name)
}

// TagObject returns the annotated tag with an object id.
func (r *Repo) TagObject(ctx context.Context, c *vm.Call, ref, sha string) (vm.Tag, error) {
	if err := checkID(sha); err != nil {
		return vm.Tag{}, vm.WithOp(vm.OpRepoRead, ref, err)
	}
	t, err := r.tagBy(ctx, c, ref, "", sha)
	if err == nil && t.Name == "" { // an object, but no tag
		err = vm.WithOp(vm.OpRepoRead, ref, noTag(sha))
	}
	return t, err
}

func (r *Repo) tagBy(ctx context.Context, c *vm.Call, ref, name, at string) (t vm.Tag, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	_, o, err := r.readable(ctx, c, ref)
	if err != nil {
		return t, err
	}
	defer o.close()
	got, err := o.info(at)
	if err == nil && got.kind == "" {
		err = noTag(cmp.Or(name, at))
	}
	if err != nil {
		return t, err
	}
	return o.tag(name, got.id, got.kind)
}

func noTag(name string) error {
	shown := vm.GuestPath(vm.Clip(name, maxRefName)).String()
	return vm.Errorf(vm.NotFound, shown, "no such tag").WithCode("TAG_NOT_FOUND", "hash", shown)
}

func checkID(sha string) error {
	if objectID.MatchString(sha) {
		return nil
	}
	shown := vm.GuestPath(vm.Clip(sha, 100)).String()
	return vm.Errorf(vm.Invalid, shown, "is not the id of an object").WithCode("INVALID_OBJECT_ID", "hash", shown).WithHint("use all 40 hexadecimal digits, in lower case")
}

// CommitFilter selects commits.
type CommitFilter struct {
	Branch string // or any revision; "" = the default branch
	Since  string // the older end, which is left out
	Until  string // the newer end, which is included
	Path   string // only commits that changed it; "" = any
	Limit  int    // 0 = 50, at most 500
	Offset int    // not with Since and Until
	Oldest bool   // the oldest first
	Count  bool   // with Total
}

// Commits is a page of commits.
type Commits struct {
	Commits []vm.Commit
	Total   int    // if it was asked for
	Next    string // the commit that follows the page; "" = none
}

const maxCommits = 500 // of one page

// Commits lists commits. A default branch without a commit has none.
func (r *Repo) Commits(ctx context.Context, c *vm.Call, ref string, f CommitFilter) (page Commits, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	page.Commits = []vm.Commit{}
	rec, _, dir, err := r.reach(c, ref, Read)
	if err != nil {
		return page, err
	}
	f.Limit = cmp.Or(f.Limit, 50)
	switch {
	case f.Limit < 0 || f.Limit > maxCommits || f.Offset < 0:
		return page, vm.Errorf(vm.Invalid, "", "limit is 1 to %d, and offset not negative", maxCommits).WithCode("GIT_INVALID_REQUEST")
	case f.Offset > 0 && (f.Since != "" || f.Until != ""):
		return page, vm.Errorf(vm.Invalid, "", "an offset cannot be combined with since and until").WithCode("OFFSET_WITH_SELECTOR")
	}
	o, err := r.objectsOf(ctx, rec.ID)
	if err != nil {
		return page, err
	}
	defer o.close()
	span, err := r.span(ctx, o, &rec, dir, f)
	if err != nil {
		if vm.AsError(err).Code == "NO_DEFAULT_BRANCH" && f.Branch == "" {
			return page, nil
		}
		return page, err
	}
	var tail []string
	if f.Path != "" {
		tail = []string{"--", f.Path}
	}
	if f.Count {
		out, err := r.run(ctx, program{dir: dir, args: slices.Concat([]string{"rev-list", "--count"}, span, tail)})
		if err != nil {
			return page, err
		}
		page.Total, _ = strconv.Atoi(strings.TrimSpace(string(out)))
	}
	args := []string{"rev-list"}
	if f.Oldest { // git reverses what a limit leaves
		args = append(args, "--reverse")
	} else {
		args = append(args, "--skip="+strconv.Itoa(f.Offset), "--max-count="+strconv.Itoa(f.Limit+1))
	}
	out, err := r.run(ctx, program{dir: dir, args: slices.Concat(args, span, tail)})
	if err != nil {
		return page, err
	}
	ids := strings.Fields(string(out))
	if f.Oldest {
		ids = ids[min(f.Offset, len(ids)):]
	}
	if len(ids) > f.Limit {
		page.Next = ids[f.Limit]
		ids = ids[:f.Limit]
	}
	for _, id := range ids {
		_, data, err := o.read(id, maxParsed)
		if err != nil {
			return page, err
		}
		page.Commits = append(page.Commits, parseCommit(id, data))
	}
	return page, nil
}

// span returns the arguments of rev-list for a filter.
func (r *Repo) span(ctx context.Context, o *objects, rec *vm.Repository, dir string, f CommitFilter) ([]string, error) {
	tip, err := o.resolve(rec, cmp.Or(f.Branch, rec.DefaultBranch), "commit")
	if err != nil {
		if f.Branch != "" && vm.AsError(err).Code == "REFERENCE_NOT_FOUND" {
			err = noBranch(f.Branch)
		}
		return nil, err
	}
	within := func(rev, of string) (string, error) {
		got, err := o.resolve(rec, rev, "commit")
		if err != nil {
			return "", err
		}
		_, err = r.run(ctx, program{dir: dir, args: []string{"merge-base", "--is-ancestor", got.id, of}})
		if exitOf(err) == 1 {
			return "", vm.Errorf(vm.Invalid, got.id, "the commit is not in the branch").WithCode("COMMIT_NOT_IN_BRANCH", "sha", got.id, "branch", cmp.Or(f.Branch, rec.DefaultBranch))
		}
		return got.id, err
	}
	until := tip.id
	if f.Until != "" {
		if until, err = within(f.Until, tip.id); err != nil {
			return nil, err
		}
	}
	if f.Since == "" {
		return []string{until}, nil
	}
	since, err := within(f.Since, tip.id)
	if err != nil {
		return nil, err
	}
	if _, err := within(since, until); err != nil {
		if vm.AsError(err).Code == "COMMIT_NOT_IN_BRANCH" {
			err = vm.Errorf(vm.Invalid, "", "since is not before until").WithCode("INVALID_RANGE", "since", since, "until", until)
		}
		return nil, err
	}
	return []string{until, "^" + since}, nil
}

// CommitAt returns the commit that a revision names: an id, a branch or a tag. Kind
// NotFound, code COMMIT_NOT_FOUND for an id.
func (r *Repo) CommitAt(ctx context.Context, c *vm.Call, ref, rev string) (out vm.Commit, err error) {
	defer func() { err = vm.WithOp(vm.OpRepoRead, ref, err) }()
	rec, o, err := r.readable(ctx, c, ref)
	if err != nil {
		return out, err
	}
	defer o.close()
	return o.commit(&rec, cmp.Or(rev, rec.DefaultBranch))
}

// commit reads the commit that a revision names.
func (o *objects) commit(rec *vm.Repository, rev string) (vm.Commit, error) {
	got, err := o.resolve(rec, rev, "commit")
	if err != nil {
		return vm.Commit{}, err
	}
	_, data, err := o.read(got.id, maxParsed)
	return parseCommit(got.id, data), err
}
