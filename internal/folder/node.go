// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// node is a file that the guest's kernel knows. Its descriptor is opened with
// O_PATH and stays on the file, whatever becomes of its names.
type node struct {
	id  uint64
	fd  int // -1 = a name that the guest is told to forget; nothing is behind it
	key fileKey
	dir bool

	// guarded by table.mu
	lookups  uint64 // that the kernel has not forgotten
	users    int    // requests that use the descriptor now, and open files of it
	parent   *node  // where it was seen last
	name     string
	gone     bool             // a directory that somebody on the host has moved away or removed
	astray   bool             // a file that somebody on the host has taken a name from: it may lie outside
	children map[string]*node // of a directory: what the guest knows by which name
	wd       int              // of a directory: the watch on it; 0 = none
	told     unix.Timespec    // its change time after the last change that the guest knows of
}

type fileKey struct{ dev, ino uint64 }

// proc is a path that leads to the node's file, for calls that take no
// descriptor of this kind.
func (n *node) proc() string { return "/proc/self/fd/" + strconv.Itoa(n.fd) }

// table is what the guest's kernel knows. A node's descriptor is used by nobody
// who does not hold the node: the guest forgets nodes whenever it likes, and the
// number of a closed descriptor may at once be that of a file of another folder.
type table struct {
	renames sync.Mutex // held from a rename until it is noted: both in one order

	mu    sync.Mutex
	next  uint64
	byID  map[uint64]*node
	byKey map[fileKey]*node
}

func newTable(root *node) *table {
	return &table{next: rootID, byID: map[uint64]*node{rootID: root}, byKey: map[fileKey]*node{root.key: root}}
}

// get finds a node for a request, which lets go of it by put.
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

// getNamed is get for requests that give access to what is in a file. Of one
// that may lie outside the guest looks up a name first.
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

// hold keeps a node that the caller holds for one user more, who lets go of it
// by put.
func (t *table) hold(n *node) {
	t.mu.Lock()
	n.users++
	t.mu.Unlock()
}

// child holds the node that the guest knows by a name in a directory; nil = none.
func (t *table) child(dir *node, name string) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := dir.children[name]
	if n != nil {
		n.users++
	}
	return n
}

// put lets go of a node. Of nil it does nothing.
func (t *table) put(n *node) {
	if n == nil {
		return
	}
	t.mu.Lock()
	n.users--
	t.closeIfUnused(n)
	t.mu.Unlock()
}

// add counts one more lookup of a file, and holds its node: the caller lets go
// of it by put. fd is the node's from now on, or is closed when the file has a
// node already or there is no room for another.
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

// name notes where a node is seen. The caller holds mu.
func (t *table) name(n, parent *node, name string) {
	if n == parent {
		return // what is in itself was never seen
	}
	for at := parent; at != nil; at = at.parent {
		if at.parent == n { // that is old news, and would go round for ever: it is to be looked up again
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

// strayed notes that a node's name is no longer its own by somebody's doing on
// the host: a directory is out of reach from now on, a file for who has not
// opened it yet. Either comes back when it is looked up. The caller holds mu.
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

// forget takes lookups back; the last lets go of the node. It returns the watch
// that has no use any more, and whose it was.
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

// closeIfUnused closes the descriptor of a node that nobody knows any more. The
// caller holds mu.
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

// lost notes that somebody on the host has taken a name away from a file, which
// may have others.
func (t *table) lost(parent *node, name string, n *node, others bool) {
	t.renames.Lock() // the guest's own are no loss
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

// some returns names that the guest may forget, when it knows very many.
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

// closeAll lets go of all nodes.
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
