// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

// extraction unpacks a tar stream of a guest below a root that was empty. It
// refuses names that lead elsewhere and names that come twice; it leaves out,
// and reports, links that point outside, hard links, devices and pipes. Links
// are made last, so that no entry is ever written through one.
type extraction struct {
	root   *os.Root
	limits limits
	modes  bool // keep permissions; else no execute permission
	umask  os.FileMode

	entries int
	bytes   int64
	dirs    map[string]os.FileMode
	links   []symlink
	left    []string // what was left out, for the report
}

type symlink struct{ name, target string }

// all reads the stream to its end.
func (x *extraction) all(r io.Reader) error {
	x.dirs = map[string]os.FileMode{}
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return streamError(err)
		}
		if err := x.entry(h, tr); err != nil {
			return err
		}
	}
	// What follows the end mark says whether the stream was whole.
	if n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20)); err != nil {
		return streamError(err)
	} else if n == 1<<20 {
		return guestError("", "the archive goes on after its end")
	}
	if err := x.makeLinks(); err != nil {
		return err
	}
	return x.finish()
}

func streamError(err error) error {
	var known *vm.Error
	if errors.As(err, &known) {
		return known
	}
	return guestError("", "the archive is malformed: "+err.Error())
}

func guestError(name, why string) error {
	e := vm.Errorf(vm.GuestFault, "", "the guest sent what is not unpacked here: %s", why)
	if name != "" {
		e.Subject = quote(name)
	}
	return e.WithHint("nothing was written; look at the directory with `warren fs ls`")
}

// clean checks a name of the archive. "." is the copied directory itself.
func clean(name string) (string, error) {
	short := strings.TrimRight(name, "/")
	for strings.HasPrefix(short, "./") {
		short = strings.TrimLeft(short[2:], "/")
	}
	switch {
	case short == "." || short == "" && name == "./":
		return ".", nil
	case name == "" || strings.HasPrefix(name, "/"):
		return "", guestError(name, "an absolute or empty name")
	case strings.IndexByte(name, 0) >= 0:
		return "", guestError(name, "a name with a NUL byte")
	case slices.Contains(strings.Split(short, "/"), ".."):
		return "", guestError(name, "a name that leads out of the directory")
	case !filepath.IsLocal(short):
		return "", guestError(name, "a name that leads elsewhere")
	}
	short = path.Clean(short)
	if strings.Count(short, "/") >= maxDepth {
		return "", guestError(name, "directories nested too deep")
	}
	return short, nil
}

func (x *extraction) entry(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	if x.entries++; x.entries > x.limits.entries {
		return vm.Errorf(vm.Limit, "", "there are more than %d entries", x.limits.entries).WithHint("allow more with --max-entries")
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return x.dir(name, h)
	case tar.TypeReg, tar.TypeGNUSparse:
		return x.file(name, h, r)
	case tar.TypeSymlink:
		x.link(name, h.Linkname)
	case tar.TypeLink:
		x.leave(name, "a hard link")
	default:
		x.leave(name, "a device, pipe or other special file")
	}
	return nil
}

func (x *extraction) leave(name, what string) { x.left = append(x.left, quote(name)+": "+what) }

func (x *extraction) dir(name string, h *tar.Header) error {
	if err := x.root.MkdirAll(name, 0o700); err != nil {
		return x.clash(name, err)
	}
	x.dirs[name] = fs.FileMode(h.Mode) & 0o777
	return nil
}

// clash explains why a name cannot be made.
func (x *extraction) clash(name string, err error) error {
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		return guestError(name, "a name that is there already, as another entry or in another case")
	}
	return localError(name, err)
}

func (x *extraction) file(name string, h *tar.Header, r io.Reader) (err error) {
	if h.Size > x.limits.file {
		return vm.Errorf(vm.Limit, quote(name), "it has %d bytes; at most %d may leave the VM", h.Size, x.limits.file).
			WithHint("allow more with --max-bytes %d", h.Size)
	}
	if x.bytes += h.Size; x.bytes > x.limits.total {
		return vm.Errorf(vm.Limit, "", "all files together have more than %s", human(x.limits.total)).WithHint("allow more with --max-total")
	}
	if name == "." {
		return guestError(h.Name, "a file without a name")
	}
	if parent := path.Dir(name); parent != "." {
		if err := x.root.MkdirAll(parent, 0o700); err != nil {
			return x.clash(name, err)
		}
	}
	f, err := x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return x.clash(name, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, r); err != nil {
		if vm.KindOf(err) == vm.Internal && !errors.Is(err, io.ErrUnexpectedEOF) {
			return localError(name, err)
		}
		return streamError(err)
	}
	mode := fs.FileMode(0o644)
	if x.modes {
		mode = fs.FileMode(h.Mode) & 0o777
	}
	if err := f.Chmod(mode &^ x.umask); err != nil {
		return localError(name, err)
	}
	return nil
}

// link notes a link whose words stay inside. Whether it really does is seen
// when it is there.
func (x *extraction) link(name, target string) {
	if target == "" || path.IsAbs(target) || strings.IndexByte(target, 0) >= 0 || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		x.leave(name, "a link that points outside")
		return
	}
	x.links = append(x.links, symlink{name, target})
}

// makeLinks makes the links, follows each, and takes back those that lead out
// by way of others.
func (x *extraction) makeLinks() error {
	for _, l := range x.links {
		if parent := path.Dir(l.name); parent != "." {
			if err := x.root.MkdirAll(parent, 0o700); err != nil {
				return x.clash(l.name, err)
			}
		}
		if err := x.root.Symlink(l.target, l.name); err != nil {
			return x.clash(l.name, err)
		}
	}
	for _, l := range x.links {
		_, err := x.root.Stat(l.name)
		if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
			continue
		}
		if err := x.root.Remove(l.name); err != nil {
			return localError(l.name, err)
		}
		x.leave(l.name, "a link that points outside")
	}
	return nil
}

// finish gives directories their permissions, the deepest first.
func (x *extraction) finish() error {
	names := make([]string, 0, len(x.dirs)+1)
	for n := range x.dirs {
		names = append(names, n)
	}
	if !slices.Contains(names, ".") {
		names = append(names, ".")
	}
	slices.Sort(names)
	for _, n := range slices.Backward(names) {
		mode := fs.FileMode(0o755)
		if m, ok := x.dirs[n]; ok && x.modes {
			mode = m | 0o700 // the owner must be able to remove it again
		}
		if err := x.root.Chmod(n, mode&^x.umask); err != nil {
			return localError(n, err)
		}
	}
	return nil
}

// maxReported bounds how many entries that were left out are named.
const maxReported = 10

func (x *extraction) report(a *app) {
	for i, l := range x.left {
		if i == maxReported {
			a.io.notef("and %d more were left out", len(x.left)-maxReported)
			break
		}
		a.io.notef("left out %s", l)
	}
}
