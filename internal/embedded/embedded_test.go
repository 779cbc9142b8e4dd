// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
)

// A program is unpacked as it is, under its digest, and the server that did so
// has not held all of it in memory.
func TestUnpack(t *testing.T) {
	program := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(program)
	from := t.TempDir()
	if err := os.Mkdir(filepath.Join(from, "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "files", "agent"), program, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := layout.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	path, digest, err := unpackOne(d, os.DirFS(from), "agent", 0o700)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if sum := sha256.Sum256(program); digest != hex.EncodeToString(sum[:]) {
		t.Errorf("the digest is %s", digest)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, program) {
		t.Errorf("%d bytes were unpacked, %v", len(got), err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("it took %d bytes of memory", n)
	}
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := unpackOne(d, os.DirFS(from), "agent", 0o700); err != nil {
		t.Fatal(err)
	}
	if second, err := os.Stat(path); err != nil || !os.SameFile(first, second) {
		t.Errorf("a program that is there was written again: %v", err)
	}
}
