// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package treesync

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"github.com/warren-vm/warren/vm"
)

// LocalSide is a directory of this computer.
type LocalSide struct {
	root *os.Root
	// Backup receives what a run deletes or replaces: the directory is made when the
	// first file goes there. "" = nothing is kept.
	Backup string
	Kept   int // files in Backup
}

// OpenLocal opens a directory. Kinds: NotFound, Invalid.
func OpenLocal(dir string) (*LocalSide, error) {
	root, err := os.OpenRoot(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, vm.Errorf(vm.NotFound, dir, "no such directory on this computer").WithHint("make it first: `mkdir %s`", dir)
	case err != nil:
		return nil, vm.Errorf(vm.Invalid, dir, "%w", err)
	}
	return &LocalSide{root: root}, nil
}

// Close closes the directory.
func (s *LocalSide) Close() { _ = s.root.Close() }

// List implements Side.
func (s *LocalSide) List(ctx context.Context, o ListOptions) (Listing, error) {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(List(ctx, s.root, o, w)) }()
	defer func() { _ = r.Close() }()
	l, err := ReadListing(r)
	return l, hereError(err)
}

// Pick implements Side.
func (s *LocalSide) Pick(ctx context.Context, names []vm.GuestPath) (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(Pick(ctx, s.root, names, w)) }()
	return r, nil
}

// Place implements Side.
func (s *LocalSide) Place(ctx context.Context, r io.Reader, mark Mark) (Placed, error) {
	var backup func(d *os.Root, name, p string) error
	if s.Backup != "" {
		backup = s.keep
	}
	out, err := Place(ctx, s.root, r, mark, Guards{Backup: backup})
	return out, hereError(err)
}

// hereError says that an error is this computer's.
func hereError(err error) error {
	var e *vm.Error
	var perr *fs.PathError
	switch {
	case err == nil, errors.As(err, &e), !errors.As(err, &perr):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return vm.Errorf(vm.NoSpace, vm.GuestPath(perr.Path).String(), "the disk of this computer is full")
	}
	return vm.Errorf(vm.Invalid, vm.GuestPath(perr.Path).String(), "%w", perr.Err)
}

// keep copies a file or link into the backup.
func (s *LocalSide) keep(d *os.Root, name, p string) error {
	to := filepath.Join(s.Backup, filepath.FromSlash(p))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	st, err := d.Lstat(name)
	if err != nil {
		return err
	}
	if st.Mode().Type() == fs.ModeSymlink {
		target, err := d.Readlink(name)
		if err != nil {
			return err
		}
		s.Kept++
		return os.Symlink(target, to)
	}
	in, err := openFile(d, name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, st.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	s.Kept++
	return errors.Join(err, out.Close())
}

// Clean removes files that a run left incomplete when it was killed.
func (s *LocalSide) Clean() error {
	return fs.WalkDir(s.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // the listing reports it
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.Type().IsRegular() && strings.HasPrefix(path.Base(p), TempPrefix):
			return s.root.Remove(p)
		}
		return nil
	})
}

// Folds reports whether the file system of a directory takes names that differ in
// case for one: its own name is looked up in the other case.
func Folds(dir string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	flipped := strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, filepath.Base(dir))
	a, err1 := os.Lstat(dir)
	b, err2 := os.Lstat(filepath.Join(filepath.Dir(dir), flipped))
	return err1 == nil && err2 == nil && flipped != filepath.Base(dir) && os.SameFile(a, b)
}
