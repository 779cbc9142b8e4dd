// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"crypto/ed25519"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/warren-vm/warren/internal/backup"
	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestRestoreHostile: a backup that is properly signed but has a path with "..", or a file
// that belongs to one run of a server, restores nothing, inside of the directory or outside.
func TestRestoreHostile(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	restore := func(t *testing.T, files ...vmtest.ArchiveFile) (around string, err error) {
		t.Helper()
		data, err := vmtest.Archive(key, bundle.OfServer, backup.Facts{}, append([]vmtest.ArchiveFile{{Path: "records.jsonl"}, {Path: "data/format", Text: "1\n"}}, files...)...)
		must(t, err)
		path := filepath.Join(t.TempDir(), "foreign.tar.zst")
		must(t, os.WriteFile(path, data, 0o600))
		around = t.TempDir()
		_, err = backup.Restore(t.Context(), source(path), filepath.Join(around, "to"))
		return around, err
	}
	if around, err := restore(t); err != nil || len(names(t, filepath.Join(around, "to"))) == 0 {
		t.Fatalf("a foreign backup without a fault: %v", err)
	}
	for _, path := range []string{"../evil", "data/../../evil", "data/../evil", "/evil", "data/restoring/evil", "data/etcd/evil", "data/bin/evil", "data/.evil", "evil"} {
		around, err := restore(t, vmtest.ArchiveFile{Path: path, Text: "x"})
		if !errors.Is(err, vm.Invalid) {
			t.Errorf("the entry %s: %v, want kind %s", path, err, vm.Invalid)
		}
		if left := names(t, around); len(left) > 1 {
			t.Errorf("the entry %s left %v around the directory", path, left)
		}
		if _, err := os.Stat(filepath.Join(around, "to")); err == nil {
			if left := names(t, filepath.Join(around, "to")); len(left) > 0 {
				t.Errorf("the entry %s left %v in the directory", path, left)
			}
		}
	}
}

// small mounts a disk of a size on a directory until the test ends.
func small(t *testing.T, dir, size string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts a small disk")
	}
	must(t, syscall.Mount("small", dir, "tmpfs", 0, "size="+size))
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
}

// TestFullDisk: if the disk fills while a copy is made, restored or verified, wherever it
// does, the answer has kind no-space, and nothing is left that looks like a backup or a data
// directory.
func TestFullDisk(t *testing.T) {
	s := newServer(t)
	src := s.copied(t)
	for _, size := range []string{"4k", "64k", "1m", "48m"} { // among the files; then in the record store
		to := t.TempDir()
		small(t, to, size)
		if _, err := backup.Restore(t.Context(), src, to); !errors.Is(err, vm.NoSpace) {
			t.Errorf("a restore to a disk of %s: %v, want kind %s", size, err, vm.NoSpace)
		}
		if left := names(t, to); len(left) != 0 {
			t.Errorf("a restore to a disk of %s left %v", size, left)
		}
		r, err := backup.Verify(t.Context(), src, to)
		if !errors.Is(err, vm.NoSpace) || r.OK {
			t.Errorf("a verification on a disk of %s: %v, want kind %s", size, err, vm.NoSpace)
		}
		if left := names(t, to); len(left) != 0 {
			t.Errorf("a verification on a disk of %s left %v", size, left)
		}
	}
	small(t, s.Dir.Cache(), "4k")
	must(t, os.WriteFile(filepath.Join(s.Dir.Cache(), "ballast"), make([]byte, 4<<10), 0o600))
	_, err := s.Rooms.Backup.Create(t.Context(), s.admin, io.Discard, func() error {
		t.Error("a copy begins before the records are read")
		return nil
	})
	if !errors.Is(err, vm.NoSpace) {
		t.Errorf("a copy by a server whose disk is full: %v, want kind %s", err, vm.NoSpace)
	}
}

// full is a file on a disk that fills up.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return f.left, &os.PathError{Op: "write", Path: "copy", Err: syscall.ENOSPC}
	}
	f.left -= len(p)
	return len(p), nil
}

// TestCreateOntoFullDisk: a copy whose reader fails ends with its error, wherever that is,
// and the server makes another one then.
func TestCreateOntoFullDisk(t *testing.T) {
	s := newServer(t)
	st, err := os.Stat(s.copied(t).Path)
	must(t, err)
	for _, room := range []int{0, int(st.Size() / 2), int(st.Size()) - 500} {
		if _, err := s.Rooms.Backup.Create(t.Context(), s.admin, &full{room}, func() error { return nil }); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("with room for %d bytes: %v, want that the disk is full", room, err)
		}
	}
	s.copied(t)
}
