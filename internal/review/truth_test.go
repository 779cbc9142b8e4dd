// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git names blobs by it
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// truthOf reads what a disk has that its image, and a kept state, have not.
func truthOf(t *testing.T, image, kept, now string) (clones []review.TruthClone, files map[string]review.TruthFile, counts []review.TruthCount, end review.TruthEnd) {
	t.Helper()
	to := load(t, now)
	var a, b review.Disk
	if image != "" {
		a = load(t, image)
	}
	if kept != "" {
		b = load(t, kept)
	}
	differ := func(review.Disk) review.Differ {
		return func(each func(off, n int64) error) error { return each(0, to.Size()) }
	}
	var out bytes.Buffer
	d := review.TruthDisks{Image: a, Now: to, Differ: differ}
	if b != nil {
		d.Bases = []review.TruthBase{{Disk: b}, {Disk: b, Below: []vm.GuestPath{"/work"}}}
	}
	if err := review.WriteTruth(t.Context(), d, "/work/app", &out); err != nil {
		t.Fatal(err)
	}
	files = map[string]review.TruthFile{}
	ended := false
	for in := json.NewDecoder(&out); ; {
		var line review.TruthLine
		if err := in.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch {
		case line.Clone != nil:
			clones = append(clones, *line.Clone)
		case line.File != nil:
			files[string(line.File.Path)] = *line.File
		case line.Count != nil:
			counts = append(counts, *line.Count)
		case line.End != nil:
			end, ended = *line.End, true
		}
	}
	if !ended {
		t.Error("the answer has no end")
	}
	return clones, files, counts, end
}

// output is git's answer about the working tree.
func (p gitTree) output(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", filepath.Join(p.dir, "work/app")}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// Files have the ids that git gives to their contents, and the classes that git would
// name. Commits, branches and remotes are those that git itself knows; an address is shown
// without its password.
func TestTruthKnowsWhatGitKnows(t *testing.T) {
	p := newGitTree(t)
	p.put(".gitignore", "*.log\n/build/\n")
	p.put("forced.log", "tracked although it is ignored\n")
	p.git("add", ".")
	p.git("add", "-f", "forced.log")
	p.git("commit", "-qm", "first")
	p.git("remote", "add", "origin", "https://ann:secret@example.com/a/app.git?token=secret")
	p.git("update-ref", "refs/remotes/origin/main", "HEAD")
	p.git("pack-refs", "--all")
	p.put("main.go", "package main // two\n")
	p.git("commit", "-qam", "second \x1b[31m")
	p.git("branch", "side")
	p.put("new.go", "package main\n")
	p.put("a.log", "noise")
	p.put("build/deep/out", "made")
	if err := os.Symlink("main.go", filepath.Join(p.dir, "work/app/link")); err != nil {
		t.Fatal(err)
	}
	clones, files, counts, end := truthOf(t, "", "", format(t, p.dir))
	if len(clones) != 1 || clones[0].Root != "/work/app" || !clones[0].Changed {
		t.Fatalf("the clones are %+v, want one at /work/app", clones)
	}
	k := clones[0]
	if head := p.output("rev-parse", "HEAD"); k.Head != head || k.Branch != "main" {
		t.Errorf("the clone is on %s at %s, want main at %s", k.Branch, k.Head, head)
	}
	var refs []string
	for _, r := range k.Refs {
		refs = append(refs, r.ID+" refs/"+r.Name)
	}
	if want := strings.Split(p.output("for-each-ref", "--format=%(objectname) %(refname)"), "\n"); !slices.Equal(refs, want) {
		t.Errorf("the refs are %q, want %q", refs, want)
	}
	var commits []string
	for _, c := range k.Commits {
		commits = append(commits, c.ID)
	}
	if want := strings.Fields(p.output("rev-list", "HEAD")); !slices.Equal(commits, want) {
		t.Errorf("the commits are %q, want %q", commits, want)
	}
	if len(k.Remotes) != 1 || k.Remotes[0] != (vm.CloneClaim{Name: "origin", URL: "https://example.com/a/app.git"}) {
		t.Errorf("the remotes are %+v, want the address of origin without user, password and query", k.Remotes)
	}
	for name, class := range map[string]string{"main.go": review.ClassTracked, ".gitignore": review.ClassTracked, "forced.log": review.ClassTracked, "new.go": review.ClassUntracked} {
		f := files["/work/app/"+name]
		if want := p.output("hash-object", name); f.ID != want || f.Class != class || len(f.Alike) > 0 || f.Clone != 1 || f.Index != (class == review.ClassTracked) {
			t.Errorf("%s is %+v, want %s with the id %s", name, f, class, want)
		}
	}
	if want := fmt.Sprintf("%x", sha1.Sum([]byte("blob 7\x00main.go"))); files["/work/app/link"].ID != want { //nolint:gosec // git names blobs by it
		t.Errorf("the link has the id %s, want that of its target, %s", files["/work/app/link"].ID, want)
	}
	if len(counts) != 1 || counts[0].Class != review.ClassIgnored || counts[0].Files != 2 {
		t.Errorf("counted are %+v, want the two ignored files", counts)
	}
	if !end.NoImage {
		t.Error("without an image, the end does not say so")
	}
}

// Only what changed since the image is listed, and those that a kept
// state has are marked, whatever the times of the files say.
func TestTruthListsWhatTheImageLacks(t *testing.T) {
	image := machine(t, map[string]string{
		"work/app/old": "old", "work/app/edited": "before", "root/.bashrc": "rc", "etc/conf": "conf", "etc/hostname": "image\n", "var/log/": "", "root/.cache/": "",
		"opt/large": strings.Repeat("x", 40<<20), // nearly half of the disk, which is read three times
	})
	kept := filepath.Join(t.TempDir(), "kept")
	run(t, "", "cp", image, kept)
	source := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(source, []byte("after!"), 0o600); err != nil {
		t.Fatal(err)
	}
	change(t, kept, "rm work/app/edited", "write "+source+" work/app/edited", "write "+source+" root/notes")
	now := filepath.Join(t.TempDir(), "now")
	run(t, "", "cp", kept, now)
	change(t, now, "write "+source+" work/app/added", "write "+source+" etc/added", "write "+source+" var/log/x.log", "write "+source+" root/.cache/c", "write "+source+" root/.bash_history")
	_, files, counts, end := truthOf(t, image, kept, now)
	var names []string
	for p, f := range files {
		names = append(names, fmt.Sprintf("%s %s %v", p, f.Class, f.Alike))
	}
	slices.Sort(names)
	want := []string{"/etc/added system []", "/root/notes home [0]", "/work/app/added project []", "/work/app/edited project [0 1]"}
	if !slices.Equal(names, want) {
		t.Errorf("listed are %q, want %q", names, want)
	}
	said := map[string]int{}
	for _, n := range counts {
		said[n.Class] += n.Files
	}
	if said[review.ClassLogs] != 2 || said[review.ClassCaches] != 1 || len(said) != 2 {
		t.Errorf("counted are %v, want 2 logs and 1 file of a cache", said)
	}
	if end.NoImage || end.Unhashed+end.Unlisted > 0 {
		t.Errorf("the end is %+v, want nothing left out", end)
	}
}
