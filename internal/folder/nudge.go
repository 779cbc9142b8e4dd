// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/link"
)

// A guest's kernel tells its programs (inotify) of what is done in the guest
// only. So the agent does, where a program watches, what was done on the host:
// it makes, removes and writes that name in the folder, as a group that nobody
// else has. Its requests are known by that group here, and change nothing. A
// guest that uses the group for something else gains nothing by it.
const nudgeGID = link.NudgeGID

// Kinds of nudges.
const (
	nudgeCreate  = link.NudgeCreate
	nudgeDelete  = link.NudgeDelete
	nudgeWritten = link.NudgeWritten
	nudgeAttrib  = link.NudgeAttrib
)

// maxPending bounds what is remembered of nudges.
const maxPending = 4096

// nudge has the agent do in the guest what was done on the host.
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

// pending is what a nudge is about that the agent may not have done yet.
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

// settled notes that the agent has done what a nudge was about.
func (w *watch) settled(dir *node, name string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, change{dir, name})
}

// nudged answers what a nudge has led to; ok is false when the request is one
// as any.
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

// nudgedLookup lets the agent not see what it is to make, and see what it is to
// remove.
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

// ghost is a file that is there no more.
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
