// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// upload copies a file or tree into a guest.
type upload struct {
	app       *app
	c         *client.Client
	src       string // "-" = standard input
	dst       place
	recursive bool
	quiet     bool // stderr belongs to somebody else

	sent    atomic.Int64
	skipped int
}

func (u *upload) run(ctx context.Context) error {
	if u.src == "-" {
		return u.file(ctx, u.app.io.in, -1, 0o644, "")
	}
	st, err := os.Stat(u.src)
	if err != nil {
		return localError(u.src, err)
	}
	if st.IsDir() {
		if !u.recursive {
			return usage("%s is a directory", quote(u.src)).WithHint("copy it with -r")
		}
		return u.tree(ctx)
	}
	f, err := os.Open(u.src)
	if err != nil {
		return localError(u.src, err)
	}
	defer f.Close()
	size := int64(-1)
	if st.Mode().IsRegular() {
		size = st.Size()
	}
	return u.file(ctx, f, size, uint32(st.Mode().Perm()), filepath.Base(u.src))
}

// localError says why a file of this host cannot be used.
func localError(name string, err error) error {
	kind := vm.Internal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind = vm.NotFound
	case errors.Is(err, fs.ErrPermission):
		kind = vm.Denied
	case errors.Is(err, fs.ErrExist):
		kind = vm.Exists
	case isNoSpace(err):
		kind = vm.NoSpace
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return vm.Errorf(kind, quote(name), "%w", err)
}

// file sends one file. A destination that is a directory gets name in it.
func (u *upload) file(ctx context.Context, r io.Reader, size int64, mode uint32, name string) error {
	dst, err := u.target(ctx, name)
	if err != nil {
		return err
	}
	if size >= 0 {
		r = &exactly{r: r, left: size, name: name}
	}
	p := u.watch(size)
	defer p.done()
	_, err = u.c.Upload(ctx, u.dst.vm, dst, vm.WriteOptions{Mode: mode, Size: size}, &counter{r, &u.sent})
	return err
}

// target is the path in the guest that a source called name gets.
func (u *upload) target(ctx context.Context, name string) (string, error) {
	dst := u.dst.path
	if name == "" || name == "." || name == "/" {
		return dst, nil
	}
	if strings.HasSuffix(dst, "/") {
		return dst + name, nil
	}
	st, err := u.c.Stat(ctx, u.dst.vm, dst)
	switch {
	case errors.Is(err, vm.NotFound) && vm.AsError(err).Code == "FILE_NOT_FOUND":
		return dst, nil
	case err != nil:
		return "", err
	}
	if st.Kind == vm.FileSymlink { // to a directory, perhaps
		if _, err := u.c.ReadDir(ctx, u.dst.vm, dst); err == nil {
			st.Kind = vm.FileDirectory
		}
	}
	if st.Kind == vm.FileDirectory {
		return under(dst, name), nil
	}
	return dst, nil
}

func (u *upload) watch(size int64) *progress {
	return u.app.io.progress(u.quiet, func() string {
		if size > 0 {
			return fmt.Sprintf("copying %s: %s of %s", quote(u.src), human(u.sent.Load()), human(size))
		}
		return fmt.Sprintf("copying %s: %s", quote(u.src), human(u.sent.Load()))
	})
}

// counter counts what is read.
type counter struct {
	io.Reader
	n *atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// exactly reads as many bytes as were announced; a file that has become
// shorter is an error, what was added to it meanwhile is left out.
type exactly struct {
	r    io.Reader
	left int64
	name string
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 {
		err = vm.Errorf(vm.Invalid, quote(e.name), "it became shorter while it was copied").WithHint("copy it when nobody writes to it")
	}
	return n, err
}

// tree sends a directory as a tar stream.
func (u *upload) tree(ctx context.Context) error {
	abs, err := filepath.Abs(u.src)
	if err != nil {
		return localError(u.src, err)
	}
	dst, err := u.target(ctx, filepath.Base(abs))
	if err != nil {
		return err
	}
	p := u.watch(-1)
	defer p.done()
	pr, pw := io.Pipe()
	packed := make(chan error, 1)
	go func() { // ends with the reader, which this function closes
		err := u.pack(pw)
		pw.CloseWithError(err)
		packed <- err
	}()
	err = u.c.TarUp(ctx, u.dst.vm, dst, &counter{pr, &u.sent})
	_ = pr.Close() // never fails
	packErr := <-packed
	if packErr != nil && !errors.Is(packErr, io.ErrClosedPipe) {
		return packErr
	}
	if err == nil && u.skipped > 0 {
		u.app.io.notef("left out %d sockets, pipes and devices", u.skipped)
	}
	return err
}

// pack writes the source as tar. Links are sent as links.
func (u *upload) pack(w io.Writer) error {
	tw := tar.NewWriter(w)
	root, err := os.OpenRoot(u.src)
	if err != nil {
		return localError(u.src, err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return localError(path.Join(u.src, name), err)
		}
		return u.entry(tw, root, name, d)
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

func (u *upload) entry(tw *tar.Writer, root *os.Root, name string, d fs.DirEntry) error {
	local := func(err error) error { return localError(path.Join(u.src, name), err) }
	st, err := d.Info()
	if err != nil {
		return local(err)
	}
	target := ""
	switch st.Mode().Type() {
	case fs.ModeDir, 0:
	case fs.ModeSymlink:
		if target, err = root.Readlink(name); err != nil {
			return local(err)
		}
	default:
		u.skipped++
		return nil
	}
	h, err := tar.FileInfoHeader(st, target)
	if err != nil {
		return local(err)
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	if st.IsDir() {
		h.Name += "/"
	}
	if !st.Mode().IsRegular() {
		return tw.WriteHeader(h)
	}
	f, err := root.Open(name)
	if err != nil {
		return local(err)
	}
	defer f.Close()
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(tw, &exactly{r: f, left: h.Size, name: path.Join(u.src, name)})
	return err
}
