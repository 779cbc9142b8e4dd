// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// tempPrefix begins the name of every file and directory that is not finished.
const tempPrefix = ".tmp-"

// IsTemp reports whether name, without its directory, is unfinished and may be
// removed by a sweep.
func IsTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// Temp makes an empty directory (0700) inside dir whose name IsTemp.
func Temp(dir string) (string, error) {
	p, err := os.MkdirTemp(dir, tempPrefix)
	if err != nil {
		return "", ioError(dir, err)
	}
	return p, nil
}

// WriteFile replaces path by data: a temporary name, fsync, rename, fsync of
// the directory. After a crash the file is the old one or the new one.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	return WriteFunc(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteFunc is WriteFile with a function that writes the contents. On an error
// nothing is left behind and the error is the function's.
func WriteFunc(path string, perm fs.FileMode, fill func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix)
	if err != nil {
		return ioError(path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // already closed on the later paths
			_ = os.Remove(f.Name())
		}
	}()
	if err := fill(f); err != nil {
		return ioError(path, err)
	}
	if err := f.Chmod(perm); err != nil {
		return ioError(path, err)
	}
	if err := f.Sync(); err != nil {
		return ioError(path, err)
	}
	if err := f.Close(); err != nil {
		return ioError(path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return ioError(path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// WriteJSON replaces path by v as indented JSON.
func WriteJSON(path string, v any, perm fs.FileMode) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return vm.Errorf(vm.Internal, path, "cannot be written as JSON: %w", err)
	}
	return WriteFile(path, append(data, '\n'), perm)
}

// ReadJSON fills v from path. Kinds: NotFound, Corrupt.
func ReadJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return ioError(path, err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return vm.Errorf(vm.Corrupt, path, "not readable: %w", err)
	}
	return nil
}

// Publish makes a finished directory appear under its final name: fsync of every
// file and directory below tmp, rename, fsync of the parent. Kind Exists when final
// exists.
func Publish(tmp, final string) error {
	if _, err := os.Lstat(final); err == nil {
		return vm.Errorf(vm.Exists, final, "is there already")
	}
	if err := SyncTree(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, final); err != nil {
		return ioError(final, err)
	}
	return SyncDir(filepath.Dir(final))
}

// SyncTree makes every file and directory at and below root durable.
func SyncTree(root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return ioError(path, err)
		}
		if e.IsDir() || e.Type().IsRegular() {
			return SyncFile(path)
		}
		return nil
	})
}

// SyncFile makes the contents of a file, or the names in a directory, durable.
func SyncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return ioError(path, err)
	}
	return ioError(path, errors.Join(f.Sync(), f.Close()))
}

// SyncDir makes the names in a directory durable.
func SyncDir(path string) error { return SyncFile(path) }

// SyncNew makes the name of a new file durable, and that of its directory. The
// caller syncs the contents.
func SyncNew(path string) error {
	dir := filepath.Dir(path)
	if err := SyncDir(dir); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(dir))
}

// MakeDir makes a directory (0700) with a durable name. An existing one is no
// error.
func MakeDir(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return ioError(path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// A Lock is a file that this process has locked. Unlocking does not remove the
// file.
type Lock struct{ f *os.File }

// TryLock takes the lock of path, creating the file (0600). Busy when another
// process, or another Lock of this one, holds it.
func TryLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, ioError(path, err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, vm.Errorf(vm.Busy, path, "locked by another process")
		}
		return nil, ioError(path, err)
	}
	return &Lock{f: f}, nil
}

// WaitLock is TryLock that waits until ctx ends.
func WaitLock(ctx context.Context, path string) (*Lock, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		l, err := TryLock(path)
		if err == nil || !errors.Is(err, vm.Busy) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}

// Unlock releases the lock. It may be called twice.
func (l *Lock) Unlock() error {
	err := l.f.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// Error gives an operating system's error about path its kind; nil stays nil
// and a *vm.Error stays what it is.
func Error(path string, err error) error { return ioError(path, err) }

// ioError gives an operating system's error about path its kind; nil stays nil
// and a *vm.Error stays what it is.
func ioError(path string, err error) error {
	var e *vm.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	kind := vm.Internal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind = vm.NotFound
	case errors.Is(err, fs.ErrExist):
		kind = vm.Exists
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		kind = vm.Denied
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind = vm.NoSpace
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EISDIR):
		kind = vm.Invalid
	}
	out := vm.Errorf(kind, path, "%w", err)
	var pe *fs.PathError
	if errors.As(err, &pe) {
		out.Msg = pe.Op + ": " + pe.Err.Error()
	}
	if kind == vm.NoSpace {
		return out.WithHint("free some space, or move the data directory to a larger disk (--data)")
	}
	return out
}
