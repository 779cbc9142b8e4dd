// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"testing"
)

// benchBase is a memory file of which data bytes are not zero, in the short
// runs that a guest's memory has.
func benchBase(b *testing.B, size, data int64) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "base")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		b.Fatal(err)
	}
	rnd := rand.New(rand.NewSource(1))
	buf := make([]byte, 1<<20)
	rnd.Read(buf)
	for off := int64(0); data > 0 && off < size-(2<<20); {
		n := min((1+rnd.Int63n(128))*page, data)
		if _, err := f.WriteAt(buf[:n], off); err != nil {
			b.Fatal(err)
		}
		data -= n
		off += n + (1+rnd.Int63n(64))*page
	}
	return path
}

// How finding the private pages grows with the memory: each process has written
// 2 MiB and read 400.
func BenchmarkPrivate(b *testing.B) {
	for _, size := range []int64{512, 1024, 2048, 4096} {
		f := startFake(b, benchBase(b, size<<20, 195<<20))
		f.touch(0, 400*256, -1)
		f.touch(0, 512, 9)
		m := f.memory()
		b.Run(fmt.Sprintf("scan/%dMiB", size), func(b *testing.B) {
			if !m.scan {
				b.Skip("no PAGEMAP_SCAN here")
			}
			for b.Loop() {
				if _, err := m.scanPrivate(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("read/%dMiB", size), func(b *testing.B) {
			for b.Loop() {
				if _, err := m.readPrivate(); err != nil {
					b.Fatal(err)
				}
			}
		})
		f.kill()
	}
}

// The base copy before the pause, without a reference copy.
func BenchmarkCreateRAM(b *testing.B) {
	const size = 512 << 20
	base := benchBase(b, size, 195<<20)
	out := filepath.Join(b.TempDir(), "out")
	for b.Loop() {
		r, err := createRAM(b.Context(), out, base, size)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		r.discard()
		b.StartTimer()
	}
}

// Both passes over the private pages; the second is what the pause holds.
func BenchmarkCopyPrivate(b *testing.B) {
	const size = 1 << 30
	base := benchBase(b, size, 195<<20)
	for _, private := range []int64{2, 32, 128, 256} {
		f := startFake(b, base)
		for i := int64(0); i < private; i++ { // a MiB in every three
			f.touch(i*3*256, 256, int(1+i%200))
		}
		m := f.memory()
		run := func(name string, second bool) {
			b.Run(fmt.Sprintf("%s/%dMiB", name, private), func(b *testing.B) {
				out := filepath.Join(b.TempDir(), "out")
				for b.Loop() {
					b.StopTimer()
					r, err := createRAM(b.Context(), out, base, size)
					if err != nil {
						b.Fatal(err)
					}
					if second {
						if _, err := m.copyPrivate(b.Context(), r, nil); err != nil {
							b.Fatal(err)
						}
					}
					b.StartTimer()
					_, err = m.copyPrivate(b.Context(), r, nil)
					b.StopTimer()
					if err != nil {
						b.Fatal(err)
					}
					r.discard()
					b.StartTimer()
				}
			})
		}
		run("first", false)
		run("second", true)
		f.kill()
	}
}
