// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Measurer measures one data directory.
type Measurer struct{ Dir layout.Dir }

// Measure reads how many blocks every file of the data directory takes. It leaves
// out files that disappear meanwhile, and targets of links: they are counted where
// they are.
func (m Measurer) Measure(ctx context.Context) ([]File, error) {
	root, err := filepath.EvalSymlinks(string(m.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, vm.Errorf(vm.Internal, string(m.Dir), "what its files take cannot be read: %w", err)
	}
	shares := canShare(root)
	var files []File
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		f, ok := measure(path, d, shares)
		if !ok {
			return nil
		}
		if f.Path, err = filepath.Rel(root, path); err != nil {
			return err
		}
		f.Item, f.Memory = m.itemOf(f.Path, d.IsDir())
		files = append(files, f)
		return nil
	})
	if err != nil {
		return nil, vm.Errorf(vm.Internal, root, "what its files take cannot be read: %w", err)
	}
	return files, nil
}

// measure reads one entry; false when it is gone or takes nothing.
func measure(path string, d fs.DirEntry, shares bool) (File, bool) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Blocks == 0 {
		return File{}, false
	}
	f := File{Inode: Inode{uint64(st.Dev), st.Ino}, Allocated: st.Blocks * 512}
	if shares && d.Type().IsRegular() {
		f.Shared = sharedRanges(path)
	}
	return f, true
}

// itemOf returns the thing to which a path below the data directory belongs.
func (m Measurer) itemOf(path string, isDir bool) (item Item, memory bool) {
	first, rest, deep := strings.Cut(path, "/")
	id, name, _ := strings.Cut(rest, "/")
	kind := Other
	switch filepath.Join(string(m.Dir), first) {
	case m.Dir.VMs():
		kind = VM
	case m.Dir.Generations():
		kind = Generation
	case m.Dir.Images():
		kind = Image
	case m.Dir.Volumes():
		kind = Volume
	case m.Dir.Repos():
		if kind = Repository; strings.HasPrefix(id, ".") { // objects that have not joined one
			kind = Other
		}
	case m.Dir.Objects():
		if kind = Objects; strings.HasPrefix(id, ".") || !strings.Contains(rest, "/") { // the index, and what is being written
			kind = Other
		}
	}
	switch {
	case kind != Other && deep:
		held := strings.HasPrefix(name, "ram") || strings.HasPrefix(name, "device")
		return Item{kind, id}, held && (kind == VM || kind == Generation)
	case deep || isDir && first != ".":
		return Item{Other, first}, false
	default:
		return Item{Other, "files"}, false
	}
}

// canShare reports whether files of that file system may share blocks; if not,
// their extents need not be read.
func canShare(path string) bool {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return false
	}
	return st.Type != unix.EXT4_SUPER_MAGIC && st.Type != unix.TMPFS_MAGIC
}
