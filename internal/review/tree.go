// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"io"
	"path"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

const (
	// All files that a report opens may together have this many times the blocks of
	// the file system: a file with several names is opened for each.
	openTimes = 16

	maxDirEntries = 1 << 20 // of one directory that is searched for a name
)

// tree reads files of one side by their paths. Each part of a path is a name in a
// directory: links are not followed.
type tree struct {
	*side
	when string // "before" or "now"
	left uint64 // blocks that opened files may still have
}

func newTree(s *side, when string) *tree {
	s.fs.Renew()
	return &tree{side: s, when: when, left: openTimes * s.fs.Blocks()}
}

// errStop ends a walk over a directory early.
var errStop = vm.Errorf(vm.Internal, "", "stop")

// find returns the inode of an absolute path; nil = there is none.
func (t *tree) find(p string) (*ext4.Inode, error) {
	n := uint32(ext4.RootInode)
	for name := range strings.SplitSeq(strings.Trim(path.Clean(p), "/"), "/") {
		if name == "" || name == "." {
			continue
		}
		in, err := t.fs.Inode(n)
		if err != nil {
			return nil, err
		}
		if in.Type != ext4.Directory || !in.Used() {
			return nil, nil
		}
		if n, err = t.child(in, name); err != nil || n == 0 {
			return nil, err
		}
	}
	in, err := t.fs.Inode(n)
	if err != nil || !in.Used() {
		return nil, err
	}
	return in, nil
}

// child is the inode of a name in a directory; 0 = there is none.
func (t *tree) child(dir *ext4.Inode, name string) (n uint32, err error) {
	err = t.list(dir, func(e ext4.Entry) error {
		if e.Name == name {
			n = e.Inode
			return errStop
		}
		return nil
	})
	return n, err
}

// list calls each for every name of a directory, until it returns errStop.
func (t *tree) list(dir *ext4.Inode, each func(ext4.Entry) error) error {
	t.fs.Renew()
	seen := 0
	err := t.fs.ReadDir(dir, func(e ext4.Entry) error {
		if seen++; seen > maxDirEntries {
			return vm.Errorf(vm.Limit, "", "a directory has more than %d names", maxDirEntries)
		}
		return each(e)
	})
	if err == errStop { //nolint:errorlint // it is this very value
		return nil
	}
	return err
}

// open opens a regular file.
func (t *tree) open(in *ext4.Inode) (*ext4.File, error) {
	t.fs.Renew()
	f, err := t.fs.OpenFile(in)
	if err != nil {
		return nil, err
	}
	for _, run := range f.Runs() {
		if run.Length > t.left {
			return nil, vm.Errorf(vm.Corrupt, "", "the file system is damaged: its files claim more blocks than it has")
		}
		t.left -= run.Length
	}
	return f, nil
}

// read returns a regular file's content up to a number of bytes; nil without an error
// = it is no regular file, or larger.
func (t *tree) read(in *ext4.Inode, most int64) ([]byte, error) {
	if in == nil || in.Type != ext4.Regular || in.Size > most {
		return nil, nil
	}
	f, err := t.open(in)
	if err != nil {
		return nil, err
	}
	return readAll(f)
}

// readPath is read for a path.
func (t *tree) readPath(p string, most int64) ([]byte, error) {
	in, err := t.find(p)
	if err != nil {
		return nil, err
	}
	return t.read(in, most)
}

func readAll(f *ext4.File) ([]byte, error) {
	out := make([]byte, f.Size())
	if n, err := f.ReadAt(out, 0); err != nil && err != io.EOF { //nolint:errorlint // ReadAt returns it bare
		return nil, err
	} else if n < len(out) {
		return nil, vm.Errorf(vm.Internal, "", "the disk cannot be read: it ends early")
	}
	return out, nil
}
