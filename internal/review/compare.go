// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"context"
	"io"
	"slices"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

// Disk is one side of a comparison.
type Disk interface {
	io.ReaderAt
	Size() int64
	// Zeros returns how many bytes from an offset on are known to be zeros.
	Zeros(off, most int64) (int64, error)
}

// Differ calls f for runs of bytes outside of which two disks are equal.
type Differ func(f func(off, n int64) error) error

// Verb is what happened to a path.
type Verb string

// The verbs of a Change.
const (
	Added    Verb = "added"
	Modified Verb = "modified"
	Deleted  Verb = "deleted"
	Renamed  Verb = "renamed" // and perhaps modified, too
)

// Change is one path that differs.
type Change struct {
	Verb Verb
	Path string // absolute; any bytes but NUL, for the guest chose them
	From string // the path before, of a rename
	// Was and Now are the inodes; nil where there was or is none.
	Was, Now *ext4.Inode

	Content bool // bytes, or what a link or device names
	Mode    bool // permissions
	Owner   bool
	Attrs   bool // extended attributes
	Links   bool // the number of names
	// Silent: the content changed and no time of the file did, as when somebody wrote
	// below the file system.
	Silent bool
}

// Result is what a comparison found.
type Result struct {
	Changes []Change // ordered by path
	// Oddities are things that no file system has that only its kernel wrote, in
	// words: two names alike in a directory, a directory with two parents.
	Oddities []string
	// Unowned counts changed blocks that belong to no file on either side: free
	// space, mostly of files that came and went.
	Unowned uint64
	// Reserved are inodes below the first file's that differ, and are neither the
	// root directory nor the journal.
	Reserved []uint32
}

const (
	maxChanges  = 1 << 20
	maxOddities = 100
)

// comparison is one run of Compare.
type comparison struct {
	ctx  context.Context
	a, b *side
	// differ are the blocks whose content differs, and owned those of them that
	// belong to a file or to the file system itself.
	differ, owned bitmap
	delta         map[uint32]*delta // by the inode's number
	out           Result
}

// side is one file system.
type side struct {
	disk Disk
	fs   *ext4.FS
	dirs map[uint32]parent // every directory that can be reached
	// names are those that may have changed, by path.
	names map[string]uint32
	// repos are the directories that look like a git repository's own, and the files
	// and links that are named .git.
	repos []repoName
}

// delta is an inode that differs.
type delta struct {
	was, now *ext4.Inode // nil = not used
	Change
}

// Compare finds what differs between the file systems of two disks. differ bounds
// what is read. Kinds: Corrupt, Unsupported, Limit (too much differs), Internal.
func Compare(ctx context.Context, a, b Disk, differ Differ) (*Result, error) {
	c, err := openAndCompare(ctx, a, b, differ)
	if err != nil {
		return nil, err
	}
	return &c.out, nil
}

// openAndCompare is Compare, and keeps what it opened.
func openAndCompare(ctx context.Context, a, b Disk, differ Differ) (*comparison, error) {
	c := &comparison{ctx: ctx, a: &side{disk: a}, b: &side{disk: b}, delta: map[uint32]*delta{}}
	for _, s := range []*side{c.a, c.b} {
		var err error
		if s.fs, err = ext4.Open(s.disk, s.disk.Size()); err != nil {
			return nil, err
		}
	}
	if c.a.fs.BlockSize() != c.b.fs.BlockSize() || c.a.fs.InodesPerBlock() != c.b.fs.InodesPerBlock() {
		return nil, vm.Errorf(vm.Unsupported, "", "one file system has blocks of %d bytes, the other of %d, or their inodes differ in size: it was formatted again",
			c.a.fs.BlockSize(), c.b.fs.BlockSize())
	}
	for _, step := range []func() error{
		func() error { return c.blocks(differ) }, c.inodes, c.vanished, c.walk, c.pair, c.unowned,
	} {
		if err := step(); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return c, nil
}

// blocks finds the blocks whose content differs.
func (c *comparison) blocks(differ Differ) error {
	size := c.b.fs.BlockSize()
	most := max(c.a.fs.Blocks(), c.b.fs.Blocks())
	c.differ, c.owned = newBitmap(most), newBitmap(most)
	pa, pb := make([]byte, size), make([]byte, size)
	look := func(n uint64) error {
		for _, x := range []struct {
			s *side
			p []byte
		}{{c.a, pa}, {c.b, pb}} {
			clear(x.p)
			if n < x.s.fs.Blocks() {
				if err := x.s.fs.Block(n, x.p); err != nil {
					return err
				}
			}
		}
		if !bytes.Equal(pa, pb) {
			c.differ.set(n)
		}
		return nil
	}
	err := differ(func(off, n int64) error {
		for block := uint64(off / size); block < min(most, uint64((off+n+size-1)/size)); block++ {
			if err := look(block); err != nil {
				return err
			}
		}
		return c.ctx.Err()
	})
	if err != nil {
		return err
	}
	for _, s := range []*side{c.a, c.b} {
		for n := range s.fs.Logged() {
			if err := look(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// inodes compares every inode of the newer side with the older one's, and tests
// every block of every file against the blocks that differ.
func (c *comparison) inodes() error {
	fs := c.b.fs
	per, size := fs.InodesPerBlock(), fs.BlockSize()
	now, was := make([]byte, size), make([]byte, size)
	for first := uint32(1); first <= fs.Inodes(); first += per {
		block, _, err := fs.InodeBlock(first)
		if err != nil {
			return err
		}
		zeros, err := c.b.disk.Zeros(int64(block)*size, size)
		if err != nil {
			return err
		}
		if zeros == size && !c.differ.has(block) {
			continue // no inode of either side, unless the journal has one: then it differs
		}
		if err := fs.Block(block, now); err != nil {
			return err
		}
		same, err := c.before(first, block, was)
		if err != nil {
			return err
		}
		for i := uint32(0); i < per && first+i <= fs.Inodes(); i++ {
			if err := c.inode(first+i, now, was, same, i); err != nil {
				return err
			}
		}
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
	}
	return nil
}

// before reads the block of inodes of the older side; same = it is that of the newer
// one.
func (c *comparison) before(first uint32, block uint64, was []byte) (same bool, err error) {
	clear(was)
	if first > c.a.fs.Inodes() {
		return false, nil
	}
	old, off, err := c.a.fs.InodeBlock(first)
	if err != nil {
		return false, err
	}
	if off != 0 {
		return false, vm.Errorf(vm.Unsupported, "", "the inodes of one file system lie elsewhere in their blocks than the other's: it was formatted again")
	}
	if old == block && !c.differ.has(block) {
		return true, nil
	}
	return false, c.a.fs.Block(old, was)
}

// inode compares one inode, which is the i-th of a block.
func (c *comparison) inode(n uint32, nowBlock, wasBlock []byte, same bool, i uint32) error {
	size := len(nowBlock) / int(c.b.fs.InodesPerBlock())
	raw := nowBlock[int(i)*size : int(i+1)*size]
	now := c.b.fs.Parse(n, raw)
	was := now
	if !same {
		was = c.a.fs.Parse(n, wasBlock[int(i)*size:int(i+1)*size])
	}
	if !now.Used() && n >= ext4.FirstInode { // the older side's is found by vanished
		return nil
	}
	d := Change{Content: false}
	touched := false
	if now.Used() {
		err := c.b.fs.Extents(now, func(e ext4.Extent) error {
			for b := e.Physical; b < e.Physical+e.Length; b++ {
				if c.differ.has(b) {
					c.owned.set(b)
					touched = touched || !e.Unwritten
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if b := now.AttrBlock(); b != 0 && c.differ.has(b) {
			c.owned.set(b)
			d.Attrs = true
		}
	}
	if same && !touched && !d.Attrs {
		return nil
	}
	if n < ext4.FirstInode && n != ext4.RootInode {
		if n != ext4.JournalInode && (touched || !bytes.Equal(was.Raw(), now.Raw())) {
			c.out.Reserved = append(c.out.Reserved, n)
		}
		return nil
	}
	return c.judge(n, was, now, touched, d)
}

// judge notes what differs between two inodes of one number.
func (c *comparison) judge(n uint32, was, now *ext4.Inode, touched bool, d Change) error {
	if !was.Used() || !sameFile(was, now) {
		if !was.Used() {
			was = nil
		} else {
			was = was.Keep()
		}
		return c.note(n, &delta{was: was, now: now.Keep()})
	}
	moved := !bytes.Equal(was.Where(), now.Where())
	d.Mode = was.Mode != now.Mode
	d.Owner = was.UID != now.UID || was.GID != now.GID
	d.Links = was.Links != now.Links && now.Type != ext4.Directory
	if now.Type != ext4.Directory {
		d.Content = touched || moved || was.Size != now.Size
	}
	if moved && !touched && was.Size == now.Size && now.Type == ext4.Regular {
		same, err := c.sameContent(was, now)
		if err != nil {
			return err
		}
		d.Content = !same
	}
	if !d.Attrs {
		changed, err := c.attrsDiffer(was, now)
		if err != nil {
			return err
		}
		d.Attrs = changed
	}
	d.Silent = d.Content && was.Modified.Equal(now.Modified) && was.Changed.Equal(now.Changed)
	if now.Type != ext4.Directory && !d.Content && !d.Mode && !d.Owner && !d.Links && !d.Attrs {
		return nil
	}
	return c.note(n, &delta{was: was.Keep(), now: now.Keep(), Change: d})
}

func (c *comparison) note(n uint32, d *delta) error {
	if len(c.delta) == maxChanges {
		return vm.Errorf(vm.Limit, "", "more than %d files differ", maxChanges)
	}
	c.delta[n] = d
	return nil
}

// sameFile reports whether two inodes of one number are the same file, and not one
// that took the number of another.
func sameFile(was, now *ext4.Inode) bool {
	return was.Type == now.Type && was.Generation == now.Generation && was.Created.Equal(now.Created)
}

// attrsDiffer compares extended attributes.
func (c *comparison) attrsDiffer(was, now *ext4.Inode) (bool, error) {
	a, err := c.a.fs.Attrs(was)
	if err != nil {
		return false, err
	}
	b, err := c.b.fs.Attrs(now)
	if err != nil {
		return false, err
	}
	if len(a) != len(b) {
		return true, nil
	}
	for name, value := range a {
		if other, ok := b[name]; !ok || other != value {
			return true, nil
		}
	}
	return false, nil
}

// sameContent compares the content of two files of the same size. Holes that both
// have are not read.
func (c *comparison) sameContent(was, now *ext4.Inode) (bool, error) {
	a, err := c.a.fs.OpenFile(was)
	if err != nil {
		return false, err
	}
	b, err := c.b.fs.OpenFile(now)
	if err != nil {
		return false, err
	}
	if a.Size() != b.Size() {
		return false, nil
	}
	size := c.b.fs.BlockSize()
	pa, pb := make([]byte, size), make([]byte, size)
	for _, x := range []*ext4.File{a, b} {
		for _, run := range x.Runs() {
			for l := run.Logical; l < run.Logical+run.Length && int64(l)*size < x.Size(); l++ {
				n := min(size, x.Size()-int64(l)*size)
				if _, err := a.ReadAt(pa[:n], int64(l)*size); err != nil {
					return false, err
				}
				if _, err := b.ReadAt(pb[:n], int64(l)*size); err != nil {
					return false, err
				}
				if !bytes.Equal(pa[:n], pb[:n]) {
					return false, nil
				}
			}
			if c.ctx.Err() != nil {
				return false, context.Cause(c.ctx)
			}
		}
	}
	return true, nil
}

// vanished finds the inodes that only the older side uses.
func (c *comparison) vanished() error {
	fs := c.a.fs
	per, size := fs.InodesPerBlock(), fs.BlockSize()
	raw := make([]byte, size)
	bytesEach := int(size) / int(per)
	c.a.fs.Renew()
	for first := uint32(1); first <= fs.Inodes(); first += per {
		block, _, err := fs.InodeBlock(first)
		if err != nil {
			return err
		}
		if now, _, err := c.b.fs.InodeBlock(min(first, c.b.fs.Inodes())); first <= c.b.fs.Inodes() && err == nil && now == block && !c.differ.has(block) {
			continue
		}
		if err := fs.Block(block, raw); err != nil {
			return err
		}
		for i := uint32(0); i < per; i++ {
			n := first + i
			was := fs.Parse(n, raw[int(i)*bytesEach:int(i+1)*bytesEach])
			if n < ext4.FirstInode || !was.Used() {
				continue
			}
			if err := c.ownedBefore(was); err != nil {
				return err
			}
			if n <= c.b.fs.Inodes() {
				if now, err := c.b.fs.Inode(n); err != nil {
					return err
				} else if now.Used() {
					continue
				}
			}
			if err := c.note(n, &delta{was: was.Keep()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownedBefore marks the blocks of a file of the older side.
func (c *comparison) ownedBefore(was *ext4.Inode) error {
	return c.a.fs.Extents(was, func(e ext4.Extent) error {
		for b := e.Physical; b < e.Physical+e.Length; b++ {
			if c.differ.has(b) {
				c.owned.set(b)
			}
		}
		return nil
	})
}

// unowned counts what differs and belongs to nobody.
func (c *comparison) unowned() error {
	for _, s := range []*side{c.a, c.b} {
		if err := s.fs.Metadata(func(first, n uint64) {
			for b := first; b < first+n; b++ {
				if c.differ.has(b) {
					c.owned.set(b)
				}
			}
		}); err != nil {
			return err
		}
	}
	c.out.Unowned = c.differ.count() - c.owned.count()
	slices.Sort(c.out.Reserved)
	return nil
}
