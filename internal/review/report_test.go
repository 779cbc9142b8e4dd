// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// machine makes a disk from files: a name with a slash at its end is a directory, and
// "-> x" as the content a link to x.
func machine(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, text := range files {
		path := filepath.Join(dir, name)
		parent := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			parent = path
		}
		if err := os.MkdirAll(parent, 0o755); err != nil {
			t.Fatal(err)
		}
		if target, is := strings.CutPrefix(text, "-> "); is {
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if strings.HasSuffix(name, "/") {
			continue
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	return format(t, dir)
}

// made counts the disks of a test run: each has a time of its own, so that no file of one
// is taken for one of another.
var made atomic.Int64

// format makes a disk of a directory. Its files belong to root.
func format(t testing.TB, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "disk")
	t.Setenv("E2FSPROGS_FAKE_TIME", fmt.Sprint(1_700_000_000+made.Add(1)))
	run(t, "", "mke2fs", "-q", "-t", "ext4", "-b", "4096", "-I", "256", "-N", "20000", "-E", "root_owner=0:0", "-d", dir, out, "96M")
	return out
}

// report compares two machines with the working directory /work.
func report(t testing.TB, before, after string, o review.Options) *vm.Diff {
	t.Helper()
	a, b := load(t, before), load(t, after)
	if o.Workdir == "" {
		o.Workdir = "/work"
	}
	d, err := review.Report(t.Context(), a, b, everything(a, b), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// both reports what differs between two machines that are made of files.
func both(t testing.TB, was, now map[string]string, o review.Options) *vm.Diff {
	t.Helper()
	return report(t, machine(t, was), machine(t, now), o)
}

// changeOf returns the change of a path.
func changeOf(t testing.TB, d *vm.Diff, path string) vm.FileChange {
	t.Helper()
	i := slices.IndexFunc(d.Changes, func(c vm.FileChange) bool { return string(c.Path) == path })
	if i < 0 {
		var all []string
		for _, c := range d.Changes {
			all = append(all, string(c.Verb)+" "+string(c.Path))
		}
		t.Fatalf("%s is not listed, only %q", path, all)
	}
	return d.Changes[i]
}

func listed(d *vm.Diff, path string) bool {
	return slices.ContainsFunc(d.Changes, func(c vm.FileChange) bool { return string(c.Path) == path })
}

// alertOf returns the text of the alert of a kind; "" = there is none.
func alertOf(d *vm.Diff, kind string) string {
	for _, a := range d.Alerts {
		if a.Kind == kind {
			return a.Text
		}
	}
	return ""
}

func wantAlert(t *testing.T, d *vm.Diff, kind string, parts ...string) {
	t.Helper()
	text := alertOf(d, kind)
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("the alert %s says %q, want %q in it; all: %+v", kind, text, part, d.Alerts)
		}
	}
}

// Text is compared by lines, binary data by kind and size, and both have digests.
func TestReportContents(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	d := both(t,
		map[string]string{"work/a.txt": "one\ntwo\nthree\n", "work/gone": "x\ny\n", "work/img": png},
		map[string]string{"work/a.txt": "one\n2\nthree\nfour", "work/new.sh": "#!/bin/sh\nid\n", "work/img": png + "more", "work/l": "-> a.txt"},
		review.Options{Hunks: true})
	text := changeOf(t, d, "/work/a.txt")
	if want := "@@ -1,3 +1,4 @@\n one\n-two\n+2\n three\n+four\n\\ No newline at end of file\n"; text.Hunks != want {
		t.Errorf("the hunks are %q, want %q", text.Hunks, want)
	}
	if text.LinesAdded != 2 || text.LinesRemoved != 1 {
		t.Errorf("%d lines came and %d went, want 2 and 1", text.LinesAdded, text.LinesRemoved)
	}
	if text.Was.Digest == "" || text.Now.Digest == "" || text.Was.Digest == text.Now.Digest {
		t.Errorf("the digests are %q and %q, want two", text.Was.Digest, text.Now.Digest)
	}
	if c := changeOf(t, d, "/work/img"); c.Binary != "PNG image" || c.Hunks != "" {
		t.Errorf("an image is of kind %q with hunks %q", c.Binary, c.Hunks)
	}
	if c := changeOf(t, d, "/work/new.sh"); c.Now.Mode != 0o755 || c.LinesAdded != 2 {
		t.Errorf("a new program has mode %o and %d lines, want 755 and 2", c.Now.Mode, c.LinesAdded)
	}
	if c := changeOf(t, d, "/work/l"); c.Type != "link" || c.Now.Target != "a.txt" {
		t.Errorf("a link is a %s to %q", c.Type, c.Now.Target)
	}
	if c := changeOf(t, d, "/work/gone"); c.Verb != vm.FileDeleted || c.LinesRemoved != 2 {
		t.Errorf("a deleted file is %s and lost %d lines", c.Verb, c.LinesRemoved)
	}
	if d.Stat.LinesAdded != 4 || d.Stat.Added != 2 || d.Stat.Deleted != 1 || d.Stat.Modified != 2 {
		t.Errorf("the counts are %+v", d.Stat)
	}
}

// Without hunks the lines are counted, too.
func TestReportStat(t *testing.T) {
	was, now := machine(t, map[string]string{"work/a": "1\n2\n"}), machine(t, map[string]string{"work/a": "1\n3\n"})
	with, without := report(t, was, now, review.Options{Hunks: true}), report(t, was, now, review.Options{})
	if with.Stat != without.Stat {
		t.Errorf("with hunks %+v are counted, without %+v", with.Stat, without.Stat)
	}
	if with.Manifest != without.Manifest {
		t.Error("the manifest depends on whether hunks were asked for")
	}
}

// Files below node_modules are counted and not listed; what can run by itself is listed
// even there, and --all lists everything.
func TestReportHidden(t *testing.T) {
	now := map[string]string{"work/app.js": "x", "work/node_modules/p/.vscode/tasks.json": "{}", "work/few/node_modules/one.js": "x"}
	for i := range 50 {
		now[fmt.Sprintf("work/node_modules/p/%d.js", i)] = "x"
	}
	was, is := machine(t, map[string]string{"work/": ""}), machine(t, now)
	d := report(t, was, is, review.Options{})
	if listed(d, "/work/node_modules/p/7.js") {
		t.Error("a file below node_modules is listed")
	}
	if !listed(d, "/work/node_modules/p/.vscode/tasks.json") {
		t.Error("a file below node_modules that an editor runs is hidden")
	}
	if !listed(d, "/work/few/node_modules/one.js") {
		t.Error("the single change below a node_modules is hidden")
	}
	if len(d.Hidden) != 1 || d.Hidden[0].Path != "/work/node_modules" || d.Hidden[0].Stat.Added < 50 || d.Hidden[0].Reason != "files below node_modules" {
		t.Errorf("what is hidden is %+v", d.Hidden)
	}
	all := report(t, was, is, review.Options{All: true})
	if !listed(all, "/work/node_modules/p/7.js") || len(all.Hidden) != 0 {
		t.Errorf("with --all %+v is hidden", all.Hidden)
	}
	if d.Manifest != all.Manifest {
		t.Error("the manifest depends on what is listed")
	}
	if d.Stat.Files() != all.Stat.Files() {
		t.Errorf("%d changes are counted, with --all %d", d.Stat.Files(), all.Stat.Files())
	}
}

// Thousands of files are not listed one by one, and none is left out of the counts.
func TestReportMany(t *testing.T) {
	now := map[string]string{"work/keep.txt": "x"}
	for i := range 3000 {
		now[fmt.Sprintf("work/data/%d/%d", i%30, i)] = "x"
	}
	d := both(t, map[string]string{"work/": ""}, now, review.Options{})
	if len(d.Changes) > 2000 || !listed(d, "/work/keep.txt") {
		t.Errorf("%d changes are listed, keep.txt among them: %v", len(d.Changes), listed(d, "/work/keep.txt"))
	}
	hidden := 0
	for _, h := range d.Hidden {
		hidden += h.Stat.Files()
	}
	if hidden+len(d.Changes) != d.Stat.Files() || d.Stat.Files() < 3000 {
		t.Errorf("%d are listed and %d hidden of %d", len(d.Changes), hidden, d.Stat.Files())
	}
}

// Paths bound what is reported. A path that is on neither side is an error.
func TestReportPaths(t *testing.T) {
	was, now := machine(t, map[string]string{"work/a": "1", "etc/x": "1"}), machine(t, map[string]string{"work/a": "2", "etc/x": "2"})
	d := report(t, was, now, review.Options{Paths: []vm.GuestPath{"/work"}})
	if len(d.Changes) != 1 || d.Changes[0].Path != "/work/a" {
		t.Errorf("below /work %d changes are listed, want 1", len(d.Changes))
	}
	a, b := load(t, was), load(t, now)
	for path, want := range map[vm.GuestPath]vm.Kind{"/nowhere": vm.NotFound, "work": vm.Invalid} {
		if _, err := review.Report(t.Context(), a, b, everything(a, b), review.Options{Paths: []vm.GuestPath{path}}); vm.KindOf(err) != want {
			t.Errorf("the path %s ends with %v, want kind %s", path, err, want)
		}
	}
}

// A file of 10 GB that is nearly empty is compared at once, and its content counts.
func TestReportSparse(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "work/big")
	if err := os.Mkdir(filepath.Dir(big), 0o755); err != nil {
		t.Fatal(err)
	}
	make1 := func(text string) string {
		if err := os.WriteFile(big, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(big, 10<<30); err != nil {
			t.Fatal(err)
		}
		return format(t, dir)
	}
	a, b := make1("one"), make1("two")
	begun := time.Now()
	d := report(t, a, b, review.Options{Hunks: true, Patch: true})
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if c := changeOf(t, d, "/work/big"); c.Now.Size != 10<<30 || !strings.Contains(c.Cut, "larger") {
		t.Errorf("a file of 10 GB has %d bytes, and is cut by %q", c.Now.Size, c.Cut)
	}
}

// gitTree is a git repository at /work/app of a machine to be.
type gitTree struct {
	t   *testing.T
	dir string
}

func newGitTree(t *testing.T) gitTree {
	t.Helper()
	p := gitTree{t, t.TempDir()}
	p.put("main.go", "package main\n")
	p.git("init", "-q")
	return p
}

func (p gitTree) git(args ...string) {
	p.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", filepath.Join(p.dir, "work/app"), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func (p gitTree) put(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, "work/app", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// What git would say about a file is known without git: tracked, untracked, ignored.
func TestReportRepos(t *testing.T) {
	for _, version := range []string{"2", "4"} {
		t.Run("index version "+version, func(t *testing.T) {
			p := newGitTree(t)
			p.put("deep/x.go", "package deep\n")
			p.put(".gitignore", "*.log\n/build/\n")
			p.git("update-index", "--index-version", version)
			p.git("add", ".")
			p.git("commit", "-qm", "first")
			was := format(t, p.dir)
			for name, text := range map[string]string{
				"main.go": "package main // now\n", "deep/x.go": "package deep // now\n", "new.go": "x", "run.log": "x", "build/out": "x",
				".git/config": "[core]\n\tfsmonitor = /tmp/evil\n", ".git/hooks/pre-commit": "#!/bin/sh\n",
			} {
				p.put(name, text)
			}
			d := report(t, was, format(t, p.dir), review.Options{})
			for path, want := range map[string]string{"main.go": "tracked", "deep/x.go": "tracked", "new.go": "untracked", "run.log": "ignored", "build/out": "ignored"} {
				if c := changeOf(t, d, "/work/app/"+path); c.Git != want {
					t.Errorf("%s is %q, want %s", path, c.Git, want)
				}
			}
			if len(d.Repos) != 1 || d.Repos[0].Path != "/work/app" || !strings.HasPrefix(d.Repos[0].HeadNow, "main ") || d.Repos[0].Ignored != 2 || d.Repos[0].Untracked != 1 {
				t.Errorf("the repositories are %+v", d.Repos)
			}
			if notes := strings.Join(d.Repos[0].Notes, "; "); !strings.Contains(notes, "configuration changed") || !strings.Contains(notes, "core.fsmonitor") {
				t.Errorf("the notes are %q", notes)
			}
			wantAlert(t, d, "git-config", ".git/config", ".git/hooks/pre-commit")
		})
	}
}

// A new repository brings its own files, of which only what runs is an alert; one that is
// gone is one, too.
func TestReportRepoCameAndWent(t *testing.T) {
	p := newGitTree(t)
	p.put(".gitattributes", "* text=auto\n")
	p.git("add", ".")
	p.git("commit", "-qm", "first")
	without, with := machine(t, map[string]string{"work/": ""}), format(t, p.dir)
	came := report(t, without, with, review.Options{})
	if list := formatted(came); len(list) != 0 {
		t.Errorf("a new repository alerts: %+v", list)
	}
	if listed(came, "/work/app/.git/index") || !listed(came, "/work/app/main.go") {
		t.Errorf("of a new repository %+v is listed", came.Changes)
	}
	p.git("config", "filter.x.smudge", "id")
	wantAlert(t, report(t, without, format(t, p.dir), review.Options{}), "git-config", "/work/app/.git/config")
	if err := os.Rename(filepath.Join(p.dir, "work/app/.git"), filepath.Join(p.dir, "work/app/.bak")); err != nil {
		t.Fatal(err)
	}
	wantAlert(t, report(t, with, format(t, p.dir), review.Options{}), "repository-gone", "/work/app")
}

// The same disks give the same report, byte for byte.
func TestReportStable(t *testing.T) {
	before, after := base(t)
	change(t, after, "cd work", "rm gone", "mkdir d", "ln old new", "unlink old", "sif mode mode 0104755")
	var last []byte
	for range 3 {
		d := report(t, before, after, review.Options{Hunks: true, Patch: true})
		text := []byte(fmt.Sprintf("%+v", d.Alerts) + d.Manifest + fmt.Sprint(len(d.Changes)))
		if last != nil && !bytes.Equal(last, text) {
			t.Errorf("the reports are %s and %s", last, text)
		}
		last = text
	}
}
