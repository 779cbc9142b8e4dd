// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

const (
	// searchLimit bounds the search of repositories for the contents of files.
	searchLimit = 20 * time.Second
	// A repository that the VM has nothing to do with is searched for a sample of many
	// contents first, and for the others only if it has one of the sample.
	manyContents = 5000
	sampleSize   = 500
)

// Truth says where the authoritative copy of each tree of a VM is, what differs between
// the copies, and what exists nowhere else. It reads the VM's disk as it is now: a running
// VM is paused for a moment, another is not started. Only repositories that the caller may
// read count. Kinds: NotFound, Denied, and those of engine.FrozenDisk and
// reader.Reader.Truth.
func (x *Changes) Truth(ctx context.Context, c *vm.Call, ref string) (out vm.Truth, err error) {
	defer func() { err = vm.WithOp(vm.OpDiff, ref, err) }()
	rec, err := x.cfg.Engine.Find(c.Actor, ref)
	if err != nil {
		return out, err
	}
	frozen, release, err := x.cfg.Engine.FrozenDisk(ctx, c, ref, engine.StateNow)
	if err != nil {
		return out, err
	}
	defer release()
	t := &truth{Changes: x, c: c, rec: rec, frozen: frozen, fixed: true}
	t.out = vm.Truth{
		VM: rec.ID, VMName: rec.Name, State: rec.State, Workdir: rec.Workdir,
		Generation: frozen.Side.Generation, At: frozen.Side.At, Trees: []vm.TruthTree{},
	}
	if err := t.judge(ctx); err != nil {
		return out, err
	}
	if err := t.mounted(ctx); err != nil {
		return out, err
	}
	t.previews()
	t.notChecked()
	return t.out, nil
}

// Losses counts what exists only on the disk of a VM, for the server itself. Nobody may
// write to layers, the disk's files with the top first. Kinds: those of Truth.
func (x *Changes) Losses(ctx context.Context, v vm.VM, layers []string) (vm.OnlyHere, error) {
	t := &truth{Changes: x, c: &vm.Call{Actor: vm.Actor{Account: v.Account, System: "storage"}}, rec: v}
	t.frozen = engine.Frozen{Side: vm.DiffSide{VM: v.ID, Generation: v.DiskOn}, Layers: layers, Synced: true, Workdir: v.Workdir}
	err := t.judge(ctx)
	return t.out.Only, vm.WithOp(vm.OpDiff, string(v.ID), err)
}

// judge finds the trees of files and what exists only in them.
func (t *truth) judge(ctx context.Context) (err error) {
	if t.Changes.memory != nil && t.c.Actor.Identity == "" {
		if t.memory, err = t.Changes.memory(ctx, t.c, string(t.rec.ID)); err != nil {
			return err
		}
	}
	if err := t.read(ctx); err != nil {
		return err
	}
	if err := t.search(ctx); err != nil {
		return err
	}
	if err := t.trees(ctx); err != nil {
		return err
	}
	for _, tree := range t.out.Trees {
		t.out.Only.Add(tree.Only)
	}
	return nil
}

// truth is one answer in the making.
type truth struct {
	*Changes
	c      *vm.Call
	rec    vm.VM
	frozen engine.Frozen
	fixed  bool // nobody writes to the frozen layers any more

	reading

	// bases are the objects that hold what a base of the reader's keeps; Place "" = the
	// kept state of the machine.
	bases  []vm.DataCopy
	repos  []vm.Repository // those that are searched, in this order
	memory vm.Memory       // Repo "" = it has none
	where  map[string]int  // ids of objects, and 1 + the index in repos
	cut    int             // repositories that were not searched
	sample int             // and those that were searched for a sample only
	listed map[string]map[string]string
	out    vm.Truth
}

// truthFile is a file that is not as in the image.
type truthFile struct {
	tree  treeKey
	path  string // absolute
	class string
	id    string
	size  int64
	alike []int // indexes of bases
	index bool  // the clone's index has this content
}

// treeKey names a tree: a clone by its number, else a kind and a directory.
type treeKey struct {
	clone int
	kind  string
	path  string
}

// read has the confined reader tell what the disk has that its image has not.
func (t *truth) read(ctx context.Context) error {
	disks := reader.Disks{Now: t.frozen.Layers}
	image, releaseImage, err := t.cfg.Engine.FrozenDisk(ctx, t.c, string(t.rec.ID), engine.StateImage)
	switch {
	case err == nil:
		defer releaseImage()
		disks.Image = image.Layers
	case vm.KindOf(err) != vm.NotFound:
		return err
	}
	release, err := t.findBases(ctx, &disks)
	defer release()
	if err != nil {
		return err
	}
	key := readingKey(disks, t.rec.Workdir)
	if known, ok := t.Changes.readings.get(key); ok && t.fixed {
		t.reading = known
		return nil
	}
	err = t.cfg.Reader.Truth(ctx, disks, t.rec.Workdir, func(line review.TruthLine) error {
		switch {
		case line.Clone != nil:
			t.clones = append(t.clones, *line.Clone)
		case line.Count != nil:
			t.counts = append(t.counts, *line.Count)
		case line.End != nil:
			t.end = *line.End
		case line.File != nil:
			f := line.File
			t.files = append(t.files, truthFile{tree: t.treeOf(f), path: string(f.Path), class: f.Class, id: f.ID, size: f.Size, alike: f.Alike, index: f.Index})
		}
		return nil
	})
	if err == nil && t.fixed {
		t.Changes.readings.put(key, t.reading)
	}
	return err
}

// findBases adds the states that stay when the VM is removed: the newest one that
// snapshots, forks or layers keep, and those from which something was published. Call
// release, also after an error.
func (t *truth) findBases(ctx context.Context, disks *reader.Disks) (release func(), err error) {
	var releases []func()
	release = func() {
		for _, r := range releases {
			r()
		}
	}
	kept, done, keepers, err := t.cfg.Engine.KeptBelow(t.c, t.rec.ID, t.frozen.Side.Generation)
	if err != nil {
		return release, err
	}
	releases = append(releases, done)
	if t.out.Kept = keepers; len(keepers) > 0 {
		disks.Bases, t.bases = append(disks.Bases, reader.Base{Layers: kept.Layers}), append(t.bases, vm.DataCopy{})
	}
	if t.published == nil {
		return release, nil
	}
	list, err := t.published(ctx, t.c, t.rec.ID)
	if err != nil {
		return release, err
	}
	for _, p := range list {
		if len(disks.Bases) == review.MaxTruthBases {
			t.cut++
			continue
		}
		f, done, err := t.cfg.Engine.FrozenDisk(ctx, t.c, string(t.rec.ID), string(p.Generation))
		if vm.KindOf(err) == vm.NotFound { // its disk is no longer kept: the object proves nothing
			continue
		}
		if err != nil {
			return release, err
		}
		releases = append(releases, done)
		p.Object.Place = vm.PlaceObject
		disks.Bases, t.bases = append(disks.Bases, reader.Base{Layers: f.Layers, Below: []vm.GuestPath{p.Path}}), append(t.bases, p.Object)
	}
	return release, nil
}

// treeOf finds the tree that a file is in.
func (t *truth) treeOf(f *review.TruthFile) treeKey {
	p := string(f.Path)
	if f.Clone > 0 {
		return treeKey{clone: f.Clone}
	}
	parts := strings.SplitN(p, "/", 4)
	switch f.Class {
	case string(review.Project):
		if t.inWorkdir(p) {
			return treeKey{kind: vm.TreeWorkdir, path: t.rec.Workdir}
		}
		return treeKey{kind: vm.TreeWorkdir, path: "/" + parts[1]}
	case string(review.Home):
		if parts[1] == "home" && len(parts) == 4 {
			return treeKey{kind: vm.TreeHome, path: "/home/" + parts[2]}
		}
		return treeKey{kind: vm.TreeHome, path: "/" + parts[1]}
	}
	if strings.HasPrefix(p, vm.MemoryPath+"/") {
		return treeKey{kind: vm.TreeMemory, path: vm.MemoryPath}
	}
	return treeKey{kind: vm.TreeSystem, path: "/"}
}

func (t *truth) inWorkdir(p string) bool {
	return t.rec.Workdir != "" && (p == t.rec.Workdir || strings.HasPrefix(p, strings.TrimSuffix(t.rec.Workdir, "/")+"/"))
}

// search finds the repositories that have the contents of files, and the commits.
func (t *truth) search(ctx context.Context) error {
	t.where = map[string]int{}
	wanted := map[string]bool{}
	for _, f := range t.files {
		if f.id != "" {
			wanted[f.id] = true
		}
	}
	for i := range t.clones {
		k := &t.clones[i]
		if k.Head != "" {
			wanted[k.Head] = true
		}
		for _, r := range k.Refs {
			wanted[r.ID] = true
		}
		for _, m := range k.Commits {
			wanted[m.ID] = true
			for _, p := range m.Parents {
				wanted[p] = true
			}
		}
	}
	list, _, err := t.cfg.Repo.List(ctx, t.c, repoAll)
	if err != nil {
		return err
	}
	near := 0
	t.repos, near = t.related(list)
	bounded, stop := context.WithTimeout(ctx, searchLimit)
	defer stop()
	for i := 0; i < len(t.repos) && len(wanted) > 0; i++ {
		ids := slices.Collect(maps.Keys(wanted))
		has := true
		var err error
		if i >= near && len(ids) > manyContents { // the order of ids is random
			var some map[string]bool
			some, err = t.cfg.Repo.Reached(bounded, t.c, t.repos[i].ID, ids[:sampleSize])
			has = len(some) > 0
		}
		found := map[string]bool{}
		if err == nil && has {
			found, err = t.cfg.Repo.Reached(bounded, t.c, t.repos[i].ID, ids)
		} else if err == nil {
			t.sample++
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case bounded.Err() != nil:
			t.cut = len(t.repos) - i
			return nil
		case vm.KindOf(err) == vm.Unsupported: // there is no git
			return err
		case err != nil: // one that is damaged keeps nothing safe
			t.cut++
			t.cfg.Log.Warn("a repository could not be searched", "repository", t.repos[i].ID, "err", err)
		}
		for id := range found {
			t.where[id] = i + 1
			delete(wanted, id)
		}
	}
	return nil
}

// related puts the repositories first that the VM has to do with, and counts them.
func (t *truth) related(list []vm.Repository) (sorted []vm.Repository, near int) {
	rank := map[string]int{}
	for _, g := range t.cfg.Engine.CommitsFrom(t.rec.ID) {
		rank[g.CommitRepo] = -3
	}
	for _, g := range t.rec.Repos {
		rank[g.Repo] = min(rank[g.Repo], -2)
	}
	rank[t.memory.Repo] = -3
	for i := range t.clones {
		for _, remote := range t.clones[i].Remotes {
			for _, r := range list {
				end := strings.TrimSuffix(strings.TrimSuffix(remote.URL, "/"), ".git")
				if strings.HasSuffix(end, "/"+r.ID) || r.Name != "" && strings.HasSuffix(end, "/"+r.Name) {
					rank[r.ID] = min(rank[r.ID], -1)
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b vm.Repository) int { return cmp.Compare(rank[a.ID], rank[b.ID]) })
	for near < len(list) && rank[list[near].ID] < 0 {
		near++
	}
	return list, near
}

// machine is the VM's disk as a copy.
func (t *truth) machine() vm.DataCopy {
	return vm.DataCopy{Place: vm.PlaceMachine, VM: t.rec.ID, VMName: t.rec.Name, Generation: t.frozen.Side.Generation}
}

// mounted adds the volumes, directories of the host, and objects that are mounted.
func (t *truth) mounted(ctx context.Context) error {
	list, err := t.cfg.Engine.Mounts(ctx, t.c, string(t.rec.ID))
	if err != nil {
		return err
	}
	for _, m := range list {
		tree := vm.TruthTree{Path: vm.GuestPath(m.Path), Kind: vm.TreeVolume, Stays: true}
		tree.Authority = vm.DataCopy{Place: vm.PlaceVolume, Volume: m.Volume, Name: m.Project + "/" + m.Name}
		if vm.IsObjects(m.Host) {
			bucket, prefix, err := vm.ParseObjects(m.Host)
			if err != nil {
				return err
			}
			tree.Kind, tree.Authority = vm.TreeObjects, vm.DataCopy{Place: vm.PlaceObject, Bucket: bucket, Key: prefix}
		} else if m.Host != "" {
			tree.Kind, tree.Authority = vm.TreeFolder, vm.DataCopy{Place: vm.PlaceHost, Host: m.Host}
		}
		switch {
		case m.Cut:
			tree.Notes = append(tree.Notes, "the VM has lost it: every access fails")
		case m.RW:
			tree.Notes = append(tree.Notes, "what the VM writes there is written to it")
		default:
			tree.Notes = append(tree.Notes, "the VM may only read it")
		}
		t.out.Trees = append(t.out.Trees, tree)
	}
	return nil
}

const mostPreviews = 20

// previews adds the ports at which programs of the VM listened when its disk was read:
// what a preview shows is what that program says, and no commit's content.
func (t *truth) previews() {
	if t.frozen.State == nil {
		return
	}
	cwd, system := map[int]string{}, map[int]bool{}
	for _, p := range t.frozen.State.Processes {
		cwd[p.PID], system[p.PID] = p.Cwd, p.System
	}
	seen := map[int]bool{}
	for _, p := range t.frozen.State.Ports {
		if system[p.PID] || seen[p.Port] || len(seen) == mostPreviews || !strings.HasPrefix(p.Proto, "tcp") {
			continue
		}
		seen[p.Port] = true
		tree := vm.TruthTree{Kind: vm.TreePreview, Path: vm.GuestPath(fmt.Sprintf(":%d", p.Port))}
		tree.Authority = vm.DataCopy{Place: vm.PlaceProcess, VM: t.rec.ID, VMName: t.rec.Name, Note: vm.GuestPath(vm.Clip(p.Command, 200)).String()}
		tree.Notes = []string{"it shows what " + cmp.Or(tree.Authority.Note, "a program") + " answers"}
		if source := t.around(cwd[p.PID]); source != nil {
			tree.Copies = []vm.DataCopy{source.Authority}
			tree.Notes = append(tree.Notes, "the program works in "+source.Path.String()+", and may have read it before it last changed")
		}
		t.out.Trees = append(t.out.Trees, tree)
	}
}

// around returns the innermost tree of files with a path.
func (t *truth) around(p string) (found *vm.TruthTree) {
	for i := range t.out.Trees {
		tree := &t.out.Trees[i]
		dir := strings.TrimSuffix(string(tree.Path), "/")
		if dir != "" && (p == dir || strings.HasPrefix(p, dir+"/")) && (found == nil || len(dir) > len(found.Path)) {
			found = tree
		}
	}
	return found
}

// notChecked says what the answer does not know.
func (t *truth) notChecked() {
	note := func(format string, args ...any) {
		t.out.NotChecked = append(t.out.NotChecked, fmt.Sprintf(format, args...))
	}
	if !t.frozen.Synced {
		note("what programs had written in the last 30 s before the disk was read may be missing")
	}
	if t.rec.State == vm.Running || t.rec.State == vm.Suspended {
		note("what programs hold in memory and have not written")
	}
	if t.end.NoImage {
		note("which files are the image's: they count, too")
	}
	if t.end.Unhashed > 0 {
		note("the content of %d large files: they count as only here", t.end.Unhashed)
	}
	if t.end.Unlisted > 0 {
		note("%d files and directories beyond the limits", t.end.Unlisted)
	}
	if t.cut > 0 {
		note("%d repositories and objects, which could not be searched: what only they have counts as only here", t.cut)
	}
	if t.sample > 0 {
		note("all contents in %d repositories that the VM has nothing to do with: a sample of them was not found there", t.sample)
	}
	if t.c.Actor.Identity != "" {
		note("repositories that this identity may not read")
	}
	note("copies on other computers: what was copied out (`warren cp`, `warren sync`) or pushed elsewhere")
}
