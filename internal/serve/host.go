// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// host implements engine.Host on this machine.
type host struct {
	dir   layout.Dir
	probe func(context.Context) (engine.Platform, error)

	mu       sync.Mutex // guards the field below; held during the probe
	platform *engine.Platform
}

var _ engine.Host = (*host)(nil)

// Platform probes the host once. After a failure the next call tries again.
func (h *host) Platform(ctx context.Context) (engine.Platform, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.platform == nil {
		p, err := h.probe(ctx)
		if err != nil {
			return engine.Platform{}, err
		}
		h.platform = &p
	}
	return *h.platform, nil
}

// Capacity reads /proc/meminfo, /proc/pressure and the file system of the data
// directory.
func (h *host) Capacity(context.Context) (engine.Capacity, error) {
	mem, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return engine.Capacity{}, vm.Errorf(vm.Internal, "/proc/meminfo", "%w", err)
	}
	c := engine.Capacity{CPUs: runtime.NumCPU()}
	sc := bufio.NewScanner(bytes.NewReader(mem))
	for sc.Scan() {
		name, rest, _ := strings.Cut(sc.Text(), ":")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "MemTotal":
			c.MemTotal = kib << 10
		case "MemAvailable":
			c.MemAvailable = kib << 10
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(string(h.dir), &fs); err != nil {
		return c, vm.Errorf(vm.Internal, string(h.dir), "free space: %w", err)
	}
	c.DiskTotal = int64(fs.Blocks) * fs.Bsize
	c.DiskFree = int64(fs.Bavail) * fs.Bsize
	c.Waiting, c.MemoryStalled = pressure("cpu", "some"), pressure("memory", "full")
	return c, nil
}

// pressure is the percentage of the last ten seconds in which some or all ("full")
// programs waited for a resource; 0 where the kernel does not report it.
func pressure(of, who string) float64 {
	data, err := os.ReadFile("/proc/pressure/" + of)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), who+" avg10=")
	first, _, _ := strings.Cut(rest, " ")
	percent, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return percent
}
