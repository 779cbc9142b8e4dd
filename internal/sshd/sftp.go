// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/pkg/sftp"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Files has the methods of the engine that sftp needs.
type Files interface {
	Stat(ctx context.Context, c *vm.Call, ref, user, path string) (vm.FileInfo, error)
	StatFollow(ctx context.Context, c *vm.Call, ref, user, path string) (vm.FileInfo, error)
	ReadDir(ctx context.Context, c *vm.Call, ref, user, path string) ([]vm.FileInfo, error)
	OpenHandle(ctx context.Context, c *vm.Call, ref, user, path string, o vm.OpenOptions) (engine.File, error)
	Mkdir(ctx context.Context, c *vm.Call, ref, user, path string, mode uint32, parents bool) error
	Rename(ctx context.Context, c *vm.Call, ref, user, from, to string) error
	Remove(ctx context.Context, c *vm.Call, ref, user, path string, recursive bool) error
	Symlink(ctx context.Context, c *vm.Call, ref, user, target, path string) error
	SetAttr(ctx context.Context, c *vm.Call, ref, user, path string, a vm.FileAttr) error
	Link(ctx context.Context, c *vm.Call, ref, user, target, path string) error
}

// sftp serves the sftp subsystem with the rights of the Linux user.
func (s *session) sftp() {
	user, err := s.c.user()
	if err != nil {
		s.refuse(err)
		return
	}
	ctx, over := s.beginning() // no request outlives the client, also none that waits for an approval
	defer over()
	t := &tree{c: s.c, ctx: ctx}
	server := sftp.NewRequestServer(s.ch, sftp.Handlers{FileGet: t, FilePut: t, FileCmd: t, FileList: t},
		sftp.WithStartDirectory(user.Workdir), sftp.WithRSAllocator())
	st := vm.ExitStatus{}
	if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
		s.c.s.cfg.Log.Debug("ssh: sftp", "vm", s.c.ref, "err", err)
		st.Code = 1
	}
	// scp fails if the channel is closed before it gets the exit status.
	s.exit(st)
	_ = server.Close() // closes open files
}

// tree executes sftp's requests.
type tree struct {
	c   *client
	ctx context.Context
}

var (
	_ sftp.OpenFileWriter       = (*tree)(nil)
	_ sftp.PosixRenameFileCmder = (*tree)(nil)
	_ sftp.LstatFileLister      = (*tree)(nil)
	_ sftp.ReadlinkFileLister   = (*tree)(nil)
)

// Fileread opens a file to be read.
func (t *tree) Fileread(r *sftp.Request) (io.ReaderAt, error) { return t.open(r) }

// Filewrite opens a file to be written.
func (t *tree) Filewrite(r *sftp.Request) (io.WriterAt, error) { return t.open(r) }

// OpenFile opens a file to be read and written.
func (t *tree) OpenFile(r *sftp.Request) (sftp.WriterAtReaderAt, error) { return t.open(r) }

func (t *tree) open(r *sftp.Request) (*openFile, error) {
	p := r.Pflags()
	o := vm.OpenOptions{
		Read: p.Read, Write: p.Write || p.Append, Append: p.Append, Create: p.Creat, Truncate: p.Trunc, Exclusive: p.Excl, Mode: openMode(r.Attrs),
	}
	f, err := t.c.s.cfg.Engine.OpenHandle(t.ctx, t.c.call(), t.c.ref, t.c.name, r.Filepath, o)
	if err != nil {
		return nil, sftpError(err)
	}
	return &openFile{f}, nil
}

// openMode returns the mode of a new file. The library keeps the attributes of an open request,
// but not which ones they are: OpenSSH sends the permissions, alone or before two times.
func openMode(attrs []byte) uint32 {
	mode := uint32(0o644)
	if len(attrs) == 4 || len(attrs) == 12 && binary.BigEndian.Uint32(attrs[8:]) > 0o7777 {
		mode = binary.BigEndian.Uint32(attrs) & 0o7777
	}
	return mode
}

// openFile converts errors to sftp's.
type openFile struct{ f engine.File }

// ReadAt reads from an offset on.
func (f *openFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.f.ReadAt(p, at)
	return n, sftpError(err)
}

// WriteAt writes from an offset on.
func (f *openFile) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.f.WriteAt(p, at)
	return n, sftpError(err)
}

// Close closes the file.
func (f *openFile) Close() error { return sftpError(f.f.Close()) }

// Filecmd changes names and attributes.
func (t *tree) Filecmd(r *sftp.Request) error {
	e, call, ref, user := t.c.s.cfg.Engine, t.c.call(), t.c.ref, t.c.name
	switch r.Method {
	case "Setstat":
		a := r.Attributes()
		if a == nil {
			return sftp.ErrSSHFxBadMessage
		}
		var set vm.FileAttr
		f := r.AttrFlags()
		if f.Size {
			n := int64(a.Size)
			set.Size = &n
		}
		if f.Permissions {
			mode := a.Mode & 0o7777
			set.Mode = &mode
		}
		if f.UidGid {
			uid, gid := int(a.UID), int(a.GID)
			set.UID, set.GID = &uid, &gid
		}
		if f.Acmodtime {
			set.Atime, set.Mtime = time.Unix(int64(a.Atime), 0), time.Unix(int64(a.Mtime), 0)
		}
		return sftpError(e.SetAttr(t.ctx, call, ref, user, r.Filepath, set))
	case "Mkdir": // the library drops its attributes
		return sftpError(e.Mkdir(t.ctx, call, ref, user, r.Filepath, 0o755, false))
	case "Rename": // it replaces nothing
		if _, err := e.Stat(t.ctx, t.c.call(), ref, user, r.Target); err == nil {
			return os.ErrExist
		}
		return t.PosixRename(r)
	case "Remove", "Rmdir":
		return t.remove(r)
	case "Symlink":
		return sftpError(e.Symlink(t.ctx, call, ref, user, r.Filepath, r.Target))
	case "Link":
		return sftpError(e.Link(t.ctx, call, ref, user, r.Filepath, r.Target))
	}
	return sftp.ErrSSHFxOpUnsupported
}

// PosixRename renames a file and replaces an existing one.
func (t *tree) PosixRename(r *sftp.Request) error {
	return sftpError(t.c.s.cfg.Engine.Rename(t.ctx, t.c.call(), t.c.ref, t.c.name, r.Filepath, r.Target))
}

// remove removes a file or an empty directory, as requested.
func (t *tree) remove(r *sftp.Request) error {
	e := t.c.s.cfg.Engine
	st, err := e.Stat(t.ctx, t.c.call(), t.c.ref, t.c.name, r.Filepath)
	if err != nil {
		return sftpError(err)
	}
	if (st.Kind == vm.FileDirectory) != (r.Method == "Rmdir") {
		return errors.New("is a directory, or is not one")
	}
	return sftpError(e.Remove(t.ctx, t.c.call(), t.c.ref, t.c.name, r.Filepath, false))
}

// Filelist lists a directory or describes a file.
func (t *tree) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	e := t.c.s.cfg.Engine
	if r.Method == "List" {
		l, err := e.ReadDir(t.ctx, t.c.call(), t.c.ref, t.c.name, r.Filepath)
		return listing(l), sftpError(err)
	}
	st, err := e.StatFollow(t.ctx, t.c.call(), t.c.ref, t.c.name, r.Filepath)
	return listing{st}, sftpError(err)
}

// Lstat describes a file without following a symlink.
func (t *tree) Lstat(r *sftp.Request) (sftp.ListerAt, error) {
	st, err := t.c.s.cfg.Engine.Stat(t.ctx, t.c.call(), t.c.ref, t.c.name, r.Filepath)
	return listing{st}, sftpError(err)
}

// Readlink returns the target of a symlink.
func (t *tree) Readlink(path string) (string, error) {
	st, err := t.c.s.cfg.Engine.Stat(t.ctx, t.c.call(), t.c.ref, t.c.name, path)
	if err == nil && st.Kind != vm.FileSymlink {
		err = errors.New("not a symbolic link")
	}
	return st.Target, sftpError(err)
}

type listing []vm.FileInfo

// ListAt copies a part of the list.
func (l listing) ListAt(out []os.FileInfo, from int64) (int, error) {
	if from >= int64(len(l)) {
		return 0, io.EOF
	}
	n := 0
	for _, st := range l[from:] {
		if n == len(out) {
			return n, nil
		}
		out[n] = fileInfo{st}
		n++
	}
	return n, io.EOF
}

// fileInfo is the os.FileInfo of a guest's file.
type fileInfo struct{ st vm.FileInfo }

// Name is the last element of the path.
func (f fileInfo) Name() string { return f.st.Name }

// Size is the length in bytes.
func (f fileInfo) Size() int64 { return f.st.Size }

// ModTime is when the content changed.
func (f fileInfo) ModTime() time.Time { return f.st.ModTime }

// IsDir reports whether it is a directory.
func (f fileInfo) IsDir() bool { return f.st.Kind == vm.FileDirectory }

// Sys is nil.
func (f fileInfo) Sys() any { return nil }

// Uid is the owner.
func (f fileInfo) Uid() uint32 { return uint32(f.st.UID) }

// Gid is the group.
func (f fileInfo) Gid() uint32 { return uint32(f.st.GID) }

// Mode is the kind of file and its permissions.
func (f fileInfo) Mode() os.FileMode {
	m := os.FileMode(f.st.Mode & 0o777)
	for bit, flag := range map[uint32]os.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if f.st.Mode&bit != 0 {
			m |= flag
		}
	}
	switch f.st.Kind {
	case vm.FileRegular:
	case vm.FileDirectory:
		m |= fs.ModeDir
	case vm.FileSymlink:
		m |= fs.ModeSymlink
	default:
		m |= fs.ModeIrregular
	}
	return m
}

// sftpError converts an error to the code that sftp clients know; other errors keep their text.
func sftpError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	switch e := vm.AsError(err); {
	case e.Kind == vm.NotFound:
		return os.ErrNotExist
	case e.Kind == vm.Denied, strings.Contains(err.Error(), "permission denied"):
		return sftp.ErrSSHFxPermissionDenied
	}
	return err
}
