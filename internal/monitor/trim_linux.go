// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// trim gives back what only the start needed: freed heap, and the pages of the
// program's own code and constants, of which the start has touched nearly all
// and the life afterwards needs few. Those stay in the page cache and come
// back one by one.
func trim(log *slog.Logger) {
	debug.FreeOSMemory()
	exe, err := os.Readlink("/proc/self/exe")
	if err == nil {
		err = dropMappings(exe)
	}
	if err != nil {
		log.Debug("trim", "err", err)
	}
}

// dropMappings unloads the read-only mappings of a file in this process.
func dropMappings(file string) error {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) < 6 || fields[5] != file || !strings.HasPrefix(fields[1], "r-") {
			continue
		}
		var from, to uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err != nil {
			return err
		}
		// These pages are never written, so they read the same when they come back.
		if _, _, e := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); e != 0 {
			return e
		}
	}
	return sc.Err()
}
