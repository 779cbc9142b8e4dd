// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/review"
)

// large makes a disk with 100,000 files, and layers above it in which 10 and 1,000 of
// them differ.
func large(b *testing.B) (base string, changed map[int]string) {
	b.Helper()
	dir, tree := b.TempDir(), b.TempDir()
	for i := range 1000 {
		sub := filepath.Join(tree, "work", fmt.Sprintf("d%d", i))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range 100 {
			if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%d.go", j)), []byte(fmt.Sprintf("package d%d\n\nconst F = %d\n", i, j)), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("package other\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	raw := filepath.Join(dir, "raw")
	base = filepath.Join(dir, "base.qcow2")
	tool(b, "", "mke2fs", "-q", "-t", "ext4", "-b", "4096", "-d", tree, raw, "2G")
	tool(b, "", "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, base)
	changed = map[int]string{}
	for _, n := range []int{10, 1000} {
		var commands []string
		for i := range n {
			name := fmt.Sprintf("/work/d%d/f%d.go", i*7919%1000, i%100)
			commands = append(commands, "rm "+name, "write "+text+" "+strings.TrimPrefix(name, "/"))
		}
		other, top := filepath.Join(dir, "other"), filepath.Join(dir, fmt.Sprintf("top%d.qcow2", n))
		tool(b, "", "cp", "--sparse=always", raw, other)
		tool(b, strings.Join(commands, "\n")+"\n", "debugfs", "-w", other)
		layer(b, raw, other, base, top)
		changed[n] = top
	}
	return base, changed
}

// BenchmarkDiff measures comparisons of disks with 100,000 files, and the memory of the
// program.
func BenchmarkDiff(b *testing.B) {
	base, changed := large(b)
	r := newReader(b)
	for _, n := range []int{10, 1000} {
		layers := []string{changed[n], base}
		for name, o := range map[string]reader.Options{"": {Workdir: "/work"}, " with lines": {Workdir: "/work", Hunks: true}} {
			b.Run(fmt.Sprintf("%d of 100000 files%s", n, name), func(b *testing.B) {
				for b.Loop() {
					d, err := r.Diff(b.Context(), []string{base}, layers, o)
					if err != nil {
						b.Fatal(err)
					}
					if d.Stat.Files() < n {
						b.Fatalf("%d files differ, want %d", d.Stat.Files(), n)
					}
				}
				b.ReportMetric(float64(peak(b, base, changed[n], o)), "peak-MiB")
			})
		}
	}
}

// BenchmarkTruth measures answers about a disk with 100,000 files, of which 1,000 or all are
// not the image's.
func BenchmarkTruth(b *testing.B) {
	base, changed := large(b)
	r := newReader(b)
	now := []string{changed[1000], base}
	for name, d := range map[string]reader.Disks{"1000": {Image: []string{base}, Now: now}, "100000": {Now: now}} {
		b.Run(name+" of 100000 files", func(b *testing.B) {
			for b.Loop() {
				files := 0
				if err := r.Truth(b.Context(), d, "/work", func(l review.TruthLine) error {
					if l.File != nil {
						files++
					}
					return nil
				}); err != nil {
					b.Fatal(err)
				}
				if files < 1000 {
					b.Fatalf("%d files are listed", files)
				}
			}
		})
	}
}

// peak runs the program unconfined and returns its greatest resident memory in MiB.
func peak(b *testing.B, base, top string, o reader.Options) int64 {
	b.Helper()
	data, err := json.Marshal(review.Request{Verb: review.VerbDiff, From: []int{0}, To: []int{1, 0}, Options: o})
	if err != nil {
		b.Fatal(err)
	}
	var files []*os.File
	for _, path := range []string{base, top} {
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	cmd := exec.Command(build(b, "warren-reader", "../../cmd/warren-reader"), "2")
	cmd.Stdin, cmd.ExtraFiles = bytes.NewReader(data), files
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		b.Fatal("the system reports no use of memory")
	}
	return usage.Maxrss >> 10
}
