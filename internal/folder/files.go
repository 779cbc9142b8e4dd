// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// handle is a file or directory that the guest has open.
type handle struct {
	fd    int
	node  *node // held until the descriptor is closed
	users int   // guarded by handles.mu
	gone  bool

	writes  bool        // opened to be written
	revoked atomic.Bool // new rules do not allow it

	dir    sync.Mutex // of a directory: the offset and the entries read there
	at     uint64
	unread []byte
}

// handles are the guest's open files.
type handles struct {
	nodes *table

	mu   sync.Mutex
	next uint64
	m    map[uint64]*handle
}

// add makes a handle of an open file and of its node, which the caller has locked.
// The handle owns the descriptor; it is closed when there are too many handles.
func (l *handles) add(fd int, n *node, writes bool) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.m) >= maxHandles {
		_ = unix.Close(fd)
		return 0, unix.ENFILE
	}
	if l.m == nil {
		l.m = map[uint64]*handle{}
	}
	l.next++
	l.nodes.hold(n)
	l.m[l.next] = &handle{fd: fd, node: n, writes: writes}
	return l.next, nil
}

// get finds a handle for a request, which releases it by put.
func (l *handles) get(id uint64) (*handle, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.m[id]
	switch {
	case h == nil:
		return nil, unix.EBADF
	case h.revoked.Load():
		return nil, unix.EACCES
	}
	h.users++
	return h, nil
}

func (l *handles) put(h *handle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.users--
	l.closeIfUnused(h)
}

// closeIfUnused closes a file that the guest has closed. The caller holds mu.
func (l *handles) closeIfUnused(h *handle) {
	if h.gone && h.users == 0 && h.fd >= 0 {
		_ = unix.Close(h.fd)
		h.fd = -1
		l.nodes.put(h.node)
	}
}

func (l *handles) remove(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.m[id]; h != nil {
		delete(l.m, id)
		h.gone = true
		l.closeIfUnused(h)
	}
}

// judge revokes the handles that ok refuses.
func (l *handles) judge(ok func(*handle) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.m {
		h.revoked.Store(!ok(h))
	}
}

func (l *handles) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, h := range l.m {
		delete(l.m, id)
		h.gone = true
		l.closeIfUnused(h)
	}
}

// openFlags are the flags with which a guest may open a file on the host.
const openFlags = unix.O_ACCMODE | unix.O_APPEND | unix.O_TRUNC | unix.O_DSYNC | unix.O_SYNC

const openAlways = unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

func writes(flags uint32) bool {
	return flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0
}

func usedTo(flags uint32) use {
	if writes(flags) {
		return write
	}
	return read
}

func (s *server) open(m *message) ([]byte, error) {
	flags := m.body.u32()
	n, err := s.nodes.getNamed(m.node)
	if err != nil {
		return nil, err
	}
	defer s.nodes.put(n)
	if writes(flags) && !s.rw {
		return nil, unix.EROFS
	}
	st, err := stat(n.fd)
	if err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || writes(flags) && st.Mode&refused != 0 {
		return nil, unix.EPERM // pipes belong to the guest's kernel, devices to the host
	}
	if err := s.check(n, "", usedTo(flags)); err != nil {
		return nil, err
	}
	fd, err := unix.Open(n.proc(), int(flags&openFlags)|openAlways, 0)
	if err != nil {
		return nil, err
	}
	if flags&unix.O_TRUNC != 0 {
		s.wrote(n, fd)
	}
	return s.opened(answer(16), fd, n, keepCache, writes(flags))
}

func (s *server) opened(out []byte, fd int, n *node, flags uint32, writes bool) ([]byte, error) {
	id, err := s.handles.add(fd, n, writes)
	if err != nil {
		return nil, err
	}
	return put32(put64(out, id), flags, 0), nil
}

// wrote notes that the guest itself has changed a file.
func (s *server) wrote(n *node, fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		s.nodes.saw(n, &st)
	}
}

// create makes a file and opens it; a tmpfile has no name. An existing file is
// opened as open does, and is truncated only after it was checked.
func (s *server) create(m *message) ([]byte, error) {
	flags, mode := m.body.u32(), m.body.u32()
	m.body.skip(8)
	if m.op == opTmpfile {
		m.body.b = append(append(m.body.b[:0:0], "tmp"...), 0) // what the kernel says means nothing
	}
	return s.in(m, func(dir *node, name string) ([]byte, error) {
		judged := name
		if m.op == opTmpfile {
			judged = "" // it gets a name by a link
		}
		if err := s.check(dir, judged, write); err != nil {
			return nil, err
		}
		how := unix.OpenHow{Flags: uint64(flags&(openFlags&^unix.O_TRUNC|unix.O_EXCL)) | openAlways | unix.O_CREAT | unix.O_NOFOLLOW, Mode: uint64(mode & 0o777), Resolve: resolve}
		if m.op == opTmpfile {
			name, how.Flags = ".", how.Flags&^(unix.O_CREAT|unix.O_EXCL)|unix.O_TMPFILE
		}
		fd, err := unix.Openat2(dir.fd, name, &how)
		if err != nil {
			return nil, err
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		switch {
		case err != nil:
		case st.Mode&unix.S_IFMT != unix.S_IFREG:
			err = unix.EEXIST
		case writes(flags) && st.Mode&refused != 0:
			err = unix.EPERM
		}
		empty := flags&unix.O_TRUNC != 0 && flags&unix.O_ACCMODE != unix.O_RDONLY
		if err == nil && empty {
			if err = unix.Ftruncate(fd, 0); err == nil {
				err = unix.Fstat(fd, &st)
			}
		}
		if err == nil && st.Size == 0 && st.Mode&0o777 != mode&0o777 && how.Flags&(unix.O_EXCL|unix.O_TMPFILE) != 0 {
			if err = unix.Fchmod(fd, mode&0o777); err == nil {
				err = unix.Fstat(fd, &st)
			}
		}
		path := -1
		if err == nil {
			path, err = unix.Open((&node{fd: fd}).proc(), unix.O_PATH|unix.O_CLOEXEC, 0)
		}
		if err != nil {
			_ = unix.Close(fd)
			return nil, err
		}
		if m.op == opTmpfile {
			name = ""
		}
		n, err := s.nodes.add(dir, name, path, &st)
		if err != nil {
			_ = unix.Close(fd)
			return nil, err
		}
		defer s.nodes.put(n)
		if empty {
			s.wrote(n, fd)
		}
		return s.opened(s.entry(answer(entrySize+16), n, &st, s.believed(dir, &st)), fd, n, keepCache, writes(flags))
	})
}

func (s *server) release(m *message) ([]byte, error) {
	s.handles.remove(m.body.u64())
	return nil, nil
}

// withHandle calls f with the handle that a message names.
func (s *server) withHandle(id uint64, f func(*handle) ([]byte, error)) ([]byte, error) {
	h, err := s.handles.get(id)
	if err != nil {
		return nil, err
	}
	defer s.handles.put(h)
	return f(h)
}

func (s *server) read(m *message) ([]byte, error) {
	id, off, size := m.body.u64(), m.body.u64(), m.body.u32()
	if size > maxData || off > 1<<62 || m.body.short {
		return nil, unix.EINVAL
	}
	return s.withHandle(id, func(h *handle) ([]byte, error) {
		out := buffer(outHeader + int(size))
		n, done := 0, false
		for n < int(size) && !done {
			got, err := unix.Pread(h.fd, out[outHeader+n:], int64(off)+int64(n))
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				recycle(out)
				return nil, err
			}
			n, done = n+got, got == 0
		}
		return out[:outHeader+n], nil
	})
}

func (s *server) writeFile(m *message) ([]byte, error) {
	id, off, size, how := m.body.u64(), m.body.u64(), m.body.u32(), m.body.u32()
	m.body.skip(16)
	data := m.body.take(int(min(size, maxData)))
	if size > maxData || off > 1<<62 || m.body.short {
		return nil, unix.EINVAL
	}
	return s.withHandle(id, func(h *handle) ([]byte, error) {
		fd := h.fd
		if how&writeCache != 0 {
			var err error
			if fd, err = h.placed(); err != nil {
				return nil, err
			}
			if fd != h.fd {
				defer unix.Close(fd) //nolint:errcheck // what was written is in the file
			}
		}
		n := 0
		for n < len(data) {
			put, err := unix.Pwrite(fd, data[n:], int64(off)+int64(n))
			if err == unix.EINTR {
				continue
			}
			if err != nil && n == 0 {
				return nil, err
			}
			if err != nil || put == 0 {
				break // the guest asks for the rest again, and gets the error then
			}
			n += put
		}
		s.wrote(h.node, h.fd)
		return put32(answer(8), uint32(n), 0), nil
	})
}

// placed returns a descriptor for pages that the guest's kernel writes back through
// any of its handles: they belong where they were read, even if the handle appends.
// It is the handle's own descriptor, or the caller must close it.
func (h *handle) placed() (int, error) {
	flags, err := unix.FcntlInt(uintptr(h.fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_APPEND == 0 || flags&unix.O_ACCMODE == unix.O_RDONLY {
		return h.fd, err
	}
	return unix.Open((&node{fd: h.fd}).proc(), unix.O_WRONLY|openAlways, 0)
}

func (s *server) fsync(m *message) ([]byte, error) {
	id, flags := m.body.u64(), m.body.u32()
	return s.withHandle(id, func(h *handle) ([]byte, error) {
		if flags&1 != 0 {
			return nil, unix.Fdatasync(h.fd)
		}
		return nil, unix.Fsync(h.fd)
	})
}

func (s *server) fallocate(m *message) ([]byte, error) {
	id, off, length, mode := m.body.u64(), m.body.u64(), m.body.u64(), m.body.u32()
	if off > 1<<62 || length > 1<<62 {
		return nil, unix.EFBIG
	}
	return s.withHandle(id, func(h *handle) ([]byte, error) {
		if err := unix.Fallocate(h.fd, mode, int64(off), int64(length)); err != nil {
			return nil, err
		}
		s.wrote(h.node, h.fd)
		return nil, nil
	})
}

func (s *server) lseek(m *message) ([]byte, error) {
	id, off, whence := m.body.u64(), m.body.u64(), m.body.u32()
	if whence != unix.SEEK_DATA && whence != unix.SEEK_HOLE {
		return nil, unix.EINVAL
	}
	return s.withHandle(id, func(h *handle) ([]byte, error) {
		at, err := unix.Seek(h.fd, int64(off), int(whence))
		if err != nil {
			return nil, err
		}
		return put64(answer(8), uint64(at)), nil
	})
}

func (s *server) copyRange(m *message) ([]byte, error) {
	from, offIn := m.body.u64(), int64(m.body.u64())
	m.body.skip(8)
	to, offOut, length, flags := m.body.u64(), int64(m.body.u64()), m.body.u64(), m.body.u64()
	if flags != 0 || offIn < 0 || offOut < 0 || m.body.short {
		return nil, unix.EINVAL
	}
	return s.withHandle(from, func(in *handle) ([]byte, error) {
		return s.withHandle(to, func(out *handle) ([]byte, error) {
			n, err := unix.CopyFileRange(in.fd, &offIn, out.fd, &offOut, int(min(length, 64<<20)), 0)
			if err != nil {
				return nil, err
			}
			s.wrote(out.node, out.fd)
			return put32(answer(8), uint32(n), 0), nil
		})
	})
}
