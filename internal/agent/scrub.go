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
	scrubStep  = 1 << 20 // bytes that are taken at a time
	scrubLeft  = 8 << 20 // bytes that stay free: nobody may run out of memory for it
	scrubPipes = 48      // how many steps are taken as buffers of pipes

	setPipeSize = 1031 // F_SETPIPE_SZ
)

// scrub has the kernel write zeros over free memory, where what was read and
// written lately stands until somebody else gets the page: it drops its caches
// and takes nearly all that is free for a moment. Memory of the kernel's own
// and that of programs come from different heaps, so both kinds are taken.
func (a *Agent) scrub(w *answer, _ *request) error {
	syscall.Sync()
	err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
	if err != nil {
		return err
	}
	var t taken
	defer t.giveBack()
	for range scrubPipes {
		if enough() || t.pipe() != nil { // few are allowed to some
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

// taken is memory that nobody else has.
type taken struct {
	maps [][]byte
	fds  []int
}

// pages takes memory as programs have it.
func (t *taken) pages() error {
	b, err := syscall.Mmap(-1, 0, scrubStep, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_POPULATE)
	if err == nil {
		t.maps = append(t.maps, b)
	}
	return err
}

var blank [64 << 10]byte

// pipe takes memory as the kernel has it.
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
		_ = syscall.Munmap(b) // fails only for what is no mapping
	}
	for _, fd := range t.fds {
		_ = syscall.Close(fd)
	}
	*t = taken{}
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
