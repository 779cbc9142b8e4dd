// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/warren-vm/warren/internal/link"
)

// tell passes on changes that the host reports: to the kernel, which drops its
// cached data, and to programs that watch files, by repeating the change in the
// guest. The host recognises such requests by their group and changes nothing.
func (f *folder) tell(done <-chan struct{}) {
	runtime.LockOSThread() // never unlocked: the thread has another group and ends with this goroutine
	if _, _, no := syscall.RawSyscall(syscall.SYS_SETFSGID, link.NudgeGID, 0, 0); no != 0 {
		return
	}
	var watchers watchers
	for {
		select {
		case <-done:
			return
		case <-f.news:
		}
		f.mu.Lock()
		queue := f.queue
		f.queue = nil
		f.mu.Unlock()
		for _, b := range queue {
			kind := int(binary.LittleEndian.Uint32(b[4:]))
			if kind < link.NudgeCreate {
				_, _ = syscall.Write(f.raw, b) // an error says that the kernel has nothing cached
				continue
			}
			f.replay(kind, b[outHeader:], &watchers)
		}
	}
}

// replay repeats a change of the host if a program of the guest watches the place.
func (f *folder) replay(kind int, b []byte, w *watchers) {
	const fixed = 32
	if len(b) < fixed {
		return
	}
	le := binary.LittleEndian
	dirIno, ino, size, mode, path := le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint32(b[24:]), string(b[fixed:])
	if w.find(f.tree); !w.inodes[dirIno] && !w.inodes[ino] {
		return
	}
	dir, err := f.beneath(filepath.Dir(path))
	if err != nil {
		return
	}
	defer func() { _ = syscall.Close(dir) }()
	name := filepath.Base(path)
	// Each call fails if the guest has seen the change itself by now.
	switch kind {
	case link.NudgeCreate:
		f.make(dir, name, mode)
	case link.NudgeDelete:
		flags := 0
		if mode&syscall.S_IFMT == syscall.S_IFDIR {
			flags = 0x200 // AT_REMOVEDIR
		}
		_ = unlinkat(dir, name, flags)
	case link.NudgeWritten:
		if fd, err := syscall.Openat(dir, name, syscall.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0); err == nil {
			_ = syscall.Ftruncate(fd, int64(size))
			_ = syscall.Close(fd)
		}
	case link.NudgeAttrib:
		const path = 0x200000 // O_PATH
		if fd, err := syscall.Openat(dir, name, path|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0); err == nil {
			_ = syscall.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode&0o7777)
			_ = syscall.Close(fd)
		}
	}
}

func (f *folder) make(dir int, name string, mode uint32) {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		_ = syscall.Mkdirat(dir, name, 0o700)
	case syscall.S_IFLNK:
		_ = symlinkat("x", dir, name)
	default:
		_ = syscall.Mknodat(dir, name, mode&syscall.S_IFMT|0o600, 0)
	}
}

// beneath opens a directory of the folder; it refuses links and mounts that a
// program of the guest put into the path.
func (f *folder) beneath(path string) (int, error) {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	const (
		sysOpenat2 = 437
		inside     = 0x0f // no other mount, no links, beneath
	)
	how := struct{ flags, mode, resolve uint64 }{syscall.O_DIRECTORY | syscall.O_CLOEXEC | 0x200000, 0, inside}
	fd, _, no := syscall.Syscall6(sysOpenat2, uintptr(f.tree), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	if no != 0 {
		return -1, no
	}
	return int(fd), nil
}

func unlinkat(dir int, name string, flags int) error {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	if _, _, no := syscall.Syscall(syscall.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags)); no != 0 {
		return no
	}
	return nil
}

func symlinkat(target string, dir int, name string) error {
	t, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	if _, _, no := syscall.Syscall(syscall.SYS_SYMLINKAT, uintptr(unsafe.Pointer(t)), uintptr(dir), uintptr(unsafe.Pointer(p))); no != 0 {
		return no
	}
	return nil
}

// watchersFor is how long a list of watched files is used before it is read again.
const watchersFor = 250 * time.Millisecond

// watchers are the files of a folder that programs watch.
type watchers struct {
	found  time.Time
	inodes map[uint64]bool
}

// find reads the list from every inotify descriptor in /proc.
func (w *watchers) find(tree int) {
	if time.Since(w.found) < watchersFor {
		return
	}
	w.inodes = map[uint64]bool{}
	defer func() { w.found = time.Now() }()
	var st syscall.Stat_t
	if err := syscall.Fstat(tree, &st); err != nil {
		return
	}
	sdev := strconv.FormatInt(int64(minor(st.Dev)), 16)
	dirs, _ := filepath.Glob("/proc/[0-9]*/fd") // fails only for an invalid pattern
	for _, dir := range dirs {
		fds, _ := os.ReadDir(dir) // empty if the process has ended
		for _, fd := range fds {
			if to, err := os.Readlink(dir + "/" + fd.Name()); err != nil || to != "anon_inode:inotify" {
				continue
			}
			for _, l := range procLines(dir + "info/" + fd.Name()) {
				fields := strings.Fields(l)
				if len(fields) < 4 || fields[0] != "inotify" || strings.TrimPrefix(fields[3], "sdev:") != sdev {
					continue
				}
				if n, err := strconv.ParseUint(strings.TrimPrefix(fields[2], "ino:"), 16, 64); err == nil {
					w.inodes[n] = true
				}
			}
		}
	}
}
