// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qcow_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/vm"
)

// img runs qemu-img or qemu-io on a disk that the test itself made.
func img(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v failed: %v: %s", program, args, err, out)
	}
}

// chain opens disks, the top first.
func chain(t *testing.T, paths ...string) *qcow.Chain {
	t.Helper()
	var layers []*qcow.DiskLayer
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		l, err := qcow.OpenLayer(f)
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
	}
	c, err := qcow.NewChain(layers...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stack makes three layers, each larger than the one below, with writes, zeros and
// holes of a fixed seed.
func stack(t *testing.T) (paths []string) {
	t.Helper()
	needImager(t)
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	below := ""
	for i, size := range []int{3 << 20, 700 << 20, 1 << 30} {
		path := filepath.Join(dir, fmt.Sprintf("l%d.qcow2", i))
		args := []string{"create", "-q", "-f", "qcow2"}
		if below != "" {
			args = append(args, "-F", "qcow2", "-b", below)
		}
		img(t, "qemu-img", append(args, path, fmt.Sprint(size))...)
		var do []string
		for range 40 {
			at, n := r.IntN(size-(1<<20))&^511, 512*(1+r.IntN(600))
			if r.IntN(4) == 0 {
				do = append(do, "-c", fmt.Sprintf("write -z %d %d", at&^65535, 65536*(1+r.IntN(4))))
				continue
			}
			do = append(do, "-c", fmt.Sprintf("write -P %d %d %d", 1+r.IntN(255), at, n))
		}
		img(t, "qemu-io", append(do, path)...)
		paths, below = append([]string{path}, paths...), path
	}
	return paths
}

// A chain reads what QEMU reads.
func TestChainReadsWhatQEMUReads(t *testing.T) {
	paths := stack(t)
	c := chain(t, paths...)
	raw := filepath.Join(t.TempDir(), "raw")
	img(t, "qemu-img", "convert", "-O", "raw", paths[0], raw)
	f, err := os.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, got := make([]byte, 1<<20), make([]byte, 1<<20)
	for off := int64(0); off < c.Size(); off += int64(len(got)) {
		if _, err := f.ReadAt(want, off); err != nil {
			t.Fatal(err)
		}
		if _, err := c.ReadAt(got, off); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("the MiB at %d differs from what QEMU reads", off)
		}
		n, err := c.Zeros(off, int64(len(got)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want[:n], make([]byte, n)) {
			t.Fatalf("%d bytes at %d are not zeros", n, off)
		}
	}
}

// Differ names every block in which two disks differ, and nothing outside of what
// was written since the layer that they share.
func TestDiffer(t *testing.T) {
	paths := stack(t)
	var layers []*qcow.DiskLayer
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		l, err := qcow.OpenLayer(f)
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
	}
	a, err := qcow.NewChain(layers[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := qcow.NewChain(layers...)
	if err != nil {
		t.Fatal(err)
	}
	named := map[int64]bool{}
	runs := int64(0)
	err = qcow.Differ(a, b, func(off, n int64) error {
		for at := off; at < off+n; at += qcow.ClusterSize {
			named[at] = true
		}
		runs += n
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pa, pb := make([]byte, qcow.ClusterSize), make([]byte, qcow.ClusterSize)
	for off := int64(0); off < b.Size(); off += qcow.ClusterSize {
		clear(pa)
		if off < a.Size() {
			if _, err := a.ReadAt(pa[:min(int64(len(pa)), a.Size()-off)], off); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.ReadAt(pb, off); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(pa, pb) && !named[off] {
			t.Errorf("the cluster at %d differs and is not named", off)
		}
	}
	if runs > 64<<20 {
		t.Errorf("%d bytes are named, 40 writes of at most 300 KiB were made", runs)
	}
}

// Tables that a hostile guest damaged are refused.
func TestChainRefuses(t *testing.T) {
	paths := stack(t)
	data, err := os.ReadFile(paths[2])
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(d []byte){
		"an L1 table outside of the file":    func(d []byte) { d[40] = 0; d[41] = 0; d[42] = 1 },
		"too few L1 entries":                 func(d []byte) { d[36], d[37], d[38], d[39] = 0, 0, 0, 0 },
		"a layer larger than the one above":  func(d []byte) { d[24+3] = 1 },
		"an L2 table outside of every place": func(d []byte) { copy(d[l1Of(d):], []byte{0x80, 0xff, 0xff, 0xff, 0, 0, 0, 0}) },
		"an L2 table beyond the file":        func(d []byte) { copy(d[l1Of(d):], []byte{0x80, 0, 0x0f, 0, 0, 0, 0, 0}) },
	} {
		t.Run(name, func(t *testing.T) {
			bad := bytes.Clone(data)
			damage(bad)
			l, err := qcow.OpenLayer(bytes.NewReader(bad))
			if err == nil {
				f, _ := os.Open(paths[1])
				defer f.Close()
				above, _ := qcow.OpenLayer(f)
				var c *qcow.Chain
				if c, err = qcow.NewChain(above, l); err == nil {
					_, err = c.ReadAt(make([]byte, 3<<20), 0)
				}
			}
			if vm.KindOf(err) != vm.Corrupt {
				t.Errorf("the disk is read: %v, want kind corrupt", err)
			}
		})
	}
}

func l1Of(d []byte) int { return int(d[45])<<16 | int(d[46])<<8 }
