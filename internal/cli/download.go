// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// download copies a file or tree out of a guest. Nothing that the guest sends
// is trusted: not its names, links, types and sizes.
type download struct {
	app       *app
	c         *client.Client
	src       place
	dst       string // "-" = standard output
	recursive bool
	modes     bool // keep permissions
	limits    limits
	quiet     bool // stderr belongs to somebody else

	got atomic.Int64
}

// tempPrefix begins the names of what is not whole yet.
const tempPrefix = ".warren-cp-"

func (d *download) run(ctx context.Context) error {
	if d.recursive {
		st, err := d.c.Stat(ctx, d.src.vm, d.src.path)
		if err != nil {
			return err
		}
		if st.Kind == vm.FileDirectory || st.Kind == vm.FileSymlink && d.isDir(ctx) {
			return d.tree(ctx)
		}
	}
	return d.file(ctx)
}

func (d *download) isDir(ctx context.Context) bool {
	_, err := d.c.ReadDir(ctx, d.src.vm, d.src.path)
	return err == nil
}

// name is what the source is called here: the last part of the path that the
// user typed, never one that the guest chose.
func (d *download) name() (string, error) {
	name := path.Base(d.src.path)
	if name == "." || name == ".." || name == "/" {
		return "", usage("%s has no name of its own", d.src).WithHint("name the copy: `warren cp -r %s NAME`", d.src)
	}
	return name, nil
}

// target is the path here that the copy gets. A directory that is there gets
// the copy in it. Device says that bytes are written into what is there.
func (d *download) target() (file string, device bool, err error) {
	dst := d.dst
	if real, err := filepath.EvalSymlinks(dst); err == nil {
		dst = real // the link is the user's own: the copy goes where it points
	}
	st, err := os.Stat(dst)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if strings.HasSuffix(d.dst, "/") {
			return "", false, vm.Errorf(vm.NotFound, quote(d.dst), "no such directory").WithHint("make it first: mkdir -p %s", quote(d.dst))
		}
		return dst, false, nil
	case err != nil:
		return "", false, localError(d.dst, err)
	case st.IsDir():
		name, err := d.name()
		return filepath.Join(dst, name), false, err
	}
	return dst, !st.Mode().IsRegular(), nil
}

func (d *download) watch(size int64) *progress {
	return d.app.io.progress(d.quiet, func() string {
		if size > 0 {
			return fmt.Sprintf("copying %s: %s of %s", d.src, human(d.got.Load()), human(size))
		}
		return fmt.Sprintf("copying %s: %s", d.src, human(d.got.Load()))
	})
}

// tooLarge is the refusal of a file.
func (d *download) tooLarge(name string, size int64) error {
	return vm.Errorf(vm.Limit, quote(name), "it has more than the %s (%d bytes) that may leave the VM", human(d.limits.file), d.limits.file).
		WithHint("allow more with --max-bytes %d", size)
}

// file copies one file.
func (d *download) file(ctx context.Context) error {
	out, device := "", false
	if d.dst != "-" {
		var err error
		if out, device, err = d.target(); err != nil {
			return err
		}
	}
	mode := os.FileMode(0o644)
	if d.modes && d.dst != "-" {
		st, err := d.c.Stat(ctx, d.src.vm, d.src.path)
		if err != nil {
			return err
		}
		if st.Kind == vm.FileRegular {
			mode = os.FileMode(st.Mode & 0o777)
		}
	}
	in, err := d.c.Open(ctx, d.src.vm, d.src.path, d.limits.file)
	if err != nil {
		return err
	}
	defer in.Close()
	if in.Size > d.limits.file {
		return d.tooLarge(d.src.String(), in.Size)
	}
	p := d.watch(in.Size)
	defer p.done()
	switch {
	case d.dst == "-":
		return d.pump(d.app.io.out, in)
	case device:
		f, err := os.OpenFile(out, os.O_WRONLY, 0)
		if err != nil {
			return localError(out, err)
		}
		return errors.Join(d.pump(f, in), f.Close())
	}
	return d.place(out, mode, in)
}

// pump copies at most what is allowed, whatever was announced.
func (d *download) pump(w io.Writer, in *client.Download) error {
	r := &counter{io.LimitReader(in, d.limits.file+1), &d.got}
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, r, make([]byte, 256<<10))
	switch {
	case n > d.limits.file:
		return d.tooLarge(d.src.String(), n)
	case err != nil && vm.KindOf(err) == vm.Internal:
		return localError(d.dst, err)
	}
	return err
}

// place writes a file that has no name before it is whole, then gives it one.
func (d *download) place(out string, mode os.FileMode, in *client.Download) (err error) {
	dir := filepath.Dir(out)
	f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_WRONLY, 0o600)
	named := ""
	if err != nil { // not every file system has files without a name
		if f, err = os.CreateTemp(dir, tempPrefix); err != nil {
			return localError(out, err)
		}
		named = f.Name()
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if named != "" {
			err = errors.Join(err, os.Remove(named))
		}
	}()
	if err := d.pump(f, in); err != nil {
		return err
	}
	if err := f.Chmod(mode &^ umask()); err != nil {
		return localError(out, err)
	}
	if named == "" {
		if named, err = link(f, dir); err != nil {
			return localError(out, err)
		}
	}
	if err := os.Rename(named, out); err != nil {
		return localError(out, err)
	}
	named = ""
	return nil
}

// link gives a file without a name a temporary one.
func link(f *os.File, dir string) (string, error) {
	for {
		name := filepath.Join(dir, tempPrefix+vm.NewSecret()[:16])
		err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
		if !errors.Is(err, syscall.EEXIST) {
			return name, err
		}
	}
}

// umask reads the process's mask, which can only be read by setting it.
func umask() os.FileMode {
	m := syscall.Umask(0o077)
	syscall.Umask(m)
	return os.FileMode(m)
}

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// tree copies a directory: unpacked below a temporary name beside the
// destination, which it gets when it is whole.
func (d *download) tree(ctx context.Context) (err error) {
	if d.dst == "-" {
		return usage("a directory cannot be copied to standard output").WithHint("use `warren exec NAME -- tar -c -C %s .`", quote(d.src.path))
	}
	out, device, err := d.target()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(out); err == nil || device {
		return vm.Errorf(vm.Exists, quote(out), "it is there already").WithHint("remove it, or name another destination")
	}
	in, err := d.c.TarDown(ctx, d.src.vm, d.src.path)
	if err != nil {
		return err
	}
	defer in.Close()
	temp, err := os.MkdirTemp(filepath.Dir(out), tempPrefix)
	if err != nil {
		return localError(out, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	p := d.watch(-1)
	defer p.done()
	root, err := os.OpenRoot(temp)
	if err != nil {
		return localError(out, err)
	}
	x := &extraction{root: root, limits: d.limits, modes: d.modes, umask: umask()}
	err = x.all(&counter{in, &d.got})
	err = errors.Join(err, root.Close())
	if err != nil {
		return err
	}
	// Not over something that came into being meanwhile.
	if err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, out, unix.RENAME_NOREPLACE); err != nil {
		return localError(out, err)
	}
	p.done()
	x.report(d.app)
	return nil
}
