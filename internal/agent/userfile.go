// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// userFile is a file that was opened for a user. It is also read and written as the user: some
// kernel files, and the disk's reserve and quotas, check who writes, not who opened the file.
type userFile struct {
	file *os.File
	user linuxUser
}

func (f userFile) Read(p []byte) (n int, err error) {
	derr := f.user.do(func() error { n, err = f.file.Read(p); return nil })
	return n, first(derr, err)
}

func (f userFile) Write(p []byte) (n int, err error) {
	derr := f.user.do(func() error { n, err = f.file.Write(p); return nil })
	return n, first(derr, err)
}

func (f userFile) ReadAt(p []byte, at int64) (n int, err error) {
	derr := f.user.do(func() error { n, err = f.file.ReadAt(p, at); return nil })
	return n, first(derr, err)
}

func (f userFile) WriteAt(p []byte, at int64) (n int, err error) {
	derr := f.user.do(func() error { n, err = f.file.WriteAt(p, at); return nil })
	return n, first(derr, err)
}

// first returns the first error of the two.
func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// Constants that package syscall lacks: openat2, its RESOLVE_NO_MAGICLINKS, and the
// magic number of procfs.
const (
	sysOpenat2   = 437
	noMagicLinks = 2
	procMagic    = 0x9fa0
)

// open opens a file for the user, within do. Only root can reach the agent through /proc: for the
// kernel the thread that acts for the user is the agent, whose open files and memory are its own.
func (a *linuxUser) open(path string, flags int, mode fs.FileMode) (*os.File, error) {
	if a.uid == 0 {
		return os.OpenFile(path, flags, mode)
	}
	how := struct{ flags, mode, resolve uint64 }{uint64(flags | syscall.O_CLOEXEC), 0, noMagicLinks}
	if flags&os.O_CREATE != 0 {
		how.mode = uint64(unixMode(mode))
	}
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return nil, err
	}
	here := -0x64 // AT_FDCWD
	var fd uintptr
	e := syscall.EINTR
	for e == syscall.EINTR {
		fd, _, e = syscall.Syscall6(sysOpenat2, uintptr(here), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	}
	var f *os.File
	switch {
	case e == syscall.ENOSYS: // before Linux 5.6
		f, err = os.OpenFile(path, flags, mode)
		if err != nil {
			return nil, err
		}
	case e != 0:
		return nil, &fs.PathError{Op: "open", Path: path, Err: e}
	default:
		f = os.NewFile(fd, path)
	}
	if agents(f) {
		_ = f.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EACCES}
	}
	return f, nil
}

// agents reports whether a file is one of /proc about this process.
func agents(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return true
	}
	var st syscall.Statfs_t
	var name string
	_ = raw.Control(func(fd uintptr) {
		if err = syscall.Fstatfs(int(fd), &st); err == nil && st.Type == procMagic {
			name, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd)))
		}
	})
	return err != nil || strings.Contains(name+"/", "/"+strconv.Itoa(os.Getpid())+"/")
}

// readDir lists a directory for the user, within do, sorted by name.
func (a *linuxUser) readDir(path string) ([]fs.DirEntry, error) {
	f, err := a.open(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}
