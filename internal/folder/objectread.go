// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"errors"

	"golang.org/x/sys/unix"
)

// open opens a file, which stays at the version that its name has then, or a directory,
// which stays as it is listed then. If a newer version has taken the name since the guest
// looked it up, the error makes the guest's kernel look it up again.
func (s *objectServer) open(m *message) ([]byte, error) {
	flags := m.body.u32()
	f, err := s.get(m.node)
	if err != nil {
		return nil, err
	}
	if writes(flags) {
		return nil, unix.EROFS
	}
	h := &openFile{file: f, key: f.path()}
	switch {
	case f.dir != (m.op == opOpendir):
		return nil, unix.EISDIR
	case f.dir:
		h.list, err = s.list(f, h.key)
	default:
		if err = s.pin(h); errors.Is(err, unix.ESTALE) {
			s.mu.Lock()
			s.unlist(f.parent) // the next lookup asks the bucket
			s.mu.Unlock()
		}
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.opened) >= maxHandles {
		return nil, unix.ENFILE
	}
	s.next++
	s.opened[s.next] = h
	keep := uint32(0)
	if !f.dir {
		keep = keepCache // its bytes never change
	}
	return put32(put64(answer(16), s.next), keep, 0), nil
}

// pin finds the version of a file that is opened, and reads its beginning. Of a version
// that was opened before it asks only whether it may be read still.
func (s *objectServer) pin(h *openFile) error {
	s.mu.Lock()
	h.version = h.file.version
	s.mu.Unlock()
	if h.version != "" {
		_, err := s.bucket.read(s.ctx, h.key, h.version, "", 0, nil)
		return err
	}
	data := buffer(outHeader + maxMessage)
	defer recycle(data)
	data = data[:min(h.file.size, blockBytes)]
	version, err := s.bucket.read(s.ctx, h.key, "", h.file.etag, 0, data)
	if err != nil {
		return err
	}
	h.version = version
	s.mu.Lock()
	h.file.version = version
	s.mu.Unlock()
	if len(data) == 0 {
		return nil
	}
	b, mine := s.cache.take(blockKey{h.key, version, 0})
	if b == nil {
		return nil
	}
	if mine {
		s.cache.filled(b, data, nil)
	}
	s.cache.put(b)
	return nil
}

func (s *objectServer) handle(id uint64) (*openFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.opened[id]; h != nil {
		return h, nil
	}
	return nil, unix.EBADF
}

func (s *objectServer) read(m *message) ([]byte, error) {
	id, off, size := m.body.u64(), m.body.u64(), m.body.u32()
	if size > maxData || off > 1<<62 || m.body.short {
		return nil, unix.EINVAL
	}
	h, err := s.handle(id)
	if err != nil {
		return nil, err
	}
	if h.file.dir {
		return nil, unix.EISDIR
	}
	end := min(int64(off)+int64(size), h.file.size)
	if int64(off) >= end {
		return answer(0), nil
	}
	out := buffer(outHeader + int(end-int64(off)))
	for at := int64(off); at < end; {
		k := blockKey{h.key, h.version, at / blockBytes}
		begin := k.index * blockBytes
		n := min(blockBytes, h.file.size-begin)
		till := min(end, begin+n)
		p := out[outHeader+int(at-int64(off)) : outHeader+int(till-int64(off))]
		err := s.cache.read(k, int(n), int(at-begin), p, func(data []byte) error {
			_, err := s.bucket.read(s.ctx, h.key, h.version, h.file.etag, begin, data)
			return err
		})
		if err != nil {
			recycle(out)
			return nil, err
		}
		at = till
	}
	return out, nil
}

// readdir lists a directory from an offset, as it was when it was opened; readdirplus adds
// what a lookup of each name would return.
func (s *objectServer) readdir(m *message) ([]byte, error) {
	id, off, size := m.body.u64(), m.body.u64(), m.body.u32()
	if size > maxData || m.body.short {
		return nil, unix.EINVAL
	}
	h, err := s.handle(id)
	if err != nil {
		return nil, err
	}
	plus := m.op == opReaddirplus
	out := answer(int(size))
	for ; off < uint64(len(h.list))+2; off++ {
		name, kind, o := ".", uint32(unix.DT_DIR), object{}
		switch {
		case off == 1:
			name = ".."
		case off > 1:
			o = h.list[off-2]
			name = o.name
			if !o.dir {
				kind = unix.DT_REG
			}
		}
		need := (guestDirent + len(name) + 7) &^ 7
		if plus {
			need += entrySize
		}
		end := len(out) + need
		if end-outHeader > int(size) {
			break
		}
		ino := h.file.id
		if plus {
			out, ino = s.plus(out, h.file, o)
		}
		out = put64(out, ino, off+1)
		out = append(put32(out, uint32(len(name)), kind), name...)
		out = append(out, make([]byte, end-len(out))...)
	}
	return out, nil
}

// plus appends the lookup of a name of a directory, or an empty one if there is nothing to
// tell.
func (s *objectServer) plus(out []byte, dir *objectFile, o object) ([]byte, uint64) {
	if o.name != "" {
		if f, err := s.add(dir, o); err == nil {
			return s.entry(out, f), f.id
		}
	}
	return append(out, make([]byte, entrySize)...), dir.id
}
