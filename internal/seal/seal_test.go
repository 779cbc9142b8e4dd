// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// piece is a range of a test file; the rest are holes.
type piece struct {
	off  int64
	data []byte
}

func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b) // never fails
	return b
}

func writeSparse(t testing.TB, path string, size int64, pieces ...piece) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range pieces {
		if _, err := f.WriteAt(p.data, p.off); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
}

func blocks(t testing.TB, path string) int64 {
	t.Helper()
	n, err := qemu.DataBytes(path)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func sameFiles(t testing.TB, a, b string) bool {
	t.Helper()
	fa, err1 := os.Open(a)
	fb, err2 := os.Open(b)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	defer fa.Close()
	defer fb.Close()
	ba, bb := make([]byte, mib), make([]byte, mib)
	for {
		na, err1 := io.ReadFull(fa, ba)
		nb, err2 := io.ReadFull(fb, bb)
		if na != nb || !bytes.Equal(ba[:na], bb[:nb]) {
			return false
		}
		if err1 != nil || err2 != nil {
			return true
		}
	}
}

// roundTrip seals and opens a file and compares everything.
func roundTrip(t testing.TB, src string, key Key) (sealed, opened string) {
	t.Helper()
	dir := t.TempDir()
	sealed, opened = filepath.Join(dir, "sealed"), filepath.Join(dir, "opened")
	got, err := sealWhole(t.Context(), src, sealed, key)
	if err != nil {
		t.Fatal(err)
	}
	want, err := qemu.Sum(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != want.Name || got.Size != want.Size || !slices.Equal(got.CRC32C, want.CRC32C) {
		t.Errorf("sealing says %s, %d bytes; qemu.Sum says %s, %d bytes, or other sums", got.Name, got.Size, want.Name, want.Size)
	}
	if err := openWhole(t.Context(), sealed, opened, key, want); err != nil {
		t.Fatal(err)
	}
	if !sameFiles(t, src, opened) {
		t.Error("opened, it is another file")
	}
	for _, p := range []string{sealed, opened} {
		if st, err := os.Stat(p); err != nil || st.Mode() != 0o600 {
			t.Errorf("%s has mode %v, %v", p, st.Mode(), err)
		}
	}
	if list, _ := os.ReadDir(dir); len(list) != 2 {
		t.Errorf("%d files in the directory, want 2", len(list))
	}
	return sealed, opened
}

func TestRoundTrip(t *testing.T) {
	key := newKey(t)
	text := bytes.Repeat([]byte("state of a machine "), 9000)
	for _, c := range []struct {
		name   string
		size   int64
		pieces []piece
		opened int64 // most bytes of disk
	}{
		{"empty", 0, nil, 0},
		{"one byte", 1, []piece{{0, []byte{1}}}, page},
		{"one zero", 1, []piece{{0, []byte{0}}}, 0},
		{"a page less a byte", page - 1, []piece{{0, random(1, page-1)}}, page},
		{"a page and a byte", page + 1, []piece{{page, []byte{7}}}, page},
		{"a MiB", mib, []piece{{0, random(2, mib)}}, mib},
		{"a MiB and a byte", mib + 1, []piece{{0, random(3, mib+1)}}, mib + page},
		{"only a hole", 5*mib + 77, nil, 0},
		{"zeros that are written", 3 * mib, []piece{{0, make([]byte, 3*mib)}}, 0},
		{"data at both ends", 9*mib + 100, []piece{{0, []byte("a")}, {9*mib + 99, []byte("z")}}, 2 * page},
		{"across a border of MiBs", 4 * mib, []piece{{2*mib - 5000, text[:10000]}}, 4 * page},
		{"every other page", 2 * mib, everyOther(2 * mib), mib + page},
		{"a hole at the end", 6*mib + 1, []piece{{0, text}}, int64(len(text)) + page},
		{"text", int64(len(text)), []piece{{0, text}}, int64(len(text)) + page},
		{"a hole of 64 GiB", 64<<30 + 5, []piece{{33<<30 + 4095, []byte("xy")}}, 2 * page},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := filepath.Join(t.TempDir(), "src")
			writeSparse(t, src, c.size, c.pieces...)
			if c.size > 1<<30 {
				bigHole(t, src, key)
				return
			}
			_, opened := roundTrip(t, src, key)
			if n := blocks(t, opened); n > c.opened {
				t.Errorf("opened it takes %d bytes of disk, want at most %d", n, c.opened)
			}
		})
	}
}

func everyOther(size int64) (out []piece) {
	for off := int64(0); off < size; off += 2 * page {
		out = append(out, piece{off, random(uint64(off), page)})
	}
	return out
}

// bigHole wants that a hole costs neither time nor space.
func bigHole(t *testing.T, src string, key Key) {
	sealed, opened := src+".sealed", src+".opened"
	start := time.Now()
	f, err := sealWhole(t.Context(), src, sealed, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := openWhole(t.Context(), sealed, opened, key, f); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 5*time.Second { // reading it would take far longer
		t.Errorf("took %v", took)
	}
	if n := blocks(t, sealed) + blocks(t, opened); n > 8*page {
		t.Errorf("takes %d bytes", n)
	}
	got := make([]byte, 4)
	file, err := os.Open(opened)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.ReadAt(got, 33<<30+4094); err != nil || string(got) != "\x00xy\x00" {
		t.Errorf("the opened file has %q (%v) around its data, want xy between zeros", got, err)
	}
}

func TestRoundTripOfRandomFiles(t *testing.T) {
	key := newKey(t)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range 60 {
		size := r.Int64N(6 * mib)
		if n%3 == 0 {
			size = size &^ (page - 1)
		}
		var pieces []piece
		for range r.IntN(20) {
			off := r.Int64N(size + 1)
			b := random(r.Uint64(), int(min(size-off, r.Int64N(1+1<<r.IntN(21)))))
			if r.IntN(3) == 0 {
				clear(b)
			}
			pieces = append(pieces, piece{off, b})
		}
		src := filepath.Join(t.TempDir(), "src")
		writeSparse(t, src, size, pieces...)
		roundTrip(t, src, key)
		if t.Failed() {
			t.Fatalf("seed %d, file %d of %d bytes", seed, n, size)
		}
	}
}

// Memory of a sealed machine can't be read from its file.
func TestNoPlaintextInSealedFile(t *testing.T) {
	marker := []byte("MARKER-of-a-secret-0123456789-abcdef")
	src := filepath.Join(t.TempDir(), "src")
	noise := random(9, mib) // can't be compressed, so the marker is not hidden by that
	copy(noise[1000:], marker)
	writeSparse(t, src, 3*mib, piece{0, noise}, piece{2*mib + 5, marker})
	key := newKey(t)
	sealed, _ := roundTrip(t, src, key)
	data, err := os.ReadFile(sealed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(marker) - 7 {
		if bytes.Contains(data, marker[i:i+8]) {
			t.Fatalf("%q is in the sealed file", marker[i:i+8])
		}
	}
	if bytes.Contains(data, noise[5000:5016]) {
		t.Error("memory is in the sealed file")
	}
	if len(data) < mib || len(data) > mib+mib/50 {
		t.Errorf("a MiB that can't be compressed became %d bytes", len(data))
	}
	again := sealed + "2"
	if _, err := sealWhole(t.Context(), src, again, key); err != nil {
		t.Fatal(err)
	}
	if second, _ := os.ReadFile(again); bytes.Equal(second[len(second)/2:], data[len(data)/2:]) {
		t.Error("the same file sealed twice is the same")
	}
}

func TestWrongKey(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	writeSparse(t, src, 100, piece{0, []byte("x")})
	dir := t.TempDir()
	sealed, opened := filepath.Join(dir, "sealed"), filepath.Join(dir, "opened")
	f, err := sealWhole(t.Context(), src, sealed, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, "another key", openWhole(t.Context(), sealed, opened, newKey(t), f), vm.Corrupt)
	wantKind(t, "no key", openWhole(t.Context(), sealed, opened, Key{}, f), vm.Invalid)
	_, err = sealWhole(t.Context(), src, opened, Key{})
	wantKind(t, "sealing without a key", err, vm.Invalid)
	wantKind(t, "no sealed file", openWhole(t.Context(), sealed+"x", opened, newKey(t), f), vm.NotFound)
	_, err = sealWhole(t.Context(), src+"x", opened, newKey(t))
	wantKind(t, "no plain file", err, vm.NotFound)
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("%d files in the directory, want 1", len(list))
	}
}

// lateCancel is a context that ends when it is asked the nth time.
type lateCancel struct {
	context.Context
	cancel context.CancelFunc
	left   int
}

func (c *lateCancel) Err() error {
	if c.left--; c.left < 0 {
		c.cancel()
	}
	return c.Context.Err()
}

func TestCancel(t *testing.T) {
	key := newKey(t)
	src := filepath.Join(t.TempDir(), "src")
	writeSparse(t, src, 40*mib, piece{0, random(4, 40*mib)})
	dir := t.TempDir()
	sealed, opened := filepath.Join(dir, "sealed"), filepath.Join(dir, "opened")
	f, err := sealWhole(t.Context(), src, sealed, key)
	if err != nil {
		t.Fatal(err)
	}
	// Each wait is shorter than the work by far: the end comes in the middle.
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		_, err := sealWhole(ctx, src, opened, key)
		wantKind(t, "seal", err, vm.Timeout)
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), after)
		wantKind(t, "open", openWhole(ctx, sealed, opened, key, f), vm.Timeout)
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wantKind(t, "check of a plain file", checkPlain(&lateCancel{ctx, cancel, 20}, src, f), vm.Cancelled)
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("%d files in the directory, want 1", len(list))
	}
}

// TestShrinks has a file become shorter between two of its MiBs.
func TestShrinks(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	writeSparse(t, src, 2*mib, piece{0, random(5, 2*mib)})
	f, err := os.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := newReader(f, 2*mib)
	if _, _, err := r.chunk(0); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(src, mib+5); err != nil {
		t.Fatal(err)
	}
	_, _, err = r.chunk(1)
	wantKind(t, "shrunk", err, vm.Corrupt)
}

// A disk that can't be read is not called damage.
func TestReadError(t *testing.T) {
	wantKind(t, "unreadable", readError("f", &os.PathError{Op: "read", Path: "f", Err: syscall.EIO}), vm.Internal)
	wantKind(t, "cut off", readError("f", io.ErrUnexpectedEOF), vm.Corrupt)
}

// sealWhole seals a file and returns what it held.
func sealWhole(ctx context.Context, src, dst string, key Key) (out vm.File, err error) {
	err = sealFile(ctx, src, dst, key, func(f vm.File) error {
		out = f
		return nil
	})
	return out, err
}

// openWhole opens a sealed file and makes it durable.
func openWhole(ctx context.Context, src, dst string, key Key, want vm.File) error {
	if err := openFile(ctx, src, dst, key, want, (*os.File).Sync); err != nil {
		return err
	}
	return layout.SyncDir(filepath.Dir(dst))
}
