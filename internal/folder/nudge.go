// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/link"
)

// A guest's kernel notifies its programs (inotify) only of changes made in the
// guest. So if a program watches, the agent repeats a change of the host in the
// guest: it creates, removes or writes that name in the folder, under a group id
// that nothing else uses. This package recognises requests of that group and
// changes nothing. A guest that uses the group for something else gains nothing.
const nudgeGID = link.NudgeGID

// Kinds of nudges.
const (
	nudgeCreate  = link.NudgeCreate
	nudgeDelete  = link.NudgeDelete
	nudgeWritten = link.NudgeWritten
	nudgeAttrib  = link.NudgeAttrib
)

// maxPending bounds the nudges that are remembered.
const maxPending = 4096

// nudge makes the agent repeat in the guest a change made on the host.
func (w *watch) nudge(kind int, dir *node, name string, st *unix.Stat_t) {
	w.mu.Lock()
	if len(w.pending) >= maxPending {
		clear(w.pending)
	}
	delete(w.pending, change{dir, name})
	if kind == nudgeCreate || kind == nudgeDelete {
		w.pending[change{dir, name}] = pending{kind, st.Mode & unix.S_IFMT}
	}
	w.mu.Unlock()
	w.sendNudge(kind, dir, name, st)
}

func (w *watch) sendNudge(kind int, dir *node, name string, st *unix.Stat_t) {
	w.s.nodes.mu.Lock()
	path := dir.path() + name
	w.s.nodes.mu.Unlock()
	b := put64(nil, dir.key.ino, st.Ino, uint64(st.Size))
	b = put32(b, st.Mode, uint32(len(path)))
	w.s.send(notice(kind, append(b, path...)))
}

// pending is a nudge that the agent may not have carried out yet.
type pending struct {
	kind int
	mode uint32 // the type of the file
}

func (w *watch) pendingFor(dir *node, name string) pending {
	if w == nil {
		return pending{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pending[change{dir, name}]
}

// settled notes that the agent has carried out a nudge.
func (w *watch) settled(dir *node, name string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, change{dir, name})
}

// nudged answers a request that a nudge has caused; ok is false for any other
// request.
func (s *server) nudged(m *message) (out []byte, ok bool, err error) {
	switch m.op {
	case opLookup:
		return s.nudgedLookup(m)
	case opMknod:
		m.body.skip(16)
	case opMkdir:
		m.body.skip(8)
	case opSymlink:
	case opUnlink, opRmdir:
		out, err = s.in(m, func(dir *node, name string) ([]byte, error) {
			s.watch.settled(dir, name)
			return nil, nil
		})
		return out, true, err
	case opSetattr:
		out, err = s.getattr(m)
		return out, true, err
	case opOpen:
		return put32(put64(answer(16), 0), keepCache, 0), true, nil
	default:
		return nil, false, nil
	}
	out, err = s.in(m, func(dir *node, name string) ([]byte, error) {
		s.watch.settled(dir, name)
		return s.found(dir, name)
	})
	return out, true, err
}

// nudgedLookup hides from the agent a name that it is to create, and shows one that
// it is to remove.
func (s *server) nudgedLookup(m *message) (out []byte, ok bool, err error) {
	back := m.body
	out, err = s.in(m, func(dir *node, name string) ([]byte, error) {
		switch about := s.watch.pendingFor(dir, name); about.kind {
		case nudgeCreate:
			ok = true
			return nil, unix.ENOENT
		case nudgeDelete:
			ok = true
			if out, err := s.found(dir, name); err == nil {
				return out, nil
			}
			n, err := s.nodes.ghost()
			if err != nil {
				return nil, err
			}
			return s.entry(answer(entrySize), n, &unix.Stat_t{Ino: n.id, Mode: about.mode | 0o600, Nlink: 1}, 0), nil
		}
		return nil, nil
	})
	if !ok {
		m.body = back
	}
	return out, ok, err
}

// ghost is a file that no longer exists.
func (t *table) ghost() (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) >= maxNodes {
		return nil, unix.ENFILE
	}
	t.next++
	n := &node{id: t.next, fd: -1, lookups: 1}
	t.byID[n.id] = n
	return n, nil
}
