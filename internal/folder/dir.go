// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bytes"

	"golang.org/x/sys/unix"
)

func (s *server) opendir(m *message) ([]byte, error) {
	n, err := s.nodes.get(m.node)
	if err != nil {
		return nil, err
	}
	defer s.nodes.put(n)
	if err := s.check(n, "", read); err != nil {
		return nil, err
	}
	s.watch.add(n)
	fd, err := unix.Open(n.proc(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	flags := uint32(0)
	if s.watch.covers(n) {
		flags = keepCache | cacheDir
	}
	return s.opened(answer(16), fd, n, flags, false)
}

// direntHead is the length of a directory entry before its name, on the host and in
// the guest.
const (
	hostDirent  = 19
	guestDirent = 24
)

// readdir lists a directory from an offset; readdirplus adds what a lookup of each
// name would return.
func (s *server) readdir(m *message) ([]byte, error) {
	id, off, size := m.body.u64(), m.body.u64(), m.body.u32()
	if size > maxData || m.body.short {
		return nil, unix.EINVAL
	}
	return s.withHandle(id, func(h *handle) ([]byte, error) {
		h.dir.Lock()
		defer h.dir.Unlock()
		if off != h.at {
			if _, err := unix.Seek(h.fd, int64(off), unix.SEEK_SET); err != nil {
				return nil, err
			}
			h.at, h.unread = off, nil
		}
		out := answer(int(size))
		for {
			if len(h.unread) == 0 {
				buf := make([]byte, 16<<10)
				n, err := unix.Getdents(h.fd, buf)
				if err != nil || n == 0 {
					return out, err
				}
				h.unread = buf[:n]
			}
			more, ok := s.dirent(out, h, int(size), m.op == opReaddirplus)
			if !ok {
				return out, nil
			}
			out = more
		}
	})
}

// dirent appends the next entry of a directory, if there is room for it.
func (s *server) dirent(out []byte, h *handle, size int, plus bool) ([]byte, bool) {
	length := int(le.Uint16(h.unread[16:]))
	one := h.unread[:length]
	name := one[hostDirent:]
	name = name[:bytes.IndexByte(name, 0)]
	if s.unlisted(h.node, string(name)) {
		h.at, h.unread = le.Uint64(one[8:]), h.unread[length:]
		return out, true
	}
	need := (guestDirent + len(name) + 7) &^ 7
	if plus {
		need += entrySize
	}
	if len(out)-outHeader+need > size {
		return out, false
	}
	end := len(out) + need
	if plus {
		out = s.plus(out, h.node, string(name))
	}
	out = put64(out, le.Uint64(one), le.Uint64(one[8:]))
	out = append(put32(out, uint32(len(name)), uint32(one[18])), name...)
	h.at, h.unread = le.Uint64(one[8:]), h.unread[length:]
	return append(out, make([]byte, end-len(out))...), true
}

// unlisted reports whether a name does not exist for the guest.
func (s *server) unlisted(dir *node, name string) bool {
	return name != "." && name != ".." && s.veiled(dir, name)
}

// plus appends the lookup of a name, or an empty one if there is nothing to tell.
func (s *server) plus(out []byte, dir *node, name string) []byte {
	if name != "." && name != ".." {
		if fd, st, err := at(dir, name); err == nil {
			if n, err := s.nodes.add(dir, name, fd, &st); err == nil {
				defer s.nodes.put(n)
				return s.entry(out, n, &st, s.believed(dir, &st))
			}
		}
	}
	return append(out, make([]byte, entrySize)...)
}
