// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// put makes files below a directory, as machine does on a disk.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, is := strings.CutPrefix(text, "-> "); is {
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// tree reads the files below a directory: their content, a mark for programs, targets.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			out[name] = "-> " + target
			return err
		}
		data, err := os.ReadFile(path)
		info, _ := d.Info()
		out[name] = string(data)
		if info != nil && info.Mode()&0o100 != 0 {
			out[name] += " (program)"
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// gitApply applies a patch with the real git.
func gitApply(t *testing.T, dir string, patch []byte, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"apply", "--whitespace=nowarn"}, args...)...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(patch)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply %v: %v: %s\n%s", args, err, out, patch)
	}
}

// git apply makes of the older files the newer ones, and with -R the older ones again.
func TestPatchApplies(t *testing.T) {
	binary := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00\x01\xfe", 500)
	common := map[string]string{"same.txt": "same\n"}
	was, now := maps.Clone(common), maps.Clone(common)
	maps.Copy(was, map[string]string{
		"text": "one\ntwo\nthree\n", "noeol": "a\nb", "crlf.txt": "a\r\nb\r\n", "gone": "x\n", "empty-gone": "", "prog": "echo\n", "img.png": binary, "gone.png": binary,
		"link": "-> text", "retyped": "a file\n", "latin": "caf\xe9\n", "dir/deep/x": "x\n", "weird \"name\"\\": "q\n",
	})
	maps.Copy(now, map[string]string{
		"text": "one\n2\nthree\nfour\n", "noeol": "a\nB\n", "crlf.txt": "a\r\nB\r\n", "empty": "", "new with space.txt": "n\n", "tab\tnew\nline": "t\n", "ümlaut": "u\n",
		"prog": "#!/bin/sh\necho\n", "img.png": binary + "more", "new.png": binary + "\x00", "link": "-> same.txt", "newlink": "-> a b", "retyped": "-> text", "latin": "caf\xe9s",
		"dir/deep/y": "y", "weird \"name\"\\": "Q\n",
	})
	atWork := func(files map[string]string) map[string]string {
		out := map[string]string{"work/": ""}
		for name, text := range files {
			out["work/"+name] = text
		}
		return out
	}
	d := both(t, atWork(was), atWork(now), review.Options{Patch: true})
	if d.PatchBase != "/work" {
		t.Fatalf("the patch is relative to %s", d.PatchBase)
	}
	var patch bytes.Buffer
	if err := d.WritePatch(&patch); err != nil {
		t.Fatal(err)
	}
	dir, want, before := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, dir, was)
	put(t, want, now)
	put(t, before, was)
	gitApply(t, dir, patch.Bytes(), "--check")
	gitApply(t, dir, patch.Bytes())
	if got, want := tree(t, dir), tree(t, want); !maps.Equal(got, want) {
		t.Errorf("after git apply the files are %q, want %q", got, want)
	}
	gitApply(t, dir, patch.Bytes(), "-R")
	if got, want := tree(t, dir), tree(t, before); !maps.Equal(got, want) {
		t.Errorf("after git apply -R the files are %q, want %q", got, want)
	}
}

// Renames, of a directory as a whole too, and changes of the mode alone are in a patch.
func TestPatchRenames(t *testing.T) {
	before, after := base(t)
	change(t, after, "cd work", "ln old new", "unlink old", "sif mode mode 0100755", "cd /", "ln tree/deep/one tree/one", "unlink tree/deep/one")
	for _, base := range []string{"/work", "/tree"} {
		d := report(t, before, after, review.Options{Patch: true, Paths: []vm.GuestPath{vm.GuestPath(base)}})
		var patch bytes.Buffer
		if err := d.WritePatch(&patch); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		put(t, dir, map[string]string{"old": strings.Repeat("moved\n", 50), "mode": "m", "deep/one": "1"})
		gitApply(t, dir, patch.Bytes())
		got := tree(t, dir)
		if base == "/work" && (got["new"] == "" || got["old"] != "" || got["mode"] != "m (program)") || base == "/tree" && (got["one"] != "1" || got["deep/one"] != "") {
			t.Errorf("below %s the files are %q after\n%s", base, got, patch.Bytes())
		}
	}
}

// A file with a secret is not in a patch, and the patch says so.
func TestPatchWithoutSecrets(t *testing.T) {
	key := "AK" + "IA" + strings.Repeat("Q7ZX", 4)
	d := both(t, map[string]string{"work/a": "1\n", "work/old": key + "\n"}, map[string]string{"work/a": "2\n", "work/.env": "K=" + key + "\n", "work/old": "none\n"}, review.Options{Patch: true})
	var patch bytes.Buffer
	if err := d.WritePatch(&patch); err != nil {
		t.Fatal(err)
	}
	if text := patch.String(); strings.Contains(text, key) || !strings.Contains(text, "+2") || !strings.Contains(text, "# left out: /work/.env: it seems to hold a secret\n") || !strings.Contains(text, "left out: /work/old") {
		t.Errorf("the patch is\n%s", text)
	}
}
