// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	trimFirst = 3 * time.Second // after the start has touched its last pages
	trimEvery = time.Minute     // for pages that came back by use since then
)

// keepTrim trims this process at intervals until the returned function is called,
// which waits for the last trim. A trim takes a millisecond.
func keepTrim(ctx context.Context, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		timer := time.NewTimer(trimFirst)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
				trim(log)
				timer.Reset(trimEvery)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// trim releases memory that only the start needed: freed heap, and the pages of the
// program's code and constants. The start touches nearly all of these; a running
// monitor needs few. They stay in the page cache and are mapped again one by one.
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
		// These pages are never written, so they read the same when they are mapped
		// again. The kernel maps no neighbours at a random access.
		for _, advice := range []uintptr{unix.MADV_RANDOM, unix.MADV_DONTNEED} {
			if _, _, e := unix.Syscall(unix.SYS_MADVISE, from, to-from, advice); e != 0 {
				return e
			}
		}
	}
	return sc.Err()
}
