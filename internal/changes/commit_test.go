// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// place is a simulated host with a VM and a repository.
type place struct {
	testing.TB
	*vmtest.House
	site *vmtest.Site
	c    *vm.Call
	box  vm.VM
	repo vm.Repository
}

func newPlace(t testing.TB) *place {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() {
		s.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	e, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	c, _, err := vmtest.Admin(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{TB: t, House: e, site: s, c: c}
	if p.box, err = e.Create(t.Context(), p.call(), engine.CreateRequest{Name: "app", Workdir: "/work"}); err != nil {
		t.Fatal(err)
	}
	if p.repo, err = e.Repo.Create(t.Context(), p.call(), repo.CreateRequest{Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	return p
}

// call is a new request of the account.
func (p *place) call() *vm.Call { return &vm.Call{Actor: p.c.Actor, Request: vm.NewRequestID()} }

// write writes a file of the VM.
func (p *place) write(path, text string) {
	p.Helper()
	if _, err := p.WriteFile(p.Context(), p.call(), "app", "", path, vm.WriteOptions{Parents: true, Size: int64(len(text))}, strings.NewReader(text)); err != nil {
		p.Fatal(err)
	}
}

// put makes a commit of the repository by its API.
func (p *place) put(branch, path, text string) vm.Commit {
	p.Helper()
	made, err := p.Repo.Commit(p.Context(), p.call(), "shop", repo.CommitRequest{
		Branch: branch, Message: "by hand", Files: []repo.FileEdit{{Path: path, Size: int64(len(text)), Open: repo.Bytes([]byte(text))}},
	})
	if err != nil {
		p.Fatal(err)
	}
	return made
}

func (p *place) commit(r vm.CommitRequest) (vm.CommitPlan, error) {
	r.Repo = "shop"
	return p.Commit(p.Context(), p.call(), "app", r)
}

func (p *place) committed(r vm.CommitRequest) vm.CommitPlan {
	p.Helper()
	plan, err := p.commit(r)
	if err != nil {
		p.Fatalf("commit: %v (%s)", err, vm.AsError(err).Hint)
	}
	return plan
}

// tree lists the files of a commit.
func (p *place) tree(commit string) (names []string) {
	p.Helper()
	_, list, err := p.Repo.Tree(p.Context(), p.call(), "shop", commit, true)
	if err != nil {
		p.Fatal(err)
	}
	for _, e := range list {
		if e.Type == "blob" {
			names = append(names, e.Path)
		}
	}
	slices.Sort(names)
	return names
}

func (p *place) text(commit, path string) string {
	p.Helper()
	got, err := p.Repo.Contents(p.Context(), p.call(), "shop", commit, path, false)
	if err != nil {
		p.Fatal(err)
	}
	return string(got.Data)
}

// refused wants an error of a kind and, if it is not "", with a code.
func refused(t *testing.T, what string, err error, kind vm.Kind, code string) {
	t.Helper()
	switch e := vm.AsError(err); {
	case err == nil:
		t.Errorf("%s succeeded, want kind %s", what, kind)
	case e.Kind != kind || code != "" && e.Code != code:
		t.Errorf("%s gives kind %s, code %s (%v), want %s, %s", what, e.Kind, e.Code, err, kind, code)
	case e.Hint == "":
		t.Errorf("the refusal of %s (%v) has no hint", what, err)
	}
}

func TestCommitOfADirectory(t *testing.T) {
	p := newPlace(t)
	p.write("/work/app.go", "package main\n")
	p.write("/work/deep/er/file", "x\n")
	p.write("/work/.gitignore", "*.log\n")
	p.write("/work/noise.log", "noise\n")
	p.write("/work/.git/config", "[core]\n\tfsmonitor = touch /tmp/evil\n")
	plan := p.committed(vm.CommitRequest{Message: "First", DryRun: true})
	if plan.Commit != "" || plan.Stat.Added != 3 || plan.Stat.LinesAdded != 3 || plan.Total != 3 {
		t.Errorf("the plan of a first commit is %+v, want three added files with three lines and no commit", plan)
	}
	if _, err := p.Repo.Branch(t.Context(), p.call(), "shop", plan.Branch); vm.KindOf(err) != vm.NotFound {
		t.Errorf("a dry run made the branch (%v)", err)
	}
	made := p.committed(vm.CommitRequest{Message: "First", Generation: plan.Generation, Manifest: plan.Manifest})
	if made.Branch != "agent/app/main" || made.Manifest != plan.Manifest {
		t.Errorf("the commit went to %s with manifest %s, want agent/app/main and what was shown", made.Branch, made.Manifest)
	}
	if got := p.tree(made.Commit); !slices.Equal(got, []string{".gitignore", "app.go", "deep/er/file"}) {
		t.Errorf("the commit holds %q, want the project without ignored files and .git", got)
	}
	if len(plan.LeftOut) == 0 || plan.LeftOut[0].Files != 1 {
		t.Errorf("left out is %v, want the ignored file counted", plan.LeftOut)
	}
	at, err := p.Repo.CommitAt(t.Context(), p.call(), "shop", made.Commit)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"First\n\nWarren-VM: app (" + string(p.box.ID) + ")\n", "Warren-Generation: " + string(made.Generation) + "\n", "Warren-Manifest: sha256:" + made.Manifest + "\n"} {
		if !strings.Contains(at.Message, want) {
			t.Errorf("the message %q lacks %q", at.Message, want)
		}
	}
	if !p.CommittedFrom(p.box.ID, p.repo.ID, made.Commit) {
		t.Error("the generation's record does not name the commit")
	}
	_, err = p.commit(vm.CommitRequest{})
	refused(t, "a second commit of the same files", err, vm.Invalid, "")
	p.write("/work/app.go", "package main // changed\n")
	second := p.committed(vm.CommitRequest{})
	if second.Base != made.Commit || second.Stat.Modified != 1 || second.Stat.Added != 0 {
		t.Errorf("the second commit stands on %s with %+v, want one modified file on the first", second.Base, second.Stat)
	}
}

func TestCommitIsWhatWasShown(t *testing.T) {
	p := newPlace(t)
	p.write("/work/a", "shown\n")
	p.write("/work/.gitignore", "*.log\n")
	plan := p.committed(vm.CommitRequest{DryRun: true})
	shown := vm.CommitRequest{Generation: plan.Generation, Manifest: plan.Manifest}
	p.write("/work/a", "changed while somebody read\n")
	_, err := p.commit(shown)
	refused(t, "a commit after the machine moved", err, vm.Exists, "MACHINE_MOVED")
	if list, err := p.Repo.Branches(t.Context(), p.call(), "shop"); err != nil || slices.ContainsFunc(list, func(b vm.Branch) bool { return b.Commit != "" }) {
		t.Errorf("after a refusal the branches are %v (%v), want none", list, err)
	}
	older := p.committed(vm.CommitRequest{Generation: plan.Generation})
	if got := p.text(older.Commit, "a"); got != "shown\n" {
		t.Errorf("a commit of the older state alone has %q, want what was there then", got)
	}
	plan = p.committed(vm.CommitRequest{DryRun: true})
	p.write("/work/new.log", "an ignored file is no part of it\n")
	made := p.committed(vm.CommitRequest{Generation: plan.Generation, Manifest: plan.Manifest})
	if got := p.text(made.Commit, "a"); got != "changed while somebody read\n" {
		t.Errorf("the commit has %q, want what was shown", got)
	}
	_, err = p.commit(vm.CommitRequest{Manifest: strings.Repeat("0", 64)})
	refused(t, "a commit with a manifest that nobody has shown", err, vm.Exists, "MACHINE_MOVED")
	p.write("/work/a", "once more\n")
	d, err := p.Diff(t.Context(), p.call(), "app", vm.DiffRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.commit(vm.CommitRequest{Generation: d.To.Generation, Manifest: d.Manifest}); err != nil {
		t.Errorf("a commit with the manifest of a diff fails: %v", err)
	}
}

func TestCommitOnAMovedBase(t *testing.T) {
	p := newPlace(t)
	first := p.put("main", "a", "one\n")
	p.write("/work/.git/HEAD", first.SHA+"\n") // a clone of it
	p.write("/work/a", "by the agent\n")
	p.put("main", "b", "by somebody else\n")
	_, err := p.commit(vm.CommitRequest{})
	refused(t, "a commit whose base branch moved on", err, vm.Exists, "CONFLICTING_PARENT")
	made := p.committed(vm.CommitRequest{Base: first.SHA})
	if made.Base != first.SHA || !slices.Equal(p.tree(made.Commit), []string{"a"}) {
		t.Errorf("with --base it stands on %s and holds %q, want the machine's commit and its one file", made.Base, p.tree(made.Commit))
	}
	p.put("agent/app/main", "c", "pushed to the VM's branch\n")
	p.write("/work/a", "again\n")
	_, err = p.commit(vm.CommitRequest{})
	refused(t, "a commit to the VM's branch after somebody pushed there", err, vm.Exists, "CONFLICTING_PARENT")
}

func TestCommitRefusesSecrets(t *testing.T) {
	p := newPlace(t)
	p.write("/work/key.env", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYzzQ8u1pL3aaB\nAWS_ACCESS_KEY_ID=AKIAQYLPMN5HFIQR7XYA\n")
	_, err := p.commit(vm.CommitRequest{})
	refused(t, "a commit of a leaked key", err, vm.Denied, "SECRETS_FOUND")
	if strings.Contains(err.Error()+vm.AsError(err).Hint, "wJalr") {
		t.Error("the refusal prints the secret")
	}
	made := p.committed(vm.CommitRequest{AllowSecrets: []vm.GuestPath{"/work/key.env"}})
	if got := p.tree(made.Commit); !slices.Equal(got, []string{"key.env"}) {
		t.Errorf("with the file allowed the commit holds %q", got)
	}
}

func TestCommitRefusesWhatNoCommitMayHold(t *testing.T) {
	for name, files := range map[string][]string{
		"another spelling of .git":       {"/work/sub/.GIT/config"},
		"the short name of .git":         {"/work/git~1"},
		"names that differ only by case": {"/work/Readme", "/work/README"},
		"a name with a line break":       {"/work/a\nb"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			for _, f := range files {
				p.write(f, "x\n")
			}
			_, err := p.commit(vm.CommitRequest{})
			refused(t, "a commit with "+name, err, vm.Invalid, "")
		})
	}
	p := newPlace(t)
	if err := p.Symlink(t.Context(), p.call(), "app", "", "../../etc/shadow", "/work/out"); err != nil {
		t.Fatal(err)
	}
	plan := p.committed(vm.CommitRequest{DryRun: true})
	if len(plan.Flags) == 0 || !strings.Contains(plan.Flags[0], "outside") {
		t.Errorf("the flags of a link that leaves the tree are %q, want it named", plan.Flags)
	}
}

func TestCommitKeepsWhatIsIgnoredButTracked(t *testing.T) {
	p := newPlace(t)
	first := p.put("main", "build.log", "tracked\n")
	p.write("/work/.git/HEAD", first.SHA+"\n")
	p.write("/work/.gitignore", "*.log\n")
	p.write("/work/build.log", "tracked and changed\n")
	made := p.committed(vm.CommitRequest{})
	if got := p.text(made.Commit, "build.log"); got != "tracked and changed\n" {
		t.Errorf("the ignored file that the base tracks is %q, want the machine's", got)
	}
}

func TestCommitBelowAPrefix(t *testing.T) {
	p := newPlace(t)
	p.put("main", "other/file", "stays\n")
	p.put("main", "app/gone", "goes\n")
	p.write("/work/new", "n\n")
	made := p.committed(vm.CommitRequest{Prefix: "app", Branch: "work"})
	if got := p.tree(made.Commit); !slices.Equal(got, []string{"app/new", "other/file"}) {
		t.Errorf("a commit below a prefix makes the tree %q, want only the prefix replaced", got)
	}
	_, err := p.commit(vm.CommitRequest{Prefix: "../x"})
	refusedKind(t, "a prefix that leads outside", err, vm.Invalid)
}

func refusedKind(t *testing.T, what string, err error, kind vm.Kind) {
	t.Helper()
	if vm.KindOf(err) != kind {
		t.Errorf("%s gives %v, want kind %s", what, err, kind)
	}
}

func TestContentOfAState(t *testing.T) {
	p := newPlace(t)
	p.write("/work/a", "then\n")
	d, err := p.Diff(t.Context(), p.call(), "app", vm.DiffRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p.write("/work/a", "now\n")
	r, w := io.Pipe()
	go func() {
		w.CloseWithError(p.Content(t.Context(), p.call(), "app", string(d.To.Generation), []vm.GuestPath{"/work/a"}, w))
	}()
	data, err := io.ReadAll(r)
	if err != nil || !strings.Contains(string(data), "then\n") {
		t.Errorf("the content of the older state is %q (%v), want what was there then", data, err)
	}
}

// BenchmarkCommit commits 1,000 new files, with real git; the simulated disk costs
// nothing.
func BenchmarkCommit(b *testing.B) {
	p := newPlace(b)
	for i := range 1000 {
		p.write(fmt.Sprintf("/work/d%d/f%d.txt", i%20, i), fmt.Sprintf("file %d with some text\n", i))
	}
	plan := p.committed(vm.CommitRequest{DryRun: true})
	n := 0
	for b.Loop() {
		n++
		p.committed(vm.CommitRequest{Branch: fmt.Sprintf("b%d", n), Generation: plan.Generation})
	}
}

// A directory that nobody named, and that is no clone, does not delete the repository's
// files: the caller must say where the work is.
func TestCommitOfAnotherDirectory(t *testing.T) {
	p := newPlace(t)
	first := p.put("main", "app.py", "x\n")
	p.write("/work/new", "n\n")
	if err := p.Mkdir(p.Context(), p.call(), "app", "", "/nothing", 0o755, false); err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]vm.CommitRequest{"the working directory": {}, "an empty directory": {Path: "/nothing"}} {
		_, err := p.commit(r)
		if e := vm.AsError(err); vm.KindOf(err) != vm.Invalid || !strings.Contains(e.Msg, "would delete 1 of its 1 files") || !strings.Contains(e.Hint, "/path --repo shop") {
			t.Errorf("a commit of %s ends with %v, want a question for the directory", what, err)
		}
	}
	if b, err := p.Repo.Branches(p.Context(), p.call(), "shop"); err != nil || len(b) != 1 || b[0].Commit != first.SHA {
		t.Errorf("after refusals the branches are %+v, %v, want main alone", b, err)
	}
	plan := p.committed(vm.CommitRequest{Path: "/work"})
	if len(plan.Flags) == 0 || !strings.Contains(plan.Flags[0], "is not a clone of the repository") {
		t.Errorf("a named directory is committed with the flags %q, want that it is no clone", plan.Flags)
	}
}

// A commit of an identity, and a diff that shows contents, wait for approval where its
// permission says so. The ask has the digest of the very commit.
func TestCommitAsks(t *testing.T) {
	p := newPlace(t)
	p.write("/work/a.txt", "a\n")
	i, err := p.CreateIdentity(t.Context(), p.call(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.GrantVM(t.Context(), p.call(), "ann", "app", nil, vm.AskCommit, vm.AskCopyOut); err != nil {
		t.Fatal(err)
	}
	if err := p.GrantRepo(t.Context(), p.call(), "ann", p.repo.ID, vm.GitWrite, false, "**"); err != nil {
		t.Fatal(err)
	}
	c := vm.Call{Actor: vm.Actor{Account: p.c.Actor.Account, Identity: i.ID}}
	one := c
	plan, err := p.Commit(t.Context(), &one, "app", vm.CommitRequest{Repo: "shop", Message: "m", DryRun: true})
	if err != nil {
		t.Fatalf("saying what a commit would hold: %v", err)
	}
	ask, got, err := p.DenyNext(t.Context(), p.call(), func() error {
		other := c
		_, err := p.Commit(t.Context(), &other, "app", vm.CommitRequest{Repo: "shop", Message: "m"})
		return err
	})
	if err != nil || vm.AsError(got).Code != "ASK_DENIED" {
		t.Errorf("a commit that is denied ends with %v (%v)", got, err)
	}
	if ask.Details["tree"] != plan.Tree || !strings.Contains(ask.Details["files"], "a.txt") || ask.Details["message"] != "m" {
		t.Errorf("the ask says %+v, want the tree %s, the file and the message", ask.Details, plan.Tree)
	}
	if _, err := p.Diff(t.Context(), &c, "app", vm.DiffRequest{}); err != nil {
		t.Errorf("a diff without contents: %v, want no question", err)
	}
	_, got, err = p.DenyNext(t.Context(), p.call(), func() error {
		_, err := p.Diff(t.Context(), &c, "app", vm.DiffRequest{Hunks: true})
		return err
	})
	if err != nil || vm.AsError(got).Code != "ASK_DENIED" {
		t.Errorf("a diff with contents that is denied ends with %v (%v)", got, err)
	}
}

// What an identity must ask for on one VM, it must ask for through every other VM, too, however it
// names the state.
func TestAsksOfTheOtherVM(t *testing.T) {
	p := newPlace(t)
	p.write("/work/a.txt", "a\n")
	for _, name := range []string{"wide", "free"} {
		if _, err := p.Create(t.Context(), p.call(), engine.CreateRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	i, err := p.CreateIdentity(t.Context(), p.call(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	for name, rights := range map[string][]vm.AskRight{"app": {vm.AskCommit, vm.AskCopyOut}, "wide": nil, "free": nil} {
		if _, err := p.GrantVM(t.Context(), p.call(), "ann", name, nil, rights...); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.GrantRepo(t.Context(), p.call(), "ann", p.repo.ID, vm.GitWrite, false, "**"); err != nil {
		t.Fatal(err)
	}
	snap, err := p.Snapshot(t.Context(), p.call(), "app", engine.SnapshotRequest{Name: "kept"})
	if err != nil {
		t.Fatal(err)
	}
	call := func() *vm.Call {
		return &vm.Call{Actor: vm.Actor{Account: p.c.Actor.Account, Identity: i.ID}, Request: vm.NewRequestID()}
	}
	for _, r := range []vm.DiffRequest{{From: "vm:app"}, {From: string(snap.ID)}, {From: "kept"}, {To: "kept"}, {From: "kept", To: string(snap.ID)}} {
		r.Hunks = true
		ask, got, err := p.DenyNext(t.Context(), p.call(), func() error { _, err := p.Diff(t.Context(), call(), "wide", r); return err })
		if err != nil || vm.AsError(got).Code != "ASK_DENIED" || ask.VM != snap.VM {
			t.Errorf("a diff of %+v through another VM asks for %s and ends with %v (%v), want an ask for %s and a denial", r, ask.VM, got, err, snap.VM)
		}
	}
	if _, err := p.Diff(t.Context(), call(), "wide", vm.DiffRequest{From: "vm:free", Hunks: true}); err != nil {
		t.Errorf("a diff of VMs that need no approval: %v", err)
	}
	for _, state := range []string{"kept", string(snap.ID)} {
		_, err := p.Commit(t.Context(), call(), "wide", vm.CommitRequest{Repo: "shop", Message: "m", Path: "/work", Generation: vm.GenerationID(state)})
		if vm.KindOf(err) != vm.Denied || !strings.Contains(err.Error(), "another VM") {
			t.Errorf("a commit of %s through another VM ends with %v, want it denied", state, err)
		}
	}
}
