// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Limits of one image's tree.
const (
	maxEntries = 2_000_000      // entries of all layers
	maxFiles   = 1_000_000      // of the tree
	maxName    = 255            // bytes of one part of a path
	maxPath    = 4096           // bytes of a path, and of a link's target
	maxBytes   = 64 << 30       // of all files
	maxFile    = 32 << 30       // of one file
	maxUID     = 65_535         // what a user namespace has
	maxXattrs  = 64 << 10       // bytes of one file's attributes
	maxText    = 1 << 30        // bytes of the names of a tree, for the memory that they take
	maxHops    = 40             // symbolic links in one path
	maxDepth   = 200            // directories within each other
	blowUp     = 1000           // how often larger a layer's tar may be than the layer
	blowUpFree = 1 << 30        // bytes that a tar may have whatever its layer's size
	whiteout   = ".wh."         // a name of the layer below is removed
	opaque     = ".wh..wh..opq" // everything of the layers below is removed from the directory
)

// inode is a file with one name or more.
type inode struct {
	kind       byte // a type of package tar
	mode       int64
	uid, gid   int
	modified   time.Time
	target     string            // of a symbolic link
	xattrs     map[string]string // by PAX name
	size       int64
	layer, seq int   // the entry that has the contents
	first      *node // the name that the contents are written under, while a tar is written
}

// node is a name in the tree.
type node struct {
	name   string
	parent *node
	layer  int // that gave the name last
	depth  int
	file   *inode
	below  map[string]*node // of a directory
}

func (n *node) isDir() bool { return n.file.kind == tar.TypeDir }

// path returns the path without a slash before it; "." for the root.
func (n *node) path() string {
	if n.parent == nil {
		return "."
	}
	var parts []string
	for ; n.parent != nil; n = n.parent {
		parts = append(parts, n.name)
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

// tree is the file system that the layers make, without the contents of files.
type tree struct {
	subject string
	root    *node
	layer   int // that is being added
	entries int
	files   int
	text    int64
	size    int64 // bytes of the contents of all layers' files

	// What was left out, because no guest needs it of an image.
	Devices int
	Xattrs  int
}

func newTree(subject string) *tree {
	return &tree{subject: subject, root: &node{file: &inode{kind: tar.TypeDir, mode: 0o755, modified: time.Unix(0, 0)}, below: map[string]*node{}}}
}

// clean checks a name of a layer, and returns its parts. Absolute names begin at the root.
func (t *tree) clean(name string) ([]string, error) {
	if len(name) > maxPath {
		return nil, tooLarge(t.subject, "a name in a layer is longer than %d bytes", maxPath)
	}
	var out []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			return nil, invalid(t.subject, "a layer holds the name %q, which leads out of it", name)
		case len(part) > maxName:
			return nil, tooLarge(t.subject, "a name in a layer has a part of more than %d bytes", maxName)
		case strings.IndexByte(part, 0) >= 0:
			return nil, invalid(t.subject, "a layer holds a name with a NUL byte")
		default:
			out = append(out, part)
		}
	}
	if len(out) > maxDepth {
		return nil, tooLarge(t.subject, "directories lie more than %d deep", maxDepth)
	}
	return out, nil
}

// walk follows a path from a directory, also through symbolic links, which never lead out of the
// root. It makes missing directories if it is told to. It returns nil if the path leads nowhere.
func (t *tree) walk(at *node, parts []string, make bool) (*node, error) {
	hops := 0
	for len(parts) > 0 {
		part := parts[0]
		parts = parts[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if at.parent != nil {
				at = at.parent
			}
			continue
		}
		next := at.below[part]
		switch {
		case next == nil && !make:
			return nil, nil
		case next == nil:
			if err := t.count(at, part); err != nil {
				return nil, err
			}
			next = t.put(at, part, &inode{kind: tar.TypeDir, mode: 0o755, modified: time.Unix(0, 0)})
		case next.file.kind == tar.TypeSymlink:
			if hops++; hops > maxHops {
				return nil, invalid(t.subject, "a path in a layer leads through more than %d symbolic links", maxHops)
			}
			to := next.file.target
			if path.IsAbs(to) {
				at = t.root
			}
			parts = append(strings.Split(to, "/"), parts...)
			continue
		case !next.isDir() && make:
			next = t.put(at, part, &inode{kind: tar.TypeDir, mode: 0o755, modified: time.Unix(0, 0)})
		case !next.isDir():
			return nil, nil
		}
		at = next
	}
	return at, nil
}

// count refuses a tree that becomes too large to hold in memory, or too deep for a path.
func (t *tree) count(at *node, name string) error {
	if at.depth > maxDepth {
		return tooLarge(t.subject, "directories lie more than %d deep", maxDepth)
	}
	t.files++
	t.text += int64(len(name)) + 200
	if t.files > maxFiles || t.text > maxText {
		return tooLarge(t.subject, "holds more than %d files", maxFiles)
	}
	return nil
}

// put gives a directory a name, in place of what had it.
func (t *tree) put(at *node, name string, f *inode) *node {
	n := &node{name: name, parent: at, layer: t.layer, depth: at.depth + 1, file: f}
	if f.kind == tar.TypeDir {
		n.below = map[string]*node{}
		if old := at.below[name]; old != nil && old.isDir() {
			n.below = old.below
			for _, c := range n.below {
				c.parent = n
			}
		}
	}
	at.below[name] = n
	return n
}

// remove takes away what layers below the present one have put at a name.
func (t *tree) remove(at *node, name string) {
	n := at.below[name]
	if n == nil {
		return
	}
	if n.isDir() {
		t.clear(n)
	}
	if n.layer < t.layer && len(n.below) == 0 {
		delete(at.below, name)
	}
}

// clear takes away what layers below the present one have put into a directory.
func (t *tree) clear(n *node) {
	for name := range maps.Clone(n.below) {
		t.remove(n, name)
	}
}

// entry adds one entry of a layer's tar. seq is its number there.
func (t *tree) entry(h *tar.Header, seq int) error {
	if t.entries++; t.entries > maxEntries {
		return tooLarge(t.subject, "its layers hold more than %d entries", maxEntries)
	}
	parts, err := t.clean(h.Name)
	if err != nil {
		return err
	}
	if len(parts) == 0 { // the root itself
		if h.Typeflag == tar.TypeDir {
			t.root.file, err = t.inode(h, seq)
		}
		return err
	}
	at, err := t.walk(t.root, parts[:len(parts)-1], true)
	if err != nil {
		return err
	}
	name := parts[len(parts)-1]
	if name == opaque {
		t.clear(at)
		return nil
	}
	if gone, ok := strings.CutPrefix(name, whiteout); ok {
		if gone == "" || gone == "." || gone == ".." || strings.HasPrefix(gone, whiteout) {
			return nil // aufs's own files
		}
		t.remove(at, gone)
		return nil
	}
	if err := t.count(at, h.Name+h.Linkname); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeChar, tar.TypeBlock:
		t.Devices++
		return nil // the guest's kernel makes its own
	case tar.TypeLink:
		return t.hardLink(at, name, h)
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeFifo:
		f, err := t.inode(h, seq)
		if err == nil {
			t.put(at, name, f)
		}
		return err
	case tar.TypeXGlobalHeader:
		return nil
	}
	return invalid(t.subject, "a layer holds %q, which is no kind of file that is known", h.Name)
}

// hardLink gives a file of the tree another name.
func (t *tree) hardLink(at *node, name string, h *tar.Header) error {
	parts, err := t.clean(h.Linkname)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return invalid(t.subject, "%q is a hard link to nothing", h.Name)
	}
	dir, err := t.walk(t.root, parts[:len(parts)-1], false)
	if err != nil {
		return err
	}
	if dir == nil || dir.below[parts[len(parts)-1]] == nil || dir.below[parts[len(parts)-1]].isDir() {
		return invalid(t.subject, "%q is a hard link to %q, which is no file of the image", h.Name, h.Linkname)
	}
	t.put(at, name, dir.below[parts[len(parts)-1]].file)
	return nil
}

// inode reads the attributes of an entry.
func (t *tree) inode(h *tar.Header, seq int) (*inode, error) {
	f := &inode{kind: h.Typeflag, mode: h.Mode & 0o7777, uid: h.Uid, gid: h.Gid, modified: h.ModTime, layer: t.layer, seq: seq}
	switch {
	case h.Uid < 0 || h.Uid > maxUID || h.Gid < 0 || h.Gid > maxUID:
		return nil, invalid(t.subject, "%q belongs to the user %d and the group %d; at most %d is possible", h.Name, h.Uid, h.Gid, maxUID)
	case h.Typeflag == tar.TypeSymlink && (h.Linkname == "" || strings.IndexByte(h.Linkname, 0) >= 0):
		return nil, invalid(t.subject, "%q is a symbolic link to nothing", h.Name)
	case len(h.Linkname) >= maxPath:
		return nil, tooLarge(t.subject, "a link's target is longer than %d bytes", maxPath)
	}
	if h.Typeflag == tar.TypeSymlink {
		f.target = h.Linkname
	}
	if h.Typeflag == tar.TypeReg {
		f.size = h.Size
		if t.size += h.Size; h.Size > maxFile || t.size > maxBytes {
			return nil, tooLarge(t.subject, "its files are larger than %d GiB", maxBytes>>30)
		}
	}
	total := 0
	for key, value := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") { // its size has nothing to do with the layer's
			return nil, invalid(t.subject, "%q is a file with holes, which no layer has", h.Name)
		}
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok {
			continue
		}
		if total += len(name) + len(value); total > maxXattrs {
			return nil, tooLarge(t.subject, "the attributes of a file are larger than %d KiB", maxXattrs>>10)
		}
		if !keepXattr(name, f.kind) {
			t.Xattrs++
			continue
		}
		if f.xattrs == nil {
			f.xattrs = map[string]string{}
		}
		f.xattrs[key] = value
	}
	return f, nil
}

const xattrPrefix = "SCHILY.xattr."

// keepXattr reports whether an extended attribute means something in a guest: capabilities of
// programs and what users have set. Others are the labels of the host that built the image.
func keepXattr(name string, kind byte) bool {
	switch {
	case strings.ContainsAny(name, "=\x00\n") || len(name) > maxName:
		return false
	case name == "security.capability":
		return kind == tar.TypeReg
	}
	return strings.HasPrefix(name, "user.") && (kind == tar.TypeReg || kind == tar.TypeDir)
}
