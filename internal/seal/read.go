// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	zeros      [mib]byte
	zeroSum    = sync.OnceValue(func() uint32 { return crc32.Checksum(zeros[:], castagnoli) })
)

// sumOfZeros is the sum of n bytes in a hole; n ≤ 1 MiB.
func sumOfZeros(n int64) uint32 {
	if n == mib {
		return zeroSum()
	}
	return crc32.Checksum(zeros[:n], castagnoli)
}

// chunkLen is the length of a MiB of a file; the last one may be shorter.
func chunkLen(size int64, i int) int64 { return min(mib, size-int64(i)*mib) }

func chunks(size int64) int { return int((size + mib - 1) / mib) }

// reader reads a plain file MiB by MiB, upwards, and skips holes.
type reader struct {
	f    *os.File
	size int64
	data int64 // where the next data is, at or after the last MiB read
	buf  []byte
}

func newReader(f *os.File, size int64) *reader {
	return &reader{f: f, size: size, data: -1, buf: make([]byte, mib)}
}

// chunk returns a MiB, valid until the next call, and its sum. A MiB in a hole
// is empty.
func (r *reader) chunk(i int) (data []byte, sum uint32, err error) {
	off, n := int64(i)*mib, chunkLen(r.size, i)
	if r.data < off {
		r.data = nextData(r.f, off, r.size)
	}
	if r.data >= off+n {
		return nil, sumOfZeros(n), nil
	}
	data = r.buf[:n]
	if _, err := r.f.ReadAt(data, off); errors.Is(err, io.EOF) {
		return nil, 0, vm.Errorf(vm.Corrupt, r.f.Name(), "it became shorter while it was read").
			WithHint("see what else changes the file")
	} else if err != nil {
		return nil, 0, layout.Error(r.f.Name(), err)
	}
	return data, crc32.Checksum(data, castagnoli), nil
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

// checkPlain compares a plain file with its recorded sums. Kinds: Corrupt,
// NotFound.
func checkPlain(ctx context.Context, path string, want vm.File) error {
	f, err := os.Open(path)
	if err != nil {
		return layout.Error(path, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return layout.Error(path, err)
	}
	if st.Size() != want.Size || len(want.CRC32C) != chunks(want.Size) {
		return damaged(path, "it has %d bytes, recorded are %d", st.Size(), want.Size)
	}
	r := newReader(f, want.Size)
	for i, sum := range want.CRC32C {
		if err := ctx.Err(); err != nil {
			return given(ctx, path, err)
		}
		if _, got, err := r.chunk(i); err != nil {
			return err
		} else if got != sum {
			return damaged(path, "its MiB %d is not what was written", i)
		}
	}
	return nil
}

func damaged(path, format string, args ...any) error {
	return vm.Errorf(vm.Corrupt, path, "damaged file of a generation: "+format, args...).
		WithHint("start from another generation; this one's memory can't be used")
}
