// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"time"

	"golang.org/x/sys/unix"
)

// nobody owns, in the guest, all files that are not the folder owner's.
const nobody = 65534

// refused are the mode bits that no guest can set: such a file would run on the
// host with its owner's rights.
const refused = unix.S_ISUID | unix.S_ISGID

func stat(fd int) (st unix.Stat_t, err error) {
	return st, unix.Fstatat(fd, "", &st, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
}

func isDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// attr appends a file's attributes, without the device number of a device node.
func (s *server) attr(b []byte, st *unix.Stat_t) []byte {
	mode, uid, gid := st.Mode, uint32(nobody), uint32(nobody)
	if st.Uid == s.owner.uid {
		uid = 0
	}
	if st.Gid == s.owner.gid {
		gid = 0
	}
	if !isDir(st) {
		mode &^= refused
	}
	b = put64(b, st.Ino, uint64(st.Size), uint64(st.Blocks), uint64(st.Atim.Sec), uint64(st.Mtim.Sec), uint64(st.Ctim.Sec))
	b = put32(b, uint32(st.Atim.Nsec), uint32(st.Mtim.Nsec), uint32(st.Ctim.Nsec))
	return put32(b, mode, uint32(st.Nlink), uid, gid, 0, uint32(st.Blksize), 0)
}

// believed is how long the guest may cache what it knows of a file.
func (s *server) believed(parent *node, st *unix.Stat_t) time.Duration {
	if isDir(st) || st.Nlink == 1 {
		if s.watch.covers(parent) {
			return watchedFor
		}
	}
	return believeFor
}

// entry appends the answer to a lookup.
func (s *server) entry(b []byte, n *node, st *unix.Stat_t, valid time.Duration) []byte {
	sec, nsec := uint64(valid/time.Second), uint32(valid%time.Second)
	b = put64(b, n.id, 0, sec, sec)
	return s.attr(put32(b, nsec, nsec), st)
}

func (s *server) attrAnswer(n *node, st *unix.Stat_t) []byte {
	valid := s.believed(s.nodes.parentOf(n), st)
	b := put64(answer(104), uint64(valid/time.Second))
	return s.attr(put32(b, uint32(valid%time.Second), 0), st)
}

func (t *table) parentOf(n *node) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.parent == nil {
		return n
	}
	return n.parent
}

func (s *server) getattr(m *message) ([]byte, error) {
	n, err := s.nodes.get(m.node)
	if err != nil {
		return nil, err
	}
	defer s.nodes.put(n)
	if err := s.check(n, "", see); err != nil {
		return nil, err
	}
	st, err := stat(n.fd)
	if err != nil {
		return nil, err
	}
	return s.attrAnswer(n, &st), nil
}

// attrs is the body of a setattr.
type attrs struct {
	valid        uint32
	handle       uint64
	size         uint64
	atime, mtime unix.Timespec
	mode         uint32
	uid, gid     uint32
}

func (r *reader) attrs() (a attrs) {
	a.valid = r.u32()
	r.skip(4)
	a.handle, a.size = r.u64(), r.u64()
	r.skip(8)
	a.atime.Sec, a.mtime.Sec = int64(r.u64()), int64(r.u64())
	r.skip(8)
	a.atime.Nsec, a.mtime.Nsec = int64(r.u32()), int64(r.u32())
	r.skip(4)
	a.mode = r.u32()
	r.skip(4)
	a.uid, a.gid = r.u32(), r.u32()
	return a
}

func (s *server) setattr(m *message) ([]byte, error) {
	a := m.body.attrs()
	if m.body.short {
		return nil, errShort
	}
	n, err := s.nodes.get(m.node)
	if err != nil {
		return nil, err
	}
	defer s.nodes.put(n)
	st, err := stat(n.fd)
	if err != nil {
		return nil, err
	}
	if err := s.check(n, "", write); err != nil {
		return nil, err
	}
	if err := s.setAll(n, &a, &st); err != nil {
		return nil, err
	}
	if st, err = stat(n.fd); err != nil {
		return nil, err
	}
	s.nodes.saw(n, &st)
	return s.attrAnswer(n, &st), nil
}

func (s *server) setAll(n *node, a *attrs, st *unix.Stat_t) error {
	// Files of the folder's owner belong to root in the guest.
	if a.valid&setUID != 0 && (a.uid != 0 || st.Uid != s.owner.uid) || a.valid&setGID != 0 && (a.gid != 0 || st.Gid != s.owner.gid) {
		return unix.EPERM
	}
	if a.valid&setMode != 0 {
		if err := chmod(n, a.mode, st); err != nil {
			return err
		}
	}
	if a.valid&setSize != 0 {
		if err := s.truncate(n, a, st); err != nil {
			return err
		}
	}
	if a.valid&(setAtime|setMtime) == 0 {
		return nil
	}
	when := func(set, now uint32, t unix.Timespec) unix.Timespec {
		switch {
		case a.valid&set == 0:
			t.Nsec = unix.UTIME_OMIT
		case a.valid&now != 0:
			t.Nsec = unix.UTIME_NOW
		}
		return t
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, n.proc(), []unix.Timespec{when(setAtime, setAtimeNow, a.atime), when(setMtime, setMtimeNow, a.mtime)}, 0)
}

func chmod(n *node, mode uint32, st *unix.Stat_t) error {
	if mode&refused != 0 && !isDir(st) || mode&unix.S_ISUID != 0 {
		return unix.EPERM
	}
	if isDir(st) {
		mode |= st.Mode & unix.S_ISGID // the host's own, which the guest cannot set
	}
	return unix.Fchmodat(unix.AT_FDCWD, n.proc(), mode&0o7777, 0)
}

func (s *server) truncate(n *node, a *attrs, st *unix.Stat_t) error {
	if a.size > 1<<62 {
		return unix.EFBIG
	}
	if a.valid&setHandle != 0 {
		h, err := s.handles.get(a.handle)
		if err != nil {
			return err
		}
		defer s.handles.put(h)
		return unix.Ftruncate(h.fd, int64(a.size))
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&refused != 0 {
		return unix.EPERM
	}
	named, err := s.nodes.getNamed(n.id)
	if err != nil {
		return err
	}
	defer s.nodes.put(named)
	fd, err := unix.Open(n.proc(), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // what was written is in the file
	return unix.Ftruncate(fd, int64(a.size))
}

func (s *server) statfs(m *message) ([]byte, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(s.root.fd, &st); err != nil {
		return nil, err
	}
	b := put64(answer(80), st.Blocks, st.Bfree, st.Bavail, st.Files, st.Ffree)
	return put32(b, uint32(st.Bsize), uint32(st.Namelen), uint32(st.Frsize), 0, 0, 0, 0, 0, 0, 0), nil
}

func (s *server) readlink(m *message) ([]byte, error) {
	n, err := s.nodes.get(m.node)
	if err != nil {
		return nil, err
	}
	defer s.nodes.put(n)
	if err := s.check(n, "", read); err != nil {
		return nil, err
	}
	out := answer(unix.PathMax)
	size, err := unix.Readlinkat(n.fd, "", out[outHeader:cap(out)])
	if err != nil {
		return nil, err
	}
	return out[:outHeader+size], nil
}
