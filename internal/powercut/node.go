// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package powercut

import (
	"maps"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const blockSize = 4096

// content is the bytes of a file; a missing block is zeros. A block never changes
// once it is in a synced content.
type content struct {
	size   int64
	blocks map[int64]*[blockSize]byte
}

// node is a file, a directory or a link.
type node struct {
	ino    uint64
	mode   uint32
	owner  fuse.Owner
	links  uint32
	mtime  time.Time
	target string // of a symbolic link

	now, synced content
	dirty       map[int64]bool // blocks that differ between the two

	names, kept map[string]*node // of a directory: now, and at its last fsync
	up          *node            // one of its parent directories
	name        string
}

func newNode(ino uint64, mode uint32) *node {
	n := &node{ino: ino, mode: mode, links: 1, mtime: time.Now()}
	if n.isDir() {
		n.links, n.names, n.kept = 2, map[string]*node{}, map[string]*node{}
		return n
	}
	n.now.blocks, n.synced.blocks, n.dirty = map[int64]*[blockSize]byte{}, map[int64]*[blockSize]byte{}, map[int64]bool{}
	return n
}

func (n *node) isDir() bool { return n.mode&syscall.S_IFMT == syscall.S_IFDIR }

func (n *node) path() string {
	if n.up == nil {
		return n.name
	}
	return filepath.Join(n.up.path(), n.name)
}

func (n *node) attr(a *fuse.Attr) {
	a.Ino, a.Mode, a.Nlink, a.Owner = n.ino, n.mode, n.links, n.owner
	a.Size, a.Blksize = uint64(n.now.size), blockSize
	a.Blocks = uint64(len(n.now.blocks)) * blockSize / 512
	a.SetTimes(&n.mtime, &n.mtime, &n.mtime)
}

// own returns a block that may be changed.
func (n *node) own(i int64) *[blockSize]byte {
	b := n.now.blocks[i]
	switch {
	case b == nil:
		b = new([blockSize]byte)
	case !n.dirty[i]:
		c := *b
		b = &c
	}
	n.now.blocks[i], n.dirty[i] = b, true
	return b
}

func (n *node) writeAt(data []byte, off int64) {
	for len(data) > 0 {
		k := copy(n.own(off / blockSize)[off%blockSize:], data)
		data, off = data[k:], off+int64(k)
	}
	n.now.size = max(n.now.size, off)
	n.mtime = time.Now()
}

func (n *node) readAt(buf []byte, off int64) int {
	if off >= n.now.size {
		return 0
	}
	buf = buf[:min(int64(len(buf)), n.now.size-off)]
	for done := 0; done < len(buf); {
		at := off + int64(done)
		end := min(len(buf), done+blockSize-int(at%blockSize))
		if b := n.now.blocks[at/blockSize]; b != nil {
			copy(buf[done:end], b[at%blockSize:])
		} else {
			clear(buf[done:end])
		}
		done = end
	}
	return len(buf)
}

// zero makes a range read as zeros.
func (n *node) zero(from, to int64) {
	for from < to {
		i := from / blockSize
		end := min(to, (i+1)*blockSize)
		switch {
		case n.now.blocks[i] == nil:
		case end-from == blockSize:
			delete(n.now.blocks, i)
			n.dirty[i] = true
		default:
			clear(n.own(i)[from%blockSize : from%blockSize+end-from])
		}
		from = end
	}
}

func (n *node) truncate(size int64) {
	if size < n.now.size {
		for i := range n.now.blocks {
			if i*blockSize >= size {
				delete(n.now.blocks, i)
				n.dirty[i] = true
			}
		}
		n.zero(size, (size+blockSize-1)/blockSize*blockSize)
	}
	n.now.size = size
	n.mtime = time.Now()
}

// left is what a cut leaves of a directory.
func (n *node) left(l Loss) map[string]*node {
	switch l {
	case NamesLost:
		return n.kept
	case NamesGone:
		out := map[string]*node{}
		for name, child := range n.kept {
			if n.names[name] != nil {
				out[name] = child
			}
		}
		return out
	}
	return n.names
}

// torn is the content after the first unsynced block was written.
func (n *node) torn() content {
	c := content{size: n.now.size, blocks: maps.Clone(n.synced.blocks)}
	if len(n.dirty) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(n.dirty)))
		if b := n.now.blocks[first]; b != nil {
			c.blocks[first] = b
		} else {
			delete(c.blocks, first)
		}
	}
	return c
}

// sync marks the current state as synced.
func (n *node) sync() {
	if n.isDir() {
		n.kept = make(map[string]*node, len(n.names))
		for name, child := range n.names {
			n.kept[name] = child
		}
		return
	}
	for i := range n.dirty {
		if b := n.now.blocks[i]; b != nil {
			n.synced.blocks[i] = b
		} else {
			delete(n.synced.blocks, i)
		}
	}
	clear(n.dirty)
	n.synced.size = n.now.size
}
