// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// large are sizes of files that bypass the page cache: whole pages, an unaligned
// end, whole pieces.
var large = []int{4 << 20, 4<<20 + 1, 5<<20 + 4097, 6<<20 - 4096}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// shared are directories on a disk, where direct writes work, and in memory,
// where they are refused.
func shared(t *testing.T) map[string]string {
	mem, err := os.MkdirTemp("/dev/shm", "warren-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(mem) })
	return map[string]string{"disk": t.TempDir(), "memory": mem}
}

// A large file whose size the sender does not know arrives unchanged.
func TestLargeFileUnknownSize(t *testing.T) {
	r := newRig(t)
	for where, dir := range shared(t) {
		for _, size := range append([]int{0, 1, 1 << 20, 4<<20 - 1, 5 << 20}, large...) {
			path, want := filepath.Join(dir, "f"), random(size)
			if _, err := r.WriteFile(within(t, time.Minute), "", path, vm.WriteOptions{Size: -1}, bytes.NewReader(want)); err != nil {
				t.Fatalf("%s, %d bytes: %v", where, size, err)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %d bytes: the file differs: %d bytes, %v", where, size, len(got), err)
			}
		}
	}
}

// A large file is transferred unchanged, whether the page cache holds it or not.
func TestLargeFile(t *testing.T) {
	r := newRig(t)
	for where, dir := range shared(t) {
		for _, size := range large {
			path, want := filepath.Join(dir, "f"), random(size)
			if _, err := r.WriteFile(within(t, time.Minute), "", path, vm.WriteOptions{Size: int64(size)}, bytes.NewReader(want)); err != nil {
				t.Fatalf("%s, %d bytes: %v", where, size, err)
			}
			for _, cache := range []string{"cold", "warm"} {
				if cache == "warm" {
					if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
						t.Fatalf("%s, %d bytes: the file on disk differs: %d bytes, %v", where, size, len(got), err)
					}
				}
				_, rc, err := r.Open(within(t, time.Minute), "", path)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(rc)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s, %s, %d bytes: %d bytes came, equal: %v, %v", where, cache, size, len(got), bytes.Equal(got, want), err)
				}
				_ = rc.Close()
			}
		}
	}
}

// An incomplete large file leaves the old one unchanged, and no temporary file.
func TestLargeFileCut(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	cut := io.MultiReader(bytes.NewReader(make([]byte, 5<<20)), failing{boom})
	if _, err := r.WriteFile(within(t, time.Minute), "", path, vm.WriteOptions{Size: 8 << 20}, cut); !errors.Is(err, boom) {
		t.Errorf("the error is %v", err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) { // the agent notices the cut by itself
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("beside the old file is %v", list)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("the old file is %.20q, %v", b, err)
	}
}

// Large files of an archive are unpacked unchanged.
func TestLargeFileTar(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	want := random(large[2])
	for _, name := range []string{"a", "b"} {
		if err := tw.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(want)), Mode: 0o640}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(want); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.TarUp(within(t, time.Minute), "", dir, &archive); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s has %d bytes, %v", name, len(got), err)
		}
	}
}
