// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package imagefile

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/vm"
)

// Options say what is imported.
type Options struct {
	Dir   layout.Dir
	Path  string   // of the file
	Trust []string // fingerprints of the keys that may have signed it, this server's own included
	// Progress is called with the bytes of the image that are written, and with how many it
	// has; may be nil.
	Progress func(done, total int64)
}

// Limits of what is read of a file.
const (
	maxEntries  = 200
	maxManifest = 1 << 20
	maxBytes    = 256 << 30
)

// Import adds the image of a file to a data directory and returns it. An image that is there
// already is returned as it is. Kinds: NotFound, Corrupt (cut off or changed), Invalid (no image,
// or not one of Warren's), Denied (the signer), Exists (another image has its id), Unsupported
// (a newer format), Limit, NoSpace. After an error nothing of the file is left.
func Import(ctx context.Context, o Options) (img vm.Image, err error) {
	f, err := os.Open(o.Path)
	if err != nil {
		return img, layout.Error(o.Path, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return img, layout.Error(o.Path, err)
	}
	if !st.Mode().IsRegular() {
		return img, vm.Errorf(vm.Invalid, o.Path, "it is no regular file")
	}
	a, err := bundle.Open(f, st.Size(), bundle.Limits{Entries: maxEntries, Manifest: maxManifest, Bytes: maxBytes})
	if err != nil {
		return img, bundle.About(o.Path, err)
	}
	if img, err = contents(o, a); err != nil {
		return img, err
	}
	if have, err := image.Get(o.Dir, img.ID); err == nil {
		if have.Digest() != img.Digest() {
			return img, vm.Errorf(vm.Exists, string(img.ID), "another image has this id here").WithHint("remove that one first: `warren image rm %s`", img.ID)
		}
		return have, bundle.About(o.Path, a.Verify(ctx))
	}
	return img, unpack(ctx, o, a, img)
}

// contents checks who signed a file and what it says of its image, before anything of it is
// written.
func contents(o Options, a *bundle.Archive) (img vm.Image, err error) {
	if a.Manifest.Kind != bundle.OfImage {
		return img, a.Manifest.WrongKind(o.Path)
	}
	if !slices.Contains(o.Trust, a.Signer) {
		return img, vm.Errorf(vm.Denied, o.Path, "it is signed by %s, which is not trusted here", a.Signer).
			WithHint("ask who made it for the fingerprint (`warren bundle signer` there); if it is the same, use --trust %s", a.Signer)
	}
	var facts Facts
	if err := json.Unmarshal(a.Manifest.Facts, &facts); err != nil {
		return img, vm.Errorf(vm.Invalid, o.Path, "what it says of its image cannot be read: %w", err)
	}
	img = facts.Image
	if why := check(img, a.Manifest.Entries); why != "" {
		return img, vm.Errorf(vm.Invalid, o.Path, "the image in it is not one of Warren's: %s", why).WithHint("export it again with `warren image export`")
	}
	if err := image.CheckFormat(img); err != nil {
		return img, err
	}
	return img, nil
}

// unpack writes the image's files, and gives them their place when all are what was signed.
func unpack(ctx context.Context, o Options, a *bundle.Archive, img vm.Image) (err error) {
	if err := os.MkdirAll(o.Dir.Images(), 0o700); err != nil {
		return layout.Error(o.Dir.Images(), err)
	}
	tmp, err := layout.Temp(o.Dir.Images()) // a start of the server removes what a crash leaves
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, layout.Error(tmp, os.RemoveAll(tmp)))
		}
	}()
	var x bundle.Extractor
	var done int64
	err = a.Each(ctx, func(e bundle.Entry, r io.Reader) error {
		e.Mode = 0o644
		if e.Path == filepath.Base(layout.ImageDir("").Disk()) {
			e.Mode = 0o600
		}
		err := x.Write(filepath.Join(tmp, filepath.FromSlash(e.Path)), e, r)
		if done += e.Size; o.Progress != nil {
			o.Progress(done, a.Manifest.Bytes())
		}
		return err
	})
	if err != nil {
		return bundle.About(o.Path, err)
	}
	into := layout.ImageDir(tmp)
	if err := checkFiles(into, img); err != nil {
		return vm.Errorf(vm.Invalid, o.Path, "the image in it is not one of Warren's: %w", err)
	}
	if err := layout.WriteJSON(into.Manifest(), img, 0o644); err != nil {
		return err
	}
	if err := image.ShareFiles(o.Dir, tmp, img); err != nil {
		return err
	}
	return layout.Publish(tmp, o.Dir.Image(img.ID))
}

// checkFiles checks what the files contain: a disk of the stated size that names no other
// file, an ELF kernel, and a list of modules that are there.
func checkFiles(dir layout.ImageDir, img vm.Image) error {
	if h, err := qcow.Check(dir.Disk(), qcow.Layer); err != nil {
		return err
	} else if h.Backing != "" {
		return errors.New("its disk names a file below it")
	}
	disk, err := os.Open(dir.Disk())
	if err != nil {
		return err
	}
	defer disk.Close()
	l, err := qcow.OpenLayer(disk)
	if err != nil {
		return err
	}
	c, err := qcow.NewChain(l)
	if err != nil {
		return err
	}
	if c.Size() != int64(img.DiskMiB)<<20 {
		return errors.New("its disk has another size than its manifest says")
	}
	kernel, err := os.Open(dir.Kernel())
	if err != nil {
		return err
	}
	defer kernel.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(kernel, magic); err != nil || string(magic) != "\x7fELF" {
		return errors.New("its kernel is no ELF file")
	}
	return checkModules(dir, img)
}
