// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

const mib = 1 << 20

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	zeroSum    = sync.OnceValue(func() uint32 { return crc32.Checksum(make([]byte, mib), castagnoli) }) // of a MiB of zeros
)

// Sum returns the size of a file and one CRC-32C per MiB of it; the last part may
// be shorter. Holes count as zeros and are not read.
func Sum(ctx context.Context, path string) (vm.File, error) {
	out := vm.File{Name: filepath.Base(path)}
	err := eachMiB(ctx, path, func(size int64, i int, sum uint32) bool {
		out.Size = size
		out.CRC32C = append(out.CRC32C, sum)
		return true
	})
	return out, err
}

// DataBytes returns how many bytes of the disk a file takes; holes take nothing.
func DataBytes(path string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fileError(path, err)
	}
	return st.Blocks * 512, nil
}

// Verify compares a file with its recorded sums. A difference has kind Corrupt.
func Verify(ctx context.Context, path string, want vm.File) error {
	st, err := os.Stat(path)
	if err != nil {
		return fileError(path, err)
	}
	if st.Size() != want.Size || len(want.CRC32C) != int((want.Size+mib-1)/mib) {
		return corrupt(path, "it has %d bytes, recorded are %d", st.Size(), want.Size)
	}
	bad := -1
	err = eachMiB(ctx, path, func(_ int64, i int, sum uint32) bool {
		if sum != want.CRC32C[i] {
			bad = i
		}
		return bad < 0
	})
	if err == nil && bad >= 0 {
		err = corrupt(path, "its MiB %d is not what was written", bad)
	}
	return err
}

func corrupt(path, format string, args ...any) error {
	return vm.Errorf(vm.Corrupt, path, "damaged file of a generation: "+format, args...).
		WithHint("delete the directory %s and start again; an image's warm generation is made again", filepath.Dir(path))
}

// eachMiB calls f with the sum of each MiB in order until f returns false.
func eachMiB(ctx context.Context, path string, f func(size int64, i int, sum uint32) bool) error {
	file, err := os.Open(path)
	if err != nil {
		return fileError(path, err)
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return fileError(path, err)
	}
	size := st.Size()
	if size == 0 {
		return nil
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fileError(path, err)
	}
	defer func() { _ = unix.Munmap(data) }()
	next := int64(-1) // start of the next data at or after the current MiB
	for off := int64(0); off < size; off += mib {
		if err := ctx.Err(); err != nil {
			return err
		}
		if next < off {
			next = nextData(file, off, size)
		}
		end := min(off+mib, size)
		sum := zeroSum()
		if next < end || end-off < mib {
			sum = crc32.Checksum(data[off:end], castagnoli)
		}
		if !f(size, int(off/mib), sum) {
			return nil
		}
	}
	return nil
}

// nextData returns the offset of the first data at or after off, size when there is
// none, and off if the file system cannot tell.
func nextData(f *os.File, off, size int64) int64 {
	n, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size
	case err != nil:
		return off
	}
	return n
}

// Verifier checks generations and remembers which files it found good, until they
// change. The zero value is ready.
type Verifier struct {
	mu   sync.Mutex // guards good, and makes checks run one at a time
	good map[fileKey]bool
}

// fileKey changes whenever a file's content may have changed.
type fileKey struct {
	dev, ino           uint64
	size, mtime, ctime int64
}

// Generation checks the memory and device files that src names against the manifest
// beside them. A second call for unchanged files costs two stats. Kinds: Corrupt,
// NotFound.
func (v *Verifier) Generation(ctx context.Context, src vm.GenerationSource) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var todo []string
	for _, path := range append([]string{src.RAM, src.Device}, src.Modules...) {
		key, err := keyOf(path)
		if err != nil {
			return err
		}
		if !v.good[key] {
			todo = append(todo, path)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	var g vm.Manifest
	if err := layout.ReadJSON(layout.GenerationDir(filepath.Dir(src.RAM)).Manifest(), &g); err != nil {
		return err
	}
	for _, path := range todo {
		if err := v.check(ctx, path, recorded(g, filepath.Base(path))); err != nil {
			return err
		}
	}
	return nil
}

// recorded returns what a manifest says of a file with memory or device state.
func recorded(g vm.Manifest, name string) vm.File {
	for _, f := range append([]vm.File{g.RAM, g.Device}, g.Modules...) {
		if f.Name == name {
			return f
		}
	}
	return vm.File{Name: name}
}

func (v *Verifier) check(ctx context.Context, path string, want vm.File) error {
	before, err := keyOf(path)
	if err != nil {
		return err
	}
	if err := Verify(ctx, path, want); err != nil {
		return err
	}
	if after, err := keyOf(path); err != nil || after != before {
		return errors.Join(corrupt(path, "it changed while it was read"), err)
	}
	if v.good == nil {
		v.good = make(map[fileKey]bool)
	}
	v.good[before] = true
	return nil
}

func keyOf(path string) (fileKey, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileKey{}, fileError(path, err)
	}
	return fileKey{
		dev: st.Dev, ino: st.Ino, size: st.Size,
		mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(),
	}, nil
}

// fileError gives an operating system's or QEMU's error about path a kind. Errors
// with a kind, and those of an ended context, stay as they are.
func fileError(path string, err error) error {
	var e *vm.Error
	if err == nil || errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	kind := vm.Internal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind = vm.NotFound
	case errors.Is(err, fs.ErrExist):
		kind = vm.Exists
	case errors.Is(err, fs.ErrPermission):
		kind = vm.Denied
	case noSpace(err.Error()), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return vm.Errorf(vm.NoSpace, path, "%w", err).WithHint("free some space on the disk of the data directory")
	}
	return vm.Errorf(kind, path, "%w", err)
}

// noSpace recognises a full disk in a message of QEMU, which has no code for it.
func noSpace(desc string) bool {
	return strings.Contains(desc, "No space left") || strings.Contains(desc, "Disk quota exceeded")
}
