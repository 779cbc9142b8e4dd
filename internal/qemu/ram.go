// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	page     = 4096
	chunk    = 4 << 20 // bytes copied at a time
	copyWays = 2       // readers of one machine's memory
)

// ramFile is a memory file that is being written: a base copy with a machine's
// private pages over it. Pages of zeros stay holes.
type ramFile struct {
	f    *os.File
	size int64
	has  []bool // per page: the file holds data there; written by one worker per page
}

// createRAM makes the file at path as a copy of base: by reference where the
// file system can, else sparsely. base "" is a file of holes.
func createRAM(ctx context.Context, path, base string, size int64) (_ *ramFile, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(path)
		}
	}()
	if err := f.Truncate(size); err != nil {
		return nil, fileError(path, err)
	}
	r := &ramFile{f: f, size: size, has: make([]bool, size/page)}
	if base == "" {
		return r, nil
	}
	src, err := os.Open(base)
	if err != nil {
		return nil, fileError(base, err)
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return nil, fileError(base, err)
	}
	if st.Size() != size {
		return nil, corrupt(base, "it has %d bytes, the machine has %d", st.Size(), size)
	}
	if unix.IoctlFileClone(int(f.Fd()), int(src.Fd())) == nil {
		return r, extents(f, size, func(from, to int64) error {
			for i := from / page; i < (to+page-1)/page; i++ {
				r.has[i] = true
			}
			return nil
		})
	}
	buf := make([]byte, chunk)
	err = extents(src, size, func(from, to int64) error {
		for from < to {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := buf[:min(to-from, chunk)]
			if _, err := src.ReadAt(b, from); err != nil {
				return fileError(base, err)
			}
			if err := r.put(b, from); err != nil {
				return err
			}
			from += int64(len(b))
		}
		return nil
	})
	return r, err
}

// extents calls f with each range of data in the file, widened to whole pages.
func extents(file *os.File, size int64, f func(from, to int64) error) error {
	for off := int64(0); off < size; {
		from := nextData(file, off, size) &^ (page - 1)
		if from >= size {
			return nil
		}
		to, err := unix.Seek(int(file.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			return fileError(file.Name(), err)
		}
		to = min((to+page-1)&^(page-1), size)
		if err := f(from, to); err != nil {
			return err
		}
		off = to
	}
	return nil
}

// put makes the file hold b at off (whole pages), writing as little as it can:
// pages of zeros over a hole and pages that are there already are skipped.
func (r *ramFile) put(b []byte, off int64) error {
	var old []byte
	for i := 0; i < len(b); {
		j := i
		for j < len(b) {
			need, err := r.needs(b[j:j+page], off+int64(j), &old)
			if err != nil {
				return err
			}
			if !need {
				break
			}
			j += page
		}
		if j > i {
			if _, err := r.f.WriteAt(b[i:j], off+int64(i)); err != nil {
				return fileError(r.f.Name(), err)
			}
			for p := i; p < j; p += page {
				r.has[(off+int64(p))/page] = true
			}
		}
		i = j + page
	}
	return nil
}

// needs reports whether one page must be written. old is scratch space.
func (r *ramFile) needs(b []byte, off int64, old *[]byte) (bool, error) {
	if !r.has[off/page] {
		return !isZero(b), nil
	}
	if *old == nil {
		*old = make([]byte, page)
	}
	if _, err := r.f.ReadAt(*old, off); err != nil {
		return false, fileError(r.f.Name(), err)
	}
	return !bytes.Equal(*old, b), nil
}

var zeroPage [page]byte

func isZero(b []byte) bool { return bytes.Equal(b, zeroPage[:]) }

func (r *ramFile) dataBytes() (n int64) {
	for _, has := range r.has {
		if has {
			n += page
		}
	}
	return n
}

// memory is the mapping of a memory file in a QEMU, read from outside.
type memory struct {
	pid   int
	start int64
	size  int64
	mem   *os.File
	pages *os.File
}

// openMemory finds the mapping of path, deleted or not, in the process.
func openMemory(pid int, path string, size int64) (*memory, error) {
	// The kernel shows the name without symlinks: the data directory, or its
	// images, may lie behind one.
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
	return &memory{pid: pid, start: start, size: size, mem: mem, pages: pages}, nil
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

// run is a range of the mapping, in bytes from its start.
type run struct{ off, n int64 }

// private lists the pages that the process has written: present and not of the
// file, or swapped out.
func (m *memory) private() ([]run, error) {
	const perRead = 64 << 10
	raw := make([]byte, 8*perRead)
	var runs []run
	for first := int64(0); first < m.size/page; first += perRead {
		n := min(perRead, m.size/page-first)
		if _, err := m.pages.ReadAt(raw[:8*n], (m.start/page+first)*8); err != nil {
			return nil, fmt.Errorf("pagemap of process %d: %w", m.pid, err)
		}
		for i := range n {
			if v := binary.LittleEndian.Uint64(raw[8*i:]); v>>63 == 1 && v>>61&1 == 0 || v>>62&1 == 1 {
				runs = appendPage(runs, (first+i)*page)
			}
		}
	}
	return runs, nil
}

// appendPage extends the last run by a page at off or begins a new one; runs
// are at most a chunk long.
func appendPage(runs []run, off int64) []run {
	if n := len(runs); n > 0 && runs[n-1].off+runs[n-1].n == off && runs[n-1].n < chunk {
		runs[n-1].n += page
		return runs
	}
	return append(runs, run{off, page})
}

// copyPrivate brings r up to date with the process's private pages.
func (m *memory) copyPrivate(ctx context.Context, r *ramFile) (pages int64, err error) {
	runs, err := m.private()
	if err != nil {
		return 0, err
	}
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range copyWays {
		g.Go(func() error {
			buf := make([]byte, chunk)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(runs) {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				b := buf[:runs[i].n]
				// A dead process reads as zero bytes, which ReadAt reports as EOF.
				if _, err := m.mem.ReadAt(b, m.start+runs[i].off); err != nil {
					if errors.Is(err, io.EOF) {
						err = errors.New("the process has gone")
					}
					return fmt.Errorf("memory of process %d: %w", m.pid, err)
				}
				if err := r.put(b, runs[i].off); err != nil {
					return err
				}
			}
		})
	}
	for _, x := range runs {
		pages += x.n / page
	}
	return pages, g.Wait()
}
