// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// manifestFormat is the newest version of an image's manifest.
const manifestFormat = 1

// DefaultName is the default image.
const DefaultName = "base"

// Get returns the image with an id. Kinds: NotFound, Corrupt, Unsupported.
func Get(dir layout.Dir, id vm.ImageID) (vm.Image, error) {
	var img vm.Image
	if !imageID(string(id)) {
		return vm.Image{}, notFound(string(id))
	}
	if err := layout.ReadJSON(dir.ImageManifest(id), &img); err != nil {
		if errors.Is(err, vm.NotFound) {
			return vm.Image{}, notFound(string(id))
		}
		return vm.Image{}, err
	}
	if err := CheckFormat(img); err != nil {
		return vm.Image{}, err
	}
	if img.ID != id {
		return vm.Image{}, vm.Errorf(vm.Corrupt, string(id), "its manifest is that of %q", img.ID).
			WithHint("remove %s and build the image again", dir.Image(id))
	}
	return img, nil
}

// CheckFormat refuses an image that this program does not know how to use.
func CheckFormat(img vm.Image) error {
	if img.Format > manifestFormat {
		return vm.Errorf(vm.Unsupported, string(img.ID), "was built by a newer warren (manifest format %d)", img.Format).
			WithHint("use the warren that built it, or build the image again")
	}
	return nil
}

func imageID(s string) bool {
	rest, ok := strings.CutPrefix(s, "im-")
	return ok && len(rest) == 16 && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

func notFound(ref string) *vm.Error {
	return vm.Errorf(vm.NotFound, ref, "no such image").
		WithHint("`warren image ls` lists images, `warren image build` makes one")
}

// List returns the finished images, oldest first. If some cannot be read, it
// returns the others and an error that names them.
func List(dir layout.Dir) ([]vm.Image, error) {
	entries, err := os.ReadDir(dir.Images())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fileError(dir.Images(), err)
	}
	var out []vm.Image
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || !imageID(e.Name()) {
			continue
		}
		img, err := Get(dir, vm.ImageID(e.Name()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, img)
	}
	slices.SortFunc(out, func(a, b vm.Image) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return out, errors.Join(errs...)
}

// Find returns the image for ref: an id, a snapshot id, a digest, a name (its newest image), or
// a unique prefix of an id. "" is the default image. Kinds: NotFound, Invalid (ambiguous).
func Find(dir layout.Dir, ref string) (vm.Image, error) {
	if ref == "" {
		ref = DefaultName
	}
	if imageID(ref) {
		return Get(dir, vm.ImageID(ref))
	}
	all, listErr := List(dir)
	var begins []vm.Image
	for _, img := range slices.Backward(all) {
		if img.Name == ref || string(img.Snapshot) == ref || strings.HasPrefix(ref, "sha256:") && img.Digest() == ref {
			return img, nil
		}
		if strings.HasPrefix(ref, "im-") && len(ref) > len("im-") && strings.HasPrefix(string(img.ID), ref) {
			begins = append(begins, img)
		}
	}
	switch {
	case len(begins) == 1:
		return begins[0], nil
	case len(begins) > 1:
		var ids []string
		for _, img := range begins {
			ids = append(ids, string(img.ID))
		}
		return vm.Image{}, vm.Errorf(vm.Invalid, ref, "fits more than one image: %s", strings.Join(ids, ", ")).
			WithHint("write more of the id")
	}
	err := notFound(ref)
	if slices.Contains(Names(), ref) {
		err = vm.Errorf(vm.NotFound, ref, "image not built yet").WithHint("`warren image build %s` builds it", ref)
	}
	if listErr != nil {
		return vm.Image{}, errors.Join(err, listErr)
	}
	return vm.Image{}, err
}

// RemoveOptions configure Remove.
type RemoveOptions struct {
	Used  func(vm.ImageID) int // number of VMs that use it; may be nil
	Force bool                 // also the default image
}

// Remove deletes the image for ref, with its warm generations, and returns
// it. It refuses (WrongState) while VMs use the image and, without Force, the
// default image: the newest base image.
func Remove(dir layout.Dir, ref string, o RemoveOptions) (vm.Image, error) {
	img, err := Find(dir, ref)
	if err != nil {
		return vm.Image{}, err
	}
	if o.Used != nil {
		if n := o.Used(img.ID); n > 0 {
			return vm.Image{}, vm.Errorf(vm.WrongState, string(img.ID), "%d machines use it", n).
				WithHint("remove them first: `warren ls` lists them")
		}
	}
	if def, err := Find(dir, DefaultName); err == nil && def.ID == img.ID && !o.Force {
		return vm.Image{}, vm.Errorf(vm.WrongState, string(img.ID), "it is the default image").
			WithHint("`warren image rm --force %s` removes it anyway", ref)
	}
	// Move it away first, so that no partial image is ever visible.
	gone, err := layout.Temp(dir.Images())
	if err != nil {
		return vm.Image{}, err
	}
	if err := os.Rename(dir.Image(img.ID), filepath.Join(gone, string(img.ID))); err != nil {
		return vm.Image{}, errors.Join(fileError(dir.Image(img.ID), err), os.Remove(gone))
	}
	if err := layout.SyncDir(dir.Images()); err != nil {
		return vm.Image{}, err
	}
	if err := os.RemoveAll(gone); err != nil {
		return vm.Image{}, fileError(gone, err)
	}
	return img, nil
}

// Swept reports what Sweep removed.
type Swept struct {
	Removed []string // paths
}

// Sweep removes what crashes left in the images' directory: incomplete and partly
// removed images, and temporary trees of builds. An interrupted build keeps its
// finished stages for a week, unless all is set. A running build is left alone.
func Sweep(ctx context.Context, dir layout.Dir, all bool) (Swept, error) {
	var out Swept
	entries, err := os.ReadDir(dir.Images())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, fileError(dir.Images(), err)
	}
	var errs []error
	for _, e := range entries {
		name := filepath.Join(dir.Images(), e.Name())
		digest, building := strings.CutPrefix(e.Name(), ".building-")
		switch {
		case !e.IsDir():
		case building:
			removed, err := sweepBuild(ctx, dir, digest, all)
			out.Removed = append(out.Removed, removed...)
			errs = append(errs, err)
		case layout.IsTemp(e.Name()):
			if err := os.RemoveAll(name); err != nil {
				errs = append(errs, fileError(name, err))
				continue
			}
			out.Removed = append(out.Removed, name)
		}
	}
	return out, errors.Join(errs...)
}

const staleBuild = 7 * 24 * time.Hour

// sweepBuild cleans up one interrupted build.
func sweepBuild(ctx context.Context, dir layout.Dir, digest string, all bool) (removed []string, err error) {
	lock, err := layout.TryLock(dir.ImageBuildLock(digest))
	if errors.Is(err, vm.Busy) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	b := &builder{BuildOptions: BuildOptions{Dir: dir, run: runProgram}, dir: layout.ImageDir(dir.ImageBuilding(digest))}
	if tmp, err := os.ReadFile(b.tempMark()); err == nil {
		if err := b.dropTemp(ctx, string(tmp)); err != nil {
			return nil, err
		}
		removed = append(removed, string(tmp))
	}
	if st, err := os.Stat(string(b.dir)); !all && err == nil && time.Since(st.ModTime()) < staleBuild {
		return removed, nil
	}
	if err := os.RemoveAll(string(b.dir)); err != nil {
		return removed, fileError(string(b.dir), err)
	}
	return append(removed, string(b.dir)), nil
}
