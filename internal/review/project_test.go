// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

const someCommit = "0123456789abcdef0123456789abcdef01234567"

// projectDisk makes a file system with these files: a name that ends in @ is a link to
// its text, one that ends in | a pipe, one that ends in * a program.
func projectDisk(t *testing.T, files map[string]string, commands ...string) disk {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		mode := os.FileMode(0o644)
		link := strings.HasSuffix(name, "@")
		if strings.HasSuffix(name, "*") {
			mode = 0o755
		}
		path := filepath.Join(dir, strings.TrimRight(name, "@*"))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if link {
			err = errors.Join(err, os.Symlink(text, path))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(text), mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "disk")
	run(t, "", "mke2fs", "-q", "-t", "ext4", "-b", "4096", "-d", dir, path, "64M")
	if len(commands) > 0 {
		change(t, path, commands...)
	}
	return load(t, path)
}

// project reads a project: its files by name (links as "-> target"), and the summary.
func project(t *testing.T, d disk, o review.ProjectOptions) (map[string]string, vm.ProjectSummary) {
	t.Helper()
	var out bytes.Buffer
	if err := review.WriteProject(t.Context(), d, o, &out); err != nil {
		t.Fatalf("reading %s: %v", o.Root, err)
	}
	files, sum, last := map[string]string{}, vm.ProjectSummary{}, ""
	for tr := tar.NewReader(&out); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		data, rerr := io.ReadAll(tr)
		if err = errors.Join(err, rerr); err != nil {
			t.Fatal(err)
		}
		if last = h.Name; last == review.ProjectSummary {
			err = json.Unmarshal(data, &sum)
		} else if h.Typeflag == tar.TypeSymlink {
			files[h.Name] = "-> " + h.Linkname
		} else if files[h.Name] = string(data); h.Mode&0o100 != 0 {
			files[h.Name] += " (program)"
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if last != review.ProjectSummary {
		t.Errorf("the last entry is %q, want the summary", last)
	}
	return files, sum
}

func names(files map[string]string) (list []string) {
	for name := range files {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// A file of 10 GB that is nearly empty is named as too large, and not read.
func TestAProjectNamesLargeFiles(t *testing.T) {
	d := projectDisk(t, map[string]string{"work/app/main.go": "package main\n", "work/app/big": "x"}, "sif work/app/big size 10000000000")
	files, sum := project(t, d, review.ProjectOptions{Root: "/work/app"})
	if got := names(files); !slices.Equal(got, []string{"main.go"}) {
		t.Errorf("the project has the files %q, want main.go", got)
	}
	if !slices.Equal(sum.TooLarge, []vm.GuestPath{"big"}) {
		t.Errorf("too large are %q, want big", sum.TooLarge)
	}
}

func TestAProjectIsWhatGitWouldTrack(t *testing.T) {
	d := projectDisk(t, map[string]string{
		"work/app/main.go": "package main\n", "work/app/run.sh*": "#!/bin/sh\n", "work/app/link@": "main.go", "work/app/.gitignore": "*.log\n/dist/\n!keep.log\n",
		"work/app/a.log": "x", "work/app/keep.log": "kept", "work/app/dist/out.js": "x", "work/app/dist/deep/more.js": "xy", "work/app/sub/dist/kept": "k",
		"work/app/node_modules/m/index.js": "m", "work/app/target/CACHEDIR.TAG": "Signature", "work/app/target/a.o": "o",
		"work/app/.git/HEAD": "ref: refs/heads/main\n", "work/app/.git/packed-refs": "# pack-refs\n" + someCommit + " refs/heads/main\n" + someCommit + " refs/remotes/origin/main\n",
		"work/app/.git/config": "[core]\n\tfsmonitor = evil\n", "work/app/vendored/.git/HEAD": "x", "work/app/vendored/file": "v",
	}, "cd /work/app", "mknod pipe p")
	files, sum := project(t, d, review.ProjectOptions{Root: "/work", Find: true})
	want := []string{".gitignore", "keep.log", "link", "main.go", "run.sh", "sub/dist/kept"}
	if got := names(files); !slices.Equal(got, want) {
		t.Errorf("the project has the files %q, want %q", got, want)
	}
	if files["link"] != "-> main.go" || files["run.sh"] != "#!/bin/sh\n (program)" {
		t.Errorf("the link is %q and the program %q, want them as links and programs", files["link"], files["run.sh"])
	}
	if sum.Root != "/work/app" || !sum.Repo || sum.Branch != "main" || sum.Head != someCommit || !slices.Equal(sum.Origins, []string{someCommit}) {
		t.Errorf("the summary says root %s, branch %s at %s from %s, want what .git says", sum.Root, sum.Branch, sum.Head, sum.Origins)
	}
	if len(sum.Special) != 1 || sum.Special[0] != "pipe" {
		t.Errorf("special files are %v, want the pipe", sum.Special)
	}
	var said []string
	for _, l := range sum.LeftOut {
		said = append(said, l.String())
	}
	for _, want := range []string{"3 ignored by .gitignore: a.log, dist/, ...", "3 in caches: node_modules/, target/, ...", "1 nested git repositories: vendored/"} {
		if !slices.Contains(said, want) {
			t.Errorf("left out is %q, which lacks %q", said, want)
		}
	}
}

func TestOnlySomeFilesOfAProject(t *testing.T) {
	d := projectDisk(t, map[string]string{"work/.gitignore": "*.log\n", "work/a.log": "tracked before", "work/b.log": "never", "work/sub/c": "c"})
	files, _ := project(t, d, review.ProjectOptions{Root: "/work", Only: []vm.GuestPath{"a.log", "missing", "sub", "../work/b.log"}})
	if got := names(files); !slices.Equal(got, []string{"a.log"}) {
		t.Errorf("a.log was asked for, with a missing file, a directory and a way out; the answer is %q", got)
	}
}

func TestSeveralRepositoriesAreRefused(t *testing.T) {
	d := projectDisk(t, map[string]string{"work/a/.git/HEAD": "x", "work/b/.git/HEAD": "x"})
	err := review.WriteProject(t.Context(), d, review.ProjectOptions{Root: "/work", Find: true}, io.Discard)
	if vm.KindOf(err) != vm.Invalid || !strings.Contains(vm.AsError(err).Hint, "/work/a") {
		t.Errorf("a directory with two repositories gives %v, want a refusal that names one", err)
	}
	err = review.WriteProject(t.Context(), d, review.ProjectOptions{Root: "/nowhere"}, io.Discard)
	if vm.KindOf(err) != vm.NotFound {
		t.Errorf("a missing directory gives %v, want kind %s", err, vm.NotFound)
	}
}
