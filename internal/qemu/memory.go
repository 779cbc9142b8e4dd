// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memory is the mapping of a memory file in a QEMU, read from another process.
type memory struct {
	pid   int
	start int64
	size  int64
	mem   *os.File
	pages *os.File
	scan  bool // the kernel has PAGEMAP_SCAN
}

// openMemory finds the mapping of path in the process, even if the file was
// deleted.
func openMemory(pid int, path string, size int64) (*memory, error) {
	// The kernel shows the name without symlinks: the data directory or its images
	// may be behind one.
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	start, err := findMapping(pid, path, size)
	if err != nil {
		return nil, err
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, err
	}
	pages, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		mem.Close()
		return nil, err
	}
	m := &memory{pid: pid, start: start, size: size, mem: mem, pages: pages}
	m.scan = m.canScan()
	return m, nil
}

func (m *memory) close() {
	m.mem.Close()
	m.pages.Close()
}

func findMapping(pid int, path string, size int64) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		start, length, name, err := parseMapping(sc.Text())
		if err != nil {
			return 0, err
		}
		if length == size && strings.TrimSuffix(name, " (deleted)") == path {
			return start, nil
		}
	}
	if err := sc.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("process %d does not map %s", pid, path)
}

// parseMapping reads one line of /proc/PID/maps.
func parseMapping(line string) (start, length int64, name string, err error) {
	fields := strings.SplitN(line, " ", 6)
	from, to, ok := strings.Cut(fields[0], "-")
	if !ok || len(fields) < 6 {
		return 0, 0, "", fmt.Errorf("unexpected line in maps: %q", line)
	}
	a, err1 := strconv.ParseUint(from, 16, 63)
	b, err2 := strconv.ParseUint(to, 16, 64)
	if errors.Is(err1, strconv.ErrRange) { // the vsyscall page, at the very top
		return 0, 0, "", nil
	}
	name = strings.NewReplacer(`\012`, "\n").Replace(strings.TrimLeft(fields[5], " "))
	return int64(a), int64(b - a), name, errors.Join(err1, err2)
}

// copyPrivate brings r up to date with the process's private pages; for free see
// share.
func (m *memory) copyPrivate(ctx context.Context, r *ramFile, free <-chan struct{}) (pages int64, err error) {
	runs, err := m.private()
	if err != nil {
		return 0, err
	}
	sets := batches(runs)
	err = share(ctx, len(sets), free, func(i int, buf []byte) error {
		if err := m.read(sets[i], buf); err != nil {
			return err
		}
		for _, x := range sets[i] {
			if err := r.put(buf[:x.n], x.off); err != nil {
				return err
			}
			buf = buf[x.n:]
		}
		return nil
	})
	if err == nil {
		err = m.alive()
	}
	if err != nil {
		return 0, err
	}
	if !r.hot {
		r.mapExtents(runs)
	}
	for _, x := range runs {
		pages += x.n / page
	}
	return pages, nil
}

// batches cuts the list into parts that fill one piece each, so that scattered
// pages do not cost a system call each.
func batches(runs []run) (sets [][]run) {
	first, sum := 0, int64(0)
	for i, x := range runs {
		if sum+x.n > piece {
			sets = append(sets, runs[first:i])
			first, sum = i, 0
		}
		sum += x.n
	}
	if first < len(runs) {
		sets = append(sets, runs[first:])
	}
	return sets
}

// read reads the ranges one after the other into buf.
func (m *memory) read(runs []run, buf []byte) error {
	var sum int64
	remote := make([]unix.RemoteIovec, len(runs))
	for i, x := range runs {
		remote[i] = unix.RemoteIovec{Base: uintptr(m.start + x.off), Len: int(x.n)}
		sum += x.n
	}
	local := unix.Iovec{Base: &buf[0]}
	local.SetLen(int(sum))
	n, err := unix.ProcessVMReadv(m.pid, []unix.Iovec{local}, remote, 0)
	if err == nil && int64(n) == sum {
		return nil
	}
	return m.readSlowly(runs, buf) // where that call is forbidden; its error is then the better one
}

func (m *memory) readSlowly(runs []run, buf []byte) error {
	for _, x := range runs {
		if _, err := m.mem.ReadAt(buf[:x.n], m.start+x.off); err != nil {
			return m.failure(err)
		}
		buf = buf[x.n:]
	}
	return nil
}

// alive fails when the process is gone. Data that was read before this call is then
// worthless: a dead process has no private pages, and its pid may be reused.
func (m *memory) alive() error {
	if _, err := m.mem.ReadAt(make([]byte, 1), m.start); err != nil {
		return m.failure(err)
	}
	return nil
}

// failure explains an error of reading the process's memory.
func (m *memory) failure(err error) error {
	if errors.Is(err, io.EOF) { // reading a dead process gives this
		err = errors.New("the process has gone")
	}
	return fmt.Errorf("memory of process %d: %w", m.pid, err)
}
