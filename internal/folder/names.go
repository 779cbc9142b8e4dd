// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"errors"

	"golang.org/x/sys/unix"
)

// at opens a name in a directory with O_PATH; it opens a symbolic link itself.
func at(dir *node, name string) (int, unix.Stat_t, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: resolve}
	fd, err := unix.Openat2(dir.fd, name, &how)
	if err != nil {
		return -1, unix.Stat_t{}, err
	}
	st, err := stat(fd)
	if err != nil {
		_ = unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// in calls f for a name in the directory of a message.
func (s *server) in(m *message, f func(dir *node, name string) ([]byte, error)) ([]byte, error) {
	name, err := m.body.name()
	if err != nil {
		return nil, err
	}
	dir, err := s.nodes.get(m.node)
	if err != nil {
		return nil, err
	}
	defer s.nodes.put(dir)
	return f(dir, name)
}

func (s *server) lookup(m *message) ([]byte, error) {
	return s.in(m, func(dir *node, name string) ([]byte, error) {
		s.watch.add(dir)
		if err := s.check(dir, name, see); err != nil {
			return nil, err
		}
		out, err := s.found(dir, name)
		if errors.Is(err, unix.ENOENT) && s.watch.covers(dir) { // the guest may cache that, too
			return append(put64(answer(entrySize), 0, 0, uint64(watchedFor.Seconds()), 0), make([]byte, entrySize-32)...), nil
		}
		return out, err
	})
}

// found answers with the entry of a name.
func (s *server) found(dir *node, name string) ([]byte, error) {
	if err := s.check(dir, name, see); err != nil {
		return nil, err
	}
	fd, st, err := at(dir, name)
	if err != nil {
		return nil, err
	}
	n, err := s.nodes.add(dir, name, fd, &st)
	if err != nil {
		return nil, err
	}
	defer s.nodes.put(n)
	return s.entry(answer(entrySize), n, &st, s.believed(dir, &st)), nil
}

// made answers with the entry of a new file and sets its mode as requested,
// regardless of this process's umask.
func (s *server) made(dir *node, name string, mode uint32) ([]byte, error) {
	fd, st, err := at(dir, name)
	if err != nil {
		return nil, err
	}
	if want := st.Mode&^0o1777 | mode&0o1777; st.Mode != want && st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err = chmod(&node{fd: fd}, want&0o1777, &st); err == nil {
			st, err = stat(fd)
		}
		if err != nil {
			_ = unix.Close(fd)
			return nil, err
		}
	}
	n, err := s.nodes.add(dir, name, fd, &st)
	if err != nil {
		return nil, err
	}
	defer s.nodes.put(n)
	return s.entry(answer(entrySize), n, &st, s.believed(dir, &st)), nil
}

func (s *server) mknod(m *message) ([]byte, error) {
	mode := m.body.u32()
	m.body.skip(12)
	return s.in(m, func(dir *node, name string) ([]byte, error) {
		switch mode & unix.S_IFMT {
		case unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK:
		default:
			return nil, unix.EPERM // only the host makes devices
		}
		if err := s.check(dir, name, write); err != nil {
			return nil, err
		}
		if err := unix.Mknodat(dir.fd, name, mode&unix.S_IFMT|mode&0o777, 0); err != nil {
			return nil, err
		}
		return s.made(dir, name, mode&0o777)
	})
}

func (s *server) mkdir(m *message) ([]byte, error) {
	mode := m.body.u32()
	m.body.skip(4)
	return s.in(m, func(dir *node, name string) ([]byte, error) {
		if err := s.check(dir, name, write); err != nil {
			return nil, err
		}
		if err := unix.Mkdirat(dir.fd, name, mode&0o777); err != nil {
			return nil, err
		}
		return s.made(dir, name, mode&0o1777)
	})
}

// symlink makes a link with any target: only the guest follows it.
func (s *server) symlink(m *message) ([]byte, error) {
	return s.in(m, func(dir *node, name string) ([]byte, error) {
		target := m.body.text()
		if m.body.short || target == "" {
			return nil, unix.EINVAL
		}
		if err := s.check(dir, name, write); err != nil {
			return nil, err
		}
		if err := unix.Symlinkat(target, dir.fd, name); err != nil {
			return nil, err
		}
		return s.made(dir, name, 0)
	})
}

func (s *server) unlink(m *message) ([]byte, error) {
	return s.in(m, func(dir *node, name string) ([]byte, error) {
		flags := 0
		if m.op == opRmdir {
			flags = unix.AT_REMOVEDIR
		}
		err := s.check(dir, name, write)
		if err != nil {
			return nil, err
		}
		err = unix.Unlinkat(dir.fd, name, flags)
		if err == nil {
			s.nodes.removed(dir, name)
		}
		return nil, err
	})
}

func (s *server) rename(m *message) ([]byte, error) {
	into, flags := m.body.u64(), uint32(0)
	if m.op == opRename2 {
		flags = m.body.u32()
		m.body.skip(4)
	}
	if flags&^(unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE) != 0 {
		return nil, unix.EINVAL
	}
	return s.in(m, func(from *node, old string) ([]byte, error) {
		name, err := m.body.name()
		if err != nil {
			return nil, err
		}
		to, err := s.nodes.get(into)
		if err != nil {
			return nil, err
		}
		defer s.nodes.put(to)
		s.watch.add(to)
		s.nodes.renames.Lock() // what is checked is what is renamed
		err = s.movable(from, old, to, name)
		if err == nil && flags&unix.RENAME_EXCHANGE != 0 {
			err = s.movable(to, name, from, old)
		}
		if err != nil {
			s.nodes.renames.Unlock()
			return nil, err
		}
		if err = unix.Renameat2(from.fd, old, to.fd, name, uint(flags)); err == nil {
			s.nodes.moved(from, old, to, name, flags&unix.RENAME_EXCHANGE != 0)
		}
		s.nodes.renames.Unlock()
		if err != nil {
			return nil, err
		}
		s.sawNow(to, name)
		s.sawNow(from, old)
		return nil, nil
	})
}

// sawNow notes that the guest itself has changed a file.
func (s *server) sawNow(dir *node, name string) {
	n := s.nodes.child(dir, name)
	if n == nil {
		return
	}
	defer s.nodes.put(n)
	if st, err := stat(n.fd); err == nil {
		s.nodes.saw(n, &st)
	}
}

// link makes another name for a file of which the guest knows a name, so both are
// in the folder.
func (s *server) link(m *message) ([]byte, error) {
	id := m.body.u64()
	return s.in(m, func(dir *node, name string) ([]byte, error) {
		n, err := s.nodes.getNamed(id)
		if err != nil {
			return nil, err
		}
		defer s.nodes.put(n)
		if err := s.check(n, "", write); err != nil { // a second name is a way around rules
			return nil, err
		}
		if err := s.check(dir, name, write); err != nil {
			return nil, err
		}
		if err := unix.Linkat(unix.AT_FDCWD, n.proc(), dir.fd, name, unix.AT_SYMLINK_FOLLOW); err != nil {
			return nil, err
		}
		return s.found(dir, name)
	})
}
