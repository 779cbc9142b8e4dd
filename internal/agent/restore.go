// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/warren-vm/warren/vm"
)

// RestoreEntry is the name in the archive of a restore of what takes the place of the
// path; what is below a directory has names below it.
const RestoreEntry = "entry"

// xattrPrefix is what PAX records of extended attributes begin with.
const xattrPrefix = "SCHILY.xattr."

// Constants of Linux on amd64 that package syscall lacks.
const (
	sysRenameat2    = 316
	renameNoReplace = 1
	renameExchange  = 2
)

// restore puts an archive's file, directory or link in the place of a path, in one step:
// other programs see the old one or the new one, and if it fails the old one stays. It
// follows no symlink on the way to the path, makes missing directories, and sets owners,
// modes, times and extended attributes.
func (a *Agent) restore(w *answer, r *request) error {
	u, to, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	if err := u.mayPlace(to); err != nil {
		return fileError(to, err)
	}
	if to = path.Clean(to); to == "/" {
		return badPath(to, "the root directory cannot be restored")
	}
	parent, err := openParent(path.Dir(to))
	if err != nil {
		return fileError(to, err)
	}
	defer func() { _ = syscall.Close(parent) }()
	err = restoreIn(parent, path.Base(to), r.body)
	return w.done(fileError(to, err))
}

// openParent opens a directory without following symlinks, and makes it if it is missing.
func openParent(dir string) (int, error) {
	const flags = syscall.O_RDONLY | syscall.O_DIRECTORY | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	at, err := syscall.Open("/", flags, 0)
	if err != nil {
		return -1, err
	}
	var root, st syscall.Stat_t
	if err := syscall.Fstat(at, &root); err != nil {
		return -1, errors.Join(err, syscall.Close(at))
	}
	for _, name := range strings.Split(strings.Trim(dir, "/"), "/") {
		if name == "" {
			continue
		}
		next, err := syscall.Openat(at, name, flags, 0)
		if errors.Is(err, syscall.ENOENT) {
			if err = syscall.Mkdirat(at, name, 0o755); err == nil {
				next, err = syscall.Openat(at, name, flags, 0)
			}
		}
		_ = syscall.Close(at)
		if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
			return -1, badPath(dir, name+" is not a directory: a restore follows no links")
		}
		if err != nil {
			return -1, err
		}
		at = next
	}
	if err := syscall.Fstat(at, &st); err != nil {
		return -1, errors.Join(err, syscall.Close(at))
	}
	if st.Dev != root.Dev {
		_ = syscall.Close(at)
		return -1, badPath(dir, "it is on another file system than the VM's disk")
	}
	return at, nil
}

// restoreIn unpacks an archive beside name and then puts it in name's place.
func restoreIn(parent int, name string, body io.Reader) (err error) {
	above, err := os.OpenRoot(fdPath(parent))
	if err != nil {
		return err
	}
	temp := ".warren-restore-" + rand.Text()
	if err := above.Mkdir(temp, 0o700); err != nil {
		return errors.Join(err, above.Close())
	}
	defer func() {
		if rerr := above.RemoveAll(temp); err == nil && rerr != nil {
			err = rerr
		}
		_ = above.Close()
	}()
	in, err := syscall.Openat(parent, temp, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(in) }()
	root, err := os.OpenRoot(fdPath(in))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	p := unpacker{root: root, buf: make([]byte, copySize), dirs: make(map[string]*tar.Header), owned: true}
	if err := p.all(tar.NewReader(body)); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil { // padding after the end mark
		return err
	}
	if _, err := root.Lstat(RestoreEntry); err != nil {
		return badPath(name, "the archive does not hold it")
	}
	flag := renameExchange
	if _, err := above.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		flag = renameNoReplace
	} else if err != nil {
		return err
	}
	return renameat2(in, RestoreEntry, parent, name, flag)
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func renameat2(fromDir int, from string, toDir int, to string, flags int) error {
	f, err := syscall.BytePtrFromString(from)
	if err != nil {
		return err
	}
	t, err := syscall.BytePtrFromString(to)
	if err != nil {
		return err
	}
	_, _, e := syscall.Syscall6(sysRenameat2, uintptr(fromDir), uintptr(unsafe.Pointer(f)), uintptr(toDir), uintptr(unsafe.Pointer(t)), uintptr(flags), 0)
	if e == syscall.EBUSY {
		return vm.Errorf(vm.Busy, to, "something is mounted there").WithHint("unmount it first")
	}
	if e != 0 {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: e}
	}
	return nil
}

// own gives an open file or directory the owner, mode, attributes and times of a header.
// The owner comes first: a change of it takes set-id bits and capabilities away.
func own(f *os.File, h *tar.Header) error {
	if err := f.Chown(h.Uid, h.Gid); err != nil {
		return err
	}
	if err := f.Chmod(goMode(uint32(h.Mode) & 0o7777)); err != nil {
		return err
	}
	at := fdPath(int(f.Fd()))
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, xattrPrefix); ok {
			if err := syscall.Setxattr(at, name, []byte(value), 0); err != nil {
				return &os.PathError{Op: "setxattr " + name, Path: h.Name, Err: err}
			}
		}
	}
	return nil
}
