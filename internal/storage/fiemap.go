// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/binary"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FS_IOC_FIEMAP and its structures, of linux/fiemap.h: a header of 32 bytes,
// then extents of 56.
const (
	fiemapIoctl  = 0xc020660b
	fiemapHeader = 32
	fiemapExtent = 56
	fiemapBatch  = 512 // extents read at a time

	extentLast     = 0x1
	extentUnplaced = 0x2 | 0x4 | 0x200 | 0x400 // unknown, delayed, inline, packed with others: no place of its own
	extentShared   = 0x2000
)

// sharedRanges asks the file system which blocks of a file other files may share. A
// file system that does not tell shares none.
func sharedRanges(path string) (shared []Range) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	buf := make([]byte, fiemapHeader+fiemapBatch*fiemapExtent)
	for from, more := uint64(0), true; more; {
		clear(buf[:fiemapHeader])
		binary.NativeEndian.PutUint64(buf[0:], from)
		binary.NativeEndian.PutUint64(buf[8:], math.MaxUint64-from)
		binary.NativeEndian.PutUint32(buf[24:], fiemapBatch)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fiemapIoctl, uintptr(unsafe.Pointer(&buf[0]))); errno != 0 {
			return nil
		}
		var found []Range
		found, from, more = parseExtents(buf)
		shared = append(shared, found...)
	}
	return shared
}

// parseExtents reads one answer: its shared ranges, where the next request begins,
// and whether there is one.
func parseExtents(buf []byte) (shared []Range, next uint64, more bool) {
	n := min(binary.NativeEndian.Uint32(buf[20:]), fiemapBatch)
	for i := range int(n) {
		e := buf[fiemapHeader+i*fiemapExtent:]
		logical, physical := binary.NativeEndian.Uint64(e), binary.NativeEndian.Uint64(e[8:])
		length, flags := binary.NativeEndian.Uint64(e[16:]), binary.NativeEndian.Uint32(e[40:])
		if flags&extentShared != 0 && flags&extentUnplaced == 0 {
			shared = append(shared, Range{int64(physical), int64(physical + length)})
		}
		if flags&extentLast != 0 || length == 0 {
			return shared, 0, false
		}
		next = logical + length
	}
	return shared, next, n > 0
}
