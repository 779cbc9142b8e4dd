// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes_test

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// enabled gives the VM of a place a memory.
func (p *place) enabled() vm.Memory {
	p.Helper()
	m, err := p.Rooms.Memories.EnableMemory(p.Context(), p.call(), "app", "")
	if err != nil {
		p.Fatalf("enable: %v", err)
	}
	return m
}

func (p *place) remember(ref string) vm.Memory {
	p.Helper()
	m, err := p.Rooms.Memories.CommitMemory(p.Context(), p.call(), ref, "")
	if err != nil {
		p.Fatalf("commit of the memory of %s: %v", ref, err)
	}
	return m
}

func (p *place) log(ref string) []vm.Commit {
	p.Helper()
	list, err := p.Rooms.Memories.Log(p.Context(), p.call(), ref, 50)
	if err != nil {
		p.Fatal(err)
	}
	return list
}

// notes reads the files of a commit of a memory.
func (p *place) notes(m vm.Memory) map[string]string {
	p.Helper()
	out := map[string]string{}
	_, list, err := p.Repo.Tree(p.Context(), p.call(), m.Repo, m.Commit, true)
	if err != nil {
		p.Fatal(err)
	}
	for _, e := range list {
		if e.Type != "blob" {
			continue
		}
		got, err := p.Repo.Contents(p.Context(), p.call(), m.Repo, m.Commit, e.Path, false)
		if err != nil {
			p.Fatal(err)
		}
		out[e.Path] = string(got.Data)
	}
	return out
}

// until waits for a fact, which a task of the server brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("after 30 s: %s", what)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}

func TestMemoryHasHistoryAndRollback(t *testing.T) {
	p := newPlace(t)
	if m := p.enabled(); !m.Enabled || m.RepoName != "app-memory" || m.Commit != "" {
		t.Errorf("an enabled memory is %+v, want an empty repository app-memory", m)
	}
	p.write("/memory/plan.md", "one\n")
	first := p.remember("app")
	p.write("/memory/plan.md", "two\n")
	p.write("/memory/deep/more.md", "more\n")
	second := p.remember("app")
	if got := p.notes(second); !maps.Equal(got, map[string]string{"plan.md": "two\n", "deep/more.md": "more\n"}) {
		t.Errorf("the memory holds %q", got)
	}
	if again := p.remember("app"); again.Commit != second.Commit {
		t.Error("a commit without a change made another commit")
	}
	p.write("/memory/plan.md", "three, not yet committed\n")
	back, err := p.Rooms.Memories.RollbackMemory(t.Context(), p.call(), "app", first.Commit)
	if err != nil {
		t.Fatalf("rollback: %v", err)
	}
	if got := p.notes(back); !maps.Equal(got, map[string]string{"plan.md": "one\n"}) {
		t.Errorf("after the rollback the branch holds %q, want the first commit's files", got)
	}
	if got := p.read("/memory/plan.md"); got != "one\n" {
		t.Errorf("after the rollback the VM's file is %q, want the first commit's", got)
	}
	list := p.log("app")
	if len(list) != 4 || !strings.HasPrefix(list[0].Message, "Roll back to "+first.Commit[:12]) {
		t.Errorf("the history has %d commits, the newest %q; want four, with what was there before the rollback", len(list), list[0].Message)
	}
	var shown bytes.Buffer
	if err := p.Rooms.Memories.Show(t.Context(), p.call(), "app", list[1].SHA, "plan.md", &shown); err != nil || shown.String() != "three, not yet committed\n" {
		t.Errorf("the file before the rollback is %q (%v), want what was there", shown.String(), err)
	}
}

func (p *place) read(path string) string {
	p.Helper()
	_, r, err := p.OpenFile(p.Context(), p.call(), "app", "", path)
	if err != nil {
		p.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		p.Fatal(err)
	}
	return string(data)
}

func TestMemoryIsCommittedAtQuietMoments(t *testing.T) {
	p := newPlace(t)
	p.enabled()
	p.write("/memory/a.md", "written and then left alone\n")
	until(t, "the memory was not committed by itself", func() bool { return len(p.log("app")) == 1 })
	p.write("/memory/b.md", "written just before a suspend\n")
	if _, err := p.Suspend(t.Context(), p.call(), "app", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	until(t, "what was written before the suspend was not committed", func() bool { return len(p.log("app")) == 2 })
	if v, err := p.Engine.Find(p.c.Actor, "app"); err != nil || v.State != vm.Suspended {
		t.Errorf("the commit changed the VM's state to %s (%v), want it suspended", v.State, err)
	}
}

func TestMemoryTakesOnlyNotes(t *testing.T) {
	p := newPlace(t)
	p.enabled()
	p.write("/memory/ok.md", "ok\n")
	p.write("/memory/program", "ELF")
	p.write("/memory/binary.md", "a\x00b")
	p.write("/memory/large.md", strings.Repeat("x", vm.MaxMemoryFile+1))
	p.write("/memory/key.md", "the key is AKIAQYLPMN5HFIQR7XYA and aws_secret_access_key = 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\n")
	m := p.remember("app")
	if got := p.notes(m); !maps.Equal(got, map[string]string{"ok.md": "ok\n"}) {
		t.Errorf("the memory holds %q, want only the text", got)
	}
	if len(m.Secrets) == 0 || m.Secrets[0].Path != "key.md" {
		t.Errorf("the found secrets are %v, want the file named", m.Secrets)
	}
	var reasons []string
	for _, l := range m.LeftOut {
		reasons = append(reasons, l.Reason)
	}
	if len(reasons) != 3 || !slices.Contains(reasons, "files with secrets") {
		t.Errorf("left out is %v, want files that are no text, too large, and with secrets", m.LeftOut)
	}
}

func TestAForkRemembersOnItsOwnBranch(t *testing.T) {
	p := newPlace(t)
	p.enabled()
	p.write("/memory/plan.md", "shared\n")
	shared := p.remember("app")
	forks, err := p.Fork(t.Context(), p.call(), "app", engine.ForkRequest{Count: 1, Prefix: "try"})
	if err != nil {
		t.Fatal(err)
	}
	child := forks.Children[0]
	p.write("/memory/parent.md", "only the parent\n")
	parent := p.remember("app")
	if _, err := p.WriteFile(t.Context(), p.call(), string(child.ID), "", "/memory/child.md", vm.WriteOptions{Size: 6}, strings.NewReader("child\n")); err != nil {
		t.Fatal(err)
	}
	m := p.remember(string(child.ID))
	if m.Repo != shared.Repo || m.Branch == parent.Branch || m.From != p.box.ID {
		t.Errorf("the fork's memory is on branch %s of %s, want the parent's repository and a branch of its own", m.Branch, m.Repo)
	}
	if got := p.notes(m); !maps.Equal(got, map[string]string{"plan.md": "shared\n", "child.md": "child\n"}) {
		t.Errorf("the fork's branch holds %q, want what both had and its own", got)
	}
	at, err := p.Repo.CommitAt(t.Context(), p.call(), m.Repo, m.Commit)
	if err != nil || !slices.Equal(at.Parents, []string{shared.Commit}) {
		t.Errorf("the fork's commit stands on %v (%v), want what the parent had at the fork", at.Parents, err)
	}
}

func TestMemoryOutlivesTheVM(t *testing.T) {
	p := newPlace(t)
	p.enabled()
	p.write("/memory/plan.md", "kept\n")
	p.remember("app")
	if _, err := p.Delete(t.Context(), p.call(), "app"); err != nil {
		t.Fatal(err)
	}
	page, err := p.Repo.Commits(t.Context(), p.call(), "app-memory", repo.CommitFilter{})
	if err != nil || len(page.Commits) != 1 {
		t.Errorf("the repository of a deleted VM's memory has %d commits (%v), want its one", len(page.Commits), err)
	}
	if _, err := p.Create(t.Context(), p.call(), engine.CreateRequest{Name: "app"}); err != nil {
		t.Fatal(err)
	}
	_, err = p.Rooms.Memories.EnableMemory(t.Context(), p.call(), "app", "")
	refused(t, "a new memory of the same name", err, vm.Exists, "")
	m, err := p.Rooms.Memories.EnableMemory(t.Context(), p.call(), "app", "app-memory")
	if err != nil || m.Branch != "main" {
		t.Fatalf("the new VM continues on branch %s (%v), want main", m.Branch, err)
	}
	if got := p.read("/memory/plan.md"); got != "kept\n" {
		t.Errorf("the new VM remembers %q, want what the old one wrote", got)
	}
}

// A removed VM leaves no record of its memory, except while a snapshot of it is there: a
// VM that is made from the snapshot inherits it. Forks inherit before their parent's record goes.
func TestRecordsOfMemoriesGoWithTheirVMs(t *testing.T) {
	p := newPlace(t)
	p.enabled()
	p.write("/memory/plan.md", "shared\n")
	shared := p.remember("app")
	snap, err := p.Snapshot(t.Context(), p.call(), "app", engine.SnapshotRequest{Name: "kept"})
	if err != nil {
		t.Fatal(err)
	}
	forks, err := p.Fork(t.Context(), p.call(), "app", engine.ForkRequest{Count: 1, Prefix: "try"})
	if err != nil {
		t.Fatal(err)
	}
	fork := forks.Children[0].ID
	if _, err := p.Delete(t.Context(), p.call(), "app"); err != nil {
		t.Fatal(err)
	}
	until(t, "the fork of a removed VM inherited nothing", func() bool { return p.Rooms.Memories.Recorded(fork) })
	late, err := p.Create(t.Context(), p.call(), engine.CreateRequest{Name: "late", Image: string(snap.Snapshot)})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := p.Rooms.Memories.Memory(t.Context(), p.call(), "late"); err != nil || m.Repo != shared.Repo {
		t.Errorf("the memory of a VM made from a removed VM's snapshot is %+v (%v), want the same repository", m, err)
	}
	if !p.Rooms.Memories.Recorded(p.box.ID) {
		t.Error("the record went while a snapshot of the VM is there")
	}
	if _, err := p.RemoveSnapshot(t.Context(), p.call(), string(snap.Snapshot)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []vm.ID{fork, late.ID} {
		if _, err := p.Delete(t.Context(), p.call(), string(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []vm.ID{p.box.ID, fork, late.ID} {
		until(t, "a record or a note of a removed VM remains: "+string(id), func() bool { return !p.Rooms.Memories.Recorded(id) && !p.Rooms.Memories.Noted(id) })
	}
}

func TestMemoryIsForTheOwner(t *testing.T) {
	p := newPlace(t)
	p.enabled()
	c := p.call()
	c.Actor.Identity = "somebody"
	_, err := p.Rooms.Memories.Memory(t.Context(), c, "app")
	refusedKind(t, "an identity's look at a memory", err, vm.Denied)
	_, err = p.Rooms.Memories.EnableMemory(t.Context(), c, "app", "")
	refusedKind(t, "an identity's enabling of a memory", err, vm.Denied)
	if m, err := p.Rooms.Memories.DisableMemory(t.Context(), p.call(), "app"); err != nil || m.Enabled {
		t.Errorf("a disabled memory is %+v (%v)", m, err)
	}
}
