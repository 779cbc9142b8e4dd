// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// A sealed file is an age file. What it encrypts is a head (magic, size of the
// file) and one record for each MiB of the file that has data, in any order:
//
//	index of the MiB  uint32
//	pages that are there  256 bits; the others are zeros, and become holes
//	length, zstd frame of those pages one after another
//
// A MiB of zeros has no record. Whether records are missing, the sums tell that
// are recorded elsewhere; that none is changed, moved or cut off, age does.
const (
	magic   = "warren-sealed-1\n"
	headLen = len(magic) + 8
	mib     = 1 << 20
	page    = 4096
	mapLen  = mib / page / 8
	recLen  = 4 + mapLen + 4
	maxZstd = mib + mib/128 + 1024 // for a MiB that cannot be compressed
	workers = 2
)

// sealFile makes dst, compressed and encrypted, from src. When all of it is in a file
// without a name, it calls written with the size of src and one CRC-32C per MiB (holes
// count as zeros). Holes are not read and cost nothing. dst appears whole, durable and
// 0600, or not at all; src stays. Kinds: NotFound, Corrupt when src shrinks meanwhile,
// NoSpace, Cancelled.
func sealFile(ctx context.Context, src, dst string, key Key, written func(vm.File) error) error {
	if key.id == nil {
		return noKey(dst)
	}
	in, err := os.Open(src)
	if err != nil {
		return layout.Error(src, err)
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return layout.Error(src, err)
	}
	f := vm.File{Name: filepath.Base(src), Size: st.Size(), CRC32C: make([]uint32, chunks(st.Size()))}
	return layout.WriteFunc(dst, 0o600, func(w io.Writer) error {
		s := &sealing{in: in, size: f.Size, sums: f.CRC32C}
		if err := s.run(ctx, w, key); err != nil {
			return given(ctx, dst, err)
		}
		return written(f)
	})
}

func noKey(path string) error {
	return vm.Errorf(vm.Invalid, path, "no key was given").WithHint("make one with HostKey.NewKey, or unwrap the stored one")
}

// given marks an error as Cancelled if the caller has cancelled.
func given(ctx context.Context, path string, err error) error {
	if cause := ctx.Err(); cause != nil && err != nil {
		return vm.Errorf(vm.KindOf(cause), path, "given up: %w", cause)
	}
	return err
}

// sealing is one sealFile: the workers take the next MiB each, and write the result
// one at a time.
type sealing struct {
	in   *os.File
	size int64
	sums []uint32
	next atomic.Int64

	mu  sync.Mutex // guards out
	out io.Writer
}

func (s *sealing) run(ctx context.Context, to io.Writer, key Key) error {
	w, err := age.Encrypt(to, key.id.Recipient())
	if err != nil {
		return err
	}
	s.out = w
	head := binary.LittleEndian.AppendUint64([]byte(magic), uint64(s.size))
	if _, err := w.Write(head); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for range min(workers, len(s.sums)) {
		g.Go(func() error { return s.work(ctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return w.Close()
}

func (s *sealing) work(ctx context.Context) error {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(mib), zstd.WithEncoderCRC(false))
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }() // it holds no output of its own
	r := newReader(s.in, s.size)
	record := make([]byte, 0, recLen+maxZstd)
	for {
		i := int(s.next.Add(1)) - 1
		if i >= len(s.sums) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		var data []byte
		if data, s.sums[i], err = r.chunk(i); err != nil {
			return err
		}
		if record = appendRecord(record[:0], z, i, data); len(record) > 0 {
			if err := s.write(record); err != nil {
				return err
			}
		}
	}
}

func (s *sealing) write(record []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.out.Write(record)
	return err
}

// appendRecord appends the record of a MiB, nothing if it is all zeros. It moves
// the pages in buf together.
func appendRecord(to []byte, z *zstd.Encoder, i int, buf []byte) []byte {
	var there [mapLen]byte
	n := 0
	for off := 0; off < len(buf); off += page {
		p := buf[off:min(off+page, len(buf))]
		if bytes.Equal(p, zeros[:len(p)]) {
			continue
		}
		there[off/page/8] |= 1 << (off / page % 8)
		if n < off {
			copy(buf[n:], p)
		}
		n += len(p)
	}
	if n == 0 {
		return to
	}
	to = binary.LittleEndian.AppendUint32(to, uint32(i))
	to = append(to, there[:]...)
	at := len(to)
	to = z.EncodeAll(buf[:n], append(to, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(to[at:], uint32(len(to)-at-4))
	return to
}
