// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// listed is one entry of a readdirplus.
type listed struct {
	name   string
	ino    uint64 // as the directory says
	node   uint64 // 0 = the entry tells nothing
	itsIno uint64 // of the file that the entry tells of
}

// list is a readdirplus of an open directory, without "." and "..".
func (k *kernel) list(handle uint64) (out []listed) {
	no, b := k.ask(opReaddirplus, 0, readBody(handle, 64<<10))
	if no != 0 {
		k.t.Errorf("readdirplus: %v", no)
	}
	for len(b) >= entrySize+guestDirent {
		ino, length := le.Uint64(b[entrySize:]), int(le.Uint32(b[entrySize+16:]))
		name := string(b[entrySize+guestDirent:][:length])
		if name != "." && name != ".." {
			out = append(out, listed{name, ino, le.Uint64(b), le.Uint64(b[40:])})
		}
		b = b[entrySize+(guestDirent+length+7)&^7:]
	}
	return out
}

func (k *kernel) opendir(node uint64) uint64 {
	no, b := k.ask(opOpendir, node, put32(nil, 0, 0))
	if no != 0 {
		k.t.Fatalf("opendir: %v", no)
	}
	return le.Uint64(b)
}

// right reports whether an entry tells of the file that the directory names.
func (e listed) right() bool { return e.node != 0 && e.ino == e.itsIno }

// TestOpenHoldsItsNode: a directory that the guest has open can be listed,
// although the guest has forgotten it, and is still that directory.
func TestOpenHoldsItsNode(t *testing.T) {
	dir, _ := world(t)
	k := serve(t, dir, true)
	sub := k.find(rootID, "sub")
	h := k.opendir(sub)
	k.forget(sub)
	if list := k.list(h); len(list) != 1 || !list[0].right() || list[0].name != "file" {
		t.Errorf("after it was forgotten: %+v", list)
	}
	if no, _ := k.ask(opGetattr, sub, make([]byte, 16)); no != unix.ESTALE {
		t.Errorf("what is forgotten: %v", no)
	}
}

// TestDescriptorsEnd: a node's descriptor is closed with the last that holds it,
// and not before.
func TestDescriptorsEnd(t *testing.T) {
	table := newTable(&node{id: rootID})
	files := handles{nodes: table}
	open := func() int {
		fd, err := unix.Open(t.TempDir(), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	n, err := table.add(table.byID[rootID], "a", open(), &unix.Stat_t{Ino: 2, Mode: unix.S_IFDIR})
	if err != nil {
		t.Fatal(err)
	}
	fd := n.fd
	id, err := files.add(open(), n, false)
	if err != nil {
		t.Fatal(err)
	}
	h, err := files.get(id)
	if err != nil {
		t.Fatal(err)
	}
	for what, letGo := range map[string]func(){
		"the request": func() { table.put(n) }, "the guest": func() { table.forget(n.id, 1) }, "the file": func() { files.remove(id) },
	} {
		if letGo(); n.fd != fd {
			t.Fatalf("%s let go, and the descriptor is closed though a request uses the open file", what)
		}
	}
	if files.put(h); n.fd != -1 || h.fd != -1 {
		t.Errorf("nobody holds it, and the descriptors are %d and %d", n.fd, h.fd)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("the descriptor is open still: %v", err)
	}
}

// TestForgetRace: a guest that lists a directory while it forgets it sees that
// directory, and never one of another folder, whose descriptors come and go
// meanwhile. The race detector has something to say here, too.
func TestForgetRace(t *testing.T) {
	const dirs, rounds = 8, 300
	one, two := t.TempDir(), t.TempDir()
	for i := range dirs {
		for _, top := range []string{one, two} {
			put(t, filepath.Join(top, fmt.Sprint("d", i), "same"), top)
		}
	}
	k, other := serve(t, one, true), serve(t, two, false)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() { // the other folder's descriptors take the numbers that are free
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if n := other.find(rootID, fmt.Sprint("d", i%dirs)); n != 0 {
				other.find(n, "same")
				other.forget(n)
			}
		}
	})
	for round := range rounds {
		name := fmt.Sprint("d", round%dirs)
		n := k.find(rootID, name)
		h := k.opendir(n)
		var both sync.WaitGroup
		both.Go(func() { k.forget(n) })
		both.Go(func() {
			for _, e := range k.list(h) {
				if !e.right() {
					t.Errorf("round %d: %+v is not of its directory", round, e)
				}
				k.forget(e.node)
			}
		})
		both.Wait()
		k.ask(opReleasedir, 0, put64(nil, h, 0, 0))
		if t.Failed() {
			break
		}
	}
	close(stop)
	wg.Wait()
}

// TestWatchOfForgotten: no watch is left of a directory that the guest forgets
// while the watch is made, and one that it looks up again meanwhile keeps its
// own.
func TestWatchOfForgotten(t *testing.T) {
	top := t.TempDir()
	dir, err := Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s, err := newServer(nil, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	put(t, filepath.Join(top, "sub/file"), "")
	look := func() *node {
		fd, st, err := at(s.root, "sub")
		if err != nil {
			t.Fatal(err)
		}
		n, err := s.nodes.add(s.root, "sub", fd, &st)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	old := look()
	s.nodes.forget(old.id, 1)
	s.watch.add(old)
	if len(s.watch.dirs) != 0 || s.watch.covers(old) {
		t.Errorf("%d watches", len(s.watch.dirs))
	}
	s.nodes.put(old)
	first := look()
	s.watch.add(first)
	wd, _ := s.nodes.forget(first.id, 1)
	second := look() // before the watch of the first is taken away
	s.watch.add(second)
	s.watch.remove(wd, first)
	if !s.watch.covers(second) || s.watch.dirs[second.wd] != second {
		t.Errorf("the watch of what was looked up anew is gone: %v", s.watch.dirs)
	}
}
