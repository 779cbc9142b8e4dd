// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// maxInline is the size of the largest body that is kept in the index: it needs no file,
// and becomes durable with its version.
const maxInline = 16 << 10

// newBody makes the id of a body that has a file.
func newBody() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return versionText.EncodeToString(id[:])
}

// newInline makes the id of a body in the index. Ids grow with time, so that new bodies are
// written next to each other, to few pages.
func newInline(now time.Time) string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixNano())) //nolint:gosec // after 1970
	_, _ = rand.Read(id[8:])
	return versionText.EncodeToString(id[:])
}

// bodies keeps the bytes of versions, by account and id. A body is written once and never
// changes.
type bodies interface {
	// create begins a body. Its bytes are durable once finish has returned.
	create(ctx context.Context, account vm.AccountID) (bodyWriter, error)
	// settle is called after the index has committed the body.
	settle(account vm.AccountID, id string) error
	// open returns n bytes from an offset on.
	open(ctx context.Context, account vm.AccountID, id string, from, n int64) (io.ReadCloser, error)
	// remove deletes a body; it is no error when there is none.
	remove(ctx context.Context, account vm.AccountID, id string) error
}

// bodyWriter writes one body. After abort nothing is left of it.
type bodyWriter interface {
	io.Writer
	id() string
	finish() error
	abort()
}

// files keeps bodies in files of the data directory. A body is written below the directory
// of incoming ones, and moved to its place after the commit. A start completes moves and
// deletes what was not committed.
type files struct {
	dir layout.Dir
}

// writeback is how many bytes of a body are written before the kernel is asked to start
// writing them to the disk, so that finish waits for few.
const writeback = 8 << 20

type fileWriter struct {
	*os.File
	dir     string
	name    string
	written int64
	begun   int64 // bytes whose writing has begun
}

func (f files) create(context.Context, vm.AccountID) (bodyWriter, error) { return f.newFile() }

func (f files) newFile() (*fileWriter, error) {
	id := newBody()
	dir := f.dir.ObjectIncoming()
	file, err := os.OpenFile(filepath.Join(dir, id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, diskError(dir, err)
	}
	return &fileWriter{File: file, dir: dir, name: id}, nil
}

func (w *fileWriter) id() string { return w.name }

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.File.Write(p)
	w.written += int64(n)
	if w.written-w.begun >= writeback {
		_ = unix.SyncFileRange(int(w.Fd()), w.begun, w.written-w.begun, unix.SYNC_FILE_RANGE_WRITE) // finish waits for all
		w.begun = w.written
	}
	return n, diskError(w.Name(), err)
}

func (w *fileWriter) finish() error {
	err := unix.Fdatasync(int(w.Fd()))
	if err = errors.Join(err, w.Close()); err != nil {
		return diskError(w.Name(), err)
	}
	return layout.SyncDir(w.dir)
}

func (w *fileWriter) abort() {
	_ = w.Close()           // finish may have closed it
	_ = os.Remove(w.Name()) // a start deletes it otherwise
}

func (f files) settle(account vm.AccountID, id string) error {
	to := f.dir.ObjectBody(account, id)
	from := filepath.Join(f.dir.ObjectIncoming(), id)
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(to), 0o700); err == nil {
			err = os.Rename(from, to)
		}
	}
	return layout.Error(to, err)
}

// open looks for a body that has not been moved yet, too.
func (f files) open(_ context.Context, account vm.AccountID, id string, from, n int64) (io.ReadCloser, error) {
	file, err := os.Open(f.dir.ObjectBody(account, id))
	if errors.Is(err, fs.ErrNotExist) {
		if file, err = os.Open(filepath.Join(f.dir.ObjectIncoming(), id)); errors.Is(err, fs.ErrNotExist) {
			file, err = os.Open(f.dir.ObjectBody(account, id)) // it was moved between the two
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, vm.Errorf(vm.Corrupt, id, "the bytes of the object are gone").WithHint("put the directory `objects` back from a backup")
	}
	if err != nil {
		return nil, layout.Error(id, err)
	}
	st, err := file.Stat()
	if err == nil && st.Size() < from+n {
		err = vm.Errorf(vm.Corrupt, id, "the file of the object is shorter than the object").WithHint("put the directory `objects` back from a backup")
	}
	if err == nil && from > 0 {
		_, err = file.Seek(from, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(layout.Error(id, err), file.Close())
	}
	return &fileReader{file, n}, nil
}

// fileReader reads a part of a file.
type fileReader struct {
	file *os.File
	left int64
}

// Close closes the file.
func (r *fileReader) Close() error { return r.file.Close() }

func (r *fileReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n, err := r.file.Read(p[:min(int64(len(p)), r.left)])
	if r.left -= int64(n); err == io.EOF && r.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (f files) remove(_ context.Context, account vm.AccountID, id string) error {
	for _, path := range []string{filepath.Join(f.dir.ObjectIncoming(), id), f.dir.ObjectBody(account, id)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return layout.Error(path, err)
		}
	}
	return nil
}

// reconcile completes the moves of committed bodies and deletes what was not committed.
// owner returns the account of a body, "" if no version has it.
func (f files) reconcile(owner func(id string) vm.AccountID) error {
	left, err := os.ReadDir(f.dir.ObjectIncoming())
	if err != nil {
		return layout.Error(f.dir.ObjectIncoming(), err)
	}
	for _, e := range left {
		if account := owner(e.Name()); account != "" {
			err = f.settle(account, e.Name())
		} else {
			err = os.RemoveAll(filepath.Join(f.dir.ObjectIncoming(), e.Name()))
		}
		if err != nil {
			return layout.Error(e.Name(), err)
		}
	}
	return nil
}
