// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ext4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"strings"

	"github.com/warren-vm/warren/vm"
)

var le = binary.LittleEndian

const (
	superAt    = 1024
	superBytes = 1024
	superMagic = 0xef53

	maxGroups = 1 << 20 // 128 TiB of 4 KiB blocks
	maxInodes = 1 << 30

	// Features without which a file system cannot be read.
	featureFileType = 0x2
	featureRecover  = 0x4 // the journal must be replayed
	featureMetaBG   = 0x10
	featureExtents  = 0x40
	feature64Bit    = 0x80
	featureFlexBG   = 0x200
	featureCsumSeed = 0x2000
	featureLargeDir = 0x4000
	readable        = featureFileType | featureRecover | featureMetaBG | featureExtents | feature64Bit | featureFlexBG | featureCsumSeed | featureLargeDir

	featureBigAlloc = 0x200 // of those that only writers must know
)

// unreadable names the features that are refused.
var unreadable = []struct {
	bit  uint32
	name string
}{
	{0x1, "compression"},
	{0x8, "journal_dev"},
	{0x100, "mmp"},
	{0x400, "ea_inode"},
	{0x1000, "dirdata"},
	{0x8000, "inline_data"},
	{0x10000, "encrypt"},
	{0x20000, "casefold"},
}

// FS is an open file system. Its methods are for one goroutine.
type FS struct {
	r         io.ReaderAt
	journal   map[uint64]logged // blocks whose newest content is in the journal
	blockSize int64
	blocks    uint64
	inodes    uint32
	perGroup  uint32 // inodes
	inodeSize int64
	tables    []uint64 // the first block of each group's inodes
	claims    uint64   // blocks that inodes may still claim; see claim
	kept      [keptBlocks]kept
	super     super
}

// super holds the fields of the superblock that decide where things are.
type super struct {
	incompat, roCompat uint32
	firstData          uint32
	blocksPerGroup     uint32
	descSize           int64
	reservedGDT        uint32
	firstMetaBG        uint32
	journalInode       uint32
}

// Open reads the superblock and the group descriptors, and replays the journal in
// memory. size is that of the disk. Kinds: Corrupt for what contradicts itself,
// Unsupported for what this reader does not know, Internal when r fails.
func Open(r io.ReaderAt, size int64) (*FS, error) {
	raw := make([]byte, superBytes)
	if _, err := r.ReadAt(raw, superAt); err != nil && !errors.Is(err, io.EOF) {
		return nil, unread(err)
	}
	if le.Uint16(raw[0x38:]) != superMagic {
		return nil, vm.Errorf(vm.Unsupported, "", "the disk holds no ext4 file system").
			WithHint("only a disk whose first bytes are an ext4 file system can be compared")
	}
	f := &FS{r: r}
	if err := f.readSuper(raw, size); err != nil {
		return nil, err
	}
	if err := f.locate(); err != nil {
		return nil, err
	}
	if f.super.incompat&featureRecover == 0 {
		return f, nil
	}
	if err := f.replay(); err != nil {
		return nil, err
	}
	f.kept = [keptBlocks]kept{} // read before the journal was known
	// The journal may hold a newer superblock and newer descriptors.
	if _, err := f.readAt(raw, superAt); err != nil {
		return nil, err
	}
	if err := f.readSuper(raw, size); err != nil {
		return nil, err
	}
	return f, f.locate()
}

// readSuper takes the superblock.
func (f *FS) readSuper(raw []byte, size int64) error {
	s := super{
		incompat: le.Uint32(raw[0x60:]), roCompat: le.Uint32(raw[0x64:]),
		firstData: le.Uint32(raw[0x14:]), blocksPerGroup: le.Uint32(raw[0x20:]),
		reservedGDT: uint32(le.Uint16(raw[0xce:])), firstMetaBG: le.Uint32(raw[0x104:]),
		journalInode: le.Uint32(raw[0xe0:]), descSize: 32,
	}
	if bits := s.incompat &^ readable; bits != 0 {
		return vm.Errorf(vm.Unsupported, "", "the file system has %s, which cannot be compared", featureNames(bits))
	}
	if s.roCompat&featureBigAlloc != 0 {
		return vm.Errorf(vm.Unsupported, "", "the file system has bigalloc, which cannot be compared")
	}
	f.blocks = uint64(le.Uint32(raw[0x4:]))
	if s.incompat&feature64Bit != 0 {
		f.blocks |= uint64(le.Uint32(raw[0x150:])) << 32
		s.descSize = int64(le.Uint16(raw[0xfe:]))
	}
	shift := le.Uint32(raw[0x18:])
	f.inodes, f.perGroup, f.inodeSize = le.Uint32(raw[0x0:]), le.Uint32(raw[0x28:]), int64(le.Uint16(raw[0x58:]))
	if le.Uint32(raw[0x4c:]) == 0 { // revision 0
		f.inodeSize = 128
	}
	if shift > 6 {
		return damaged("its blocks are of 2^%d KiB", shift)
	}
	f.blockSize, f.super = 1024<<shift, s
	groups := uint64(0)
	if s.blocksPerGroup > 0 && f.blocks > uint64(s.firstData) {
		groups = (f.blocks - uint64(s.firstData) + uint64(s.blocksPerGroup) - 1) / uint64(s.blocksPerGroup)
	}
	switch {
	case f.blocks > uint64(size)/uint64(f.blockSize):
		return damaged("it has %d blocks of %d bytes on a disk of %d bytes", f.blocks, f.blockSize, size)
	case groups == 0 || groups > maxGroups || int64(s.blocksPerGroup) > 8*f.blockSize:
		return damaged("it has %d groups of %d blocks", groups, s.blocksPerGroup)
	case f.perGroup == 0 || int64(f.perGroup) > 8*f.blockSize || uint64(f.inodes) != groups*uint64(f.perGroup) || f.inodes > maxInodes:
		return damaged("it has %d inodes, %d in each of %d groups", f.inodes, f.perGroup, groups)
	case f.inodeSize < 128 || f.inodeSize > f.blockSize || f.inodeSize&(f.inodeSize-1) != 0:
		return damaged("its inodes have %d bytes", f.inodeSize)
	case s.descSize < 32 || s.descSize > f.blockSize || s.descSize&(s.descSize-1) != 0 || s.incompat&feature64Bit != 0 && s.descSize < 64:
		return damaged("its group descriptors have %d bytes", s.descSize)
	}
	f.tables = make([]uint64, groups)
	f.claims = f.blocks
	return nil
}

// locate reads where each group's inodes are.
func (f *FS) locate() error {
	perBlock := uint64(f.blockSize / f.super.descSize)
	raw := make([]byte, f.blockSize)
	tableBlocks := uint64(int64(f.perGroup)*f.inodeSize+f.blockSize-1) / uint64(f.blockSize)
	for g := range f.tables {
		if i := uint64(g) % perBlock; i == 0 {
			if err := f.Block(f.descriptorBlock(uint64(g)/perBlock), raw); err != nil {
				return err
			}
		}
		d := raw[int64(uint64(g)%perBlock)*f.super.descSize:]
		at := uint64(le.Uint32(d[0x8:]))
		if f.super.descSize >= 64 {
			at |= uint64(le.Uint32(d[0x28:])) << 32
		}
		if at == 0 || at >= f.blocks || f.blocks-at < tableBlocks {
			return damaged("the inodes of group %d are at block %d", g, at)
		}
		f.tables[g] = at
	}
	return nil
}

// descriptorBlock is where a block of group descriptors lies.
func (f *FS) descriptorBlock(i uint64) uint64 {
	if f.super.incompat&featureMetaBG == 0 || i < uint64(f.super.firstMetaBG) {
		return uint64(f.super.firstData) + 1 + i
	}
	group := i * uint64(f.blockSize/f.super.descSize)
	at := uint64(f.super.firstData) + group*uint64(f.super.blocksPerGroup)
	if f.hasSuper(group) {
		at++
	}
	return at
}

// hasSuper reports whether a group begins with a copy of the superblock.
func (f *FS) hasSuper(group uint64) bool {
	const sparseSuper = 0x1
	if group <= 1 || f.super.roCompat&sparseSuper == 0 {
		return true
	}
	for _, base := range []uint64{3, 5, 7} {
		n := base
		for n < group {
			n *= base
		}
		if n == group {
			return true
		}
	}
	return false
}

// BlockSize is the size of a block in bytes.
func (f *FS) BlockSize() int64 { return f.blockSize }

// Blocks is the number of blocks.
func (f *FS) Blocks() uint64 { return f.blocks }

// Inodes is the number of inodes, used or not. Their numbers begin at 1.
func (f *FS) Inodes() uint32 { return f.inodes }

// Block reads one block, as it is after the journal was replayed.
func (f *FS) Block(n uint64, p []byte) error {
	if n >= f.blocks {
		return damaged("it names block %d of %d", n, f.blocks)
	}
	at, escaped := int64(n)*f.blockSize, false
	if l, ok := f.journal[n]; ok {
		at, escaped = int64(l.block)*f.blockSize, l.escaped
	}
	if _, err := f.r.ReadAt(p[:f.blockSize], at); err != nil {
		return unread(err)
	}
	if escaped {
		binary.BigEndian.PutUint32(p, journalMagic)
	}
	return nil
}

// run reads whole blocks from block n on, as many as p has room for, as Block does. Blocks
// that the journal does not have are read at once.
func (f *FS) run(n uint64, p []byte) error {
	for len(p) > 0 {
		count := uint64(0)
		for most := uint64(int64(len(p)) / f.blockSize); count < most; count++ {
			if _, logged := f.journal[n+count]; logged {
				break
			}
		}
		if count == 0 {
			if err := f.Block(n, p); err != nil {
				return err
			}
			n, p = n+1, p[f.blockSize:]
			continue
		}
		if n >= f.blocks || count > f.blocks-n {
			return damaged("it names block %d of %d", max(n, f.blocks), f.blocks)
		}
		size := int64(count) * f.blockSize
		if _, err := f.r.ReadAt(p[:size], int64(n)*f.blockSize); err != nil {
			return unread(err)
		}
		n, p = n+count, p[size:]
	}
	return nil
}

// readAt reads bytes of the file system as they are after the journal was replayed.
func (f *FS) readAt(p []byte, off int64) (int, error) {
	block := make([]byte, f.blockSize)
	for done := 0; done < len(p); {
		at := off + int64(done)
		if err := f.Block(uint64(at/f.blockSize), block); err != nil {
			return done, err
		}
		done += copy(p[done:], block[at%f.blockSize:])
	}
	return len(p), nil
}

// Logged are the blocks whose newest content is in the journal.
func (f *FS) Logged() iter.Seq[uint64] { return maps.Keys(f.journal) }

// Metadata calls each for the runs of blocks that belong to the file system itself:
// superblocks, descriptors, bitmaps, tables of inodes and the journal.
func (f *FS) Metadata(each func(first, n uint64)) error {
	perBlock := uint64(f.blockSize / f.super.descSize)
	tableBlocks := uint64(int64(f.perGroup)*f.inodeSize+f.blockSize-1) / uint64(f.blockSize)
	raw := make([]byte, f.blockSize)
	for g := range uint64(len(f.tables)) {
		at := f.descriptorBlock(g / perBlock)
		if g%perBlock == 0 {
			if err := f.Block(at, raw); err != nil {
				return err
			}
			each(at, 1)
		}
		d := raw[int64(g%perBlock)*f.super.descSize:]
		for _, off := range []int{0x0, 0x4} { // the bitmaps of blocks and of inodes
			b := uint64(le.Uint32(d[off:]))
			if f.super.descSize >= 64 {
				b |= uint64(le.Uint32(d[off+0x20:])) << 32
			}
			if b < f.blocks {
				each(b, 1)
			}
		}
		each(f.tables[g], tableBlocks)
		if f.hasSuper(g) {
			first := uint64(f.super.firstData) + g*uint64(f.super.blocksPerGroup)
			n := 1 + (uint64(len(f.tables))+perBlock-1)/perBlock + uint64(f.super.reservedGDT)
			each(first, min(n, f.blocks-first))
		}
	}
	each(0, uint64(f.super.firstData)+1)
	if f.super.journalInode == 0 {
		return nil
	}
	f.Renew()
	in, err := f.Inode(f.super.journalInode)
	if err != nil {
		return err
	}
	return f.Extents(in, func(e Extent) error {
		each(e.Physical, e.Length)
		return nil
	})
}

// claim takes blocks out of the budget: all inodes together cannot have more blocks
// than there are, so that a tree of lies ends early.
func (f *FS) claim(n uint64) error {
	if n > f.claims {
		return damaged("its files claim more blocks than it has")
	}
	f.claims -= n
	return nil
}

// Renew gives the budget of claimed blocks again, for another walk over all inodes.
func (f *FS) Renew() { f.claims = f.blocks }

// unread is the error of a disk that cannot be read. An error of its layers has a kind
// already.
func unread(err error) error {
	if e := (*vm.Error)(nil); errors.As(err, &e) {
		return e
	}
	return vm.Errorf(vm.Internal, "", "the disk cannot be read: %w", err)
}

func damaged(format string, args ...any) error {
	return vm.Errorf(vm.Corrupt, "", "the file system is damaged: %s", fmt.Sprintf(format, args...))
}

func featureNames(bits uint32) string {
	var names []string
	for _, u := range unreadable {
		if bits&u.bit != 0 {
			names = append(names, u.name)
			bits &^= u.bit
		}
	}
	if bits != 0 {
		names = append(names, fmt.Sprintf("unknown features %#x", bits))
	}
	return strings.Join(names, ", ")
}
