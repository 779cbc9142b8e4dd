// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's flags of a page, as in <linux/fs.h>.
const (
	pageIsFile    = 1 << 2 // a page of the file, not of the process
	pageIsPresent = 1 << 3
	pageIsSwapped = 1 << 4
)

// pagemapScan is the ioctl PAGEMAP_SCAN of Linux 6.7: _IOWR('f', 16, scanArg).
const pagemapScan = 3<<30 | unsafe.Sizeof(scanArg{})<<16 | 'f'<<8 | 16

// scanArg is struct pm_scan_arg.
type scanArg struct {
	size, flags         uint64
	start, end, walkEnd uint64
	vec, vecLen         uint64
	maxPages            uint64
	inverted            uint64
	mask, anyOf, ret    uint64
}

// pageRegion is struct page_region.
type pageRegion struct{ start, end, categories uint64 }

// private lists the pages that the process has written: not of the file, and
// present or swapped out. A page that became the shared zero page counts, because
// the file may hold something else there.
func (m *memory) private() ([]run, error) {
	if m.scan {
		return m.scanPrivate()
	}
	return m.readPrivate()
}

// canScan reports whether the kernel has PAGEMAP_SCAN.
func (m *memory) canScan() bool {
	_, err := m.scanFrom(0, make([]pageRegion, 1))
	return err == nil
}

// scanPrivate asks the kernel for the private pages. Its time grows with the pages
// that the process has touched, not with its size.
func (m *memory) scanPrivate() ([]run, error) {
	var runs []run
	found := make([]pageRegion, 4096)
	for off, n := int64(0), len(found); n == len(found) && off < m.size; {
		var err error
		if n, err = m.scanFrom(off, found); err != nil {
			return nil, err
		}
		// A scan that filled the list continues behind its last region. The
		// kernel's own report of where it stopped is unreliable: Linux 6.18 gives
		// an earlier place when it found more than 512 regions.
		for _, x := range found[:n] {
			runs = appendRun(runs, run{int64(x.start) - m.start, int64(x.end - x.start)})
			off = int64(x.end) - m.start
		}
	}
	return runs, m.alive() // for a dead process the kernel finds nothing and returns no error
}

// scanFrom fills found with the regions of private pages from an offset on and
// returns their number.
func (m *memory) scanFrom(off int64, found []pageRegion) (int, error) {
	var pin runtime.Pinner // the kernel gets the address as a number
	defer pin.Unpin()
	pin.Pin(&found[0])
	arg := scanArg{
		start: uint64(m.start + off), end: uint64(m.start + m.size),
		vec: uint64(uintptr(unsafe.Pointer(&found[0]))), vecLen: uint64(len(found)),
		inverted: pageIsFile, mask: pageIsFile, anyOf: pageIsPresent | pageIsSwapped,
	}
	arg.size = uint64(unsafe.Sizeof(arg))
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, m.pages.Fd(), pagemapScan, uintptr(unsafe.Pointer(&arg)))
	if errno != 0 {
		return 0, fmt.Errorf("pagemap of process %d: %w", m.pid, errno)
	}
	return int(n), nil
}

// readPrivate does the same without the ioctl, by reading 8 bytes a page.
func (m *memory) readPrivate() ([]run, error) {
	const perRead = 64 << 10
	raw := make([]byte, 8*perRead)
	var runs []run
	for first := int64(0); first < m.size/page; first += perRead {
		n := min(perRead, m.size/page-first)
		if _, err := m.pages.ReadAt(raw[:8*n], (m.start/page+first)*8); err != nil {
			return nil, fmt.Errorf("pagemap of process %d: %w", m.pid, err)
		}
		for i := range n {
			// Bit 63: present, 62: swapped, 61: of the file.
			if v := binary.LittleEndian.Uint64(raw[8*i:]); v>>62 != 0 && v>>61&1 == 0 {
				runs = appendRun(runs, run{(first + i) * page, page})
			}
		}
	}
	return runs, nil
}
