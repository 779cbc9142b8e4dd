// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bytes"
	"strings"

	"golang.org/x/sys/unix"
)

// Extended attributes in the namespaces security, system and trusted have a meaning
// on the host: the guest reads and sets only those in user.
const userAttr = "user."

const maxAttr = 64 << 10

func (s *server) getxattr(m *message) ([]byte, error) {
	size := m.body.u32()
	m.body.skip(4)
	name := m.body.text()
	if !strings.HasPrefix(name, userAttr) {
		return nil, unix.ENODATA
	}
	return s.attribute(m, size, func(n *node, buf []byte) (int, error) { return unix.Getxattr(n.proc(), name, buf) })
}

func (s *server) listxattr(m *message) ([]byte, error) {
	size := m.body.u32()
	return s.attribute(m, size, func(n *node, buf []byte) (int, error) {
		all := make([]byte, maxAttr)
		got, err := unix.Listxattr(n.proc(), all)
		if err != nil {
			return 0, err
		}
		var list []byte
		for _, name := range bytes.SplitAfter(all[:got], []byte{0}) {
			if bytes.HasPrefix(name, []byte(userAttr)) {
				list = append(list, name...)
			}
		}
		if len(buf) > 0 && len(list) > len(buf) {
			return 0, unix.ERANGE
		}
		copy(buf, list)
		return len(list), nil
	})
}

// attribute answers with the buffer that get has filled, or with its length if the
// guest's buffer is too small.
func (s *server) attribute(m *message, size uint32, get func(*node, []byte) (int, error)) ([]byte, error) {
	n, err := s.nodes.get(m.node)
	if err != nil {
		return nil, err
	}
	defer s.nodes.put(n)
	if err := s.check(n, "", peek); err != nil {
		return nil, err
	}
	buf := make([]byte, min(size, maxAttr))
	got, err := get(n, buf)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		return put32(answer(8), uint32(got), 0), nil
	}
	return append(answer(got), buf[:got]...), nil
}

func (s *server) setxattr(m *message) ([]byte, error) {
	size, flags := m.body.u32(), m.body.u32()
	name := m.body.text()
	if size > maxAttr {
		return nil, unix.E2BIG
	}
	value := m.body.take(int(size))
	return s.changeAttr(m, name, func(n *node) error { return unix.Setxattr(n.proc(), name, value, int(flags)) })
}

func (s *server) removexattr(m *message) ([]byte, error) {
	name := m.body.text()
	return s.changeAttr(m, name, func(n *node) error { return unix.Removexattr(n.proc(), name) })
}

func (s *server) changeAttr(m *message, name string, change func(*node) error) ([]byte, error) {
	if m.body.short {
		return nil, errShort
	}
	if !strings.HasPrefix(name, userAttr) {
		return nil, unix.EOPNOTSUPP
	}
	n, err := s.nodes.get(m.node)
	if err != nil {
		return nil, err
	}
	defer s.nodes.put(n)
	if err := s.check(n, "", write); err != nil {
		return nil, err
	}
	if err := change(n); err != nil {
		return nil, err
	}
	if st, err := stat(n.fd); err == nil {
		s.nodes.saw(n, &st)
	}
	return nil, nil
}
