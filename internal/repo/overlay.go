// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"strings"

	"github.com/warren-vm/warren/vm"
)

// node is a directory or a file of the tree that a commit will have. Directories are
// read when an edit goes through them.
type node struct {
	entry
	read  bool // a directory whose entries are known
	below map[string]*node
	fresh bool // the commit adds or changes it
}

// overlay is the tree of a commit in the making.
type overlay struct {
	o    *objects
	root *node
}

// overlayOn begins with a tree; "" = with none.
func overlayOn(o *objects, tree string) *overlay {
	return &overlay{o: o, root: &node{entry: entry{mode: modeTree, id: tree}}}
}

// open reads a directory's entries.
func (v *overlay) open(n *node) error {
	if n.read {
		return nil
	}
	n.read, n.below = true, map[string]*node{}
	if n.id == "" {
		return nil
	}
	list, err := v.o.tree(n.id)
	if err != nil {
		return err
	}
	for _, e := range list {
		n.below[e.name] = &node{entry: e}
	}
	return nil
}

// find returns what is at a path, and nil if there is nothing.
func (v *overlay) find(p string) (*node, error) {
	at := v.root
	for part := range strings.SplitSeq(p, "/") {
		if at.mode != modeTree {
			return nil, nil
		}
		if err := v.open(at); err != nil {
			return nil, err
		}
		if at = at.below[part]; at == nil {
			return nil, nil
		}
	}
	return at, nil
}

// remove takes out what is at a path, and directories that are empty then. It reports
// whether there was anything.
func (v *overlay) remove(p string) (bool, error) {
	if there, err := v.find(p); err != nil || there == nil {
		return false, err
	}
	parts := strings.Split(p, "/")
	line := []*node{v.root}
	for _, part := range parts[:len(parts)-1] {
		line = append(line, line[len(line)-1].below[part])
	}
	for i := len(line) - 1; i >= 0; i-- {
		delete(line[i].below, parts[i])
		if len(line[i].below) > 0 {
			break
		}
	}
	return true, nil
}

// put sets the file at a path. A file where the path needs a directory, and a directory
// where it needs a file, are refused.
func (v *overlay) put(p string, mode uint32) error {
	at := v.root
	parts := strings.Split(p, "/")
	for i, part := range parts {
		if err := v.open(at); err != nil {
			return err
		}
		next := at.below[part]
		last := i == len(parts)-1
		switch {
		case next == nil && last:
			next = &node{entry: entry{mode: mode, name: part}}
		case next == nil:
			next = &node{entry: entry{mode: modeTree, name: part}, read: true, below: map[string]*node{}, fresh: true}
		case last && next.mode == modeTree:
			return badPath(p, "a directory is at this path").WithHint("delete the directory in the same commit")
		case !last && next.mode != modeTree:
			return badPath(p, "a file is at %s", vm.GuestPath(strings.Join(parts[:i+1], "/"))).WithHint("delete the file in the same commit")
		}
		at.below[part] = next
		at = next
	}
	at.mode, at.fresh = mode, true
	return nil
}

// collide refuses names that the commit adds and that some file systems cannot keep apart
// from others in the same directory.
func (v *overlay) collide() error { return v.root.collide("") }

func (n *node) collide(at string) error {
	if !n.read {
		return nil
	}
	seen := make(map[string]string, len(n.below))
	for name := range n.below {
		key := fold(name)
		if other, twice := seen[key]; twice && (n.below[name].fresh || n.below[other].fresh) {
			return badPath(at+name, "some file systems take it for %s, which is beside it", vm.GuestPath(at+other)).
				WithHint("names in a directory must differ by more than case and invisible characters")
		}
		seen[key] = name
	}
	for name, next := range n.below {
		if err := next.collide(at + name + "/"); err != nil {
			return err
		}
	}
	return nil
}
