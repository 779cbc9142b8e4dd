// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"unsafe"
)

const (
	// directFrom is the size from which files are read and written past the
	// guest's page cache. Under emulation the cache costs most of the time of such
	// a write, and the next capture would have to save its pages.
	directFrom = 4 << 20
	// directSize is the size of one direct read or write
	directSize = 1 << 20
	// directAlign is the alignment of offsets and lengths of direct I/O that
	// every disk and file system accepts.
	directAlign = 4096
)

// writeLarge writes r to a new file from its beginning, and past the page cache from an
// offset that is a multiple of directSize. If the file system refuses direct writes, it
// writes through the page cache.
func writeLarge(f *os.File, w io.Writer, r io.Reader, from int64) error {
	buf, err := directBuffer()
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Munmap(buf) }()
	direct := false
	for at := int64(0); ; at += directSize {
		n, err := readFull(r, buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if at == from {
			direct = setDirect(f, true) == nil
		}
		rest := buf[:n]
		if whole := n &^ (directAlign - 1); direct && whole > 0 {
			m, werr := w.Write(rest[:whole])
			if werr != nil && (m > 0 || !errors.Is(werr, syscall.EINVAL)) {
				return werr
			}
			rest = rest[m:]
		}
		if direct && len(rest) > 0 { // the unaligned end, or everything if direct writes were refused
			if err := setDirect(f, false); err != nil {
				return err
			}
			direct = false
		}
		if len(rest) > 0 {
			if _, err := w.Write(rest); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

// readFull reads until buf is full or r ends. An io.ErrUnexpectedEOF comes from r itself.
func readFull(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}

// directBuffer returns page-aligned memory. The caller must unmap it.
func directBuffer() ([]byte, error) {
	return syscall.Mmap(-1, 0, directSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
}

// directReader reads a file past the page cache until the kernel refuses that.
type directReader struct {
	f *os.File
	r io.Reader
}

func (d directReader) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	if n <= 0 && errors.Is(err, syscall.EINVAL) && setDirect(d.f, false) == nil {
		return d.r.Read(p)
	}
	return n, err
}

// sendLarge sends exactly size bytes of a file that r reads. If the page cache
// holds some of it, it is read from there.
func sendLarge(w io.Writer, f *os.File, r io.Reader, size int64) error {
	buf, err := directBuffer()
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Munmap(buf) }()
	if !cached(f) && setDirect(f, true) == nil {
		r = directReader{f, r}
	}
	return send(w, r, size, buf)
}

// cached reports whether the page cache holds any of the first bytes of a file.
// If that is unknown, it reports true.
func cached(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return true
	}
	resident := true
	_ = raw.Control(func(fd uintptr) {
		m, err := syscall.Mmap(int(fd), 0, directSize, syscall.PROT_READ, syscall.MAP_SHARED)
		if err != nil {
			return
		}
		defer func() { _ = syscall.Munmap(m) }()
		var pages [directSize / directAlign]byte
		if _, _, e := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), directSize, uintptr(unsafe.Pointer(&pages[0]))); e == 0 {
			resident = slices.ContainsFunc(pages[:], func(b byte) bool { return b&1 != 0 })
		}
	})
	return resident
}

// setDirect sets whether a file is accessed past the page cache.
func setDirect(f *os.File, on bool) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) {
		var flags uintptr
		var e syscall.Errno
		if flags, _, e = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0); e == 0 {
			if flags &^= syscall.O_DIRECT; on {
				flags |= syscall.O_DIRECT
			}
			_, _, e = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_SETFL, flags)
		}
		if e != 0 {
			err = e
		}
	})
	return first(cerr, err)
}
