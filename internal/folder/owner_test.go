// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOwnersRights: where the server is root and the folder another user's, the
// guest has that user's rights, and those of no group of root's.
func TestOwnersRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can take another's rights")
	}
	const owner = 65534
	dir, err := os.MkdirTemp("", "warren-folder-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	put(t, filepath.Join(dir, "groups"), "root's and its group's")
	put(t, filepath.Join(dir, "own"), "the owner's")
	for _, err := range []error{
		os.Chmod(filepath.Join(dir, "groups"), 0o640), os.Chmod(filepath.Join(dir, "own"), 0o600),
		os.Chown(filepath.Join(dir, "own"), owner, owner), os.Chown(dir, owner, owner),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before, err := unix.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setgroups([]int{0}); err != nil { // of all threads, as after a log-in
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setgroups(before); err != nil {
			t.Error(err)
		}
	})
	k := serve(t, dir, true)
	if got, no := k.content(k.find(rootID, "own")); no != 0 || got != "the owner's" {
		t.Errorf("the owner's file reads as %q (%v), want the owner's", got, no)
	}
	if got, no := k.content(k.find(rootID, "groups")); no != unix.EACCES {
		t.Errorf("what only root's group may read: %q, %v", got, no)
	}
}
