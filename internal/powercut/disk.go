// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package powercut is a file system for tests that remembers what was synced. A
// test works on it as on any other, and then asks what a power cut would leave: the
// bytes of each file's last fsync, the names of each directory's last fsync, or all
// names without the bytes. A test can also make one fsync do nothing, to check that
// this is detected, or keep an fsync from returning, as a dying disk does.
//
// Everything is in memory. A program that maps files should be a process of its
// own: a page fault of the test's own process needs that process to answer it.
package powercut

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Loss says what happens to unsynced data: disks may lose it, or keep some of it.
type Loss int

const (
	// NamesLost leaves each directory as of its last fsync, the least that POSIX
	// promises. Unsynced bytes are lost in every case.
	NamesLost Loss = iota
	// NamesKept leaves all names: ext4 with delayed allocation does so when its
	// journal is written shortly before the cut. A new file that was renamed into
	// place is empty.
	NamesKept
	// NamesGone loses new names and keeps removals. A name that was replaced has
	// its former file.
	NamesGone
	// Torn is NamesKept, but of each file's unsynced blocks the first one is on the
	// disk, and so is the size.
	Torn
)

// Losses are all of them.
var Losses = []Loss{NamesLost, NamesKept, NamesGone, Torn}

func (l Loss) String() string {
	return [...]string{"names lost", "names kept", "names gone", "torn"}[l]
}

// Sync is one fsync, fdatasync or fsync of a directory.
type Sync struct {
	Path string // below Dir, at the time
	File uint64 // the same for all names of a file
}

// A Disk is one mounted file system.
type Disk struct {
	// Dir is where it is mounted.
	Dir string

	mu     sync.Mutex // guards the fields below, and all nodes
	nodes  map[uint64]*node
	opens  map[uint64][]fuse.DirEntry // directories being read, by handle
	handle uint64
	syncs  []Sync // in order
	ignore func(n int, s Sync) bool
	before func(path string)
	rename func(path string)
}

// Mount mounts an empty disk until the test ends. It skips the test if the host
// does not permit the mount.
func Mount(t testing.TB) *Disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts a file system")
	}
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("needs /dev/fuse: %v", err)
	} else {
		f.Close()
	}
	d := &Disk{Dir: t.TempDir(), nodes: map[uint64]*node{}, opens: map[uint64][]fuse.DirEntry{}}
	d.nodes[fuse.FUSE_ROOT_ID] = newNode(fuse.FUSE_ROOT_ID, syscall.S_IFDIR|0o700)
	d.nodes[fuse.FUSE_ROOT_ID].name = "/"
	server, err := fuse.NewServer(&calls{RawFileSystem: fuse.NewDefaultRawFileSystem(), d: d}, d.Dir, &fuse.MountOptions{
		DirectMountStrict: true, DisableReadDirPlus: true, DisableXAttrs: true, FsName: "powercut", Name: "powercut", MaxWrite: 128 << 10,
	})
	if err != nil {
		t.Fatalf("mount: %v", err)
	}
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		// Tests run side by side and start programs: between fork and exec, a child of another
		// test has this disk's files open. On a busy host that is longer than Unmount waits.
		err := server.Unmount()
		for until := time.Now().Add(20 * time.Second); errors.Is(err, syscall.EBUSY) && time.Now().Before(until); {
			err = server.Unmount()
		}
		if err != nil {
			t.Errorf("unmount: %v", err)
			_ = syscall.Unmount(d.Dir, syscall.MNT_DETACH) // the next test must not find it
		}
	})
	return d
}

// SyncAll marks everything on the disk as synced.
func (d *Disk) SyncAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.nodes {
		n.sync()
	}
}

// Syncs returns what was synced so far, in order.
func (d *Disk) Syncs() []Sync {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.syncs)
}

// Ignore makes those syncs succeed without effect for which f returns true. n is
// the sync's index in Syncs.
func (d *Disk) Ignore(f func(n int, s Sync) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ignore = f
}

// BeforeSync makes each sync call f first, with the path below Dir. The sync
// continues when f returns; if it does not return, the disk hangs. nil removes f.
func (d *Disk) BeforeSync(f func(path string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = f
}

// BeforeRename makes each renaming or removal of a name call f first, with the path below
// Dir. nil removes f.
func (d *Disk) BeforeRename(f func(path string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rename = f
}

// Cut returns a new directory with what a power cut would leave now. The disk
// itself keeps working, and the directory does not change with it.
func (d *Disk) Cut(t testing.TB, l Loss) string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	dir := t.TempDir()
	if err := d.nodes[fuse.FUSE_ROOT_ID].write(dir, l, map[*node]string{}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// write writes to path what is left of n and of everything below it.
func (n *node) write(path string, l Loss, done map[*node]string) error {
	if at, again := done[n]; again {
		return os.Link(at, path)
	}
	perm := fs.FileMode(n.mode & 0o777)
	switch n.mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		return os.Symlink(n.target, path)
	case syscall.S_IFDIR:
		if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
			return err
		}
		left := n.left(l)
		for _, name := range slices.Sorted(maps.Keys(left)) {
			if err := left[name].write(filepath.Join(path, name), l, done); err != nil {
				return err
			}
		}
		return os.Chmod(path, perm)
	case syscall.S_IFREG:
		done[n] = path
		if l == Torn {
			return n.torn().write(path, perm)
		}
		return n.synced.write(path, perm)
	}
	return nil // the kernel owns sockets and the like
}

func (c content) write(path string, perm fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer f.Close()
	for i, b := range c.blocks {
		if _, err := f.WriteAt(b[:], i*blockSize); err != nil {
			return err
		}
	}
	return f.Truncate(c.size)
}
