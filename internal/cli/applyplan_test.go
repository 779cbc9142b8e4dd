// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// machine is a change of files in a VM below /work: what was there and what is there.
// A value that begins with "-> " is a link.
type machine struct{ was, now map[string]string }

func state(text string) *vm.FileState {
	if target, ok := strings.CutPrefix(text, "-> "); ok {
		return &vm.FileState{Target: vm.GuestPath(target), Mode: 0o777, Size: int64(len(target))}
	}
	sum := sha256.Sum256([]byte(text))
	return &vm.FileState{Size: int64(len(text)), Mode: 0o644, Digest: hex.EncodeToString(sum[:])}
}

func (m machine) diff() *vm.Diff {
	d := &vm.Diff{}
	all := maps.Clone(m.was)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, m.now)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, before := m.was[name]
		now, after := m.now[name]
		c := vm.FileChange{Path: vm.GuestPath("/work/" + name), Type: "file"}
		if strings.HasPrefix(all[name], "-> ") {
			c.Type = "link"
		}
		switch {
		case before && after:
			c.Verb, c.Was, c.Now, c.Changed = vm.FileModified, state(was), state(now), []string{"content"}
		case before:
			c.Verb, c.Was = vm.FileDeleted, state(was)
		default:
			c.Verb, c.Now = vm.FileAdded, state(now)
		}
		d.Changes = append(d.Changes, c)
	}
	return d
}

func (m machine) get(paths []vm.GuestPath, w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, p := range paths {
		text := m.now[strings.TrimPrefix(string(p), "/work/")]
		if err := tw.WriteHeader(&tar.Header{Name: strings.TrimPrefix(string(p), "/"), Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := io.WriteString(tw, text); err != nil {
			return err
		}
	}
	return tw.Close()
}

// workTree makes a directory with files, and links for values that begin with "-> ".
func workTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = errors.Join(err, os.Symlink(target, path))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(text), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// seen reads a directory back.
func seen(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if e.Type()&fs.ModeSymlink != 0 {
			target, lerr := os.Readlink(path)
			out[rel] = "-> " + target
			return errors.Join(err, lerr)
		}
		data, rerr := os.ReadFile(path)
		out[rel] = string(data)
		return errors.Join(err, rerr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func planned(t *testing.T, dir string, d *vm.Diff, committed func(string) bool) *applyPlan {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	p := newApplyPlan(root, committed)
	if err := p.plan("/work", d); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestApplyMakesTheDirectoryLikeTheMachine(t *testing.T) {
	m := machine{
		was: map[string]string{"edit": "old", "gone": "g", "deep/er/gone": "g", "same": "s"},
		now: map[string]string{"edit": "new", "deep/new": "n", "other/new": "n", "link": "-> edit", "same": "already"},
	}
	dir := workTree(t, map[string]string{"edit": "old", "gone": "g", "deep/er/gone": "g", "mine": "untouched", "same": "already"})
	p := planned(t, dir, m.diff(), nil)
	if len(p.Conflicts) > 0 {
		t.Fatalf("a directory as it was before the change has conflicts: %v", p.Conflicts)
	}
	if err := p.apply(m.get); err != nil {
		t.Fatalf("apply: %v", err)
	}
	want := map[string]string{"edit": "new", "deep/new": "n", "other/new": "n", "link": "-> edit", "mine": "untouched", "same": "already"}
	if got := seen(t, dir); !maps.Equal(got, want) {
		t.Errorf("after apply the directory has %q, want %q", got, want)
	}
}

func TestApplyRefusesWhatItCannotTakeBack(t *testing.T) {
	outside := t.TempDir()
	for _, x := range []struct {
		name string
		here map[string]string
		m    machine
		why  string
	}{
		{"changed here", map[string]string{"a": "mine"}, machine{map[string]string{"a": "old"}, map[string]string{"a": "new"}}, "changed here, too"},
		{"new on both sides", map[string]string{"a": "mine"}, machine{nil, map[string]string{"a": "new"}}, "another file of this name"},
		{"removed here", nil, machine{map[string]string{"a": "old"}, map[string]string{"a": "new"}}, "removed here"},
		{"deleted there, changed here", map[string]string{"a": "mine"}, machine{map[string]string{"a": "old"}, nil}, "changed here, too"},
		{"a planted link on the way", map[string]string{"dir": "-> " + outside}, machine{nil, map[string]string{"dir/evil": "x"}}, "a link of this computer"},
		{"a link in the place of the file", map[string]string{"a": "-> " + outside + "/target"}, machine{map[string]string{"a": "old"}, map[string]string{"a": "new"}}, "changed here, too"},
		{"a link that leaves", nil, machine{nil, map[string]string{"evil": "-> ../../etc/passwd"}}, "outside of the directory"},
		{"an absolute link", nil, machine{nil, map[string]string{"evil": "-> /etc/passwd"}}, "outside of the directory"},
		{"a link into .git", nil, machine{nil, map[string]string{"evil": "-> .git/hooks"}}, "into .git"},
		{"another spelling of .git", nil, machine{nil, map[string]string{".GIT/hooks/post-checkout": "x"}}, "take its name for .git"},
		{"the short name of .git", nil, machine{nil, map[string]string{"git~1/config": "x"}}, "take its name for .git"},
		{"a way out", nil, machine{nil, map[string]string{"../evil": "x"}}, "leads outside"},
		{"only case differs in the change", nil, machine{nil, map[string]string{"Readme": "1", "README": "2"}}, "only in case"},
		{"only case differs here", map[string]string{"Readme": "mine"}, machine{nil, map[string]string{"README": "2"}}, "only in case"},
		{"a directory in the place of the file", map[string]string{"a/b": "mine"}, machine{nil, map[string]string{"a": "x"}}, "a directory here"},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := workTree(t, x.here)
			p := planned(t, dir, x.m.diff(), nil)
			if len(p.Conflicts) == 0 || !strings.Contains(p.Conflicts[0].Why, x.why) {
				t.Errorf("the conflicts are %v, want one with %q", p.Conflicts, x.why)
			}
			if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
				t.Errorf("planning wrote %v outside of the directory (%v)", list, err)
			}
		})
	}
}

func TestApplyLeavesGitAlone(t *testing.T) {
	m := machine{nil, map[string]string{".git/hooks/post-checkout": "evil", "sub/.git/config": "evil", "ok": "1"}}
	dir := workTree(t, map[string]string{".git/HEAD": "ref: refs/heads/main\n"})
	p := planned(t, dir, m.diff(), nil)
	if err := p.apply(m.get); err != nil || len(p.Conflicts) > 0 {
		t.Fatalf("apply: %v, conflicts %v", err, p.Conflicts)
	}
	if got := seen(t, dir); !maps.Equal(got, map[string]string{".git/HEAD": "ref: refs/heads/main\n", "ok": "1"}) {
		t.Errorf("after apply the directory has %q, want only ok added", got)
	}
	if p.LeftOut["in .git, which is never applied"] != 2 {
		t.Errorf("left out is %v, want both files of .git counted", p.LeftOut)
	}
}

func TestApplyOverwritesWhatIsCommitted(t *testing.T) {
	m := machine{map[string]string{"a": "old"}, map[string]string{"a": "new"}}
	dir := workTree(t, map[string]string{"a": "newer here"})
	p := planned(t, dir, m.diff(), func(rel string) bool { return rel == "a" })
	if err := p.apply(m.get); err != nil || len(p.Conflicts) > 0 {
		t.Fatalf("apply over a committed file: %v, conflicts %v", err, p.Conflicts)
	}
	if got := seen(t, dir); got["a"] != "new" {
		t.Errorf("the committed file is %q, want the machine's", got["a"])
	}
}

func TestAFailedApplyPutsEverythingBack(t *testing.T) {
	m := machine{
		was: map[string]string{"a": "old", "b": "old", "gone": "g"},
		now: map[string]string{"a": "new", "b": "new", "deep/new": "n"},
	}
	here := map[string]string{"a": "old", "b": "old", "gone": "g"}
	t.Run("a content that is not the one of the diff", func(t *testing.T) {
		dir := workTree(t, here)
		p := planned(t, dir, m.diff(), nil)
		err := p.apply(machine{now: map[string]string{"a": "new", "b": "bad", "deep/new": "n"}}.get)
		if vm.KindOf(err) != vm.Corrupt {
			t.Errorf("a forged content gives %v, want kind %s", err, vm.Corrupt)
		}
		if got := seen(t, dir); !maps.Equal(got, here) {
			t.Errorf("after a refused apply the directory has %q, want it unchanged", got)
		}
	})
	t.Run("a write that fails in the middle", func(t *testing.T) {
		dir := workTree(t, here)
		p := planned(t, dir, m.diff(), nil)
		p.Steps = append(p.Steps, applyStep{Do: applyLink, Path: "deep/new", now: &vm.FileState{Target: "x"}}) // the step before makes it
		err := p.apply(m.get)
		if err == nil {
			t.Error("an apply that cannot make a link succeeded")
		}
		if got := seen(t, dir); !maps.Equal(got, here) {
			t.Errorf("after a failed apply the directory has %q, want it unchanged", got)
		}
	})
	t.Run("a file that changes meanwhile", func(t *testing.T) {
		dir := workTree(t, here)
		p := planned(t, dir, m.diff(), nil)
		err := p.apply(func(paths []vm.GuestPath, w io.Writer) error {
			if err := os.WriteFile(filepath.Join(dir, "b"), []byte("typed just now"), 0o644); err != nil {
				return err
			}
			return m.get(paths, w)
		})
		if vm.KindOf(err) != vm.Busy {
			t.Errorf("a file that changed meanwhile gives %v, want kind %s", err, vm.Busy)
		}
		if got := seen(t, dir); got["a"] != "old" || got["b"] != "typed just now" {
			t.Errorf("after that the directory has %q, want only the new text of b", got)
		}
	})
}

// A directory that has only what git ignores, or what the diff only counts, is not made.
func TestApplyMakesNoDirectoryForWhatIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	d := machine{now: map[string]string{"src/a": "a", "src/a.log": "x", "build/out": "x"}}.diff()
	for i, c := range d.Changes {
		if c.Path != "/work/src/a" {
			d.Changes[i].Git = "ignored"
		}
	}
	for _, name := range []string{"src", "build", "node_modules", "node_modules/x", "empty"} {
		d.Changes = append(d.Changes, vm.FileChange{Path: vm.GuestPath("/work/" + name), Type: "dir", Verb: vm.FileAdded, Now: &vm.FileState{Mode: 0o755}})
	}
	d.Hidden = []vm.HiddenDir{{Path: "/work/node_modules/x", Reason: "files below node_modules", Stat: vm.DiffStat{Added: 7}}}
	plan := newApplyPlan(root, nil)
	if err := plan.plan("/work", d); err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, s := range plan.Steps {
		steps = append(steps, s.Do+" "+s.Path)
	}
	if want := []string{"mkdir empty", "write src/a"}; !slices.Equal(steps, want) {
		t.Errorf("the steps are %q, want %q", steps, want)
	}
	if want := map[string]int{"ignored by git": 2, "files below node_modules": 7}; !maps.Equal(plan.LeftOut, want) {
		t.Errorf("left out are %v, want %v", plan.LeftOut, want)
	}
}
