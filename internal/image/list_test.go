// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// store makes a data directory with images of these names, each a minute newer
// than the one before.
func store(t *testing.T, names ...string) (layout.Dir, []vm.Image) {
	t.Helper()
	dir, err := layout.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	var out []vm.Image
	for i, n := range names {
		img := vm.Image{
			Format: 1, ID: vm.ImageID("im-" + strings.Repeat("a", 15) + string(rune('0'+i))), Name: n, Snapshot: vm.NewSnapshotID(),
			CreatedAt: time.Unix(int64(i)*60, 0).UTC(), Registries: []vm.Registry{}, Files: []vm.File{},
		}
		if err := os.MkdirAll(dir.Image(img.ID), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := layout.WriteJSON(dir.ImageManifest(img.ID), img, 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, img)
	}
	return dir, out
}

func TestFind(t *testing.T) {
	dir, imgs := store(t, "base", "dev", "base")
	for ref, want := range map[string]vm.ImageID{
		"": imgs[2].ID, "base": imgs[2].ID, "dev": imgs[1].ID, string(imgs[0].ID): imgs[0].ID,
		string(imgs[1].Snapshot): imgs[1].ID, string(imgs[0].ID[:19]): imgs[0].ID,
	} {
		if got, err := Find(dir, ref); err != nil || got.ID != want {
			t.Errorf("the image %q is found as %s (%v), want %s", ref, got.ID, err, want)
		}
	}
	for ref, want := range map[string]vm.Kind{
		"im-aaaa": vm.Invalid, "im-": vm.NotFound, "nothing": vm.NotFound, "../../etc": vm.NotFound, "im-../../../../aaaa": vm.NotFound,
		"im-bbbbbbbbbbbbbbbb": vm.NotFound, ".": vm.NotFound,
	} {
		if got, err := Find(dir, ref); vm.KindOf(err) != want {
			t.Errorf("the image %q is found as %s (%v), want %s", ref, got.ID, err, want)
		}
	}
	_, err := Find(dir, "im-aaaa")
	for _, img := range imgs {
		if !strings.Contains(err.Error(), string(img.ID)) {
			t.Errorf("an ambiguous name does not list %s: %v", img.ID, err)
		}
	}
	empty, _ := store(t)
	if _, err := Find(empty, ""); !errors.Is(err, vm.NotFound) || !strings.Contains(vm.AsError(err).Hint, "warren image build base") {
		t.Errorf("nothing built: %v", err)
	}
}

// An image that cannot be read does not hide the others.
func TestListBroken(t *testing.T) {
	dir, imgs := store(t, "base", "dev", "x", "y")
	write := func(i int, text string) {
		t.Helper()
		if err := os.WriteFile(dir.ImageManifest(imgs[i].ID), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(1, "{")
	write(2, `{"format":9,"id":"`+string(imgs[2].ID)+`"}`)
	write(3, `{"format":1,"id":"im-zzzzzzzzzzzzzzzz"}`)
	got, err := List(dir)
	if len(got) != 1 || got[0].ID != imgs[0].ID || !errors.Is(err, vm.Corrupt) || !errors.Is(err, vm.Unsupported) {
		t.Errorf("the images are %+v (%v), want %s and errors about the other two", got, err, imgs[0].ID)
	}
	if img, err := Find(dir, "base"); err != nil || img.ID != imgs[0].ID {
		t.Errorf("found %s, %v", img.ID, err)
	}
}

func TestRemove(t *testing.T) {
	dir, imgs := store(t, "base", "dev", "base")
	used := func(id vm.ImageID) int {
		if id == imgs[1].ID {
			return 2
		}
		return 0
	}
	if _, err := Remove(dir, "dev", RemoveOptions{Used: used, Force: true}); !errors.Is(err, vm.WrongState) {
		t.Errorf("in use: %v", err)
	}
	if _, err := Remove(dir, "base", RemoveOptions{}); !errors.Is(err, vm.WrongState) {
		t.Errorf("the default: %v", err)
	}
	if img, err := Remove(dir, string(imgs[0].ID), RemoveOptions{Used: used}); err != nil || img.ID != imgs[0].ID {
		t.Errorf("an older base: %v, %v", img.ID, err)
	}
	if img, err := Remove(dir, "", RemoveOptions{Used: used, Force: true}); err != nil || img.ID != imgs[2].ID {
		t.Errorf("the default by force: %v, %v", img.ID, err)
	}
	if _, err := Remove(dir, "base", RemoveOptions{}); !errors.Is(err, vm.NotFound) {
		t.Errorf("again: %v", err)
	}
	left, err := os.ReadDir(dir.Images())
	if err != nil || len(left) != 1 || left[0].Name() != string(imgs[1].ID) {
		t.Errorf("left %v, %v", left, err)
	}
}

// verify reads every file of the image and compares it with the manifest. Kind
// Corrupt when one differs.
func verify(ctx context.Context, dir layout.Dir, img vm.Image) error {
	for _, want := range img.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		got, err := digestFile(dir.Image(img.ID), want.Name)
		if err != nil && !errors.Is(err, vm.NotFound) {
			return err
		}
		if got.Size != want.Size || got.SHA256 != want.SHA256 {
			return vm.Errorf(vm.Corrupt, string(img.ID), "%s is not as it was built", want.Name)
		}
	}
	return nil
}

// Remains of a kill -9 are removed; a running build is not.
func TestSweep(t *testing.T) {
	dir, imgs := store(t, "base")
	t.Setenv("TMPDIR", t.TempDir())
	tree, err := os.MkdirTemp(os.Getenv("TMPDIR"), "warren-build-")
	if err != nil {
		t.Fatal(err)
	}
	half, err := layout.Temp(dir.Images())
	if err != nil {
		t.Fatal(err)
	}
	mk := func(digest string) string {
		t.Helper()
		p := dir.ImageBuilding(digest)
		if err := os.Mkdir(p, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p, ".done-packages"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	dead, live, old := mk("dead"), mk("live"), mk("old")
	if err := os.Chtimes(old, time.Now(), time.Now().Add(-staleBuild-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead, ".tempdir"), []byte(tree), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := layout.TryLock(dir.ImageBuildLock("live"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Sweep(t.Context(), dir, false); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{tree: false, half: false, old: false, dead: true, live: true, dir.Image(imgs[0].ID): true} {
		if exists(path) != want {
			t.Errorf("%s exists: %v, want %v", path, !want, want)
		}
	}
	if _, err := Sweep(t.Context(), dir, true); err != nil {
		t.Fatal(err)
	}
	if exists(dead) || !exists(live) {
		t.Errorf("sweep of all: dead %v, live %v", exists(dead), exists(live))
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	// A path outside the builds is never removed, whatever a file contains.
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(live, ".tempdir"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Sweep(t.Context(), dir, false); err == nil || !exists(other) {
		t.Errorf("removed a foreign directory: %v", err)
	}
}

// The manifest of a newer Warren's image is refused as such.
func TestNewerImage(t *testing.T) {
	dir, imgs := store(t, "base")
	imgs[0].Format = manifestFormat + 1
	if err := layout.WriteJSON(dir.ImageManifest(imgs[0].ID), imgs[0], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Get(dir, imgs[0].ID); vm.KindOf(err) != vm.Unsupported || vm.AsError(err).Hint == "" {
		t.Error(err)
	}
}
