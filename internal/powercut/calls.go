// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package powercut

import (
	"slices"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// calls answers the kernel. Nodes are never freed: a test makes few.
type calls struct {
	fuse.RawFileSystem
	d *Disk
}

const valid = 1 // seconds for which the kernel may cache answers

// at locks the disk and returns a node.
func (c *calls) at(id uint64) (n *node, unlock func()) {
	c.d.mu.Lock()
	return c.d.nodes[id], c.d.mu.Unlock
}

// renaming tells that a name of a directory is about to be renamed or removed.
func (c *calls) renaming(id uint64, name string) {
	dir, unlock := c.at(id)
	path, f := dir.path()+"/"+name, c.d.rename
	unlock()
	if f != nil {
		f(path)
	}
}

func entry(n *node, out *fuse.EntryOut) fuse.Status {
	out.NodeId, out.Generation, out.EntryValid, out.AttrValid = n.ino, 1, valid, valid
	n.attr(&out.Attr)
	return fuse.OK
}

func (c *calls) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	dir, unlock := c.at(h.NodeId)
	defer unlock()
	n := dir.names[name]
	if n == nil {
		return fuse.ENOENT
	}
	return entry(n, out)
}

func (c *calls) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, unlock := c.at(in.NodeId)
	defer unlock()
	out.AttrValid = valid
	n.attr(&out.Attr)
	return fuse.OK
}

func (c *calls) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, unlock := c.at(in.NodeId)
	defer unlock()
	if mode, ok := in.GetMode(); ok {
		n.mode = n.mode&syscall.S_IFMT | mode&0o7777
	}
	if uid, ok := in.GetUID(); ok {
		n.owner.Uid = uid
	}
	if gid, ok := in.GetGID(); ok {
		n.owner.Gid = gid
	}
	if size, ok := in.GetSize(); ok {
		n.truncate(int64(size))
	}
	if t, ok := in.GetMTime(); ok {
		n.mtime = t
	}
	out.AttrValid = valid
	n.attr(&out.Attr)
	return fuse.OK
}

// make adds a node to a directory; the caller holds the lock.
func (c *calls) make(dir *node, name string, mode uint32, owner fuse.Owner) (*node, fuse.Status) {
	if dir.names[name] != nil {
		return nil, fuse.Status(syscall.EEXIST)
	}
	n := newNode(uint64(len(c.d.nodes))+1, mode)
	n.owner = owner
	c.d.nodes[n.ino] = n
	give(dir, name, n)
	return n, fuse.OK
}

func give(dir *node, name string, n *node) { dir.names[name], n.up, n.name = n, dir, name }

func (c *calls) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, unlock := c.at(in.NodeId)
	defer unlock()
	n, st := c.make(dir, name, in.Mode, in.Owner)
	if st != fuse.OK {
		return st
	}
	return entry(n, out)
}

func (c *calls) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, unlock := c.at(in.NodeId)
	defer unlock()
	n, st := c.make(dir, name, syscall.S_IFDIR|in.Mode&0o7777, in.Owner)
	if st != fuse.OK {
		return st
	}
	return entry(n, out)
}

func (c *calls) Symlink(_ <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	dir, unlock := c.at(h.NodeId)
	defer unlock()
	n, st := c.make(dir, name, syscall.S_IFLNK|0o777, h.Owner)
	if st != fuse.OK {
		return st
	}
	n.target = target
	return entry(n, out)
}

func (c *calls) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	n, unlock := c.at(h.NodeId)
	defer unlock()
	return []byte(n.target), fuse.OK
}

func (c *calls) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, unlock := c.at(in.NodeId)
	defer unlock()
	if dir.names[name] != nil {
		return fuse.Status(syscall.EEXIST)
	}
	n := c.d.nodes[in.Oldnodeid]
	n.links++
	give(dir, name, n)
	return entry(n, out)
}

func (c *calls) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	c.renaming(h.NodeId, name)
	dir, unlock := c.at(h.NodeId)
	defer unlock()
	n := dir.names[name]
	if n == nil {
		return fuse.ENOENT
	}
	n.links--
	delete(dir.names, name)
	return fuse.OK
}

func (c *calls) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	c.renaming(h.NodeId, name)
	dir, unlock := c.at(h.NodeId)
	defer unlock()
	n := dir.names[name]
	if n == nil {
		return fuse.ENOENT
	}
	if len(n.names) > 0 {
		return fuse.Status(syscall.ENOTEMPTY)
	}
	delete(dir.names, name)
	return fuse.OK
}

func (c *calls) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	c.renaming(in.NodeId, from)
	dir, unlock := c.at(in.NodeId)
	defer unlock()
	into := c.d.nodes[in.Newdir]
	n, old := dir.names[from], into.names[to]
	switch {
	case n == nil:
		return fuse.ENOENT
	case in.Flags != 0 && in.Flags != unix.RENAME_NOREPLACE:
		return fuse.EINVAL
	case old != nil && in.Flags == unix.RENAME_NOREPLACE:
		return fuse.Status(syscall.EEXIST)
	case old != nil && len(old.names) > 0:
		return fuse.Status(syscall.ENOTEMPTY)
	case old == n:
		return fuse.OK
	}
	if old != nil {
		old.links--
	}
	delete(dir.names, from)
	give(into, to, n)
	return fuse.OK
}

func (c *calls) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	dir, unlock := c.at(in.NodeId)
	defer unlock()
	n := dir.names[name]
	if n == nil {
		var st fuse.Status
		if n, st = c.make(dir, name, syscall.S_IFREG|in.Mode&0o7777, in.Owner); st != fuse.OK {
			return st
		}
	} else if in.Flags&syscall.O_EXCL != 0 {
		return fuse.Status(syscall.EEXIST)
	}
	if in.Flags&syscall.O_TRUNC != 0 {
		n.truncate(0)
	}
	return entry(n, &out.EntryOut)
}

func (c *calls) Open(_ <-chan struct{}, in *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	n, unlock := c.at(in.NodeId)
	defer unlock()
	if in.Flags&syscall.O_TRUNC != 0 {
		n.truncate(0)
	}
	return fuse.OK
}

func (c *calls) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	n, unlock := c.at(in.NodeId)
	defer unlock()
	return fuse.ReadResultData(buf[:n.readAt(buf, int64(in.Offset))]), fuse.OK
}

func (c *calls) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	n, unlock := c.at(in.NodeId)
	defer unlock()
	n.writeAt(data, int64(in.Offset))
	return uint32(len(data)), fuse.OK
}

func (c *calls) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	n, unlock := c.at(in.NodeId)
	defer unlock()
	end := int64(in.Offset + in.Length)
	switch in.Mode {
	case 0:
		n.now.size = max(n.now.size, end)
	case unix.FALLOC_FL_KEEP_SIZE:
	case unix.FALLOC_FL_KEEP_SIZE | unix.FALLOC_FL_PUNCH_HOLE:
		n.zero(int64(in.Offset), min(end, n.now.size))
	default:
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	return fuse.OK
}

func (c *calls) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return c.sync(in.NodeId) }

func (c *calls) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return c.sync(in.NodeId) }

func (c *calls) sync(id uint64) fuse.Status {
	n, unlock := c.at(id)
	s, before := Sync{Path: n.path(), File: n.ino}, c.d.before
	unlock()
	if before != nil {
		before(s.Path)
	}
	n, unlock = c.at(id)
	defer unlock()
	if c.d.ignore == nil || !c.d.ignore(len(c.d.syncs), s) {
		n.sync()
	}
	c.d.syncs = append(c.d.syncs, s)
	return fuse.OK
}

func (c *calls) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }

func (c *calls) Release(<-chan struct{}, *fuse.ReleaseIn) {}

// OpenDir copies the directory's entries: they must not move while it is read.
func (c *calls) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	dir, unlock := c.at(in.NodeId)
	defer unlock()
	var list []fuse.DirEntry
	for name, n := range dir.names {
		list = append(list, fuse.DirEntry{Mode: n.mode, Name: name, Ino: n.ino})
	}
	slices.SortFunc(list, func(a, b fuse.DirEntry) int { return strings.Compare(a.Name, b.Name) })
	for i := range list {
		list[i].Off = uint64(i) + 1
	}
	c.d.handle++
	c.d.opens[c.d.handle], out.Fh = list, c.d.handle
	return fuse.OK
}

func (c *calls) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	list := c.d.opens[in.Fh]
	for i := in.Offset; i < uint64(len(list)) && out.AddDirEntry(list[i]); i++ {
	}
	return fuse.OK
}

func (c *calls) ReleaseDir(in *fuse.ReleaseIn) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	delete(c.d.opens, in.Fh)
}

func (c *calls) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	out.Bsize, out.Frsize, out.NameLen = blockSize, blockSize, 255
	out.Blocks, out.Bfree, out.Bavail = 1<<22, 1<<22, 1<<22 // 16 GiB
	return fuse.OK
}
