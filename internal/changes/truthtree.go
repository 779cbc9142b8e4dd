// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// repoAll selects every repository that the caller may read.
var repoAll = repo.Filter{}

// mostCandidates is how many commits one tree is compared with.
const mostCandidates = 4

// treeOrder is the order in which kinds of trees are listed.
var treeOrder = []string{vm.TreeWorkdir, vm.TreeRepository, vm.TreeMemory, vm.TreeHome, vm.TreeSystem}

// trees makes the trees of files.
func (t *truth) trees(ctx context.Context) error {
	t.listed = map[string]map[string]string{}
	by := map[treeKey][]truthFile{}
	for i := range t.clones {
		by[treeKey{clone: i + 1}] = nil
	}
	for _, f := range t.files {
		by[f.tree] = append(by[f.tree], f)
	}
	if w := t.rec.Workdir; w != "" && w != "/" && !slices.ContainsFunc(t.clones, func(k review.TruthClone) bool { return string(k.Root) == w }) {
		key := treeKey{kind: vm.TreeWorkdir, path: w}
		by[key] = append(by[key], truthFile{}) // it is shown, also without files
	}
	if slices.ContainsFunc(t.counts, func(n review.TruthCount) bool { return n.Clone == 0 }) {
		key := treeKey{kind: vm.TreeSystem, path: "/"}
		by[key] = append(by[key], truthFile{})
	}
	if t.memory.Repo != "" && !slices.ContainsFunc(t.clones, func(k review.TruthClone) bool { return k.Root == vm.MemoryPath }) {
		key := treeKey{kind: vm.TreeMemory, path: vm.MemoryPath}
		by[key] = append(by[key], truthFile{})
	}
	for key, files := range by {
		files = slices.DeleteFunc(files, func(f truthFile) bool { return f.path == "" })
		tree, shown, err := t.tree(ctx, key, files)
		if err != nil {
			return err
		}
		if shown {
			t.out.Trees = append(t.out.Trees, tree)
		}
	}
	slices.SortFunc(t.out.Trees, func(a, b vm.TruthTree) int {
		return cmp.Or(cmp.Compare(slices.Index(treeOrder, a.Kind), slices.Index(treeOrder, b.Kind)), cmp.Compare(a.Path, b.Path))
	})
	return nil
}

// tree makes one tree. It is not shown if it is a repository of the image in which
// nothing changed.
func (t *truth) tree(ctx context.Context, key treeKey, files []truthFile) (tree vm.TruthTree, shown bool, err error) {
	tree = vm.TruthTree{Kind: key.kind, Path: vm.GuestPath(key.path), Authority: t.machine()}
	var k *review.TruthClone
	if key.clone > 0 {
		k = &t.clones[key.clone-1]
		t.describe(&tree, k)
	}
	same := t.tally(&tree, key)
	if k != nil && !k.Changed && len(files) == 0 && string(k.Root) != t.rec.Workdir {
		return tree, false, nil
	}
	claimed := k != nil && slices.ContainsFunc(k.Refs, func(r review.TruthRef) bool { return r.Remote && r.ID == k.Head })
	for _, f := range files {
		if len(f.alike) > 0 || f.id != "" && t.where[f.id] > 0 {
			continue
		}
		if claimed && f.index {
			tree.Only.Claimed, tree.Only.ClaimedBytes = tree.Only.Claimed+1, tree.Only.ClaimedBytes+f.size
			continue
		}
		one := vm.OnlyHere{Files: 1, Bytes: f.size, Examples: []vm.GuestPath{vm.GuestPath(f.path)}}
		tree.Only.Add(one)
	}
	if k != nil {
		t.commits(&tree, k)
	}
	if err := t.compare(ctx, &tree, k, files, same); err != nil {
		return tree, false, err
	}
	t.objects(&tree, files)
	return tree, true, nil
}

// objects names the objects that have files of a tree as they are. An object that has all
// of them is the authority, unless a commit is.
func (t *truth) objects(tree *vm.TruthTree, files []truthFile) {
	has := make([]int, len(t.bases))
	for _, f := range files {
		for _, i := range f.alike {
			has[i]++
		}
	}
	for i, object := range t.bases {
		switch {
		case object.Place == "" || has[i] == 0:
		case has[i] == len(files) && tree.Authority.Place == vm.PlaceMachine && !tree.Only.Some():
			tree.Copies, tree.Authority, tree.Stays = append([]vm.DataCopy{tree.Authority}, tree.Copies...), object, true
		default:
			tree.Copies = append(tree.Copies, object)
		}
	}
}

// describe fills in what a clone says of itself.
func (t *truth) describe(tree *vm.TruthTree, k *review.TruthClone) {
	tree.Kind, tree.Path = vm.TreeRepository, cmp.Or(k.Root, k.Dir)
	switch {
	case t.rec.Workdir != "" && string(k.Root) == t.rec.Workdir:
		tree.Kind = vm.TreeWorkdir
	case k.Root == vm.MemoryPath:
		tree.Kind = vm.TreeMemory
	}
	tree.Clone = &vm.Clone{Branch: vm.GuestPath(k.Branch).String(), Head: k.Head, Hosted: t.where[k.Head] > 0, Bare: k.Root == "", Remotes: k.Remotes}
	if k.Branch == "" {
		tree.Clone.Branch = ""
	}
	if k.Cut {
		tree.Notes = append(tree.Notes, "it has more branches or commits than are read")
	}
}

// tally adds the files that are only counted, and returns how many of a clone are as in
// the image.
func (t *truth) tally(tree *vm.TruthTree, key treeKey) (same int) {
	for _, n := range t.counts {
		switch {
		case n.Clone != key.clone:
		case n.Class == review.ClassSame:
			same += n.Files
		case key.clone > 0 || t.counted(key, n):
			tree.Only.Ignored, tree.Only.IgnoredBytes = tree.Only.Ignored+n.Files, tree.Only.IgnoredBytes+n.Bytes
		}
	}
	return same
}

// counted reports whether files outside of clones that are only counted are shown with a
// tree: all of them with the system's.
func (t *truth) counted(key treeKey, n review.TruthCount) bool {
	return key.kind == vm.TreeSystem && n.Clone == 0
}

// commits counts the commits of a clone that no repository of this server has.
func (t *truth) commits(tree *vm.TruthTree, k *review.TruthClone) {
	if !k.Changed || !k.New {
		return
	}
	at, claimed := map[string]*review.TruthCommit{}, map[string]bool{}
	for i := range k.Commits {
		at[k.Commits[i].ID] = &k.Commits[i]
	}
	var queue []string
	for _, r := range k.Refs {
		if r.Remote {
			claimed[r.ID] = true
		} else {
			queue = append(queue, r.ID)
		}
	}
	if k.Head != "" {
		queue = append(queue, k.Head)
	}
	seen, said := map[string]bool{}, false
	for ; len(queue) > 0; queue = queue[1:] {
		id := queue[0]
		if seen[id] || t.where[id] > 0 {
			continue
		}
		seen[id] = true
		if claimed[id] {
			said = true
			continue
		}
		m := at[id]
		if m == nil {
			tree.Only.MoreCommits = true
			continue
		}
		one := vm.ClonedCommit{ID: id, Subject: vm.GuestPath(m.Subject).String(), Time: time.Unix(m.Time, 0).UTC()}
		tree.Only.Add(vm.OnlyHere{Commits: 1, Newest: &one})
		queue = append(queue, m.Parents...)
	}
	if said {
		names := make([]string, 0, len(k.Remotes))
		for _, r := range k.Remotes {
			names = append(names, r.Name+" ("+r.URL+")")
		}
		if len(names) == 0 {
			names = []string{"a remote"}
		}
		tree.Notes = append(tree.Notes, "it says that "+strings.Join(names, ", ")+" has commits that no repository here has: that was not checked")
	}
}

// candidate is a commit of this server that a tree may be a copy of.
type candidate struct {
	repo   int // index in repos
	commit string
	note   string
}

// candidates lists the commits that a tree is compared with.
func (t *truth) candidates(tree *vm.TruthTree, k *review.TruthClone) (list []candidate) {
	add := func(r int, commit, note string) {
		if r >= 0 && commit != "" && len(list) < mostCandidates && !slices.ContainsFunc(list, func(c candidate) bool { return c.repo == r && c.commit == commit }) {
			list = append(list, candidate{r, commit, note})
		}
	}
	if k != nil {
		parents := map[string][]string{}
		for _, m := range k.Commits {
			parents[m.ID] = m.Parents
		}
		id := k.Head // the newest commit before it that is hosted
		for n := 0; id != "" && n <= len(k.Commits); n++ {
			if r := t.where[id]; r > 0 {
				add(r-1, id, "")
				break
			}
			if p := parents[id]; len(p) > 0 {
				id = p[0]
			} else {
				id = ""
			}
		}
	}
	if tree.Kind == vm.TreeMemory {
		add(t.repoIndex(t.memory.Repo), t.memory.Commit, "the memory's newest commit")
	}
	if tree.Kind == vm.TreeWorkdir || tree.Kind == vm.TreeRepository {
		for _, g := range t.cfg.Engine.CommitsFrom(t.rec.ID) {
			add(t.repoIndex(g.CommitRepo), g.Commit, "made from generation "+string(g.ID))
		}
	}
	return list
}

// repoIndex is the place of a repository among those that were searched; -1 = it was not.
func (t *truth) repoIndex(id string) int {
	return slices.IndexFunc(t.repos, func(r vm.Repository) bool { return r.ID == id })
}

// compare finds the commit that a tree is most alike to, and what differs from it. The
// commit is the authority if it has everything.
func (t *truth) compare(ctx context.Context, tree *vm.TruthTree, k *review.TruthClone, files []truthFile, same int) error {
	best, found := vm.DiffStat{}, candidate{repo: -1}
	for _, cand := range t.candidates(tree, k) {
		stat, common, err := t.differ(ctx, cand, tree, files, same)
		if vm.KindOf(err) == vm.NotFound || vm.KindOf(err) == vm.Limit {
			continue
		}
		if err != nil {
			return err
		}
		if common == 0 && len(files) > 0 && (k == nil || cand.commit != k.Head) {
			continue // it is a commit of other files
		}
		if found.repo < 0 || stat.Files() < best.Files() {
			best, found = stat, cand
		}
	}
	if found.repo < 0 {
		return nil
	}
	r := t.repos[found.repo]
	branch, err := t.cfg.Repo.BranchWith(ctx, t.c, r.ID, found.commit)
	if err != nil && vm.KindOf(err) != vm.NotFound {
		return err
	}
	hosted := vm.DataCopy{Place: vm.PlaceRepository, Repo: r.ID, RepoName: r.Name, Branch: branch, Commit: found.commit, Note: found.note}
	if branch == "" { // nothing refers to it any more: it may go
		return nil
	}
	tree.Differs = best
	if best.Files() == 0 && !tree.Only.Some() && tree.Only.Claimed == 0 {
		tree.Copies, tree.Authority, tree.Stays = []vm.DataCopy{tree.Authority}, hosted, true
		return nil
	}
	tree.Copies = []vm.DataCopy{hosted}
	return nil
}

// differ compares the files of a tree with a commit. common counts those that it has.
func (t *truth) differ(ctx context.Context, cand candidate, tree *vm.TruthTree, files []truthFile, same int) (stat vm.DiffStat, common int, err error) {
	at, err := t.treeOfCommit(ctx, cand)
	if err != nil {
		return stat, 0, err
	}
	ids := map[string]bool{}
	for _, id := range at {
		ids[id] = true
	}
	seen := map[string]bool{}
	for _, f := range files {
		rel := strings.TrimPrefix(strings.TrimPrefix(f.path, string(tree.Path)), "/")
		seen[rel] = true
		switch id, there := at[rel]; {
		case there && id == f.id, !there && ids[f.id]:
			common++
		case there:
			stat.Modified++
		default:
			stat.Added++
		}
	}
	if tree.Clone != nil && !tree.Clone.Bare && same == 0 && cand.note == "" {
		for rel := range at {
			if !seen[rel] {
				stat.Deleted++
			}
		}
	}
	return stat, common, nil
}

// treeOfCommit lists the files of a commit: paths and ids of contents.
func (t *truth) treeOfCommit(ctx context.Context, cand candidate) (map[string]string, error) {
	key := fmt.Sprintf("%d %s", cand.repo, cand.commit)
	if at := t.listed[key]; at != nil {
		return at, nil
	}
	at, err := t.cfg.Repo.FilesOf(ctx, t.c, t.repos[cand.repo].ID, cand.commit)
	if err != nil {
		return nil, err
	}
	t.listed[key] = at
	return at, nil
}
