// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

func cpus() int { return runtime.NumCPU() }

// cpuTime sums up the seconds of processor time of the processes whose command
// line is ours.
func cpuTime(ours func([]byte) bool) (at time.Time, sum float64, err error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return at, 0, err
	}
	const hz = 100 // USER_HZ, the same on every Linux of amd64
	found := 0
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !ours(line) {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		// The name may contain anything; after its bracket come the fields from the third
		// on.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, f := range fields[11:13] { // utime, stime
			ticks, err := strconv.ParseFloat(f, 64)
			if err != nil {
				return at, 0, fmt.Errorf("%s/stat: %w", dir, err)
			}
			sum += ticks / hz
		}
		found++
	}
	if found == 0 {
		return at, 0, errors.New("none of the processes is there")
	}
	return time.Now(), sum, nil
}

// anonymous notes the memory of a VM's QEMU that belongs to no file.
func (b *bench) anonymous(id string, s *series) error {
	found, err := qemu.Find(vm.ID(id))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("VM %s has %d QEMUs", id, len(found))
	}
	if err != nil {
		return err
	}
	v, err := procField(found[0].PID, "smaps_rollup", "Anonymous")
	s.add(v)
	return err
}

// dropCaches empties the host's page cache.
func dropCaches() error {
	syscall.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3\n"), 0o200)
}

// removeFile removes a file that may be absent.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
