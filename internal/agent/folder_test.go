// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestMountAt: a mount is found by every path that leads to it, whatever
// characters it has; a path inside it is no mount.
func TestMountAt(t *testing.T) {
	dir := t.TempDir()
	place := filepath.Join(dir, "real", "with a \\ and\ta #")
	if err := os.MkdirAll(place, 0o755); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Error(err)
	}
	linked := filepath.Join(dir, "link", filepath.Base(place))
	if number, kind := mountAt(place); number != "" || kind != "" {
		t.Errorf("nothing is mounted: %q, %q", number, kind)
	}
	if err := syscall.Mount("of-a-test", linked, "tmpfs", 0, ""); err != nil {
		t.Skipf("no mounts: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(place, syscall.MNT_DETACH) })
	number, kind := mountAt(place)
	if number == "" || kind != "tmpfs of-a-test" {
		t.Errorf("the mount is number %q of %q, want a number and tmpfs of-a-test", number, kind)
	}
	if again, _ := mountAt(linked); again != number {
		t.Errorf("through a link: %q, not %q", again, number)
	}
	if err := os.Mkdir(filepath.Join(place, "in"), 0o755); err != nil {
		t.Error(err)
	}
	if number, _ := mountAt(filepath.Join(place, "in")); number != "" {
		t.Errorf("what lies in it: %q", number)
	}
	if deviceAt(place) != "" {
		t.Error("it is no folder of the host")
	}
}
