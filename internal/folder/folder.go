// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/vm"
)

// Options configure a folder.
type Options struct {
	RW  bool // otherwise the guest changes nothing
	Log *slog.Logger
	// Rules restrict the guest further; nil = they do not.
	Rules *Rules
}

// Bounds of the host's resources for one guest.
const (
	maxNodes   = 32 << 10 // files that the guest's kernel knows, each a descriptor
	manyNodes  = maxNodes * 3 / 4
	maxHandles = 4096
	maxData    = 1 << 20 // bytes of one read or write
	maxMessage = maxData + 4096
	workers    = 6
)

// How long the guest's kernel may cache an answer: if changes on the host are
// reported to it, and if not.
const (
	watchedFor = 10 * time.Second
	believeFor = 500 * time.Millisecond
)

// resolve restricts the lookup of names to the folder.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// Open opens a directory of the host by its absolute path, which may contain no
// symbolic link. The descriptor stays on that directory if the path changes.
func Open(path string) (*os.File, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
		return nil, vm.Errorf(vm.Invalid, path, "not an absolute path in its shortest form").WithCode("MOUNT_PATH_INVALID", "path", path).
			WithHint("give the directory's absolute path")
	}
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	bad := func(kind vm.Kind, format string, args ...any) *vm.Error {
		return vm.Errorf(kind, path, format, args...).WithCode("HOST_PATH_INVALID", "path", path)
	}
	switch err {
	case nil:
		return os.NewFile(uintptr(fd), path), nil
	case unix.ELOOP:
		e := bad(vm.Invalid, "a part of it is a symbolic link")
		if real, err := filepath.EvalSymlinks(path); err == nil {
			e = e.WithHint("if that is what you mean, give %s", real)
		}
		return nil, e
	case unix.ENOENT:
		return nil, bad(vm.NotFound, "the host has no such directory")
	case unix.ENOTDIR:
		return nil, bad(vm.Invalid, "not a directory")
	case unix.EACCES, unix.EPERM:
		return nil, bad(vm.Denied, "the server may not open it")
	case unix.ENOSYS:
		return nil, vm.Errorf(vm.Unsupported, path, "the host's kernel is older than 5.6")
	}
	return nil, bad(vm.Invalid, "it cannot be opened: %w", err)
}

// Identity distinguishes a directory from another one at the same path.
func Identity(dir *os.File) (vm.FolderID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return vm.FolderID{}, vm.Errorf(vm.Internal, dir.Name(), "%w", err)
	}
	return vm.FolderID{Dev: st.Dev, Ino: st.Ino}, nil
}

// Reopen opens a directory that was checked before; kind WrongState when another
// one is there now.
func Reopen(path string, want vm.FolderID) (*os.File, error) {
	dir, err := Open(path)
	if err != nil {
		return nil, err
	}
	got, err := Identity(dir)
	if err == nil && got != want {
		err = vm.Errorf(vm.WrongState, path, "another directory has taken its place since it was checked").WithCode("HOST_PATH_INVALID", "path", path).
			WithHint("mount it again")
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

func (o Options) log() *slog.Logger { return cmp.Or(o.Log, slog.Default()) }
