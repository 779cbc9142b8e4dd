// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ext4

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/warren-vm/warren/vm"
)

// The journal (JBD2) is described in the kernel's
// Documentation/filesystems/ext4/journal.rst. Its numbers are big-endian.
var be = binary.BigEndian

const (
	journalMagic = 0xc03b3998

	journalDescriptor = 1
	journalCommit     = 2
	journalSuper1     = 3
	journalSuper2     = 4
	journalRevoke     = 5

	journalHasRevoke = 0x1
	journal64Bit     = 0x2
	journalAsync     = 0x4
	journalCsum2     = 0x8
	journalCsum3     = 0x10

	tagEscaped  = 1
	tagSameUUID = 2
	tagLast     = 8

	maxJournal = 1 << 20 // blocks
)

// logged is where the journal has a block.
type logged struct {
	block   uint64 // of the disk
	escaped bool   // its first four bytes are the journal's magic number
}

// journalReader walks over the journal.
type journalReader struct {
	f        *FS
	at       []uint64 // the journal's blocks on the disk
	first    uint64   // of those that are used in turn
	incompat uint32
	seed     uint32
	block    []byte
	revoked  map[uint64]uint32 // blocks, and the last transaction that revoked them
	writes   []write
}

// write is one block of a committed transaction.
type write struct {
	target uint64
	seq    uint32
	logged
}

// replay finds the newest content of every block that only the journal has.
func (f *FS) replay() error {
	j := &journalReader{f: f, block: make([]byte, f.blockSize), revoked: map[uint64]uint32{}}
	start, seq, err := j.open()
	if err != nil || start == 0 {
		return err
	}
	if err := j.scan(start, seq); err != nil {
		return err
	}
	blocks := map[uint64]logged{}
	for _, w := range j.writes {
		if seq, ok := j.revoked[w.target]; ok && int32(seq-w.seq) >= 0 {
			continue
		}
		blocks[w.target] = w.logged
	}
	f.journal = blocks
	return nil
}

// open reads the journal's inode and superblock. start 0 = there is nothing to replay.
func (j *journalReader) open() (start uint64, seq uint32, err error) {
	in, err := j.f.Inode(j.f.super.journalInode)
	if err != nil {
		return 0, 0, err
	}
	err = j.f.Extents(in, func(e Extent) error {
		if e.Logical != uint64(len(j.at)) || e.Unwritten || uint64(len(j.at))+e.Length > maxJournal {
			return damaged("its journal has holes or more than %d blocks", maxJournal)
		}
		for i := range e.Length {
			j.at = append(j.at, e.Physical+i)
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	j.f.Renew()
	if len(j.at) == 0 {
		return 0, 0, damaged("its journal is empty")
	}
	b := j.block
	if err := j.f.Block(j.at[0], b); err != nil {
		return 0, 0, err
	}
	if kind := be.Uint32(b[4:]); be.Uint32(b) != journalMagic || kind != journalSuper1 && kind != journalSuper2 {
		return 0, 0, damaged("its journal has no superblock")
	}
	if kind := be.Uint32(b[4:]); kind == journalSuper2 {
		j.incompat = be.Uint32(b[0x28:])
	}
	if bits := j.incompat &^ (journalHasRevoke | journal64Bit | journalAsync | journalCsum2 | journalCsum3); bits != 0 {
		return 0, 0, vm.Errorf(vm.Unsupported, "", "the journal has features %#x, which cannot be replayed", bits)
	}
	length := uint64(be.Uint32(b[0x10:]))
	j.first, seq, start = uint64(be.Uint32(b[0x14:])), be.Uint32(b[0x18:]), uint64(be.Uint32(b[0x1c:]))
	if int64(be.Uint32(b[0xc:])) != j.f.blockSize || length > uint64(len(j.at)) || j.first == 0 || j.first >= length || start >= length || start > 0 && start < j.first {
		return 0, 0, damaged("its journal has %d blocks from %d, and starts at %d", length, j.first, start)
	}
	j.at = j.at[:length]
	j.seed = crc32c(^uint32(0), b[0x30:0x40])
	return start, seq, nil
}

// next is the block after one, in turn.
func (j *journalReader) next(at uint64) uint64 {
	if at++; at < uint64(len(j.at)) {
		return at
	}
	return j.first
}

// scan reads transactions until one is not complete.
func (j *journalReader) scan(at uint64, seq uint32) error {
	var pending []write
	var revoked []uint64
	for range j.at { // a journal cannot hold more than its blocks
		if err := j.f.Block(j.at[at], j.block); err != nil {
			return err
		}
		if be.Uint32(j.block) != journalMagic || be.Uint32(j.block[8:]) != seq {
			return nil
		}
		switch be.Uint32(j.block[4:]) {
		case journalDescriptor:
			if !j.tailFits() {
				return nil
			}
			var err error
			if pending, at, err = j.tags(pending, at, seq); err != nil {
				return err
			}
		case journalRevoke:
			if !j.tailFits() {
				return nil
			}
			var err error
			if revoked, err = j.revokes(revoked); err != nil {
				return err
			}
		case journalCommit:
			if !j.commitFits() {
				return nil
			}
			j.writes = append(j.writes, pending...)
			for _, b := range revoked {
				j.revoked[b] = seq
			}
			pending, revoked = nil, nil
			seq++
		default:
			return nil
		}
		at = j.next(at)
	}
	return nil
}

// tags reads a descriptor block, which lists the blocks after it, and returns the
// place of the last of these.
func (j *journalReader) tags(pending []write, at uint64, seq uint32) ([]write, uint64, error) {
	head := make([]byte, len(j.block))
	copy(head, j.block)
	size, end := j.tagSize(), len(head)
	if j.incompat&(journalCsum2|journalCsum3) != 0 {
		end -= 4
	}
	for off := 12; off+size <= end; {
		tag := head[off:]
		flags, high := uint32(be.Uint16(tag[6:])), uint64(0)
		if j.incompat&journalCsum3 != 0 {
			flags = be.Uint32(tag[4:])
		}
		if j.incompat&journal64Bit != 0 {
			high = uint64(be.Uint32(tag[8:])) << 32
		}
		target := uint64(be.Uint32(tag)) | high
		if target >= j.f.blocks || len(pending) > len(j.at) {
			return nil, 0, damaged("its journal writes block %d of %d", target, j.f.blocks)
		}
		at = j.next(at)
		if err := j.dataFits(at, seq, tag); err != nil {
			return nil, 0, err
		}
		pending = append(pending, write{target, seq, logged{j.at[at], flags&tagEscaped != 0}})
		off += size
		if flags&tagSameUUID == 0 {
			off += 16
		}
		if flags&tagLast != 0 {
			break
		}
	}
	return pending, at, nil
}

// tagSize is the size of one entry of a descriptor block (journal_tag_bytes).
func (j *journalReader) tagSize() int {
	if j.incompat&journalCsum3 != 0 {
		return 16
	}
	size := 8
	if j.incompat&journalCsum2 != 0 {
		size += 2
	}
	if j.incompat&journal64Bit != 0 {
		size += 4
	}
	return size
}

// dataFits checks a logged block's checksum. The kernel refuses such a journal, too.
func (j *journalReader) dataFits(at uint64, seq uint32, tag []byte) error {
	if j.incompat&(journalCsum2|journalCsum3) == 0 {
		return nil
	}
	data := make([]byte, j.f.blockSize)
	if err := j.f.Block(j.at[at], data); err != nil {
		return err
	}
	sum := crc32c(crc32c(j.seed, be.AppendUint32(nil, seq)), data)
	if j.incompat&journalCsum3 != 0 && sum != be.Uint32(tag[12:]) || j.incompat&journalCsum3 == 0 && uint16(sum) != be.Uint16(tag[4:]) {
		return damaged("a block in its journal does not fit its checksum")
	}
	return nil
}

// tailFits checks the checksum at the end of a descriptor or revoke block. A block
// that was not written whole belongs to a transaction that was never committed.
func (j *journalReader) tailFits() bool {
	if j.incompat&(journalCsum2|journalCsum3) == 0 {
		return true
	}
	return j.fits(len(j.block) - 4)
}

func (j *journalReader) commitFits() bool {
	if j.incompat&(journalCsum2|journalCsum3) == 0 {
		return true
	}
	return j.fits(0x10)
}

// fits compares the block's checksum with the one that it has at an offset.
func (j *journalReader) fits(at int) bool {
	b := make([]byte, len(j.block))
	copy(b, j.block)
	want := be.Uint32(b[at:])
	clear(b[at : at+4])
	return crc32c(j.seed, b) == want
}

// revokes reads a revoke block: earlier writes of these blocks are not replayed.
func (j *journalReader) revokes(list []uint64) ([]uint64, error) {
	n, size := int(be.Uint32(j.block[12:])), 4
	if j.incompat&journal64Bit != 0 {
		size = 8
	}
	if n < 16 || n > len(j.block) {
		return nil, damaged("a list in its journal has %d bytes", n)
	}
	for off := 16; off+size <= n; off += size {
		b := uint64(be.Uint32(j.block[off:]))
		if size == 8 {
			b = be.Uint64(j.block[off:])
		}
		list = append(list, b)
	}
	return list, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crc32c is the kernel's: the start value is given, and the result is not inverted.
func crc32c(start uint32, p []byte) uint32 { return ^crc32.Update(^start, castagnoli, p) }
