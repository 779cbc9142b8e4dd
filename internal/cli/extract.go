// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

// Limits of a tree that is copied out of a guest.
const (
	maxEntries   = 1 << 18
	maxNameBytes = 64 << 20 // of all names together
	maxDepth     = 256
	maxName      = 255
	maxPath      = 4096 // PATH_MAX
	maxTail      = 1 << 20
	copyBuffer   = 256 << 10
)

// extractTar unpacks a tree that a guest sent as dest/name. It merges into an
// existing directory (name "." is dest itself) and refuses anything else that
// exists. It unpacks into a temporary directory first, moves that into place if
// the tree is complete, and removes it otherwise, so that no partial tree is ever
// visible. The archive is not trusted: no entry touches anything outside the new
// directory, and an archive that tries is refused as a whole. A symlink that leads
// outside is left out and noted in t. Files larger than limit are refused (0 = no
// limit). It reads r to its end, so that an error of the last read counts.
func extractTar(r io.Reader, dest *os.Root, name string, limit int64, t *transfer) (err error) {
	if name == "" || name == ".." || strings.ContainsAny(name, "/\x00") {
		return vm.Errorf(vm.Invalid, printable(name), "cannot be the name of a directory")
	}
	into, err := receiver(dest, name)
	if err != nil {
		return err
	}
	at := dest // where the temporary directory is
	if into != nil {
		defer into.Close()
		at = into
	}
	temp := tempName()
	if err := at.Mkdir(temp, 0o755); err != nil {
		return localError(name, err)
	}
	defer func() {
		if err != nil || into != nil {
			err = errors.Join(err, at.RemoveAll(temp))
		}
	}()
	root, err := at.OpenRoot(temp)
	if err != nil {
		return localError(name, err)
	}
	defer root.Close()
	x := &extractor{root: root, limit: limit, t: t, made: map[string]byte{".": tar.TypeDir}, folded: map[string]string{}, buf: make([]byte, copyBuffer)}
	if err := x.all(r); err != nil {
		return err
	}
	if into != nil {
		return merge(into, temp)
	}
	return localError(name, dest.Rename(temp, name))
}

// receiver opens the directory that receives a tree; nil = it does not exist.
// It refuses a symlink, because its origin is unknown.
func receiver(dest *os.Root, name string) (*os.Root, error) {
	st, err := dest.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, localError(name, err)
	case !st.IsDir():
		return nil, vm.Errorf(vm.Exists, printable(name), "is there already").WithHint("choose another destination, or remove it first")
	}
	into, err := dest.OpenRoot(name)
	return into, localError(name, err)
}

func tempName() string { return ".warren-" + rand.Text() }

// extractor unpacks one archive into an empty directory.
type extractor struct {
	root  *os.Root
	limit int64
	t     *transfer
	buf   []byte

	made      map[string]byte   // what each path is, by its tar type
	folded    map[string]string // each path by its spelling without case
	nameBytes int
}

func (x *extractor) all(r io.Reader) error {
	tr := tar.NewReader(r)
	for n := 0; ; n++ {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return streamError(err)
		}
		if n >= maxEntries {
			return vm.Errorf(vm.Limit, "", "the guest sent more than %d entries", maxEntries).WithHint("copy a smaller directory")
		}
		if err := x.entry(h, tr); err != nil {
			return err
		}
	}
	// The sender reports an error of the whole stream at its end.
	n, err := io.CopyBuffer(io.Discard, io.LimitReader(r, maxTail), x.buf)
	switch {
	case err != nil:
		return streamError(err)
	case n == maxTail:
		return vm.Errorf(vm.GuestFault, "", "the guest keeps sending after the end of the tree")
	}
	return nil
}

// entry unpacks one entry or refuses the archive.
func (x *extractor) entry(h *tar.Header, r io.Reader) error {
	name, err := entryName(h.Name)
	if err != nil {
		return err
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return refused(h.Name, "is a sparse entry, which can be far larger than the bytes sent")
		}
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return refused(h.Name, "would replace the destination itself")
		}
		return x.top(h)
	}
	if err := x.claim(name, h); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return localError(name, x.root.Mkdir(name, dirBits(h)))
	case tar.TypeReg:
		return x.file(name, h, r)
	case tar.TypeSymlink:
		return x.symlink(name, h.Linkname)
	case tar.TypeLink:
		return x.link(name, h)
	}
	return refused(h.Name, "is neither a file, a directory nor a symlink")
}

// dirBits are a directory's permissions before the umask; its owner can always
// write to it and remove it again.
func dirBits(h *tar.Header) fs.FileMode { return fs.FileMode(h.Mode)&0o777 | 0o700 }

// top removes permissions that the tree's own directory lacks; it never adds
// any.
func (x *extractor) top(h *tar.Header) error {
	st, err := x.root.Stat(".")
	if err != nil {
		return localError(".", err)
	}
	return localError(".", x.root.Chmod(".", st.Mode().Perm()&dirBits(h)))
}

// entryName returns the clean relative path of an entry.
func entryName(raw string) (string, error) {
	switch {
	case strings.HasPrefix(raw, "/"):
		return "", refused(raw, "is an absolute name")
	case strings.ContainsRune(raw, 0):
		return "", refused(raw, "holds a NUL byte")
	case len(raw) > maxPath:
		return "", refused(raw[:64]+"...", "is too long a name")
	}
	parts := strings.Split(raw, "/")
	for _, p := range parts {
		if p == ".." {
			return "", refused(raw, "leads outside")
		}
		if len(p) > maxName {
			return "", refused(raw[:64]+"...", "is too long a name")
		}
	}
	if len(parts) > maxDepth {
		return "", refused(raw[:min(64, len(raw))]+"...", "is too deep")
	}
	return path.Clean(raw), nil
}

// claim records a path. Each path may come once, in one spelling, and only
// below a directory that this archive made, never through a symlink.
func (x *extractor) claim(name string, h *tar.Header) error {
	fold := strings.ToLower(strings.ToUpper(name))
	if other, ok := x.folded[fold]; ok {
		if other == name {
			return refused(name, "comes twice")
		}
		return refused(name, "differs only by case from "+printable(other))
	}
	parent := path.Dir(name)
	switch typ, ok := x.made[parent]; {
	case !ok:
		if err := x.parents(parent); err != nil {
			return err
		}
	case typ != tar.TypeDir:
		return refused(name, "is below something that is not a directory")
	}
	return x.note(name, fold, h.Typeflag)
}

func (x *extractor) note(name, fold string, typ byte) error {
	x.nameBytes += len(name)
	if x.nameBytes > maxNameBytes {
		return vm.Errorf(vm.Limit, "", "the names that the guest sent are too long in total").WithHint("copy a smaller directory")
	}
	x.made[name], x.folded[fold] = typ, name
	return nil
}

// parents makes directories that the archive left out.
func (x *extractor) parents(dir string) error {
	if _, ok := x.made[dir]; ok || dir == "." {
		return nil
	}
	h := &tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}
	return x.entry(h, nil)
}

// symlink makes a symlink, or leaves it out if it leads outside.
func (x *extractor) symlink(name, target string) error {
	switch {
	case target == "" || len(target) > maxPath || strings.ContainsRune(target, 0):
		return refused(name, "is a symlink to an impossible name")
	case leadsOutside(name, target):
		x.t.leaveOut(name, target)
		return nil
	}
	return localError(name, x.root.Symlink(target, name))
}

// leadsOutside reports whether a symlink of a tree may lead out of it, whatever
// other symlinks there are. ".." is allowed only at its beginning, where it is
// relative to the link's real directory. After a name it would be relative to
// the directory that the name leads to.
func leadsOutside(name, target string) bool {
	if strings.HasPrefix(target, "/") {
		return true
	}
	up, down := 0, false
	for _, p := range strings.Split(target, "/") {
		switch p {
		case "", ".":
		case "..":
			if down {
				return true
			}
			up++
		default:
			down = true
		}
	}
	return up > strings.Count(name, "/")
}

// file writes a regular file; the umask applies, setuid and setgid do not.
func (x *extractor) file(name string, h *tar.Header, r io.Reader) error {
	if x.limit > 0 && h.Size > x.limit {
		return vm.Errorf(vm.Limit, printable(name), "has %d bytes, more than the allowed %d", h.Size, x.limit).
			WithHint("allow more: --max-bytes %d", h.Size)
	}
	f, err := x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, fs.FileMode(h.Mode)&0o777)
	if err != nil {
		return localError(name, err)
	}
	x.t.files.Add(1)
	n, err := copyInto(name, f, x.t.counted(r), x.buf)
	if err := errors.Join(err, localError(name, f.Close())); err != nil {
		return err
	}
	if n != h.Size {
		return streamError(io.ErrUnexpectedEOF)
	}
	return nil
}

// link makes a second name of a file of the same archive.
func (x *extractor) link(name string, h *tar.Header) error {
	target, err := entryName(h.Linkname)
	if err != nil || x.made[target] != tar.TypeReg {
		return refused(name, "is a hard link to something else than a file of the same tree")
	}
	x.made[name] = tar.TypeReg
	return localError(name, x.root.Link(target, name))
}

// receiveFile writes what a guest sent as the file dest: to a temporary name
// beside it, synced and renamed when exactly size bytes came (-1 = until the
// end) and r ended well. On any error dest is as it was. A symlink at dest is
// replaced, never followed; a directory or device is refused.
func receiveFile(r io.Reader, size int64, dest string, mode os.FileMode) (err error) {
	if err := replaceable(dest); err != nil {
		return err
	}
	dir, err := os.OpenRoot(filepath.Dir(dest))
	if err != nil {
		return localError(filepath.Dir(dest), err)
	}
	defer dir.Close()
	temp := tempName()
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode.Perm())
	if err != nil {
		return localError(dest, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			err = errors.Join(err, dir.Remove(temp))
		}
	}()
	if err := copyExact(dest, f, r, size); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return localError(dest, err)
	}
	if err := dir.Rename(temp, filepath.Base(dest)); err != nil {
		return localError(dest, err)
	}
	// The file is written; only its name might not survive a power cut.
	if d, err := dir.Open("."); err == nil {
		_ = d.Sync() // not every file system can sync a directory
		d.Close()
	}
	return nil
}

// replaceable returns an error for a path that a file must not replace.
func replaceable(dest string) error {
	if base := filepath.Base(dest); dest == "" || os.IsPathSeparator(dest[len(dest)-1]) || base == "." || base == ".." {
		return vm.Errorf(vm.Invalid, dest, "is not the name of a file").WithHint("add the file's name")
	}
	if st, err := os.Lstat(dest); err == nil && st.IsDir() {
		return vm.Errorf(vm.Exists, dest, "is a directory").WithHint("add the file's name")
	}
	// /dev/stdout is a symlink; replacing it would harm the host.
	if st, err := os.Stat(dest); err == nil && !st.IsDir() && !st.Mode().IsRegular() {
		return vm.Errorf(vm.Invalid, dest, "is a device, pipe or socket").WithHint("print a file with `warren fs cat`")
	}
	return nil
}

// copyExact copies size bytes and requires that r ends there.
func copyExact(dest string, f io.Writer, r io.Reader, size int64) error {
	buf := make([]byte, copyBuffer)
	src := r
	if size >= 0 {
		src = io.LimitReader(r, size)
	}
	n, err := copyInto(dest, f, src, buf)
	switch {
	case err != nil:
		return err
	case size < 0:
		return nil
	case n < size:
		return streamError(io.ErrUnexpectedEOF)
	}
	switch n, err := io.ReadFull(r, buf[:1]); {
	case n > 0:
		return vm.Errorf(vm.GuestFault, "", "more was sent than announced")
	case !errors.Is(err, io.EOF):
		return streamError(err)
	}
	return nil
}

// copyInto distinguishes failures to read, which are the sender's, from
// failures to write.
func copyInto(name string, f io.Writer, r io.Reader, buf []byte) (int64, error) {
	var total int64
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := f.Write(buf[:n]); err != nil {
				return total, localError(name, err)
			}
			total += int64(n)
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return total, nil
		}
		if err != nil {
			return total, streamError(err)
		}
	}
}

// refused is the error for an archive that no honest guest sends.
func refused(name, why string) error {
	return vm.Errorf(vm.GuestFault, printable(name), "%s; nothing was copied", why).
		WithHint("look at it inside the VM with `warren fs ls`, and copy the files that you want one by one")
}

// streamError describes the failure of a stream from the guest.
func streamError(err error) error {
	var known *vm.Error
	if errors.As(err, &known) {
		return err
	}
	return vm.Errorf(vm.GuestFault, "", "the data from the guest is cut off or malformed: %w", err).WithHint("copy it again")
}

// localError is the error of a file system of this host; nil for nil.
func localError(name string, err error) error {
	if err == nil {
		return nil
	}
	kind := vm.Invalid
	hint := "choose another destination"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind, hint = vm.NoSpace, "free space on this host or choose another destination"
	case errors.Is(err, fs.ErrPermission):
		kind, hint = vm.Denied, "choose a place that you may write to"
	case errors.Is(err, fs.ErrNotExist):
		kind, hint = vm.NotFound, "check the spelling"
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTEMPTY):
		kind = vm.Exists
	}
	var p *fs.PathError
	var l *os.LinkError
	switch { // their names may contain text that a guest chose
	case errors.As(err, &p):
		err = p.Err
	case errors.As(err, &l):
		err = l.Err
	}
	return vm.Errorf(kind, printable(name), "on this host: %w", err).WithHint("%s", hint)
}
