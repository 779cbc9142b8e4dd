//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: it mounts file systems and kills processes of any user")
	}
}

// crashHost is newHost for what crashes. With diskMiB its data is on a small file
// system of its own.
func crashHost(t testing.TB, diskMiB int64) *host {
	t.Helper()
	needRoot(t)
	within := ""
	if diskMiB > 0 {
		dir, err := mountImage(t, diskMiB<<20, "mkfs.ext4", "-q", "-F", "-m", "0")
		if err != nil {
			t.Fatal(err)
		}
		within = dir
	}
	h := unstartedIn(t, within)
	h.serve()
	t.Cleanup(h.close)
	if diskMiB == 0 { // a small disk has no room for the pool
		h.poolReady()
	}
	return h
}

// mountImage mounts a new file system, in a file of that size, and returns its
// directory; its error is that of the mount.
func mountImage(t testing.TB, size int64, mkfs ...string) (dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	file := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, size)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs[0], append(mkfs[1:], file)...).CombinedOutput(); err != nil {
		t.Fatalf("%v failed: %v\n%s", mkfs, err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", file, dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("mount: %w: %s", err, out)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, nil
}

// revive starts the server again when its record store met the full disk: it
// says so and ends, and its VMs keep running.
func (h *host) revive() {
	h.t.Helper()
	select {
	case err := <-h.ended:
		if !strings.Contains(h.log.String(), "the record store has failed; VMs keep running") {
			h.t.Fatalf("serve ended: %v\n%s", err, h.log)
		}
		h.t.Logf("the record store met the full disk; serve is started again")
		h.serve()
	case <-time.After(time.Second):
	}
}

// free returns what the data directory's file system has left, in MiB.
func (h *host) free() int {
	h.t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(h.data, &st); err != nil {
		h.t.Fatal(err)
	}
	return int(int64(st.Bavail) * st.Bsize >> 20)
}

func (h *host) ballast() string { return filepath.Join(h.data, "ballast") }

// leave fills the small disk until only that much is left.
func (h *host) leave(mib int) {
	h.t.Helper()
	h.makeRoom()
	if err := h.take(int64(h.free()-mib) << 20); err != nil {
		h.t.Fatal(err)
	}
}

// take adds a file of n bytes to the disk.
func (h *host) take(n int64) error {
	f, err := os.OpenFile(h.ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil {
		err = unix.Fallocate(int(f.Fd()), 0, st.Size(), n)
	}
	return errors.Join(err, f.Close())
}

// fill leaves nothing.
func (h *host) fill() {
	for _, n := range []int64{256 << 20, 16 << 20, 1 << 20, 64 << 10, 4 << 10} {
		for h.take(n) == nil {
		}
	}
}

func (h *host) makeRoom() {
	h.t.Helper()
	if err := os.RemoveAll(h.ballast()); err != nil {
		h.t.Fatal(err)
	}
}
