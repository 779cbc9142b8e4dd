// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

// tempPrefix begins the names of incomplete files.
const tempPrefix = ".warren-tmp-"

// tempName returns a new name next to path.
func tempName(path string) string {
	return filepath.Join(filepath.Dir(path), tempPrefix+vm.NewUUID()[:13])
}

// writeFile receives a file under a temporary name and renames it when it is complete.
func (a *Agent) writeFile(w *answer, r *request) error {
	u, path, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	mode, err := r.mode(0o644)
	if err != nil {
		return err
	}
	if named := r.query.Get("path"); filepath.IsAbs(named) && strings.HasSuffix(named, "/") { // path may be clean
		return badPath(path, "names a directory")
	}
	i, err := a.receive(u, path, goMode(uint32(mode)&0o7777), r)
	return w.json(i, fileError(path, err))
}

func (a *Agent) receive(u linuxUser, path string, mode fs.FileMode, r *request) (vm.FileInfo, error) {
	var f *os.File
	var tmp string
	var real string // the target of path's symlinks
	err := u.do(func() error {
		path, err := u.may(path, toWrite, false)
		if err != nil {
			return err
		}
		real = path
		if r.flag("parents") {
			if err := u.makeDirs(filepath.Dir(filepath.Clean(path))); err != nil {
				return err
			}
		}
		old, err := os.Stat(path)
		if err == nil {
			if real, err = filepath.EvalSymlinks(path); err != nil {
				return err
			}
			if _, err := u.may(real, toWrite, true); err != nil {
				return err
			}
			if !old.Mode().IsRegular() {
				return writeDevice(old, path)
			}
		}
		if err := enoughSpace(filepath.Dir(real), r.size); err != nil {
			return err
		}
		tmp = tempName(real)
		if f, err = os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return err
		}
		if err := setAttrs(tmp, r.query["attr"]); err != nil {
			return err
		}
		return setModeAndOwner(f, old, mode)
	})
	if f != nil {
		defer f.Close()
	}
	if err == nil {
		err = copyBody(userFile{f, u}, r)
	}
	var i vm.FileInfo
	if err == nil {
		err = u.do(func() error {
			if err := os.Rename(tmp, real); err != nil {
				return err
			}
			st, err := os.Lstat(real)
			if err == nil {
				i = info(real, st)
				i.Attrs = attrs(real)
			}
			return err
		})
	}
	if err != nil && f != nil {
		_ = u.do(func() error { return os.Remove(tmp) })
	}
	return i, err
}

func writeDevice(old fs.FileInfo, path string) error {
	if old.IsDir() {
		return badPath(path, "is a directory")
	}
	return badPath(path, "is not a regular file")
}

// setModeAndOwner sets a file's mode. A file that replaces another gets the old one's
// mode and, if allowed, its owner.
func setModeAndOwner(f *os.File, old fs.FileInfo, mode fs.FileMode) error {
	if old != nil {
		mode = old.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
		if sys, ok := old.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(sys.Uid), int(sys.Gid)) // only root may; a user's files keep the user as owner
		}
	}
	return f.Chmod(mode)
}

// enoughSpace refuses a file that cannot fit, before it is sent.
func enoughSpace(dir string, size int64) error {
	var st syscall.Statfs_t
	if size <= 0 || syscall.Statfs(dir, &st) != nil {
		return nil
	}
	if free := int64(st.Bavail) * st.Bsize; size > free {
		return vm.Errorf(vm.NoSpace, dir, "the guest's disk has %d MiB free, %d MiB are needed", free>>20, (size+(1<<20)-1)>>20).
			WithHint("remove something in the VM, or give it a larger disk")
	}
	return nil
}

// copyBody writes a request's body to a file.
func copyBody(f userFile, r *request) error {
	switch {
	case r.size < 0: // not known
		return writeLarge(f.file, f, r.body, directFrom)
	case r.size >= directFrom:
		return writeLarge(f.file, f, r.body, 0)
	}
	buf := make([]byte, max(min(copySize, r.size), 1))
	for {
		n, err := r.body.Read(buf)
		if n > 0 {
			if _, werr := f.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
