// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// BoundedLog is a log file with a limit. When it reaches the limit it is renamed to
// path.1, replacing an earlier one, and begins again. It is for logs that a guest
// or a QEMU can make grow. Its methods may be called at once.
type BoundedLog struct {
	path  string
	limit int64

	mu    sync.Mutex // guards f
	f     *os.File
	owned bool // the log closes f; otherwise f's descriptor is given the new file
}

// OpenBounded opens a log (0600) to append to. limit is in bytes. Close it.
func OpenBounded(path string, limit int64) (*BoundedLog, error) {
	f, err := openAppend(path, 0)
	if err != nil {
		return nil, err
	}
	return &BoundedLog{path: path, limit: limit, f: f, owned: true}, nil
}

// BoundStream makes a log of f, such as os.Stderr, where f is the file at path,
// opened to append to. What others write to f's descriptor counts, too, and goes to
// the new file after a rotation. ok is false when f is not that file. The log need
// not be closed.
func BoundStream(f *os.File, path string, limit int64) (b *BoundedLog, ok bool) {
	have, err := f.Stat()
	if err != nil {
		return nil, false
	}
	named, err := os.Stat(path)
	return &BoundedLog{path: path, limit: limit, f: f}, err == nil && os.SameFile(have, named)
}

func openAppend(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|flags, 0o600)
	return f, ioError(path, err)
}

// Write appends p. If p alone exceeds the limit, its beginning is lost. On an
// error, such as a full disk, only p is lost.
func (b *BoundedLog) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(p)
	p = p[max(0, int64(n)-b.limit):]
	st, err := b.f.Stat()
	if err != nil {
		return 0, err
	}
	if st.Size() > 0 && st.Size()+int64(len(p)) > b.limit {
		if err := b.rotateLocked(); err != nil {
			return 0, err
		}
	}
	if k, err := b.f.Write(p); err != nil {
		return k, err
	}
	return n, nil
}

func (b *BoundedLog) rotateLocked() error {
	if err := os.Rename(b.path, b.path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := openAppend(b.path, os.O_TRUNC)
	if err != nil {
		return err
	}
	if b.owned {
		b.f.Close()
		b.f = f
		return nil
	}
	defer f.Close()
	return unix.Dup2(int(f.Fd()), int(b.f.Fd()))
}

// Close closes the file.
func (b *BoundedLog) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.f.Close()
}
