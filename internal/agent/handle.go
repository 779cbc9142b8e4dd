// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// handleFile opens a file and then reads and writes pieces of it, one per
// frame, in the order of the requests.
func (a *Agent) handleFile(w *answer, r *request) error {
	u, path, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	mode, err := r.mode(0o644)
	if err != nil {
		return err
	}
	flags := syscall.O_RDONLY
	switch {
	case r.flag("read") && r.flag("write"):
		flags = syscall.O_RDWR
	case r.flag("write"):
		flags = syscall.O_WRONLY
	}
	for name, bit := range map[string]int{"create": os.O_CREATE, "truncate": os.O_TRUNC, "exclusive": os.O_EXCL} {
		if r.flag(name) {
			flags |= bit
		}
	}
	var f *os.File
	// O_NONBLOCK: a pipe without a writer must not block the open.
	err = u.do(func() (err error) {
		wants := toRead
		if r.flag("write") || r.flag("append") || r.flag("create") || r.flag("truncate") {
			wants = toWrite
		}
		at, err := u.may(path, wants, true)
		if err != nil {
			return err
		}
		if f, err = u.open(at, flags|syscall.O_NONBLOCK, goMode(uint32(mode))); err == nil {
			err = u.mayFile(f, wants)
		}
		return err
	})
	if f != nil {
		defer f.Close()
	}
	if err != nil {
		return fileError(path, err)
	}
	st, err := f.Stat()
	if err != nil {
		return fileError(path, err)
	}
	if !st.Mode().IsRegular() {
		return badPath(path, "not a regular file")
	}
	w.started, w.closing = true, true
	if _, err := io.WriteString(w.conn, upgraded); err != nil {
		return err
	}
	if err := link.WriteFrame(w.conn, link.FrameStarted, nil); err != nil {
		return err
	}
	return pieces(w.conn, link.NewFrameReader(r.in), userFile{f, u}, path, r.flag("append"))
}

// pieces answers requests until the client leaves. A failed request gets an
// error and does not end the stream.
func pieces(conn io.Writer, frames *link.FrameReader, f userFile, path string, atEnd bool) error {
	buf := make([]byte, link.FrameHeader+link.MaxFrame)
	for {
		kind, b, err := frames.Next()
		if err != nil {
			return err
		}
		switch {
		case kind == link.FrameRead && len(b) == 12:
			n := min(int(binary.BigEndian.Uint32(b[8:])), link.MaxFrame)
			n, err = f.ReadAt(buf[link.FrameHeader:link.FrameHeader+n], int64(binary.BigEndian.Uint64(b)))
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if err == nil {
				link.PutFrameHeader(buf, link.FrameStdout, n)
				_, err = conn.Write(buf[:link.FrameHeader+n])
				if err != nil {
					return err
				}
			}
		case kind == link.FrameWrite && len(b) >= 8:
			at := int64(binary.BigEndian.Uint64(b))
			if atEnd {
				at, err = f.file.Seek(0, io.SeekEnd)
			}
			if err == nil {
				_, err = f.WriteAt(b[8:], at)
			}
			if err == nil {
				if err := link.WriteFrame(conn, link.FrameStdinAck, nil); err != nil {
					return err
				}
			}
		default:
			return vm.Errorf(vm.Invalid, path, "unexpected frame %d", kind)
		}
		if err != nil {
			if err := link.WriteFrame(conn, link.FrameError, link.EncodeError(fileError(path, err))); err != nil {
				return err
			}
		}
	}
}

// setAttr changes the attributes of a file that the request names. It follows symlinks.
func (a *Agent) setAttr(w *answer, r *request) error {
	u, path, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	number := func(name string, f func(n int64) error) error {
		s := r.query.Get(name)
		if s == "" {
			return nil
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return badPath(path, name+" is not a number")
		}
		return f(n)
	}
	return w.done(fileError(path, u.do(func() error {
		real, err := u.may(path, toWrite, true)
		if err != nil {
			return err
		}
		return errors.Join(
			number("size", func(n int64) error { return os.Truncate(real, n) }),
			number("uid", func(uid int64) error {
				return number("gid", func(gid int64) error { return os.Chown(real, int(uid), int(gid)) })
			}),
			number("mode", func(n int64) error { return os.Chmod(real, goMode(uint32(n))) }),
			number("atime", func(at int64) error {
				return number("mtime", func(mt int64) error { return os.Chtimes(real, time.Unix(0, at), time.Unix(0, mt)) })
			}),
		)
	})))
}

func (a *Agent) link(w *answer, r *request) error {
	u, path, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	_, target, err := a.userPath(r.query, "target")
	if err != nil {
		return err
	}
	return w.done(fileError(path, u.do(func() error {
		file, err := u.may(target, toWrite, false) // a second name is a way around rules
		if err != nil {
			return err
		}
		name, err := u.may(path, toWrite, false)
		if err != nil {
			return err
		}
		return os.Link(file, name)
	})))
}
