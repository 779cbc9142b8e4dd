// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// A disk is formatted only if it is empty.
func TestHolds(t *testing.T) {
	disk := func(change func([]byte)) []byte {
		b := make([]byte, 64<<10)
		change(b)
		return b
	}
	ext4 := func(b []byte) { binary.LittleEndian.PutUint16(b[1024+0x38:], 0xef53) }
	for want, b := range map[string][]byte{
		vm.DiskEmpty:   disk(func([]byte) {}),
		vm.DiskClean:   disk(ext4),
		vm.DiskDirty:   disk(func(b []byte) { ext4(b); b[1024+0x60] = 0x42 | 0x4 }),
		vm.DiskForeign: disk(func(b []byte) { b[60000] = 1 }),
	} {
		if got := holds(b); got != want {
			t.Errorf("the disk holds %s, want %s", got, want)
		}
	}
}

// Paths on which a volume may be mounted, and others.
func TestMountPoint(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(dir, "root")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path string
		over bool
		code string
	}{
		{path: dir + "/new/deep"},
		{path: dir + "/new/deep"}, // it is empty
		{path: dir, code: "MOUNT_PATH_NOT_EMPTY"},
		{path: dir, over: true},
		{path: dir + "/file", code: "MOUNT_PATH_INVALID"},
		{path: dir + "/file/below", code: "MOUNT_PATH_INVALID"},
		{path: dir + "/root", over: true, code: "MOUNT_PATH_INVALID"},
		{path: "/", over: true, code: "MOUNT_PATH_INVALID"},
		{path: "/proc", code: "MOUNT_PATH_INVALID"},
		{path: "relative", code: "MOUNT_PATH_INVALID"},
	} {
		err := mountPoint(tc.path, tc.over)
		if (err == nil) != (tc.code == "") || err != nil && vm.AsError(err).Code != tc.code {
			t.Errorf("%s, over %v: %v, want %q", tc.path, tc.over, err, tc.code)
		}
	}
}

func TestMemFree(t *testing.T) {
	if n := memFree([]string{"MemTotal:         490048 kB", "MemFree:          101024 kB", "MemAvailable:     5 kB"}); n != 101024<<10 {
		t.Errorf("free memory is %d bytes, want %d", n, 101024<<10)
	}
	if n := memFree(nil); n != 0 {
		t.Errorf("free memory of nothing is %d bytes, want 0", n)
	}
}

// A refusal to unmount names exactly the processes that use the place.
func TestUsersOf(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/used", 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(dir + "/used/open")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	me := strconv.Itoa(os.Getpid())
	if users := usersOf(dir + "/used"); len(users) != 1 || !strings.HasPrefix(users[0], me+" ") {
		t.Errorf("users %q, want %s", users, me)
	}
	if users := usersOf(dir + "/use"); len(users) != 0 {
		t.Errorf("a name that only begins like it: %q", users)
	}
}
