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

// images is engine.Images on the data directory. What is there is read again
// only when the directory of images has changed: images appear and go by a
// rename in it.
type images struct {
	dir  layout.Dir
	warm *warmer
	log  *slog.Logger

	mu      sync.Mutex // guards the fields below
	changed time.Time  // modification time of the directory at the last look
	found   map[string]vm.Image
	list    []vm.Image
}

var _ engine.Images = (*images)(nil)

// refresh forgets what is known when the directory has changed. The lock is held.
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
		// The readable ones are usable all the same.
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

// Warm returns the warm generation of a size, made on first use.
func (i *images) Warm(ctx context.Context, img vm.Image, size vm.Size) (vm.Manifest, error) {
	return i.warm.generation(ctx, img, size)
}

// Boot names the files of a cold boot with this version's agent.
func (i *images) Boot(ctx context.Context, img vm.Image) (vm.BootSource, error) {
	return i.warm.boot(ctx, img)
}

// Overlay writes an empty qcow2 above backing. It is durable when Overlay
// returns, as is the name of the directory that it is in.
func (i *images) Overlay(path, backing string, sizeMiB int) error {
	if err := qemu.CreateOverlay(path, backing, sizeMiB); err != nil {
		return err
	}
	return layout.SyncNew(path)
}
