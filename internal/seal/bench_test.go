// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
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

// BenchmarkRAM seals and opens $SEAL_BENCH_FILE, or 255 MiB like a memory. It
// tells wall time, and time of the processors, which others' work on the host
// changes less.
func BenchmarkRAM(b *testing.B) {
	dir := b.TempDir()
	src, sealed, plain := os.Getenv("SEAL_BENCH_FILE"), filepath.Join(dir, "s"), filepath.Join(dir, "o")
	if src == "" {
		src = filepath.Join(dir, "ram")
		ramLike(b, src, 255)
	}
	key := newKey(b)
	var want vm.File
	took, cpu := map[string]time.Duration{}, map[string]time.Duration{}
	stage := func(name string, f func() error) {
		start, before := time.Now(), processors(b)
		if err := f(); err != nil {
			b.Fatal(err)
		}
		took[name] += time.Since(start)
		cpu[name] += processors(b) - before
	}
	for b.Loop() {
		_ = os.Remove(plain) // ext4 writes out at once what takes another's name
		stage("seal", func() (err error) { want, err = sealWhole(b.Context(), src, sealed, key); return err })
		stage("check", func() error { return checkFile(b.Context(), sealed, key, want) })
		stage("open", func() error { // as before a start
			return openFile(b.Context(), sealed, plain, key, want, func(*os.File) error { return nil })
		})
		stage("drop", func() error { return layout.SyncFile(plain) })
	}
	st, err := os.Stat(sealed)
	if err != nil {
		b.Fatal(err)
	}
	for name := range took {
		b.ReportMetric(took[name].Seconds()/float64(b.N), name+"-s")
		b.ReportMetric(cpu[name].Seconds()/float64(b.N), name+"-cpu-s")
	}
	b.ReportMetric(float64(st.Size())/mib, "sealed-MiB")
}

// processors is the time that this process has computed.
func processors(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
