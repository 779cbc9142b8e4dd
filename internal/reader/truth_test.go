// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// The confined program tells which files a disk has that its image has not, and which of
// them a state that is kept has.
func TestTruth(t *testing.T) {
	source := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(source, []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	image, now := disks(t, map[string]string{"work/old": "old", "etc/conf": "c"}, "write "+source+" work/new")
	for name, c := range map[string]struct {
		bases []reader.Base
		alike []int
	}{
		"without a kept state":   {nil, nil},
		"with the state itself":  {[]reader.Base{{Layers: now}}, []int{0}},
		"with a part of it":      {[]reader.Base{{Layers: image}, {Layers: now, Below: []vm.GuestPath{"/work"}}}, []int{1}},
		"with another part only": {[]reader.Base{{Layers: now, Below: []vm.GuestPath{"/etc"}}}, nil},
	} {
		var files []review.TruthFile
		ended := 0
		err := newReader(t).Truth(t.Context(), reader.Disks{Image: image, Now: now, Bases: c.bases}, "/work", func(l review.TruthLine) error {
			if l.File != nil {
				files = append(files, *l.File)
			}
			if l.End != nil {
				ended++
			}
			return nil
		})
		if err != nil || ended != 1 {
			t.Fatalf("%s: the answer ends %d times, with %v", name, ended, err)
		}
		if len(files) != 1 || files[0].Path != "/work/new" || files[0].ID != "3e757656cf36eca53338e520d134963a44f793f8" || !slices.Equal(files[0].Alike, c.alike) {
			t.Errorf("%s: listed are %+v, want /work/new, as in the states %v", name, files, c.alike)
		}
	}
	stop := errors.New("enough")
	if err := newReader(t).Truth(t.Context(), reader.Disks{Image: image, Now: now}, "/work", func(review.TruthLine) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the caller's error gives %v, want it", err)
	}
}

// Lines that contradict each other, or that lead out of the guest's files, are refused.
// 003-24
func TestHostileTruth(t *testing.T) {
	r, disk := hostile(t, time.Minute)
	end := review.TruthLine{End: &review.TruthEnd{}}
	clone := func() review.TruthLine {
		return review.TruthLine{Clone: &review.TruthClone{N: 1, Root: "/work", Dir: "/work/.git", Head: strings.Repeat("ab", 20)}}
	}
	file := func() review.TruthLine {
		return review.TruthLine{File: &review.TruthFile{Path: "/work/a", Clone: 1, Class: review.ClassTracked, ID: strings.Repeat("cd", 20), Size: 1, Alike: []int{0}}}
	}
	count := func() review.TruthLine {
		return review.TruthLine{Count: &review.TruthCount{Clone: 1, Class: review.ClassIgnored, Group: vm.GroupProject, Files: 2, Bytes: 3}}
	}
	ask := func(lines ...review.TruthLine) error {
		t.Helper()
		var text strings.Builder
		for _, l := range lines {
			data, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(append(data, '\n'))
		}
		return r.Truth(t.Context(), reader.Disks{Now: disk, Bases: []reader.Base{{Layers: disk}}}, "answer "+text.String(), func(review.TruthLine) error { return nil })
	}
	if err := ask(clone(), file(), count(), end); err != nil {
		t.Fatalf("the honest answer is refused: %v", err)
	}
	changed := func(change func(k *review.TruthClone, f *review.TruthFile, n *review.TruthCount)) []review.TruthLine {
		k, f, n := clone(), file(), count()
		change(k.Clone, f.File, n.Count)
		return []review.TruthLine{k, f, n, end}
	}
	type (
		c = review.TruthClone
		f = review.TruthFile
		n = review.TruthCount
	)
	for name, lines := range map[string][]review.TruthLine{
		"no end":                         {clone(), file()},
		"a line after the end":           {end, file()},
		"an empty line":                  {{}, end},
		"a line with two parts":          {{File: file().File, End: &review.TruthEnd{}}, end},
		"a file of an unknown clone":     {file(), end},
		"a path with ..":                 changed(func(_ *c, x *f, _ *n) { x.Path = "/work/../etc" }),
		"an id that is none":             changed(func(_ *c, x *f, _ *n) { x.ID = "HEAD" }),
		"a negative size":                changed(func(_ *c, x *f, _ *n) { x.Size = -1 }),
		"an unknown class":               changed(func(_ *c, x *f, _ *n) { x.Class = "safe" }),
		"a state nobody asked for":       changed(func(_ *c, x *f, _ *n) { x.Alike = []int{1} }),
		"a state twice":                  changed(func(_ *c, x *f, _ *n) { x.Alike = []int{0, 0} }),
		"a clone out of turn":            changed(func(x *c, _ *f, _ *n) { x.N = 2 }),
		"a clone that leads out":         changed(func(x *c, _ *f, _ *n) { x.Root = "work" }),
		"a head that is none":            changed(func(x *c, _ *f, _ *n) { x.Head = "--all" }),
		"a branch that is at no commit":  changed(func(x *c, _ *f, _ *n) { x.Refs = []review.TruthRef{{Name: "heads/x", ID: "--all"}} }),
		"a parent that is no commit":     changed(func(x *c, _ *f, _ *n) { x.Commits = []review.TruthCommit{{ID: x.Head, Parents: []string{"--all"}}} }),
		"an escape in a remote":          changed(func(x *c, _ *f, _ *n) { x.Remotes = []vm.CloneClaim{{Name: "o", URL: "\x1b[2J"}} }),
		"a negative count":               changed(func(_ *c, _ *f, x *n) { x.Files = -1 }),
		"a count of an unknown clone":    changed(func(_ *c, _ *f, x *n) { x.Clone = 2 }),
		"a count of an unknown group":    changed(func(_ *c, _ *f, x *n) { x.Group = "none" }),
		"an end with a negative number":  {{End: &review.TruthEnd{Unhashed: -1}}},
		"a count of an impossible class": changed(func(_ *c, _ *f, x *n) { x.Class = "\x1b" }),
	} {
		if err := ask(lines...); vm.KindOf(err) != vm.Corrupt {
			t.Errorf("an answer with %s ends with %v, want kind corrupt", name, err)
		}
	}
}
