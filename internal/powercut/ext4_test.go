// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package powercut_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
)

// TestDurableOnExt4 does each operation on a real ext4, with the options that
// it has by default, takes a copy of what has reached the block device as it
// is, and looks at that after the replay of its journal.
func TestDurableOnExt4(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts file systems")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("needs mkfs.ext4")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skipf("needs loop devices: %v", err)
	}
	// Images are files of another file system, which is frozen for a copy: all of
	// the copy is of one moment, as after a power cut.
	around := mount(t, ext4(t, t.TempDir(), 8<<30))
	for i, o := range operations {
		if strings.HasPrefix(o.name, "a volume") {
			continue // qemu-img takes its time; TestDurable does them
		}
		t.Run(o.name, func(t *testing.T) {
			own := filepath.Join(around, strconv.Itoa(i))
			must(t, os.Mkdir(own, 0o700))
			image := ext4(t, own, 256<<20) // the record store does not begin on less
			dir := mount(t, image)
			run(t, "rmdir", filepath.Join(dir, "lost+found"))
			c := startChild(t, o.name, dir)
			c.part(t)
			settle(t, dir)
			c.part(t)
			cut := filepath.Join(t.TempDir(), "cut")
			run(t, "fsfreeze", "-f", around)
			out, err := exec.Command("cp", "--sparse=always", image, cut).CombinedOutput()
			run(t, "fsfreeze", "-u", around)
			if err != nil {
				t.Fatalf("copying the disk failed: %v: %s", err, out)
			}
			if err := o.check(layout.Dir(mount(t, cut))); err != nil {
				t.Error(err)
			}
		})
	}
}

// ext4 makes a file system in a sparse file of a directory.
func ext4(t *testing.T, dir string, size int64) (image string) {
	t.Helper()
	image = filepath.Join(dir, "image")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, size))
	run(t, "mkfs.ext4", "-q", "-F", image)
	return image
}

func run(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v failed: %v: %s", argv, err, out)
	}
}

func mount(t *testing.T, image string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	run(t, "mount", "-o", "loop", image, dir)
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// settle makes what is on the file system old.
func settle(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	must(t, err)
	defer f.Close()
	must(t, unix.Syncfs(int(f.Fd())))
}
