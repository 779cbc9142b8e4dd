// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qcow

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// openChain opens layers, the top first.
func openChain(t *testing.T, paths ...string) *Chain {
	t.Helper()
	var layers []*DiskLayer
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		l, err := OpenLayer(f)
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
	}
	c, err := NewChain(layers...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tool(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s failed: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestWriteLayer: a disk that is written from the runs of another one, which has several
// layers with data, zeros and holes, has the same contents by QEMU's own reading, and
// QEMU finds no fault in it.
func TestWriteLayer(t *testing.T) {
	dir := t.TempDir()
	const size = 3 << 30
	path := func(name string) string { return filepath.Join(dir, name) }
	tool(t, "qemu-img", "create", "-q", "-f", "qcow2", path("base"), "3G")
	tool(t, "qemu-io", "-c", "write -P 1 0 1M", "-c", "write -P 2 600M 200k", "-c", "write -P 9 2900M 64k", path("base"))
	tool(t, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", "base", path("mid"))
	tool(t, "qemu-io", "-c", "write -P 3 64k 130k", "-c", "write -P 4 1023M 5M", "-c", "write -z 600M 64k", path("mid"))
	tool(t, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", "mid", path("top"))
	script := []string{"qemu-io"}
	src := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		script = append(script, "-c", "write -P 7 "+strconv.FormatInt(src.Int64N(size-1<<20), 10)+" 70k")
	}
	tool(t, append(script, path("top"))...)
	disk, base := openChain(t, path("top"), path("mid"), path("base")), openChain(t, path("base"))
	runs, err := Extents(disk, base)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckExtents(runs, size); err != nil {
		t.Fatal(err)
	}
	if err := WriteLayer(path("flat"), "base", size, runs, disk.Reader(runs)); err != nil {
		t.Fatal(err)
	}
	tool(t, "qemu-img", "check", path("flat"))
	tool(t, "qemu-img", "compare", path("flat"), path("top"))
	if h, err := Check(path("flat"), Layer); err != nil || h.Backing != "base" {
		t.Errorf("its own header is read as %+v, %v", h, err)
	}
	if st, err := os.Stat(path("flat")); err != nil || st.Size() > DataBytes(runs)+1<<20 {
		t.Errorf("the disk takes %d bytes for %d of data", st.Size(), DataBytes(runs))
	}
	if err := WriteLayer(path("short"), "base", size, runs, io.LimitReader(disk.Reader(runs), 100)); err == nil {
		t.Error("data that ends early makes a disk")
	}
	if err := WriteLayer(path("bare"), "base", size, nil, bytes.NewReader(nil)); err != nil {
		t.Fatal(err)
	}
	tool(t, "qemu-img", "compare", path("bare"), path("base"))
}

// TestCheckExtents: runs that overlap, leave the disk or are no whole clusters are refused.
func TestCheckExtents(t *testing.T) {
	const c = ClusterSize
	for name, list := range map[string][]Extent{
		"out of order":    {{Off: 4 * c, Len: c}, {Off: 0, Len: c}},
		"an overlap":      {{Off: 0, Len: 2 * c}, {Off: c, Len: c}},
		"beyond the end":  {{Off: 9 * c, Len: 2 * c}},
		"an overflow":     {{Off: c, Len: 1<<63 - c}},
		"part of cluster": {{Off: 0, Len: c / 2}},
		"negative":        {{Off: -c, Len: c}},
		"empty":           {{Off: c, Len: 0}},
	} {
		if err := CheckExtents(list, 10*c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := CheckExtents([]Extent{{Off: 0, Len: c}, {Off: c, Len: 9 * c, Zero: true}}, 10*c); err != nil {
		t.Errorf("runs without a fault: %v", err)
	}
}
