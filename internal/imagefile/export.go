// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package imagefile

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Facts are the part of a manifest that only files of images have.
type Facts struct {
	Image  vm.Image `json:"image"`
	Digest string   `json:"digest"` // the image's, for people who read the manifest
}

// From says who exports.
type From struct {
	Server  string // its id
	Warren  string // version of the program
	Now     time.Time
	Key     ed25519.PrivateKey
	Written func(int64) // is called with the bytes of the file so far; may be nil
}

// recipeName is the entry of the resolved recipe, for people.
const recipeName = "recipe.yaml"

// Export writes an image to w. Kind Corrupt when a file of the image is not what its manifest
// says; otherwise that of w's error. When Export fails, no reader takes what w got for whole.
func Export(ctx context.Context, dir layout.Dir, img vm.Image, from From, w io.Writer) error {
	b, err := bundle.NewWriter(w, bundle.Manifest{Kind: bundle.OfImage, Server: from.Server, Warren: from.Warren, At: from.Now.UTC()}, from.Key)
	if err != nil {
		return err
	}
	defer b.Abort()
	root := dir.Image(img.ID)
	for _, f := range img.Files {
		e := bundle.Entry{Path: f.Name, Kind: "image", Mode: 0o644, Size: f.Size, SHA256: f.SHA256}
		if err := add(ctx, b, from, filepath.Join(root, filepath.FromSlash(f.Name)), e); err != nil {
			return err
		}
	}
	recipe := layout.ImageDir(root).Recipe()
	if st, err := os.Stat(recipe); err == nil {
		if err := add(ctx, b, from, recipe, bundle.Entry{Path: recipeName, Kind: "recipe", Mode: 0o644, Size: st.Size()}); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return layout.Error(recipe, err)
	}
	_, err = b.Close(Facts{Image: img, Digest: img.Digest()})
	return err
}

// add adds one file.
func add(ctx context.Context, b *bundle.Writer, from From, path string, e bundle.Entry) error {
	f, err := os.Open(path)
	if err != nil {
		return layout.Error(path, err)
	}
	defer f.Close()
	err = b.Add(e, watched{ctx, f, b, from.Written})
	if errors.Is(err, vm.Corrupt) {
		return vm.Errorf(vm.Corrupt, path, "the image is damaged: %w", err).WithHint("build it again: `warren image build`")
	}
	return err
}

// watched is a file that is being read into an archive.
type watched struct {
	ctx     context.Context
	r       io.Reader
	b       *bundle.Writer
	written func(int64)
}

func (w watched) Read(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	if w.written != nil {
		w.written(w.b.Written())
	}
	return w.r.Read(p)
}
