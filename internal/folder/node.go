// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// node is a file that the guest's kernel knows. Its descriptor is opened with
// O_PATH and stays on the file if its names change.
type node struct {
	id  uint64
	fd  int // -1 = a name that the guest is told to forget; there is no file
	key fileKey
	dir bool

	// guarded by table.mu
	lookups  uint64 // lookups that the kernel has not forgotten
	users    int    // requests that use the descriptor, and open files
	parent   *node  // where it was last seen
	name     string
	gone     bool             // a directory that somebody on the host moved away or removed
	astray   bool             // a file of which somebody on the host removed a name: it may be outside
	children map[string]*node // of a directory: its nodes by name
	wd       int              // of a directory: the watch on it; 0 = none
	told     unix.Timespec    // change time after the last change that the guest knows of
}

type fileKey struct{ dev, ino uint64 }

// proc is a path to the node's file, for calls that do not accept an O_PATH
// descriptor.
func (n *node) proc() string { return "/proc/self/fd/" + strconv.Itoa(n.fd) }

// table holds the files that the guest's kernel knows. Only a holder of a node may
// use its descriptor: the guest forgets nodes at any time, and the number of a
// closed descriptor may at once be reused for a file of another folder.
type table struct {
	renames sync.Mutex // held from a rename until it is noted, so that both have one order

	mu    sync.Mutex
	next  uint64
	byID  map[uint64]*node
	byKey map[fileKey]*node
}

func newTable(root *node) *table {
	return &table{next: rootID, byID: map[uint64]*node{rootID: root}, byKey: map[fileKey]*node{root.key: root}}
}

// get finds a node for a request, which releases it by put.
func (t *table) get(id uint64) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil || n.fd < 0 {
		return nil, unix.ESTALE
	}
	for at := n; at != nil; at = at.parent {
		if at.gone {
			return nil, unix.ESTALE
		}
	}
	n.users++
	return n, nil
}

// getNamed is get for requests that access a file's content. A file that may be
// outside must be looked up again first.
func (t *table) getNamed(id uint64) (*node, error) {
	n, err := t.get(id)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	astray := n.astray
	t.mu.Unlock()
	if astray {
		t.put(n)
		return nil, unix.ESTALE
	}
	return n, nil
}

// hold adds a holder to a node that the caller holds. The holder releases it by
// put.
func (t *table) hold(n *node) {
	t.mu.Lock()
	n.users++
	t.mu.Unlock()
}

// child holds the node of a name in a directory; nil = none.
func (t *table) child(dir *node, name string) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := dir.children[name]
	if n != nil {
		n.users++
	}
	return n
}

// put releases a node. For nil it does nothing.
func (t *table) put(n *node) {
	if n == nil {
		return
	}
	t.mu.Lock()
	n.users--
	t.closeIfUnused(n)
	t.mu.Unlock()
}

// add counts another lookup of a file and holds its node, which the caller releases
// by put. The node owns fd; fd is closed if the file has a node already or there is
// no room for another.
func (t *table) add(parent *node, name string, fd int, st *unix.Stat_t) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := fileKey{st.Dev, st.Ino}
	n := t.byKey[key]
	if n != nil {
		_ = unix.Close(fd)
	} else {
		if len(t.byID) >= maxNodes {
			_ = unix.Close(fd)
			return nil, unix.ENFILE
		}
		t.next++
		n = &node{id: t.next, fd: fd, key: key, dir: isDir(st), told: st.Ctim}
		t.byID[n.id], t.byKey[key] = n, n
	}
	n.lookups++
	n.users++
	if n.id != rootID {
		t.name(n, parent, name)
	}
	return n, nil
}

// name notes the place of a node. The caller holds mu.
func (t *table) name(n, parent *node, name string) {
	if n == parent {
		return // a directory is never inside itself
	}
	for at := parent; at != nil; at = at.parent {
		if at.parent == n { // outdated, and would make a cycle: it must be looked up again
			t.unname(at)
			at.parent, at.gone = nil, true
		}
	}
	n.gone, n.astray = false, false
	if n.parent != parent || n.name != name {
		t.unname(n)
		n.parent, n.name = parent, name
	}
	if name == "" {
		return
	}
	if parent.children == nil {
		parent.children = map[string]*node{}
	}
	if old := parent.children[name]; old != nil && old != n {
		old.strayed()
	}
	parent.children[name] = n
}

// strayed notes that somebody on the host has taken a node's name. A directory is
// then out of reach; a file is, except where it is open. A lookup brings either
// back. The caller holds mu.
func (n *node) strayed() {
	if n.dir {
		n.gone = true
	} else {
		n.astray = true
	}
}

func (t *table) unname(n *node) {
	if p := n.parent; p != nil && p.children[n.name] == n {
		delete(p.children, n.name)
	}
}

// forget subtracts lookups; the last one releases the node. It returns a watch that
// is no longer needed, and its node.
func (t *table) forget(id, count uint64) (wd int, dir *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil || id == rootID {
		return 0, nil
	}
	if n.lookups -= min(n.lookups, count); n.lookups > 0 {
		return 0, nil
	}
	delete(t.byID, id)
	if t.byKey[n.key] == n {
		delete(t.byKey, n.key)
	}
	t.unname(n)
	wd, n.wd = n.wd, 0
	t.closeIfUnused(n)
	return wd, n
}

// closeIfUnused closes the descriptor of a node that has no lookups and no holders.
// The caller holds mu.
func (t *table) closeIfUnused(n *node) {
	if n.users == 0 && n.lookups == 0 && n.id != rootID && n.fd >= 0 {
		_ = unix.Close(n.fd)
		n.fd = -1
	}
}

// moved notes that the guest has renamed something.
func (t *table) moved(from *node, old string, to *node, name string, swap bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, b := from.children[old], to.children[name]
	delete(from.children, old)
	delete(to.children, name)
	if a != nil {
		t.name(a, to, name)
	}
	if b != nil && swap {
		t.name(b, from, old)
	}
}

// lost notes that somebody on the host has removed a name of a file, which may have
// others.
func (t *table) lost(parent *node, name string, n *node, others bool) {
	t.renames.Lock() // the guest's own removals do not count
	defer t.renames.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if parent.children[name] != n {
		return
	}
	delete(parent.children, name)
	if n.dir && n.parent == parent && n.name == name || !n.dir && others {
		n.strayed()
	}
}

// removed notes that the guest has removed a name.
func (t *table) removed(parent *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(parent.children, name)
}

// saw notes a change that the guest knows of.
func (t *table) saw(n *node, st *unix.Stat_t) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.told = st.Ctim
}

// place is a name in a directory.
type place struct {
	dir  uint64
	name string
}

// some returns names that the guest may forget, if it knows very many.
func (t *table) some(count int) (names []place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) < manyNodes {
		return nil
	}
	for _, n := range t.byID {
		if n.parent != nil && n.wd == 0 {
			names = append(names, place{n.parent.id, n.name})
		}
		if len(names) == count {
			break
		}
	}
	return names
}

// path is a directory's path beneath the root; "" = the root's. The caller
// holds mu.
func (n *node) path() string {
	p := ""
	for at := n; at.parent != nil; at = at.parent {
		p = at.name + "/" + p
	}
	return p
}

// closeAll releases all nodes.
func (t *table) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.byID {
		if n.fd >= 0 {
			_ = unix.Close(n.fd)
			n.fd = -1
		}
	}
}
