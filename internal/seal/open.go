// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// openFile makes dst from the sealed src, sparse: pages of zeros are holes. want is
// the record of the original: a difference, and any change to src, has kind Corrupt.
// It calls written with the complete file before the file has a name, and makes
// nothing durable itself. Other kinds: NotFound, NoSpace, Cancelled.
func openFile(ctx context.Context, src, dst string, key Key, want vm.File, written func(*os.File) error) error {
	in, err := os.Open(src)
	if err != nil {
		return layout.Error(src, err)
	}
	defer in.Close()
	dir, err := layout.Temp(filepath.Dir(dst))
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f, err := os.OpenFile(filepath.Join(dir, "plain"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return layout.Error(dst, err)
	}
	defer f.Close()
	if err := f.Truncate(want.Size); err != nil {
		return layout.Error(dst, err)
	}
	if err := decode(ctx, in, f, key, want); err != nil {
		return layout.Error(dst, err)
	}
	if err := errors.Join(written(f), f.Close()); err != nil {
		return layout.Error(dst, err)
	}
	return layout.Error(dst, os.Rename(f.Name(), dst))
}

// checkFile reads a sealed file and compares its content with want.
func checkFile(ctx context.Context, src string, key Key, want vm.File) error {
	in, err := os.Open(src)
	if err != nil {
		return layout.Error(src, err)
	}
	defer in.Close()
	return decode(ctx, in, nowhere{}, key, want)
}

type nowhere struct{}

func (nowhere) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// decode writes the content of the sealed in to out, which reads as zeros.
func decode(ctx context.Context, in *os.File, out io.WriterAt, key Key, want vm.File) error {
	src := in.Name()
	if key.id == nil {
		return noKey(src)
	}
	if len(want.CRC32C) != chunks(want.Size) {
		return vm.Errorf(vm.Corrupt, src, "%d sums are recorded of %d bytes", len(want.CRC32C), want.Size)
	}
	r, err := age.Decrypt(in, key.id)
	if err != nil {
		var other *age.NoIdentityMatchError
		if errors.As(err, &other) {
			return vm.Errorf(vm.Corrupt, src, "it was sealed with another key, or its beginning is damaged")
		}
		return given(ctx, src, readError(src, err))
	}
	o := &opening{src: src, in: r, out: out, want: want, seen: make([]bool, len(want.CRC32C))}
	return given(ctx, src, o.run(ctx))
}

// readError distinguishes damage from a disk that cannot be read.
func readError(src string, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return layout.Error(src, err)
	}
	return corrupt(src, "%w", err)
}

func corrupt(src, format string, args ...any) error {
	return vm.Errorf(vm.Corrupt, src, "damaged sealed file: "+format, args...).
		WithHint("put the file back from a copy; the state that it holds can't be started otherwise")
}

// opening is one openFile: the workers read the next record, one at a time, and
// unpack it.
type opening struct {
	src  string
	out  io.WriterAt
	want vm.File

	mu   sync.Mutex // guards in and seen
	in   io.Reader
	seen []bool
}

func (o *opening) run(ctx context.Context) error {
	head := make([]byte, headLen)
	if _, err := io.ReadFull(o.in, head); err != nil {
		return readError(o.src, err)
	}
	if !bytes.HasPrefix(head, []byte(magic)) {
		return corrupt(o.src, "it is of another kind")
	}
	if size := binary.LittleEndian.Uint64(head[len(magic):]); size != uint64(o.want.Size) {
		return corrupt(o.src, "it holds %d bytes, recorded are %d", size, o.want.Size)
	}
	g, ctx := errgroup.WithContext(ctx)
	for range max(1, min(workers, len(o.seen))) { // somebody always reads to the end
		g.Go(func() error { return o.work(ctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, seen := range o.seen {
		if !seen && o.want.CRC32C[i] != sumOfZeros(chunkLen(o.want.Size, i)) {
			return corrupt(o.src, "MiB %d is missing", i)
		}
	}
	return nil
}

func (o *opening) work(ctx context.Context) error {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mib), zstd.WithDecoderMaxWindow(mib))
	if err != nil {
		return err
	}
	defer z.Close()
	record, packed, buf := make([]byte, recLen+maxZstd), make([]byte, 0, mib), make([]byte, mib)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		rec, i, err := o.next(record)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return readError(o.src, err)
		}
		if packed, err = z.DecodeAll(rec[recLen:], packed[:0]); err != nil {
			return corrupt(o.src, "MiB %d: %w", i, err)
		}
		b := buf[:chunkLen(o.want.Size, i)]
		there := rec[4 : 4+mapLen]
		if err := spread(b, packed, there); err != nil {
			return corrupt(o.src, "MiB %d: %w", i, err)
		}
		if crc32.Checksum(b, castagnoli) != o.want.CRC32C[i] {
			return corrupt(o.src, "MiB %d is not what was sealed", i)
		}
		if err := writePages(o.out, b, int64(i)*mib, there); err != nil {
			return err
		}
	}
}

// next reads a record into buf and returns the number of its MiB. io.EOF,
// unwrapped, after the last.
func (o *opening) next(buf []byte) (record []byte, i int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := io.ReadFull(o.in, buf[:recLen]); err != nil {
		return nil, 0, err
	}
	index, n := binary.LittleEndian.Uint32(buf), binary.LittleEndian.Uint32(buf[recLen-4:])
	if int64(index) >= int64(len(o.seen)) || n > maxZstd {
		return nil, 0, fmt.Errorf("a record of MiB %d with %d bytes", index, n)
	}
	if o.seen[index] {
		return nil, 0, fmt.Errorf("MiB %d comes twice", index)
	}
	o.seen[index] = true
	if _, err := io.ReadFull(o.in, buf[recLen:recLen+int(n)]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, 0, err
	}
	return buf[:recLen+int(n)], int(index), nil
}

func has(there []byte, p int) bool { return there[p/8]>>(p%8)&1 == 1 }

// spread copies the pages of packed to their places in b, with zeros between.
func spread(b, packed, there []byte) error {
	for off := 0; off < mib; off += page {
		if !has(there, off/page) {
			if off < len(b) {
				clear(b[off:min(off+page, len(b))])
			}
			continue
		}
		if off >= len(b) {
			return errors.New("a page behind the end of the file")
		}
		n := min(page, len(b)-off)
		if len(packed) < n {
			return errors.New("a page too few")
		}
		copy(b[off:off+n], packed)
		packed = packed[n:]
	}
	if len(packed) > 0 {
		return errors.New("a page too many")
	}
	return nil
}

// writePages writes the pages of b that are present, neighbours at once.
func writePages(out io.WriterAt, b []byte, at int64, there []byte) error {
	for i := 0; i < len(b); i += page {
		j := i
		for j < len(b) && has(there, j/page) {
			j += page
		}
		if j == i {
			continue
		}
		if _, err := out.WriteAt(b[i:min(j, len(b))], at+int64(i)); err != nil {
			return err
		}
		i = j
	}
	return nil
}
