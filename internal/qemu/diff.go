// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
)

// A diff is a memory file without its base: the private pages of a machine at
// their offsets, and beside it a list of which they are, since in a diff a page
// of zeros is not the same as none. It is quick to write and to make durable;
// MergeRAM makes a memory file of it that a machine can start on.
//
// The list: a magic number, the memory's size, the number of ranges, offset
// and length of each, in order, all little-endian uint64, and the CRC-32C of that.

const (
	runsMagic  = 0x0a31736e75727277 // "wrruns1\n"
	runsHeader = 3 * 8
)

// createDiff makes an empty diff at path. Close it.
func createDiff(path string, size int64) (*ramFile, error) {
	r, err := newRAM(path, size)
	if err != nil {
		return nil, err
	}
	r.diff = true
	return r, nil
}

// written lists the pages that the file holds.
func (r *ramFile) written() (runs []run) {
	for i := 0; i < len(r.has); i++ {
		first := i
		for i < len(r.has) && r.has[i] {
			i++
		}
		if i > first {
			runs = append(runs, run{int64(first) * page, int64(i-first) * page})
		}
	}
	return runs
}

// writeRuns writes the list that belongs to the diff to path, which must not
// exist. Like the diff itself it is not yet durable.
func (r *ramFile) writeRuns(path string) (err error) {
	runs := r.written()
	le := binary.LittleEndian
	b := make([]byte, 0, runsHeader+16*len(runs)+4)
	b = le.AppendUint64(b, runsMagic)
	b = le.AppendUint64(b, uint64(r.size))
	b = le.AppendUint64(b, uint64(len(runs)))
	for _, x := range runs {
		b = le.AppendUint64(b, uint64(x.off))
		b = le.AppendUint64(b, uint64(x.n))
	}
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fileError(path, err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path)
	}
	return fileError(path, err)
}

// readRuns reads such a list. What is not as writeRuns left it has kind Corrupt.
func readRuns(path string) (runs []run, size int64, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, fileError(path, err)
	}
	le := binary.LittleEndian
	if len(b) < runsHeader+4 || le.Uint64(b) != runsMagic {
		return nil, 0, corrupt(path, "it is not a list of pages")
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != le.Uint32(b[len(b)-4:]) {
		return nil, 0, corrupt(path, "it is not what was written")
	}
	size = int64(le.Uint64(b[8:]))
	list := body[runsHeader:]
	if uint64(len(list)) != 16*le.Uint64(b[16:]) {
		return nil, 0, corrupt(path, "it has %d bytes of ranges, not those of %d", len(list), le.Uint64(b[16:]))
	}
	for end := int64(0); len(list) > 0; list = list[16:] {
		x := run{int64(le.Uint64(list)), int64(le.Uint64(list[8:]))}
		if x.off < end || x.n <= 0 || x.n > size-x.off || (x.off|x.n)%page != 0 {
			return nil, 0, corrupt(path, "%d bytes at %d cannot be", x.n, x.off)
		}
		end = x.off + x.n
		runs = append(runs, x)
	}
	return runs, size, nil
}

// MergeRAM makes the memory file out, which must not exist, of a base (or "",
// where the machine booted cold) and a diff over it with its list of pages. The
// result is what a whole capture would have written. None of the three is
// changed, and machines may run on the base meanwhile. The file is not yet
// durable: layout.Publish makes it so. On an error it is gone. Kinds: Corrupt,
// NotFound, Exists, NoSpace, Internal.
func MergeRAM(ctx context.Context, base, diff, runs, out string) (err error) {
	list, size, err := readRuns(runs)
	if err != nil {
		return err
	}
	src, err := os.Open(diff)
	if err != nil {
		return fileError(diff, err)
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return fileError(diff, err)
	}
	if st.Size() != size {
		return corrupt(diff, "it has %d bytes, its list of pages is of %d", st.Size(), size)
	}
	r, err := createRAM(ctx, out, base, size)
	if err != nil {
		return err
	}
	var pieces []run
	for _, x := range list {
		pieces = appendRun(pieces, x)
	}
	if err := r.copyRuns(ctx, src, pieces); err != nil {
		r.discard()
		return err
	}
	if err := r.close(); err != nil {
		os.Remove(out)
		return err
	}
	return nil
}
