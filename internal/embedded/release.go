// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// release unmaps the pages of this program's constants, among which are the programs that
// Unpack has read. The kernel counts a page that was read once as memory of the process
// until it is short of memory. Pages that are read again are mapped again, from the page
// cache. It leaves everything as it is where the kernel does not say what is mapped.
func release() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range constants(smaps, self) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED) // the pages stay otherwise
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// constants finds the mappings of a file that are only read, and of which no page was ever
// written: those are the same as the file, so that nothing is lost when they are unmapped.
func constants(smaps []byte, file string) (list []mapping) {
	var m mapping
	ours := false
	for in := bufio.NewScanner(bytes.NewReader(smaps)); in.Scan(); {
		line := strings.Fields(in.Text())
		if len(line) == 3 && line[0] == "Anonymous:" {
			if ours && line[1] == "0" {
				list = append(list, m)
			}
			continue
		}
		from, to, ok := strings.Cut(line[0], "-")
		if !ok {
			continue
		}
		a, err := strconv.ParseUint(from, 16, 64)
		b, wrong := strconv.ParseUint(to, 16, 64)
		m = mapping{uintptr(a), uintptr(b)}
		ours = err == nil && wrong == nil && len(line) == 6 && line[1] == "r--p" && line[5] == file
	}
	return list
}
