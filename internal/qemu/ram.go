// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	page     = 4096
	piece    = 256 << 10 // bytes copied at a time: they fit into a core's cache
	copyWays = 2         // copiers of one machine's memory
)

// ramFile is a memory file in the making: a copy of the base with a machine's
// private pages over it, where pages of zeros stay holes.
type ramFile struct {
	file *os.File
	now  []byte // the file, mapped for reading: comparing costs no system call
	size int64
	has  []bool // per page: the file has data there; written by one worker per page
	hot  bool   // the pages that will be compared again are mapped
}

// createRAM makes the file at path as a copy of base: by reference where the
// file system can, else sparsely. base "" is a file of holes. Close it.
func createRAM(ctx context.Context, path, base string, size int64) (_ *ramFile, err error) {
	r, err := newRAM(path, size)
	if err != nil || base == "" {
		return r, err
	}
	defer func() {
		if err != nil {
			r.discard()
		}
	}()
	src, err := os.Open(base)
	if err != nil {
		return nil, fileError(base, err)
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return nil, fileError(base, err)
	}
	if st.Size() != size {
		return nil, corrupt(base, "it has %d bytes, the machine has %d", st.Size(), size)
	}
	if unix.IoctlFileClone(int(r.file.Fd()), int(src.Fd())) == nil {
		return r, r.note()
	}
	return r, r.copyFrom(ctx, src)
}

// note finds out where the file holds data.
func (r *ramFile) note() error {
	return extents(r.file, r.size, func(from, to int64) error {
		for i := from / page; i < to/page; i++ {
			r.has[i] = true
		}
		return nil
	})
}

// newRAM makes a file of holes at path.
func newRAM(path string, size int64) (*ramFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fileError(path, err)
	}
	r, err := &ramFile{file: f}, f.Truncate(size)
	if err == nil && os.Getuid() == 0 {
		_ = give(path, 0o060) // done early, so that its checksum stays valid; if it fails, machines run as root
	}
	if err == nil {
		r, err = mapRAM(f, size)
	}
	if err != nil {
		r.discard()
		return nil, fileError(path, err)
	}
	return r, nil
}

// mapRAM prepares a file of that size for writing.
func mapRAM(f *os.File, size int64) (_ *ramFile, err error) {
	r := &ramFile{file: f, size: size, has: make([]bool, size/page)}
	r.now, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	return r, err
}

// close closes and unmaps the file, which stays.
func (r *ramFile) close() error {
	var err error
	if r.now != nil {
		err = unix.Munmap(r.now)
		r.now = nil
	}
	return fileError(r.file.Name(), errors.Join(err, r.file.Close()))
}

// discard closes and removes the file after an error elsewhere.
func (r *ramFile) discard() {
	_ = r.close() // its unwritten data does not matter
	os.Remove(r.file.Name())
}

// copyFrom copies the data of a file of the same size.
func (r *ramFile) copyFrom(ctx context.Context, src *os.File) error {
	var runs []run
	err := extents(src, r.size, func(from, to int64) error {
		runs = appendRun(runs, run{from, to - from})
		return nil
	})
	if err != nil {
		return err
	}
	return r.copyRuns(ctx, src, runs)
}

// copyRuns copies these ranges of src, each at most a piece long.
func (r *ramFile) copyRuns(ctx context.Context, src *os.File, runs []run) error {
	return share(ctx, len(runs), nil, func(i int, buf []byte) error {
		b := buf[:runs[i].n]
		if _, err := src.ReadAt(b, runs[i].off); err != nil {
			return fileError(src.Name(), err)
		}
		return r.put(b, runs[i].off)
	})
}

// share calls f for 0 to n-1 from a few goroutines, each with a buffer of one
// piece, until one fails or ctx ends. All but the first wait until free, if not
// nil, is closed.
func share(ctx context.Context, n int, free <-chan struct{}, f func(i int, buf []byte) error) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for k := range copyWays {
		g.Go(func() error {
			if k > 0 && free != nil {
				select {
				case <-free:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			buf := make([]byte, piece)
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := guarded(func() error { return f(i, buf) }); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// guarded turns a fault in mapped memory into an error: a page of the file that the
// disk cannot read back must not end the monitor, whose machine is paused.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch x := recover().(type) {
		case nil:
		case interface {
			error
			Addr() uintptr
		}:
			err = fmt.Errorf("a page cannot be read back: %w", x)
		default:
			panic(x)
		}
	}()
	return f()
}

// run is a range of a machine's memory, in whole pages.
type run struct{ off, n int64 }

// appendRun adds x. It joins x to the last run if that ends where x begins, and
// cuts it so that no run is longer than a piece.
func appendRun(runs []run, x run) []run {
	if i := len(runs) - 1; i >= 0 && runs[i].off+runs[i].n == x.off {
		more := min(x.n, piece-runs[i].n)
		runs[i].n += more
		x = run{x.off + more, x.n - more}
	}
	for x.n > 0 {
		n := min(x.n, piece)
		runs = append(runs, run{x.off, n})
		x = run{x.off + n, x.n - n}
	}
	return runs
}

// extents calls f with each range of data in the file, widened to whole pages.
func extents(file *os.File, size int64, f func(from, to int64) error) error {
	for off := int64(0); off < size; {
		from := nextData(file, off, size) &^ (page - 1)
		if from >= size {
			return nil
		}
		to, err := unix.Seek(int(file.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			return fileError(file.Name(), err)
		}
		to = min((to+page-1)&^(page-1), size)
		if err := f(from, to); err != nil {
			return err
		}
		off = to
	}
	return nil
}

// put writes b to the file at off (whole pages), if it differs: it skips pages of
// zeros over a hole and pages that are there already.
func (r *ramFile) put(b []byte, off int64) error {
	for i := 0; i < len(b); {
		j := i
		for j < len(b) && r.needs(b[j:j+page], off+int64(j)) {
			j += page
		}
		if j > i {
			if _, err := r.file.WriteAt(b[i:j], off+int64(i)); err != nil {
				return fileError(r.file.Name(), err)
			}
			for p := i; p < j; p += page {
				r.has[(off+int64(p))/page] = true
			}
		}
		i = j + page
	}
	return nil
}

// needs reports whether a page must be written.
func (r *ramFile) needs(b []byte, off int64) bool {
	if !r.has[off/page] {
		return !isZero(b)
	}
	return !bytes.Equal(r.now[off:off+page], b)
}

// mapExtents maps the file's data in these ranges, so that the next comparison causes no
// page faults.
func (r *ramFile) mapExtents(runs []run) {
	for _, x := range runs {
		for from := x.off; from < x.off+x.n; {
			to := from
			for to < x.off+x.n && r.has[to/page] {
				to += page
			}
			if to > from {
				_ = unix.Madvise(r.now[from:to], unix.MADV_POPULATE_READ) // without it the comparison is slower
			}
			from = to + page
		}
	}
	r.hot = true
}

var zeroPage [page]byte

func isZero(b []byte) bool { return bytes.Equal(b, zeroPage[:]) }

func (r *ramFile) dataBytes() (n int64) {
	for _, has := range r.has {
		if has {
			n += page
		}
	}
	return n
}
