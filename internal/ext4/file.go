// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ext4

import (
	"bytes"
	"cmp"
	"io"
	"slices"

	"github.com/warren-vm/warren/vm"
)

const (
	maxLink  = 4096     // bytes of a symbolic link's target
	maxAttrs = 64 << 10 // bytes of one inode's extended attributes

	attrMagic = 0xea020000
)

func unreadableInode(in *Inode, why string) error {
	return vm.Errorf(vm.Unsupported, "", "inode %d %s, which cannot be compared", in.Number, why)
}

// File is the content of a regular file. Holes and blocks that were allocated and
// not written are zeros.
type File struct {
	f    *FS
	size int64
	runs []Extent // ordered by Logical
}

// OpenFile returns the content of a regular file.
func (f *FS) OpenFile(in *Inode) (*File, error) {
	x := &File{f: f, size: in.Size}
	err := f.Extents(in, func(e Extent) error {
		if !e.Tree && !e.Unwritten {
			x.runs = append(x.runs, e)
		}
		return nil
	})
	slices.SortFunc(x.runs, func(a, b Extent) int { return cmp.Compare(a.Logical, b.Logical) })
	return x, err
}

// Size is the file's size in bytes.
func (x *File) Size() int64 { return x.size }

// Runs are the runs of blocks that have content, ordered by their place in the file.
func (x *File) Runs() []Extent { return x.runs }

// ReadAt reads the content.
func (x *File) ReadAt(p []byte, off int64) (n int, err error) {
	size := x.f.blockSize
	var block []byte // for parts of blocks
	for n < len(p) {
		at := off + int64(n)
		if at < 0 || at >= x.size {
			return n, io.EOF
		}
		part := p[n:min(int64(len(p)), int64(n)+x.size-at)]
		first, count, content := x.run(uint64(at / size))
		if whole := int64(len(part)) / size; at%size == 0 && whole > 0 {
			part = part[:min(uint64(whole), count)*uint64(size)]
			if content {
				err = x.f.run(first, part)
			} else {
				clear(part)
			}
		} else {
			part = part[:min(int64(len(part)), size-at%size)]
			if content {
				if block == nil {
					block = make([]byte, size)
				}
				err = x.f.Block(first, block)
				copy(part, block[at%size:])
			} else {
				clear(part)
			}
		}
		if err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// run returns where the disk has a block of the file, and how many follow it there; or, if
// content is false, how many blocks of a hole begin there.
func (x *File) run(logical uint64) (physical, count uint64, content bool) {
	i, found := slices.BinarySearchFunc(x.runs, logical, func(e Extent, l uint64) int { return cmp.Compare(e.Logical, l) })
	if !found {
		i--
	}
	if i >= 0 {
		if skip := logical - x.runs[i].Logical; skip < x.runs[i].Length {
			return x.runs[i].Physical + skip, x.runs[i].Length - skip, true
		}
	}
	if i+1 < len(x.runs) {
		return 0, x.runs[i+1].Logical - logical, false
	}
	return 0, 1 << 40, false // to the end
}

// Target is what a symbolic link names.
func (f *FS) Target(in *Inode) (string, error) {
	if in.Size > maxLink {
		return "", damaged("the link of inode %d has %d bytes", in.Number, in.Size)
	}
	if in.Size < 60 && in.Flags&flagExtents == 0 {
		return string(in.raw[0x28 : 0x28+in.Size]), nil
	}
	x, err := f.OpenFile(in)
	if err != nil {
		return "", err
	}
	out := make([]byte, in.Size)
	_, err = x.ReadAt(out, 0)
	return string(out), err
}

// Entry is one name of a directory.
type Entry struct {
	Name  string // any bytes; the guest chose them
	Inode uint32
}

// ReadDir calls each for every name of a directory but "." and "..", in the order of
// the blocks. It ignores the directory's index, which the guest may have forged.
func (f *FS) ReadDir(in *Inode, each func(Entry) error) error {
	if in.Type != Directory {
		return damaged("inode %d is no directory", in.Number)
	}
	x, err := f.OpenFile(in)
	if err != nil {
		return err
	}
	block := make([]byte, f.blockSize)
	for _, run := range x.runs {
		for i := range run.Length {
			if int64(run.Logical+i) >= (x.size+f.blockSize-1)/f.blockSize {
				break
			}
			if err := f.Block(run.Physical+i, block); err != nil {
				return err
			}
			if err := f.entries(in, block, each); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries reads one block of a directory.
func (f *FS) entries(in *Inode, block []byte, each func(Entry) error) error {
	for off := 0; off+8 <= len(block); {
		e := block[off:]
		size, name := int(le.Uint16(e[4:])), int(e[6])
		if size == 65535 || size == 0 { // of blocks of 64 KiB
			size = len(e)
		}
		if size < 8 || size%4 != 0 || size > len(e) || 8+name > size {
			return damaged("a name of directory %d has %d of %d bytes", in.Number, name, size)
		}
		n := le.Uint32(e)
		off += size
		if text := string(e[8 : 8+name]); n != 0 && name > 0 && text != "." && text != ".." {
			if n > f.inodes {
				return damaged("directory %d names inode %d of %d", in.Number, n, f.inodes)
			}
			if err := each(Entry{text, n}); err != nil {
				return err
			}
		}
	}
	return nil
}

// attrPrefixes are the beginnings of names of extended attributes, by index.
var attrPrefixes = map[byte]string{1: "user.", 2: "system.posix_acl_access", 3: "system.posix_acl_default", 4: "trusted.", 6: "security.", 7: "system.", 8: "system.richacl"}

// Attrs returns the extended attributes of an inode, by name.
func (f *FS) Attrs(in *Inode) (map[string]string, error) {
	out := map[string]string{}
	if len(in.raw) > 128+4 {
		if at := 128 + int(le.Uint16(in.raw[0x80:])); at >= 128+4 && at+4 <= len(in.raw) && le.Uint32(in.raw[at:]) == attrMagic {
			if err := attrs(in.raw[at+4:], 0, out); err != nil {
				return nil, err
			}
		}
	}
	if in.attrs == 0 {
		return out, nil
	}
	block := make([]byte, f.blockSize)
	if err := f.Block(in.attrs, block); err != nil {
		return nil, err
	}
	if le.Uint32(block) != attrMagic {
		return nil, damaged("the attributes of inode %d are no attributes", in.Number)
	}
	return out, attrs(block, 32, out)
}

// AttrBlock is the block with the inode's attributes; 0 = none.
func (in *Inode) AttrBlock() uint64 { return in.attrs }

// attrs reads a list of attributes. Offsets of values count from the list's start.
func attrs(list []byte, off int, out map[string]string) error {
	for off+4 <= len(list) && le.Uint32(list[off:]) != 0 {
		if off+16 > len(list) {
			return damaged("a list of attributes has no end")
		}
		e := list[off:]
		name, at, size := int(e[0]), int(le.Uint16(e[2:])), int(le.Uint32(e[8:]))
		prefix, known := attrPrefixes[e[1]]
		switch {
		case le.Uint32(e[4:]) != 0:
			return vm.Errorf(vm.Unsupported, "", "an attribute lies in an inode of its own, which cannot be compared")
		case 16+name > len(e) || size > maxAttrs || at > len(list) || size > len(list)-at:
			return damaged("an attribute has %d bytes at %d", size, at)
		case !known:
			prefix = "unknown."
		}
		out[prefix+string(e[16:16+name])] = string(bytes.Clone(list[at : at+size]))
		off += 16 + (name+3)&^3
	}
	return nil
}
