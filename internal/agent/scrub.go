// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	scrubStep = 8 << 20  // bytes that are taken at a time
	scrubLeft = 12 << 20 // bytes that stay free: nobody may run out of memory for it
)

// scrub has the kernel write zeros over free memory, where what was read and
// written lately stands until somebody else gets the page: it drops its caches
// and takes nearly all that is free for a moment.
func (a *Agent) scrub(w *answer, _ *request) error {
	syscall.Sync()
	err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
	if err != nil {
		return err
	}
	var taken [][]byte
	defer func() {
		for _, b := range taken {
			_ = syscall.Munmap(b) // fails only for what is no mapping
		}
	}()
	for free := memFree(procLines("/proc/meminfo")); free > scrubLeft+scrubStep; free = memFree(procLines("/proc/meminfo")) {
		b, err := syscall.Mmap(-1, 0, scrubStep, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_POPULATE)
		if errors.Is(err, syscall.ENOMEM) {
			break
		}
		if err != nil {
			return err
		}
		taken = append(taken, b)
	}
	return w.done(nil)
}

// memFree reads how many bytes of memory are free.
func memFree(meminfo []string) int64 {
	for _, l := range meminfo {
		if v, ok := strings.CutPrefix(l, "MemFree:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(v, "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}
