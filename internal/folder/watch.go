// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// watch observes changes by others in the directories that the guest knows, and
// tells the guest. It compares the state of a name with what the guest was told, so
// the guest's own changes are no news.
type watch struct {
	s *server
	f *os.File

	mu      sync.Mutex // guards the fields below
	dirs    map[int]*node
	pending map[change]pending // what nudges are about
}

// change is a name for which an event arrived.
type change struct {
	dir  *node
	name string
}

const watched = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_MOVED_FROM | unix.IN_MOVED_TO

// gather is how long events are collected before they are handled: most come in
// bursts.
const gather = 15 * time.Millisecond

func newWatch(s *server) (*watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return &watch{s: s, f: os.NewFile(uintptr(fd), "inotify"), dirs: map[int]*node{}, pending: map[change]pending{}}, nil
}

func (w *watch) close() { w.f.Close() }

// unseen is the watch of a directory for which the host has no watch left.
const unseen = -1

// add watches a directory that the caller holds, unless it is watched.
func (w *watch) add(dir *node) {
	if w == nil {
		return
	}
	t := w.s.nodes
	t.mu.Lock()
	wd := dir.wd
	t.mu.Unlock()
	if wd != 0 {
		return
	}
	raw, err := w.f.SyscallConn()
	if err != nil {
		return
	}
	w.mu.Lock() // for a directory that is watched already the host returns the same watch
	defer w.mu.Unlock()
	_ = raw.Control(func(fd uintptr) {
		if wd, err = unix.InotifyAddWatch(int(fd), dir.proc(), watched|unix.IN_ONLYDIR); err != nil {
			wd = unseen
		}
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir.lookups == 0 { // forgotten meanwhile: nothing would remove the watch
		if wd != unseen && w.dirs[wd] == nil {
			w.unwatch(wd)
		}
		return
	}
	dir.wd = wd
	if wd != unseen {
		w.dirs[wd] = dir
	}
}

// covers reports whether changes in a directory are reported.
func (w *watch) covers(dir *node) bool {
	if w == nil {
		return false
	}
	w.s.nodes.mu.Lock()
	defer w.s.nodes.mu.Unlock()
	return dir.wd > 0
}

// remove ends the watch of a forgotten directory, unless the same directory was
// looked up again and uses it.
func (w *watch) remove(wd int, dir *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wd != unseen && w.dirs[wd] == dir {
		delete(w.dirs, wd)
		w.unwatch(wd)
	}
}

func (w *watch) unwatch(wd int) {
	if raw, err := w.f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) }) // it may have ended with its directory
	}
}

// run tells the guest of changes until ctx ends.
func (w *watch) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = w.f.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	heard, again := map[change]uint32{}, map[change]uint32{}
	buf := make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, err := w.f.Read(buf)
		switch {
		case err == nil:
			if len(heard) == 0 && ctx.Err() == nil {
				_ = w.f.SetReadDeadline(time.Now().Add(gather))
			}
			w.gather(buf[:n], heard)
			continue
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return
		}
		next := map[change]uint32{}
		for c, mask := range heard {
			if !w.look(c, mask, again[c] != 0) {
				next[c] = mask
			}
		}
		heard, again = map[change]uint32{}, next
		for c, mask := range next {
			heard[c] = mask
		}
		deadline := time.Time{}
		if len(heard) > 0 {
			deadline = time.Now().Add(gather)
		}
		if ctx.Err() == nil {
			_ = w.f.SetReadDeadline(deadline)
		}
	}
}

func (w *watch) gather(b []byte, heard map[change]uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(b) >= unix.SizeofInotifyEvent {
		wd, mask, size := int(int32(le.Uint32(b))), le.Uint32(b[4:]), int(le.Uint32(b[12:]))
		name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:][:size], "\x00"))
		b = b[unix.SizeofInotifyEvent+size:]
		dir := w.dirs[wd]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			w.all(heard)
		case mask&unix.IN_IGNORED != 0:
			delete(w.dirs, wd)
		case dir != nil && name != "":
			heard[change{dir, name}] |= mask
		}
	}
}

// all checks every name that the guest knows, because events were lost.
func (w *watch) all(heard map[change]uint32) {
	w.s.nodes.mu.Lock()
	defer w.s.nodes.mu.Unlock()
	for _, dir := range w.dirs {
		for name := range dir.children {
			heard[change{dir, name}] |= unix.IN_MODIFY
		}
	}
}

// look compares a name with what the guest knows, and tells it. It returns false if
// it must be repeated: the guest's own change may be in progress.
func (w *watch) look(c change, mask uint32, again bool) bool {
	s := w.s
	dir, err := s.nodes.get(c.dir.id)
	if err != nil {
		return true
	}
	defer s.nodes.put(dir)
	if s.veiled(dir, c.name) {
		return true
	}
	fd, st, err := at(dir, c.name)
	if err == nil {
		_ = unix.Close(fd)
	}
	there := err == nil
	known := s.nodes.child(dir, c.name)
	defer s.nodes.put(known)
	s.nodes.mu.Lock()
	same := known != nil && there && known.key == fileKey{st.Dev, st.Ino}
	news := same && later(st.Ctim, known.told)
	s.nodes.mu.Unlock()
	switch {
	case same && !news, known == nil && !there:
		return true
	case !again:
		return false
	case same:
		w.changed(dir, c.name, known, &st, mask)
		return true
	}
	if known != nil {
		w.lost(dir, c.name, known)
	}
	if there {
		w.found(dir, c.name, known != nil, &st, mask)
	}
	return true
}

func later(a, b unix.Timespec) bool { return a.Sec > b.Sec || a.Sec == b.Sec && a.Nsec > b.Nsec }

func (w *watch) changed(dir *node, name string, n *node, st *unix.Stat_t, mask uint32) {
	w.s.nodes.saw(n, st)
	w.s.invalidateInode(n)
	kind := nudgeAttrib
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
	case mask&(unix.IN_CLOSE_WRITE|unix.IN_MODIFY) != 0:
		kind = nudgeWritten
	}
	w.nudge(kind, dir, name, st)
}

// lost tells the guest of a name that is gone or belongs to another file. The
// caller holds the node.
func (w *watch) lost(dir *node, name string, n *node) {
	st := unix.Stat_t{Ino: n.key.ino, Mode: unix.S_IFREG}
	now, err := stat(n.fd)
	if err == nil {
		st.Mode = now.Mode
	}
	w.s.nodes.lost(dir, name, n, err == nil && now.Nlink > 0)
	w.nudge(nudgeDelete, dir, name, &st)
	w.s.invalidateEntry(dir.id, name)
	w.s.invalidateInode(dir)
}

// found tells the guest of a name that it does not know: a new one, or one that it
// has not looked up.
func (w *watch) found(dir *node, name string, replaced bool, st *unix.Stat_t, mask uint32) {
	kind := nudgeAttrib
	switch {
	case replaced || mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		kind = nudgeCreate
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
	case mask&(unix.IN_CLOSE_WRITE|unix.IN_MODIFY) != 0:
		kind = nudgeWritten
	}
	w.nudge(kind, dir, name, st)
	if kind == nudgeCreate && mask&unix.IN_CLOSE_WRITE != 0 && st.Mode&unix.S_IFMT == unix.S_IFREG {
		w.sendNudge(nudgeWritten, dir, name, st)
	}
	w.s.invalidateEntry(dir.id, name)
	w.s.invalidateInode(dir)
}
