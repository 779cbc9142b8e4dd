// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/cli"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/imagefile"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/seal"
	"github.com/warren-vm/warren/internal/storage"
	"github.com/warren-vm/warren/vm"
)

// imageUse measures what each image takes.
func (c commands) imageUse(ctx context.Context, data string) (map[vm.ImageID]vm.Bytes, error) {
	dir, err := c.dir(data)
	if err != nil {
		return nil, err
	}
	files, err := storage.Measurer{Dir: dir}.Measure(ctx)
	if err != nil {
		return nil, err
	}
	use := storage.Sum(files, func(f *storage.File) []storage.Item { return []storage.Item{f.Item} })
	out := map[vm.ImageID]vm.Bytes{}
	for item, bytes := range use.Of {
		if item.Kind == storage.Image {
			out[vm.ImageID(item.ID)] = bytes
		}
	}
	return out, nil
}

// imageExport writes an image into a new file, which appears when it is complete.
func (c commands) imageExport(ctx context.Context, o cli.ImageExport) (out cli.ExportedImage, err error) {
	dir, err := c.dir(o.Data)
	if err != nil {
		return out, err
	}
	img, err := image.Find(dir, o.Image)
	if err != nil {
		return out, err
	}
	host, err := openHost(dir, "")
	if err != nil {
		return out, err
	}
	key, err := seal.SigningKey(dir)
	if err != nil {
		return out, err
	}
	from := imagefile.From{Server: host.ID, Warren: api.Version, Now: time.Now(), Key: key, Written: o.Written}
	err = layout.WriteFunc(o.Path, 0o600, func(w io.Writer) error { return imagefile.Export(ctx, dir, img, from, w) })
	if err != nil {
		return out, err
	}
	st, err := os.Stat(o.Path)
	if err != nil {
		return out, layout.Error(o.Path, err)
	}
	return cli.ExportedImage{Path: o.Path, Bytes: st.Size(), Image: img, Digest: img.Digest(), Signer: bundle.FingerprintOf(key)}, nil
}

// imageImportFile adds the image of a file, and makes its warm generation.
func (c commands) imageImportFile(ctx context.Context, o cli.ImageImportFile) (vm.Image, error) {
	dir, err := c.dir(o.Data)
	if err != nil {
		return vm.Image{}, err
	}
	key, err := seal.SigningKey(dir)
	if err != nil {
		return vm.Image{}, err
	}
	img, err := imagefile.Import(ctx, imagefile.Options{
		Dir: dir, Path: o.Path, Trust: append([]string{bundle.FingerprintOf(key)}, o.Trust...),
		Progress: func(done, total int64) { o.Progress("files", int(done>>10), int(total>>10)) },
	})
	if err != nil {
		return vm.Image{}, err
	}
	l, err := openLocal(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return vm.Image{}, err
	}
	return img, l.makeWarm(ctx, img, o.Progress)
}
