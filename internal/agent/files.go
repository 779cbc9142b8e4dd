// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

// copySize is the buffer of file streams.
const copySize = 256 << 10

// abs makes the path of a file absolute. Under rules it is also made clean: the kernel would enter a
// link before a "..", so it would use another path than the one that was judged.
func (a *linuxUser) abs(path string) (string, error) {
	switch {
	case path == "":
		return "", badPath(path, "the path is empty")
	case strings.IndexByte(path, 0) >= 0:
		return "", badPath(path, "the path holds a NUL byte")
	}
	if path = a.under(path); a.rules != nil {
		path = filepath.Clean(path)
	}
	return path, nil
}

// under returns the absolute path of a path relative to the user's home; "" is
// the home itself. It applies when the VM has no working directory.
func (a *linuxUser) under(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(a.directory(), path)
}

func badPath(path, why string) error {
	return vm.Errorf(vm.Invalid, path, "%s", why).WithCode("FILES_BAD_REQUEST")
}

// fileError maps a failure of the file system to an error with kind and code.
func fileError(path string, err error) error {
	var e *vm.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return vm.Errorf(vm.NotFound, path, "no such file or directory").WithCode("FILE_NOT_FOUND", "path", path)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return vm.Errorf(vm.NoSpace, path, "the guest's disk is full").
			WithHint("remove something in the VM, or give it a larger disk")
	}
	var perr *fs.PathError
	var lerr *os.LinkError
	switch {
	case errors.As(err, &perr):
		err = perr.Err
	case errors.As(err, &lerr):
		err = lerr.Err
	}
	return vm.Errorf(vm.Invalid, path, "%w", err).WithCode("FILES_BAD_REQUEST")
}

// info converts the result of Lstat.
func info(path string, st fs.FileInfo) vm.FileInfo {
	i := vm.FileInfo{
		Name: st.Name(), Path: filepath.Clean(path), Size: st.Size(), Mode: unixMode(st.Mode()),
		ModTime: st.ModTime().UTC(), Kind: vm.FileOther,
	}
	switch st.Mode().Type() {
	case 0:
		i.Kind = vm.FileRegular
	case fs.ModeDir:
		i.Kind = vm.FileDirectory
	case fs.ModeSymlink:
		i.Kind = vm.FileSymlink
		i.Target, _ = os.Readlink(path) // it may have been removed by now
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		i.UID, i.GID = int(sys.Uid), int(sys.Gid)
	}
	return i
}

// info describes the file at a real path, which the caller has named in another way.
func (a *linuxUser) info(path, at string, st fs.FileInfo) vm.FileInfo {
	i := info(at, st)
	if a.rules != nil {
		i.Name, i.Path = filepath.Base(path), path
	}
	return i
}

// unixMode returns the permission bits in the kernel's encoding.
func unixMode(m fs.FileMode) uint32 {
	u := uint32(m.Perm())
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if m&flag != 0 {
			u |= bit
		}
	}
	return u
}

// goMode is the inverse of unixMode.
func goMode(u uint32) fs.FileMode {
	m := fs.FileMode(u & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if u&bit != 0 {
			m |= flag
		}
	}
	return m
}

func (a *Agent) stat(w *answer, r *request) error {
	u, path, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	var i vm.FileInfo
	err = u.do(func() error {
		look := os.Lstat
		if r.flag("follow") {
			look = os.Stat
		}
		at, err := u.may(path, toSee, r.flag("follow"))
		if err != nil {
			return err
		}
		st, err := look(at)
		if err == nil {
			i = u.info(path, at, st)
			i.Attrs = attrs(at)
		}
		return err
	})
	return w.json(i, fileError(path, err))
}

func (a *Agent) readDir(w *answer, r *request) error {
	u, path, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	list := []vm.FileInfo{}
	err = u.do(func() error {
		at, err := u.may(path, toRead, true)
		if err != nil {
			return err
		}
		entries, err := u.readDir(at)
		entries = u.shown(at, entries)
		notes := newNotes(at)
		for _, e := range entries {
			if st, err := e.Info(); err == nil { // else it was removed in the meantime
				i := u.info(filepath.Join(path, e.Name()), filepath.Join(at, e.Name()), st)
				i.Attrs = notes.of(filepath.Join(at, e.Name()))
				list = append(list, i)
			}
		}
		return err
	})
	return w.json(list, fileError(path, err))
}

// openFile sends a file.
func (a *Agent) openFile(w *answer, r *request) error {
	u, path, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	var f *os.File
	var st fs.FileInfo
	err = u.do(func() error {
		at, err := u.may(path, toRead, true)
		if err != nil {
			return err
		}
		// O_NONBLOCK: a pipe without a writer must not block the agent.
		if f, err = u.open(at, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
			return err
		}
		if err := u.mayFile(f, toRead); err != nil {
			return err
		}
		st, err = f.Stat()
		return err
	})
	if f != nil {
		defer f.Close()
	}
	if err != nil {
		return fileError(path, err)
	}
	if st.IsDir() {
		return badPath(path, "is a directory")
	}
	if !st.Mode().IsRegular() {
		return badPath(path, "is not a regular file")
	}
	i := u.info(path, path, st) // without attributes: a header has no room for them
	head := "Warren-Info: " + asciiJSON(i) + "\r\n"
	size := st.Size()
	if size == 0 || strings.HasPrefix(i.Path, "/proc/") || strings.HasPrefix(i.Path, "/sys/") {
		if err := w.head(-1, head); err != nil { // files of /proc and /sys do not report their length
			return err
		}
		out := &chunkWriter{w: w.conn}
		if _, err := out.ReadFrom(userFile{f, u}); err != nil {
			return err
		}
		return out.end()
	}
	if err := w.head(size, head); err != nil {
		return err
	}
	if size >= directFrom {
		return sendLarge(w.conn, f, userFile{f, u}, size)
	}
	return send(w.conn, userFile{f, u}, size, make([]byte, min(size, copySize)))
}

// send copies exactly size bytes, with buf as buffer.
func send(w io.Writer, r io.Reader, size int64, buf []byte) error {
	for size > 0 {
		n, err := r.Read(buf)
		n = int(min(int64(n), size)) // the file may have grown
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			size -= int64(n)
			continue
		}
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return nil
}

// asciiJSON renders v for a header line.
func asciiJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	var out bytes.Buffer
	for _, r := range string(b) {
		switch {
		case r < 0x7f:
			out.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&out, "\\u%04x", r)
		default:
			r -= 0x10000
			fmt.Fprintf(&out, "\\u%04x\\u%04x", 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return out.String()
}

func (a *Agent) mkdir(w *answer, r *request) error {
	u, path, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	mode, err := r.mode(0o755)
	if err != nil {
		return err
	}
	return w.done(fileError(path, u.do(func() error {
		at, err := u.may(path, toWrite, false)
		if err != nil {
			return err
		}
		if r.flag("parents") {
			if st, err := os.Stat(at); err == nil && st.IsDir() {
				return nil
			}
			if err := u.makeDirs(filepath.Dir(filepath.Clean(at))); err != nil {
				return err
			}
		}
		if err := os.Mkdir(at, 0o700); err != nil {
			return err
		}
		return os.Chmod(at, goMode(uint32(mode)))
	})))
}

func (a *Agent) rename(w *answer, r *request) error {
	u, from, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	to, err := u.abs(r.query.Get("to"))
	if err != nil {
		return err
	}
	return w.done(fileError(from, u.do(func() error {
		if _, err := os.Lstat(from); err != nil {
			return err
		}
		old, name, err := u.mayRename(from, to)
		if err != nil {
			return err
		}
		err = os.Rename(old, name)
		if errors.Is(err, fs.ErrNotExist) {
			return fileError(filepath.Dir(to), err)
		}
		return err
	})))
}

func (a *Agent) remove(w *answer, r *request) error {
	u, path, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	return w.done(fileError(path, u.do(func() error {
		if _, err := os.Lstat(path); err != nil {
			return err
		}
		at, err := u.mayRemove(path, r.flag("recursive"))
		if err != nil {
			return err
		}
		if !r.flag("recursive") {
			return os.Remove(at)
		}
		if filepath.Clean(at) == "/" {
			return badPath(path, "the root directory cannot be removed")
		}
		return os.RemoveAll(at)
	})))
}

func (a *Agent) chmod(w *answer, r *request) error {
	u, path, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	mode, err := r.number("mode")
	if err != nil {
		return err
	}
	if mode < 0 || mode > 0o7777 {
		return badPath(path, "the mode has more than permission bits")
	}
	return w.done(fileError(path, u.do(func() error {
		at, err := u.may(path, toWrite, true)
		if err != nil {
			return err
		}
		return os.Chmod(at, goMode(uint32(mode)))
	})))
}

func (a *Agent) symlink(w *answer, r *request) error {
	u, path, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	return w.done(fileError(path, u.do(func() error {
		at, err := u.may(path, toWrite, false)
		if err != nil {
			return err
		}
		return os.Symlink(r.query.Get("target"), at)
	})))
}
