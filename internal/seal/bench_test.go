// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// ramLike writes a file of n MiB as a guest's memory is: a quarter of it
// zeros, the rest half words and pointers, a tenth random.
func ramLike(t testing.TB, path string, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, n*mib)
	for off := 0; off < len(buf); off += page {
		p := buf[off : off+page]
		switch kind := r.IntN(20); {
		case kind < 5:
		case kind < 7:
			for i := range p {
				p[i] = byte(r.Uint32())
			}
		default:
			for i := 0; i < page; i += 8 {
				p[i] = byte(r.IntN(8) * 16)
				p[i+1] = byte(off >> 12)
				p[i+2] = byte(r.IntN(3))
				if i%64 == 0 {
					p[i+5], p[i+6], p[i+7] = 0x88, 0xff, 0xff
				}
			}
		}
	}
	if err := os.WriteFile(path, buf, 0o600); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkRAM seals and opens $SEAL_BENCH_FILE, or 255 MiB like a memory.
func BenchmarkRAM(b *testing.B) {
	dir := b.TempDir()
	src := os.Getenv("SEAL_BENCH_FILE")
	if src == "" {
		src = filepath.Join(dir, "ram")
		ramLike(b, src, 255)
	}
	key := newKey(b)
	var want vm.File
	var seal, check, open time.Duration
	for b.Loop() {
		start := time.Now()
		f, err := SealFile(b.Context(), src, filepath.Join(dir, "s"), key)
		if err != nil {
			b.Fatal(err)
		}
		seal += time.Since(start)
		want = f
		start = time.Now()
		if err := checkFile(b.Context(), filepath.Join(dir, "s"), key, want); err != nil {
			b.Fatal(err)
		}
		check += time.Since(start)
		start = time.Now()
		if err := OpenFile(b.Context(), filepath.Join(dir, "s"), filepath.Join(dir, "o"), key, want); err != nil {
			b.Fatal(err)
		}
		open += time.Since(start)
	}
	st, err := os.Stat(filepath.Join(dir, "s"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(seal.Seconds()/float64(b.N), "seal-s")
	b.ReportMetric(check.Seconds()/float64(b.N), "check-s")
	b.ReportMetric(open.Seconds()/float64(b.N), "open-s")
	b.ReportMetric(float64(st.Size())/mib, "sealed-MiB")
}
