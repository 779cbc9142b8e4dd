// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"
	"slices"
	"sync"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Folders simulates directories of the host.
type Folders struct {
	mu   sync.Mutex
	dirs map[string]simFolder
}

type simFolder struct {
	id     vm.FolderID
	sealed bool
}

var _ engine.Folders = (*Folders)(nil)

// Put adds a directory, or sets whether it is encrypted.
func (f *Folders) Put(path string, sealed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dirs == nil {
		f.dirs = map[string]simFolder{}
	}
	d, ok := f.dirs[path]
	if !ok {
		d.id = vm.FolderID{Dev: 1, Ino: uint64(len(f.dirs) + 1)}
	}
	d.sealed = sealed
	f.dirs[path] = d
}

// Check identifies the directory at a path.
func (f *Folders) Check(path string) (vm.FolderID, bool, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.dirs[path]
	if !ok {
		return vm.FolderID{}, false, "", vm.Errorf(vm.NotFound, path, "the host has no such directory").WithCode("HOST_PATH_INVALID", "path", path)
	}
	return d.id, d.sealed, "a simulation", nil
}

// MountFolder mounts a directory of the host in the guest.
func (h *handle) MountFolder(ctx context.Context, f vm.Folder) error {
	if err := h.w.step(ctx, "folder"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spec.Folders = append(slices.Clone(h.spec.Folders), f)
	return h.w.step(ctx, "foldered")
}

// UnmountFolder removes a directory.
func (h *handle) UnmountFolder(ctx context.Context, path string, _ bool) error {
	if err := h.w.step(ctx, "unfolder"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spec.Folders = slices.DeleteFunc(slices.Clone(h.spec.Folders), func(f vm.Folder) bool { return f.Path == path })
	return nil
}

func folderPaths(list []vm.Folder) (out []string) {
	for _, f := range list {
		out = append(out, f.Path)
	}
	return out
}
