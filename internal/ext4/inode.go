// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ext4

import (
	"bytes"
	"time"
)

// Numbers of inodes that every file system has.
const (
	RootInode    = 2
	JournalInode = 8
)

// FirstInode is the lowest number that a file has; those below are reserved.
const FirstInode = 11

// Type is what an inode is: the format bits of its mode.
type Type uint16

// The types of inodes (stat.h).
const (
	Pipe      Type = 0x1000
	CharDev   Type = 0x2000
	Directory Type = 0x4000
	BlockDev  Type = 0x6000
	Regular   Type = 0x8000
	Symlink   Type = 0xa000
	Socket    Type = 0xc000
)

const (
	flagEncrypted = 0x800
	flagExtents   = 0x80000
	flagEAInode   = 0x200000
	flagInline    = 0x10000000

	maxDepth = 5 // of an extent tree
)

// Inode is one file of any type.
type Inode struct {
	Number     uint32
	Type       Type
	Mode       uint16 // permissions, set-id and sticky
	UID, GID   uint32
	Size       int64
	Links      uint16
	Generation uint32
	Flags      uint32
	Modified   time.Time // what the guest says
	Changed    time.Time
	Created    time.Time
	Device     uint32 // major<<20 | minor

	raw   []byte
	attrs uint64 // the block with its extended attributes; 0 = none
}

// Used reports whether the inode is a file.
func (in *Inode) Used() bool { return in.Type != 0 && in.Links > 0 }

// InodeBlock is the block with an inode, and the inode's place in it.
func (f *FS) InodeBlock(n uint32) (block uint64, off int64, err error) {
	if n == 0 || n > f.inodes {
		return 0, 0, damaged("it names inode %d of %d", n, f.inodes)
	}
	at := int64((n-1)%f.perGroup) * f.inodeSize
	return f.tables[(n-1)/f.perGroup] + uint64(at/f.blockSize), at % f.blockSize, nil
}

// InodesPerBlock is how many inodes a block has.
func (f *FS) InodesPerBlock() uint32 { return uint32(f.blockSize / f.inodeSize) }

// Inode reads an inode.
func (f *FS) Inode(n uint32) (*Inode, error) {
	block, off, err := f.InodeBlock(n)
	if err != nil {
		return nil, err
	}
	raw, err := f.table(block)
	if err != nil {
		return nil, err
	}
	return f.Parse(n, bytes.Clone(raw[off:off+f.inodeSize])), nil
}

// TypeOf is what an inode is, without the rest of it.
func (f *FS) TypeOf(n uint32) (Type, error) {
	block, off, err := f.InodeBlock(n)
	if err != nil {
		return 0, err
	}
	raw, err := f.table(block)
	if err != nil {
		return 0, err
	}
	return Type(le.Uint16(raw[off:]) & 0xf000), nil
}

// keptBlocks is how many blocks of inodes are kept: the names of a directory are mostly
// of inodes that lie together.
const keptBlocks = 64

// kept is a block of inodes that was read. Nobody changes its bytes.
type kept struct {
	block uint64
	raw   []byte // nil = none yet
}

// table returns a block of inodes, which the next calls may overwrite.
func (f *FS) table(block uint64) ([]byte, error) {
	k := &f.kept[block%keptBlocks]
	if k.raw != nil && k.block == block {
		return k.raw, nil
	}
	if int64(len(k.raw)) != f.blockSize {
		k.raw = make([]byte, f.blockSize)
	}
	if err := f.Block(block, k.raw); err != nil {
		k.raw = nil
		return nil, err
	}
	k.block = block
	return k.raw, nil
}

// Parse takes an inode out of its bytes, which it keeps.
func (f *FS) Parse(n uint32, raw []byte) *Inode {
	mode := le.Uint16(raw)
	in := &Inode{
		Number: n, Type: Type(mode & 0xf000), Mode: mode & 0xfff,
		UID: uint32(le.Uint16(raw[0x2:])) | uint32(le.Uint16(raw[0x78:]))<<16,
		GID: uint32(le.Uint16(raw[0x18:])) | uint32(le.Uint16(raw[0x7a:]))<<16,
		// The upper half is defined for directories too, where none is larger than 4 GiB.
		Size:  int64(uint64(le.Uint32(raw[0x4:])) | uint64(le.Uint32(raw[0x6c:]))<<32),
		Links: le.Uint16(raw[0x1a:]), Flags: le.Uint32(raw[0x20:]), Generation: le.Uint32(raw[0x64:]),
		raw: raw, attrs: uint64(le.Uint32(raw[0x68:])) | uint64(le.Uint16(raw[0x76:]))<<32,
	}
	if in.Size < 0 {
		in.Size = 0
	}
	in.Changed, in.Modified = in.stamp(0xc, 0x84), in.stamp(0x10, 0x88)
	if in.has(0x94) {
		in.Created = in.stamp(0x90, 0x94)
	}
	if in.Type == CharDev || in.Type == BlockDev {
		in.Device = device(raw[0x28:])
	}
	return in
}

// has reports whether the inode has the four bytes at an offset beyond the first 128.
func (in *Inode) has(off int) bool {
	return len(in.raw) >= 0x84 && off+4 <= len(in.raw) && off+4 <= 128+int(le.Uint16(in.raw[0x80:]))
}

// stamp reads a time, with its extra bits where the inode has them.
func (in *Inode) stamp(at, extra int) time.Time {
	sec := int64(int32(le.Uint32(in.raw[at:])))
	if !in.has(extra) {
		return time.Unix(sec, 0).UTC()
	}
	x := le.Uint32(in.raw[extra:])
	return time.Unix(sec+int64(x&3)<<32, int64(x>>2)).UTC()
}

// device takes the number of a device out of an inode's block field.
func device(p []byte) uint32 {
	if old := le.Uint32(p); old != 0 {
		return old>>8&0xff<<20 | old&0xff
	}
	n := le.Uint32(p[4:])
	return (n>>8&0xfff)<<20 | n&0xff | n>>12&0xfff00
}

// Raw is the inode without what reading a file changes: the access time and the
// checksums.
func (in *Inode) Raw() []byte {
	out := append([]byte(nil), in.raw...)
	clear(out[0x8:0xc])
	clear(out[0x7c:0x7e])
	if in.has(0x82 - 2) {
		clear(out[0x82:0x84])
	}
	if in.has(0x8c) {
		clear(out[0x8c:0x90])
	}
	return out
}

// Where is what of the inode says where its content is: the list of its blocks, a
// short link's target, a device's number.
func (in *Inode) Where() []byte { return in.raw[0x28 : 0x28+60] }

// Keep is a copy of the inode that does not share the bytes it was parsed from.
func (in *Inode) Keep() *Inode {
	out := *in
	out.raw = append([]byte(nil), in.raw...)
	return &out
}

// Extent is a run of blocks of a file.
type Extent struct {
	Logical, Physical, Length uint64
	Unwritten                 bool // allocated, and reads as zeros
	Tree                      bool // a block of the tree itself, with no content
}

// Extents calls each for every run of blocks of a file and for every block of the
// tree that lists them, in no order that a damaged tree must keep. Fast links and
// devices have none. Kinds: Corrupt, Unsupported (encrypted or inline), Internal.
func (f *FS) Extents(in *Inode, each func(Extent) error) error {
	switch {
	case in.Flags&flagEncrypted != 0:
		return unreadableInode(in, "is encrypted")
	case in.Flags&flagInline != 0:
		return unreadableInode(in, "has inline data")
	case in.Type == Symlink && in.Size < 60 && in.Flags&flagExtents == 0:
		return nil
	case in.Type != Regular && in.Type != Directory && in.Type != Symlink:
		return nil
	case in.Flags&flagExtents != 0:
		return f.extentNode(in.raw[0x28:0x28+60], -1, each)
	}
	return f.indirect(in.raw[0x28:0x28+60], each)
}

// extentNode walks one node of an extent tree. depth -1 = the root, which says it.
func (f *FS) extentNode(node []byte, depth int, each func(Extent) error) error {
	entries, says := int(le.Uint16(node[2:])), int(le.Uint16(node[6:]))
	if le.Uint16(node) != 0xf30a || depth >= 0 && says != depth || says > maxDepth || 12+entries*12 > len(node) {
		return damaged("a list of extents has %d entries in depth %d", entries, says)
	}
	for i := range entries {
		e := node[12+i*12:]
		if says == 0 {
			x := Extent{Logical: uint64(le.Uint32(e)), Length: uint64(le.Uint16(e[4:])), Physical: uint64(le.Uint16(e[6:]))<<32 | uint64(le.Uint32(e[8:]))}
			if x.Length > 1<<15 {
				x.Length, x.Unwritten = x.Length-1<<15, true
			}
			if err := f.extent(x, each); err != nil {
				return err
			}
			continue
		}
		at := uint64(le.Uint32(e[4:])) | uint64(le.Uint16(e[8:]))<<32
		if err := f.extent(Extent{Physical: at, Length: 1, Tree: true}, each); err != nil {
			return err
		}
		below := make([]byte, f.blockSize)
		if err := f.Block(at, below); err != nil {
			return err
		}
		if err := f.extentNode(below, says-1, each); err != nil {
			return err
		}
	}
	return nil
}

// extent checks a run of blocks and hands it on.
func (f *FS) extent(x Extent, each func(Extent) error) error {
	if x.Length == 0 || x.Physical == 0 || x.Physical >= f.blocks || x.Length > f.blocks-x.Physical {
		return damaged("a file has %d blocks from %d of %d", x.Length, x.Physical, f.blocks)
	}
	if err := f.claim(x.Length); err != nil {
		return err
	}
	return each(x)
}

// indirect walks over the block lists of a file that an ext3 wrote.
func (f *FS) indirect(list []byte, each func(Extent) error) error {
	for i := range uint64(12) {
		if b := le.Uint32(list[i*4:]); b != 0 {
			if err := f.extent(Extent{Logical: i, Physical: uint64(b), Length: 1}, each); err != nil {
				return err
			}
		}
	}
	logical, per := uint64(12), uint64(f.blockSize/4)
	for depth, span := 1, per; depth <= 3; depth, span = depth+1, span*per {
		if b := le.Uint32(list[(11+depth)*4:]); b != 0 {
			if err := f.indirectBlock(uint64(b), depth, logical, span, each); err != nil {
				return err
			}
		}
		logical += span
	}
	return nil
}

// indirectBlock walks over one block of such a list, which stands for span blocks.
func (f *FS) indirectBlock(at uint64, depth int, logical, span uint64, each func(Extent) error) error {
	if err := f.extent(Extent{Physical: at, Length: 1, Tree: true}, each); err != nil {
		return err
	}
	list := make([]byte, f.blockSize)
	if err := f.Block(at, list); err != nil {
		return err
	}
	span /= uint64(f.blockSize / 4)
	for i := range uint64(f.blockSize / 4) {
		b := uint64(le.Uint32(list[i*4:]))
		if b == 0 {
			continue
		}
		var err error
		if depth == 1 {
			err = f.extent(Extent{Logical: logical + i, Physical: b, Length: 1}, each)
		} else {
			err = f.indirectBlock(b, depth-1, logical+i*span, span, each)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
