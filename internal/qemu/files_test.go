// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// sparse makes a file of size bytes with data at some offsets.
func sparse(t *testing.T, size int64, at map[int64][]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for off, b := range at {
		if _, err := f.WriteAt(b, off); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// The sums are those of the bytes, holes or not, to the last one.
func TestSumCountsHolesAsZeros(t *testing.T) {
	path := sparse(t, 5*mib+777, map[int64][]byte{mib + 5: {1}, 3*mib - 1: {2}, 5*mib + 776: {3}})
	got, err := Sum(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.Size != int64(len(data)) || len(got.CRC32C) != 6 {
		t.Fatalf("the file is summed as %+v, want size %d and 6 checksums", got, len(data))
	}
	for i, sum := range got.CRC32C {
		part := data[i*mib : min((i+1)*mib, len(data))]
		if want := crc32.Checksum(part, crc32.MakeTable(crc32.Castagnoli)); sum != want {
			t.Errorf("MiB %d: %x, want %x", i, sum, want)
		}
	}
	if err := Verify(t.Context(), path, got); err != nil {
		t.Error(err)
	}
}

func TestVerifyFindsDamage(t *testing.T) {
	path := sparse(t, 4*mib, map[int64][]byte{mib: bytes.Repeat([]byte{9}, 100)})
	good, err := Sum(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	damage := func(f func(*os.File) error) error {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := f(file); err != nil {
			t.Fatal(err)
		}
		return Verify(t.Context(), path, good)
	}
	for name, err := range map[string]error{
		"a bit in a hole":   damage(func(f *os.File) error { _, err := f.WriteAt([]byte{1}, 3*mib+9); return err }),
		"zeros over data":   damage(func(f *os.File) error { _, err := f.WriteAt(make([]byte, 100), mib); return err }),
		"cut":               damage(func(f *os.File) error { return f.Truncate(4*mib - 1) }),
		"longer":            damage(func(f *os.File) error { return f.Truncate(4*mib + 1) }),
		"a file not summed": Verify(t.Context(), path, vm.File{Size: 4*mib + 1}),
	} {
		if !errors.Is(err, vm.Corrupt) || vm.AsError(err).Hint == "" {
			t.Errorf("%s: error %v, want corrupt with a hint", name, err)
		}
	}
	if err := Verify(t.Context(), path+"x", good); !errors.Is(err, vm.NotFound) {
		t.Errorf("no file: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Verify(ctx, sparse(t, mib, nil), vm.File{Size: mib, CRC32C: []uint32{zeroSum()}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A generation that was found good is not read again until it is touched.
func TestVerifierRemembers(t *testing.T) {
	dir := layout.GenerationDir(t.TempDir())
	src := vm.GenerationSource{RAM: dir.RAM(), Device: dir.Device()}
	var v Verifier
	if err := v.Generation(t.Context(), src); !errors.Is(err, vm.NotFound) {
		t.Errorf("nothing there: %v", err)
	}
	var g vm.Manifest
	for path, to := range map[string]*vm.File{src.RAM: &g.RAM, src.Device: &g.Device} {
		if err := os.WriteFile(path, bytes.Repeat([]byte{7}, mib), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if *to, err = Sum(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	if err := layout.WriteJSON(dir.Manifest(), g, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.Generation(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	if len(v.good) != 2 {
		t.Errorf("%d files remembered", len(v.good))
	}
	os.Remove(dir.Manifest()) // not needed for what is known
	if err := v.Generation(t.Context(), src); err != nil {
		t.Errorf("read again: %v", err)
	}
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(src.RAM, later, later); err != nil {
		t.Fatal(err)
	}
	if err := v.Generation(t.Context(), src); err == nil {
		t.Error("a touched file was taken for the old one")
	}
}

func TestRAMFilePut(t *testing.T) {
	pages := func(fill ...byte) (b []byte) {
		for _, f := range fill {
			b = append(b, bytes.Repeat([]byte{f}, page)...)
		}
		return b
	}
	base := sparse(t, 64*page, map[int64][]byte{8 * page: pages(1, 2, 3)})
	path := filepath.Join(t.TempDir(), "ram")
	r, err := createRAM(t.Context(), path, base, 64*page)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if n := r.dataBytes(); n != 3*page {
		t.Errorf("the copy has %d bytes of data", n)
	}
	// Zeros over a hole stay a hole; zeros over data are written; the same is left.
	if err := r.put(pages(0, 0, 5, 1, 0, 3, 0), 5*page); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := append(make([]byte, 7*page), pages(5, 1, 0, 3)...)
	if !bytes.Equal(got[:11*page], want) || !isAllZero(got[11*page:]) {
		t.Error("wrong content")
	}
	if n := r.dataBytes(); n != 4*page {
		t.Errorf("%d bytes of data", n)
	}
	if _, err := createRAM(t.Context(), path, base, 64*page); !errors.Is(err, vm.Exists) {
		t.Errorf("an existing file was replaced: %v", err)
	}
	if _, err := createRAM(t.Context(), path+"2", base, 65*page); !errors.Is(err, vm.Corrupt) || fileExists(path+"2") {
		t.Errorf("a base of another size: %v", err)
	}
	if _, err := createRAM(t.Context(), path+"2", base+"-none", 64*page); !errors.Is(err, vm.NotFound) || fileExists(path+"2") {
		t.Errorf("no base: %v", err)
	}
}

func isAllZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

func TestParseMapping(t *testing.T) {
	for _, c := range []struct {
		line          string
		start, length int64
		name          string
		bad           bool
	}{
		{"7f0000000000-7f0020000000 rw-p 00000000 fe:00 1234                       /d/vms/a b/ram (deleted)", 0x7f0000000000, 0x20000000, "/d/vms/a b/ram (deleted)", false},
		{"55a7b0000000-55a7b0001000 r--p 00000000 00:00 0 ", 0x55a7b0000000, 0x1000, "", false},
		{"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]", 0, 0, "", false},
		{"", 0, 0, "", true},
		{"zz-yy rw-p 0 0 0 x", 0, 0, "x", true},
	} {
		start, length, name, err := parseMapping(c.line)
		if (err != nil) != c.bad || !c.bad && (start != c.start || length != c.length || name != c.name) {
			t.Errorf("the line %q is read as %x %x %q (%v), want %x %x %q, bad %t", c.line, start, length, name, err, c.start, c.length, c.name, c.bad)
		}
	}
}

func TestOwnMapping(t *testing.T) {
	if _, err := findMapping(os.Getpid(), "/nonexistent", 4096); err == nil {
		t.Error("found a mapping that isn't there")
	}
}
