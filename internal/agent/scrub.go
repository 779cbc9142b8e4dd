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
	scrubStep  = 1 << 20 // bytes taken at a time
	scrubLeft  = 8 << 20 // bytes that stay free, so that no program runs out of memory
	scrubPipes = 48      // steps taken as pipe buffers

	setPipeSize = 1031 // F_SETPIPE_SZ
)

// scrub makes the kernel overwrite free memory, which still holds data read and written before:
// it drops the kernel's caches and briefly allocates nearly all free memory. The kernel's own
// memory and that of programs come from different heaps, so it allocates both kinds.
func (a *Agent) scrub(w *answer, _ *request) error {
	syscall.Sync()
	err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
	if err != nil {
		return err
	}
	var t taken
	defer t.giveBack()
	for range scrubPipes {
		if enough() || t.pipe() != nil { // a user may have few pipes
			break
		}
	}
	for !enough() {
		if err := t.pages(); errors.Is(err, syscall.ENOMEM) {
			break
		} else if err != nil {
			return err
		}
	}
	t.giveBack()
	return w.done(nil)
}

func enough() bool { return memFree(procLines("/proc/meminfo")) < scrubLeft+scrubStep }

// taken is the allocated memory.
type taken struct {
	maps [][]byte
	fds  []int
}

// pages allocates memory of a program.
func (t *taken) pages() error {
	b, err := syscall.Mmap(-1, 0, scrubStep, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_POPULATE)
	if err == nil {
		t.maps = append(t.maps, b)
	}
	return err
}

var blank [64 << 10]byte

// pipe allocates memory of the kernel.
func (t *taken) pipe() error {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return err
	}
	t.fds = append(t.fds, p[0], p[1])
	if _, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(p[1]), setPipeSize, scrubStep); e != 0 {
		return e
	}
	for {
		if _, err := syscall.Write(p[1], blank[:]); errors.Is(err, syscall.EAGAIN) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (t *taken) giveBack() {
	for _, b := range t.maps {
		_ = syscall.Munmap(b) // fails only for an invalid mapping
	}
	for _, fd := range t.fds {
		_ = syscall.Close(fd)
	}
	*t = taken{}
}

// memFree returns the free memory in bytes.
func memFree(meminfo []string) int64 {
	for _, l := range meminfo {
		if v, ok := strings.CutPrefix(l, "MemFree:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(v, "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}
