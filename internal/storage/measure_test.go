// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
)

func write(t *testing.T, path string, size int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	settle(t, path)
}

// settle writes a file back: only then it has its blocks.
func settle(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func measured(t *testing.T, dir layout.Dir) []File {
	t.Helper()
	files, err := Measurer{dir}.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func itemsOf(f *File) []Item { return []Item{f.Item} }

// Holes take nothing, and a disk that a generation holds by a second
// name is there once.
func TestMeasure(t *testing.T) {
	dir := layout.Dir(t.TempDir())
	write(t, dir.Overlay("a"), 1<<20)
	write(t, layout.VMDir(dir.VM("a")).ColdRAM(), 1<<18)
	if err := os.Truncate(layout.VMDir(dir.VM("a")).ColdRAM(), 1<<40); err != nil {
		t.Fatal(err)
	}
	gen := layout.GenerationDir(dir.Generation("g"))
	write(t, gen.RAM(), 1<<19)
	if err := os.Link(dir.Overlay("a"), gen.Disk()); err != nil {
		t.Fatal(err)
	}
	write(t, dir.ImageDisk("i"), 1<<20)
	write(t, filepath.Join(dir.Volume("v"), "disk"), 1<<17)
	write(t, filepath.Join(dir.Repo("r"), "objects", "pack", "p.pack"), 1<<21)
	write(t, filepath.Join(dir.RepoIncoming(), "x"), 1<<15)
	write(t, filepath.Join(dir.Audit(), "1"), 1<<16)
	write(t, dir.AdminKey(), 10)
	files := measured(t, dir)
	use := Sum(files, itemsOf)
	const slack = 64 << 10 // directories
	near := func(item Item, unique, shared int64) {
		t.Helper()
		got := use.Of[item]
		if got.Unique < unique || got.Unique > unique+slack || got.Shared != shared {
			t.Errorf("%v: %+v, not about %d and %d", item, got, unique, shared)
		}
	}
	near(Item{VM, "a"}, 1<<18, 1<<20)
	near(Item{Generation, "g"}, 1<<19, 1<<20)
	near(Item{Image, "i"}, 1<<20, 0)
	near(Item{Volume, "v"}, 1<<17, 0)
	near(Item{Repository, "r"}, 1<<21, 0)
	near(Item{Other, "repos"}, 1<<15, 0)
	near(Item{Other, "audit"}, 1<<16, 0)
	near(Item{Other, "files"}, 1, 0)
	if want := int64(1<<20 + 1<<18 + 1<<19 + 1<<20 + 1<<17 + 1<<21 + 1<<15 + 1<<16); use.Total < want || use.Total > want+11*slack {
		t.Errorf("%d bytes in all, not about %d", use.Total, want)
	}
	for _, f := range files {
		if want := filepath.Base(f.Path) == "ram"; f.Memory != want {
			t.Errorf("%s: memory %v", f.Path, f.Memory)
		}
	}
}

func TestMeasureOfNoDirectory(t *testing.T) {
	files, err := Measurer{layout.Dir(filepath.Join(t.TempDir(), "none"))}.Measure(t.Context())
	if err != nil || len(files) != 0 {
		t.Errorf("a directory that does not exist has %v (%v), want no files", files, err)
	}
}

// TestMeasureByLink: a data directory may be known by another name.
func TestMeasureByLink(t *testing.T) {
	dir := layout.Dir(t.TempDir())
	write(t, dir.Overlay("a"), 1<<16)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(string(dir), link); err != nil {
		t.Fatal(err)
	}
	if use := Sum(measured(t, layout.Dir(link)), itemsOf); use.Of[Item{VM, "a"}].Unique < 1<<16 {
		t.Errorf("through a link the measure is %+v, want the overlay of a", use)
	}
}

func TestParseExtents(t *testing.T) {
	buf := make([]byte, fiemapHeader+fiemapBatch*fiemapExtent)
	extents := []struct {
		logical, physical, length uint64
		flags                     uint32
	}{
		{0, 1000, 100, extentShared},
		{100, 5000, 50, 0},
		{150, 0, 50, extentShared | 0x4}, // not written yet: it has no place
		{400, 7000, 10, extentShared},
	}
	for i, e := range extents {
		at := buf[fiemapHeader+i*fiemapExtent:]
		binary.NativeEndian.PutUint64(at, e.logical)
		binary.NativeEndian.PutUint64(at[8:], e.physical)
		binary.NativeEndian.PutUint64(at[16:], e.length)
		binary.NativeEndian.PutUint32(at[40:], e.flags)
	}
	binary.NativeEndian.PutUint32(buf[20:], uint32(len(extents)))
	got, next, more := parseExtents(buf)
	if want := []Range{{1000, 1100}, {7000, 7010}}; !slices.Equal(got, want) || next != 410 || !more {
		t.Errorf("%v, next at %d, %v", got, next, more)
	}
	last := buf[fiemapHeader+3*fiemapExtent:]
	binary.NativeEndian.PutUint32(last[40:], extentShared|extentLast)
	if got, _, more := parseExtents(buf); len(got) != 2 || more {
		t.Errorf("after the last extent: %v, %v", got, more)
	}
	binary.NativeEndian.PutUint32(buf[20:], 0)
	if got, _, more := parseExtents(buf); len(got) != 0 || more {
		t.Errorf("of a file without blocks: %v, %v", got, more)
	}
}

// TestReflink asks a real file system whose files can have blocks in common,
// where one can be mounted here.
func TestReflink(t *testing.T) {
	at := mountXFS(t)
	dir := layout.Dir(at)
	write(t, dir.Overlay("a"), 4<<20)
	if err := os.MkdirAll(dir.VM("b"), 0o700); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(dir.Overlay("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(dir.Overlay("b"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd())); err != nil {
		t.Skipf("the file system copies nothing by reference: %v", err)
	}
	if _, err := to.WriteAt(bytes.Repeat([]byte{9}, 1<<20), 0); err != nil {
		t.Fatal(err)
	}
	settle(t, dir.Overlay("b"))
	use := Sum(measured(t, dir), itemsOf)
	for _, id := range []string{"a", "b"} {
		got := use.Of[Item{VM, id}]
		if got.Shared != 3<<20 || got.Unique < 1<<20 || got.Unique > 1<<20+64<<10 {
			t.Errorf("%s: %+v, not 3 MiB shared and 1 MiB of its own", id, got)
		}
	}
}

func mountXFS(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root mounts")
	}
	disk, at := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(disk, 512<<20); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.xfs", "-q", "-m", "reflink=1", disk}, {"mount", "-o", "loop", disk, at}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no XFS can be mounted here: %v: %s", err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return at
}
