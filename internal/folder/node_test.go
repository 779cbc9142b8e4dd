// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCycle: news of renames that come in the wrong order lead to no circle of
// directories; what is old is looked up again.
func TestCycle(t *testing.T) {
	root := &node{id: rootID}
	table := newTable(root)
	add := func(parent *node, name string, ino uint64) *node {
		n, err := table.add(parent, name, -1, &unix.Stat_t{Ino: ino, Mode: unix.S_IFDIR})
		if err != nil {
			t.Fatal(err)
		}
		n.fd = 1 << 20 // none, but not a ghost's
		return n
	}
	a := add(root, "a", 2)
	b := add(a, "b", 3)
	table.moved(root, "a", b, "a", false)
	if _, err := table.get(a.id); err != unix.ESTALE { //nolint:errorlint // it is that number
		t.Errorf("what is nowhere: %v", err)
	}
	table.name(b, root, "b")
	if _, err := table.get(a.id); err != nil || a.path() != "b/a/" {
		t.Errorf("a node that is found again has the path %[2]q (%[1]v), want b/a/", err, a.path())
	}
	table.name(b, b, "self")
	if _, err := table.get(b.id); err != nil || b.path() != "b/" {
		t.Errorf("a node named below itself has the path %[2]q (%[1]v), want b/", err, b.path())
	}
}

// TestGhosts: files that are there no more are counted as others.
func TestGhosts(t *testing.T) {
	table := newTable(&node{id: rootID})
	for range maxNodes - 1 {
		if _, err := table.ghost(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := table.ghost(); err != unix.ENFILE { //nolint:errorlint // it is that number
		t.Errorf("one too many: %v", err)
	}
}

// TestWriteBack: pages of a mapping are written where they belong, also by a
// handle that appends; and a handle that only reads writes nothing.
func TestWriteBack(t *testing.T) {
	dir, _ := world(t)
	k := serve(t, dir, true)
	put(t, filepath.Join(dir, "log"), "0123456789")
	log := k.find(rootID, "log")
	handle := func(flags uint32) uint64 {
		no, b := k.ask(opOpen, log, put32(nil, flags, 0))
		if no != 0 {
			t.Fatalf("open: %v", no)
		}
		return le.Uint64(b)
	}
	page := func(h uint64) []byte {
		b := writeBody(h, "page")
		b[20] = writeCache
		return b
	}
	if no, _ := k.ask(opWrite, log, page(handle(unix.O_RDWR|unix.O_APPEND))); no != 0 {
		t.Errorf("writing a page: %v", no)
	}
	holds(t, filepath.Join(dir, "log"), "page456789")
	if no, _ := k.ask(opWrite, log, writeBody(handle(unix.O_RDWR|unix.O_APPEND), "end")); no != 0 {
		t.Errorf("writing at the end: %v", no)
	}
	if no, _ := k.ask(opWrite, log, page(handle(unix.O_RDONLY|unix.O_APPEND))); no != unix.EBADF {
		t.Errorf("by a handle that only reads: %v", no)
	}
	holds(t, filepath.Join(dir, "log"), "page456789end")
}

// TestCreateOver: what is there already is emptied by a create that says so.
func TestCreateOver(t *testing.T) {
	dir, _ := world(t)
	k := serve(t, dir, true)
	put(t, filepath.Join(dir, "old"), "content")
	if no, _ := k.ask(opCreate, rootID, createBody(unix.O_RDWR, 0o644, "old")); no != 0 {
		t.Errorf("create over the file: %v", no)
	}
	holds(t, filepath.Join(dir, "old"), "content")
	no, b := k.ask(opCreate, rootID, createBody(unix.O_WRONLY|unix.O_TRUNC, 0o644, "old"))
	if size := le.Uint64(b[48:]); no != 0 || size != 0 {
		t.Errorf("%v, %d bytes", no, size)
	}
	holds(t, filepath.Join(dir, "old"), "")
}
