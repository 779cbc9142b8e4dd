// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// images implements engine.Images with the data directory. It reads the images again only
// after their directory has changed: images are added and removed by a rename in it.
type images struct {
	dir  layout.Dir
	warm *warmer
	log  *slog.Logger

	mu      sync.Mutex // guards the fields below
	changed time.Time  // modification time of the directory when it was read
	found   map[string]vm.Image
	list    []vm.Image
}

var _ engine.Images = (*images)(nil)

// refreshLocked reads the images again if the directory has changed.
func (i *images) refreshLocked() error {
	st, err := os.Stat(i.dir.Images())
	switch {
	case errors.Is(err, os.ErrNotExist):
		i.found, i.list = map[string]vm.Image{}, nil
		return nil
	case err != nil:
		return vm.Errorf(vm.Internal, i.dir.Images(), "%w", err)
	case i.found != nil && st.ModTime().Equal(i.changed):
		return nil
	}
	list, err := image.List(i.dir)
	if err != nil {
		// Other images can still be used.
		i.log.Warn("an image cannot be read", "err", err)
	}
	i.list, i.found, i.changed = list, map[string]vm.Image{}, st.ModTime()
	return nil
}

// Find resolves a name, an image id or a snapshot id.
func (i *images) Find(_ context.Context, ref string) (vm.Image, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.refreshLocked(); err != nil {
		return vm.Image{}, err
	}
	if img, ok := i.found[ref]; ok {
		return img, nil
	}
	img, err := image.Find(i.dir, ref)
	if err != nil {
		return vm.Image{}, err
	}
	i.found[ref] = img
	return img, nil
}

// List returns every image, oldest first.
func (i *images) List(context.Context) ([]vm.Image, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.refreshLocked(); err != nil {
		return nil, err
	}
	return i.list, nil
}

// Warm returns the warm generation for a size. It is made on first use.
func (i *images) Warm(ctx context.Context, img vm.Image, size vm.Size) (vm.Manifest, error) {
	return i.warm.generation(ctx, img, size)
}

// Boot names the files of a cold boot with this version's agent.
func (i *images) Boot(ctx context.Context, img vm.Image) (vm.BootSource, error) {
	return i.warm.boot(ctx, img)
}

// Overlay writes an empty qcow2 with the given backing file. The file and the name of its
// directory are durable when Overlay returns.
func (i *images) Overlay(path, backing string, sizeMiB int) error {
	if err := qemu.CreateOverlay(path, backing, sizeMiB); err != nil {
		return err
	}
	return layout.SyncNew(path)
}
