// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vt

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecorded: what real programs wrote in a guest gives the screen that tmux
// made of the same bytes, and cut at any place, Redraw continues to the same.
func TestRecorded(t *testing.T) {
	names, err := filepath.Glob("testdata/*.raw")
	if err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(strings.TrimSuffix(name, ".raw") + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			whole := New(80, 24)
			_, _ = whole.Write(raw)
			if got := whole.Text(); got != strings.TrimRight(string(want), "\n") {
				t.Errorf("the screen is\n%s", got)
			}
			for cut := 0; cut <= len(raw); cut += 37 {
				first, second := New(80, 24), New(80, 24)
				_, _ = first.Write(raw[:cut])
				_, _ = second.Write(first.Redraw())
				_, _ = second.Write(raw[cut:])
				if !bytes.Equal(second.Redraw(), whole.Redraw()) {
					t.Fatalf("cut at %d of %d:\n%s", cut, len(raw), second.Text())
				}
			}
		})
	}
}

// BenchmarkWrite is the cost of a program's output, by the byte.
func BenchmarkWrite(b *testing.B) {
	raw := bytes.Repeat([]byte("\x1b[32mdrwxr-xr-x\x1b[0m 2 root root 4096 a line of a listing\r\n"), 100)
	s := New(80, 24)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		_, _ = s.Write(raw)
	}
}
