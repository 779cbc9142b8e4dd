// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/changes"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

func (p *place) truth(ref string) vm.Truth {
	p.Helper()
	t, err := p.Truth(p.Context(), p.call(), ref)
	if err != nil {
		p.Fatalf("truth of %s: %v (%s)", ref, err, vm.AsError(err).Hint)
	}
	return t
}

// treeAt returns a tree of a truth by its path.
func (p *place) treeAt(t vm.Truth, path string) vm.TruthTree {
	p.Helper()
	i := slices.IndexFunc(t.Trees, func(tree vm.TruthTree) bool { return string(tree.Path) == path })
	if i < 0 {
		p.Fatalf("no tree is at %s: %+v", path, t.Trees)
	}
	return t.Trees[i]
}

// The working directory's authoritative copy is the machine until a commit has all of it,
// then that commit, until a file changes again. A file of an older commit is safe, too.
//
// 001-39
func TestTruthBeforeAndAfterACommit(t *testing.T) {
	p := newPlace(t)
	p.write("/work/a.go", "package a\n")
	p.write("/work/b.go", "package b\n")
	p.write("/root/notes", "remember\n")
	before := p.truth("app")
	work := p.treeAt(before, "/work")
	if work.Kind != vm.TreeWorkdir || work.Authority.Place != vm.PlaceMachine || work.Authority.Generation != before.Generation || work.Stays {
		t.Errorf("before the commit the authority of /work is %+v, want the machine at %s", work.Authority, before.Generation)
	}
	if work.Only.Files != 2 || before.Only.Files != 3 {
		t.Errorf("before the commit, %d files of /work and %d in all are only here, want 2 and 3", work.Only.Files, before.Only.Files)
	}
	made := p.committed(vm.CommitRequest{Message: "both"})
	after := p.truth("app")
	work = p.treeAt(after, "/work")
	want := vm.DataCopy{Place: vm.PlaceRepository, Repo: p.repo.ID, RepoName: "shop", Branch: made.Branch, Commit: made.Commit, Note: work.Authority.Note}
	if work.Authority != want || !work.Stays || work.Only.Some() {
		t.Errorf("after the commit the authority of /work is %+v (only here: %+v), want %+v", work.Authority, work.Only, want)
	}
	if len(work.Copies) != 1 || work.Copies[0].Place != vm.PlaceMachine {
		t.Errorf("the other copies are %+v, want the machine", work.Copies)
	}
	if home := p.treeAt(after, "/root"); home.Only.Files != 1 || after.Only.Files != 1 || len(home.Only.Examples) != 1 || home.Only.Examples[0] != "/root/notes" {
		t.Errorf("of /root, %+v is only here, want the notes", home.Only)
	}
	p.write("/work/a.go", "package a // changed\n")
	p.write("/work/c.go", "package c\n")
	work = p.treeAt(p.truth("app"), "/work")
	if work.Authority.Place != vm.PlaceMachine || work.Differs.Modified != 1 || work.Differs.Added != 1 || work.Only.Files != 2 {
		t.Errorf("with one changed and one new file, the authority is %+v with the differences %+v; only here: %+v", work.Authority, work.Differs, work.Only)
	}
	if len(work.Copies) != 1 || work.Copies[0].Commit != made.Commit {
		t.Errorf("the other copies are %+v, want the commit", work.Copies)
	}
}

// A clone whose commit is hosted is that commit, wherever it is; files in it that no
// commit has, commits that no repository has, and a commit that no branch reaches any more
// are only here.
func TestTruthOfAClone(t *testing.T) {
	p := newPlace(t)
	first := p.put("main", "a.go", "package a\n")
	p.write("/work/x/.git/HEAD", first.SHA+"\n")
	p.write("/work/x/.gitignore", "*.log\n")
	p.put("main", ".gitignore", "*.log\n")
	second := p.put("main", "old.go", "package old\n")
	p.write("/work/x/.git/HEAD", second.SHA+"\n")
	p.write("/work/x/a.go", "package a\n")
	p.write("/work/x/old.go", "package old\n")
	p.write("/work/x/noise.log", "noise")
	got := p.treeAt(p.truth("app"), "/work/x")
	if got.Clone == nil || !got.Clone.Hosted || got.Authority.Commit != second.SHA || got.Authority.Branch != "main" || got.Only.Some() || got.Only.Ignored != 1 {
		t.Errorf("a clean clone is %+v, want the commit %s of main, with one ignored file", got, second.SHA)
	}
	p.write("/work/x/new.go", "package x\n")
	got = p.treeAt(p.truth("app"), "/work/x")
	if got.Authority.Place != vm.PlaceMachine || got.Differs.Added != 1 || got.Only.Files != 1 || got.Only.Examples[0] != "/work/x/new.go" {
		t.Errorf("with a new file the clone is %+v, want the machine, and the file only here", got)
	}
	if err := p.Inside.Remove(t.Context(), p.call(), "app", "", "/work/x/new.go", false); err != nil {
		t.Fatal(err)
	}
	p.write("/work/x/.git/HEAD", strings.Repeat("ab", 20)+"\n")
	got = p.treeAt(p.truth("app"), "/work/x")
	if got.Clone.Hosted || !got.Only.MoreCommits || got.Only.Files != 0 || got.Authority.Place != vm.PlaceMachine {
		t.Errorf("a clone at a commit of nobody is %+v, want commits that could not be counted, and files that are safe", got)
	}
}

// What only an unreferenced object of a repository has is not safe there.
func TestTruthWantsAReachableCommit(t *testing.T) {
	p := newPlace(t)
	p.put("main", "a.go", "package a\n")
	p.put("side", "lost.go", "package lost\n")
	p.write("/work/lost.go", "package lost\n")
	if work := p.treeAt(p.truth("app"), "/work"); work.Only.Files != 0 {
		t.Errorf("a file of a branch is only here: %+v", work.Only)
	}
	if err := p.Repo.DeleteBranch(t.Context(), p.call(), "shop", "side"); err != nil {
		t.Fatal(err)
	}
	if work := p.treeAt(p.truth("app"), "/work"); work.Only.Files != 1 {
		t.Errorf("after its branch was deleted, the file is not only here: %+v", work.Only)
	}
}

// Snapshots and forks are other copies of the machine: what they have is not lost with it.
func TestTruthKnowsOtherCopies(t *testing.T) {
	p := newPlace(t)
	p.write("/work/a", "one\n")
	snap, err := p.Snapshot(t.Context(), p.call(), "app", engine.SnapshotRequest{Name: "before"})
	if err != nil {
		t.Fatal(err)
	}
	p.write("/work/b", "two\n")
	got := p.truth("app")
	if got.Only.Files != 1 || len(got.Only.Examples) != 1 || got.Only.Examples[0] != "/work/b" {
		t.Errorf("after a snapshot, %+v is only here, want the later file", got.Only)
	}
	if len(got.Kept) == 0 || got.Kept[0].Snapshot != snap.Snapshot {
		t.Errorf("kept are %+v, want the snapshot %s", got.Kept, snap.Snapshot)
	}
	if _, err := p.RemoveSnapshot(t.Context(), p.call(), string(snap.Snapshot)); err != nil {
		t.Fatal(err)
	}
	if got := p.truth("app"); got.Only.Files != 2 || len(got.Kept) != 0 {
		t.Errorf("without the snapshot, %+v is only here and %+v is kept, want both files and nothing", got.Only, got.Kept)
	}
}

// What was published to object storage stays: it is named as the object's version, and
// counts until the file changes again.
func TestTruthKnowsPublishedObjects(t *testing.T) {
	p := newPlace(t)
	p.write("/work/out/report", "one\n")
	p.write("/work/other", "two\n")
	at := p.truth("app").Generation
	object := vm.DataCopy{Place: vm.PlaceObject, Bucket: "results", Key: "report", Version: "v-1"}
	p.Changes.OpenObjects(func(context.Context, *vm.Call, vm.ID) ([]changes.Published, error) {
		return []changes.Published{{Object: object, Path: "/work/out", Generation: at}}, nil
	})
	got := p.truth("app")
	work := p.treeAt(got, "/work")
	if got.Only.Files != 1 || got.Only.Examples[0] != "/work/other" {
		t.Errorf("after a publish of /work/out, %+v is only here, want the other file", got.Only)
	}
	if len(work.Copies) != 1 || work.Copies[0] != object || work.Authority.Place != vm.PlaceMachine {
		t.Errorf("the copies of /work are %+v and %+v, want the machine and the object", work.Authority, work.Copies)
	}
	if err := p.Inside.Remove(t.Context(), p.call(), "app", "", "/work/other", false); err != nil {
		t.Fatal(err)
	}
	if work = p.treeAt(p.truth("app"), "/work"); work.Authority != object || !work.Stays {
		t.Errorf("an object that has everything is not the authority: %+v", work)
	}
	p.write("/work/out/report", "three\n")
	if work = p.treeAt(p.truth("app"), "/work"); work.Only.Files != 1 || work.Authority.Place != vm.PlaceMachine {
		t.Errorf("after another write, %+v is only here and the authority is %s, want the report and the machine", work.Only, work.Authority)
	}
}

// A VM that does not run is judged without a start. Its disk is read once, until somebody
// writes to it; what repositories have is looked up each time.
func TestTruthOfAVMThatDoesNotRun(t *testing.T) {
	p := newPlace(t)
	reads := p.Changes.CountReads()
	p.write("/work/a", "one\n")
	if _, err := p.Stop(t.Context(), p.call(), "app"); err != nil {
		t.Fatal(err)
	}
	if got := p.truth("app"); got.State != vm.Stopped || got.Only.Files != 1 {
		t.Errorf("the truth of a stopped VM is %+v, want one file only here", got)
	}
	if rec, err := p.House.Get(t.Context(), p.call(), "app"); err != nil || rec.State != vm.Stopped {
		t.Errorf("afterwards the VM is %s (%v), want stopped", rec.State, err)
	}
	p.put("main", "a", "one\n")
	if got := p.truth("app"); got.Only.Files != 0 || reads() != 1 {
		t.Errorf("after a commit of the file, %d files are only here and the disk was read %d times, want none and once", got.Only.Files, reads())
	}
	if _, err := p.Start(t.Context(), p.call(), "app", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	p.write("/work/b", "two\n")
	if got := p.truth("app"); got.Only.Files != 1 || reads() != 2 {
		t.Errorf("after another write, %d files are only here and the disk was read %d times, want one and twice", got.Only.Files, reads())
	}
}

// An identity needs the right to read every file, and only repositories that it may read
// count.
func TestTruthForAnIdentity(t *testing.T) {
	p := newPlace(t)
	p.put("main", "a", "one\n")
	p.write("/work/a", "one\n")
	i, err := p.CreateIdentity(t.Context(), p.call(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	as := func() *vm.Call {
		return &vm.Call{Actor: vm.Actor{Account: p.c.Actor.Account, Identity: i.ID}, Request: vm.NewRequestID()}
	}
	_, err = p.Truth(t.Context(), as(), "app")
	refused(t, "the truth of a VM that was not granted", err, vm.Denied, "VM_ACCESS_DENIED")
	if _, err := p.GrantVM(t.Context(), p.call(), string(i.ID), "app", []string{"root"}); err != nil {
		t.Fatal(err)
	}
	got, err := p.Truth(t.Context(), as(), "app")
	if err != nil || got.Only.Files != 1 {
		t.Errorf("without a right to the repository, %+v is only here (%v), want the file", got.Only, err)
	}
	if err := p.GrantRepo(t.Context(), p.call(), string(i.ID), p.repo.ID, vm.GitRead, false); err != nil {
		t.Fatal(err)
	}
	if got, err = p.Truth(t.Context(), as(), "app"); err != nil || got.Only.Files != 0 {
		t.Errorf("with a right to the repository, %+v is only here (%v), want nothing", got.Only, err)
	}
}

// For a volume that is mounted and for a preview, the truth names what counts: the volume
// by its id, and the program that answers.
//
// 000-15
func TestTruthOfWhatIsMounted(t *testing.T) {
	p := newPlace(t)
	data, err := p.CreateVolume(t.Context(), p.call(), vault.VolumeRequest{Name: "data"})
	if err != nil {
		t.Fatal(err)
	}
	at := vault.Ref{Volume: "data"}
	if _, _, err := p.UnlockVolume(t.Context(), p.call(), at, vault.UnlockRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Mount(t.Context(), p.call(), "app", engine.MountRequest{Ref: at, Path: "/data", RW: true}); err != nil {
		t.Fatal(err)
	}
	got := p.truth("app")
	if tree := p.treeAt(got, "/data"); tree.Kind != vm.TreeVolume || tree.Authority.Place != vm.PlaceVolume || tree.Authority.Volume != data.ID || !tree.Stays {
		t.Errorf("the truth of a mounted volume is %+v, want the volume %s, which stays", tree, data.ID)
	}
	tree := p.treeAt(got, ":81")
	if tree.Kind != vm.TreePreview || tree.Authority.Place != vm.PlaceProcess || !strings.Contains(tree.Authority.Note, "redis-server") || tree.Stays {
		t.Errorf("the truth of a preview is %+v, want the program that answers, which goes with the VM", tree)
	}
}

// An agent's memory is its repository's commit as soon as its files are committed.
func TestTruthOfAMemory(t *testing.T) {
	p := newPlace(t)
	m, err := p.Rooms.Memories.EnableMemory(t.Context(), p.call(), "app", "")
	if err != nil {
		t.Fatal(err)
	}
	p.write("/memory/notes.md", "remember\n")
	if m, err = p.Rooms.Memories.CommitMemory(t.Context(), p.call(), "app", "notes"); err != nil {
		t.Fatal(err)
	}
	tree := p.treeAt(p.truth("app"), "/memory")
	if tree.Kind != vm.TreeMemory || tree.Authority.Place != vm.PlaceRepository || tree.Authority.Repo != m.Repo || tree.Authority.Commit != m.Commit || tree.Only.Some() {
		t.Errorf("the truth of a committed memory is %+v, want the commit %s", tree, m.Commit)
	}
}
