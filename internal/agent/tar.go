// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

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
	"time"

	"github.com/warren-vm/warren/vm"
)

// tarDown sends a tree or a file as a tar archive.
func (a *Agent) tarDown(w *answer, r *request) error {
	u, root, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	return u.do(func() error {
		root, err := u.may(root, toRead, true)
		if err != nil {
			return fileError(root, err)
		}
		st, err := os.Stat(root) // a symlink as the last element is followed
		if err != nil {
			return fileError(root, err)
		}
		if st.IsDir() {
			if d, err := os.Open(root); err != nil {
				return fileError(root, err)
			} else if err := d.Close(); err != nil {
				return err
			}
		}
		if err := u.mayTree(root); err != nil {
			return fileError(root, err)
		}
		if err := w.head(-1, ""); err != nil {
			return err
		}
		out := &chunkWriter{w: w.conn}
		buffered := &gather{w: out}
		tw := tar.NewWriter(buffered)
		p := packer{user: u, tw: tw, buf: make([]byte, copySize)}
		if st.IsDir() {
			err = p.tree(root)
		} else {
			err = p.add(root, st, filepath.Base(root))
		}
		if err = errors.Join(err, tw.Close(), buffered.flush()); err != nil {
			return err
		}
		return out.end()
	})
}

// gather collects small writes.
type gather struct {
	w   io.Writer
	buf []byte
}

func (g *gather) Write(p []byte) (int, error) {
	if len(g.buf)+len(p) > copySize {
		if err := g.flush(); err != nil {
			return 0, err
		}
	}
	if len(p) >= copySize/2 {
		if err := g.flush(); err != nil {
			return 0, err
		}
		return g.w.Write(p)
	}
	g.buf = append(g.buf, p...)
	return len(p), nil
}

func (g *gather) flush() error {
	if len(g.buf) == 0 {
		return nil
	}
	_, err := g.w.Write(g.buf)
	g.buf = g.buf[:0]
	return err
}

// packer writes entries of an archive.
type packer struct {
	user linuxUser
	tw   *tar.Writer
	buf  []byte
}

// tree adds a directory and everything below it. An entry that vanishes or cannot
// be read during this is an error, because the archive would be incomplete.
func (p *packer) tree(root string) error {
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if err := p.user.judge(name, toRead); errors.Is(err, fs.ErrNotExist) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil // hidden
		} else if err != nil {
			return err
		}
		st, err := os.Lstat(name)
		if name == root {
			st, err = os.Stat(name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed after the listing: no longer part of the tree
		}
		if err != nil {
			return err
		}
		return p.add(name, st, rel)
	})
}

// add writes one entry. Sockets, pipes and devices are left out.
func (p *packer) add(name string, st fs.FileInfo, as string) error {
	h := &tar.Header{
		Name: as, Mode: int64(unixMode(st.Mode())), ModTime: st.ModTime(), Format: tar.FormatPAX,
	}
	h.ModTime = h.ModTime.Truncate(time.Microsecond)
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		h.Uid, h.Gid = int(sys.Uid), int(sys.Gid)
	}
	switch st.Mode().Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, as+"/"
	case fs.ModeSymlink:
		target, err := os.Readlink(name)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case 0:
		return p.file(name, h)
	default:
		return nil
	}
	return p.tw.WriteHeader(h)
}

func (p *packer) file(name string, h *tar.Header) error {
	f, err := p.user.open(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) { // the archive's root may be a link; no other entry may
		f, err = p.user.open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return nil
	}
	h.Typeflag, h.Size = tar.TypeReg, st.Size()
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.CopyBuffer(onlyWriter{p.tw}, io.LimitReader(onlyReader{f}, h.Size), p.buf)
	if err != nil {
		return err
	}
	if n < h.Size { // the file became shorter: pad with zeros, as tar does
		_, err = io.CopyBuffer(onlyWriter{p.tw}, io.LimitReader(zeros{}, h.Size-n), p.buf)
	}
	return err
}

// onlyWriter and onlyReader hide the methods that make io.Copy skip the buffer.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
	zeros      struct{}
)

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// tarUp unpacks an archive below a directory. It touches nothing outside of
// it, whatever names and links the archive or the directory contain.
func (a *Agent) tarUp(w *answer, r *request) error {
	u, dir, err := a.userPath(r.query, "path")
	if err != nil {
		return err
	}
	err = u.do(func() error {
		at, err := u.may(dir, toSee, true)
		if err != nil {
			return err
		}
		if err := u.makeDirs(at); err != nil {
			return err
		}
		root, err := os.OpenRoot(at)
		if err != nil {
			return err
		}
		defer func() { _ = root.Close() }()
		p := unpacker{root: root, buf: make([]byte, copySize), dirs: make(map[string]*tar.Header)}
		if u.rules != nil {
			p.may = func(name string) error { _, err := u.may(filepath.Join(at, name), toWrite, false); return err }
		}
		if err := p.all(tar.NewReader(r.body)); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r.body) // padding after the end mark
		return err
	})
	return w.done(fileError(dir, err))
}

// unpacker writes an archive's entries under root.
type unpacker struct {
	root *os.Root
	buf  []byte
	dirs map[string]*tar.Header // their modes are set last, because a mode may forbid writing

	may   func(name string) error // judges an entry; nil = all are allowed
	owned bool                    // also set owners and extended attributes
}

func (p *unpacker) all(tr *tar.Reader) error {
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return p.finish()
		}
		if err != nil {
			return vm.Errorf(vm.Invalid, "", "malformed archive: %w", err).WithCode("FILES_BAD_REQUEST")
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if strings.IndexByte(h.Name, 0) >= 0 {
			return badPath(h.Name, "a name in the archive holds a NUL byte")
		}
		if err := p.entry(name, h, tr); err != nil {
			return fileError(h.Name, err)
		}
	}
}

func (p *unpacker) entry(name string, h *tar.Header, r io.Reader) error {
	if name == "" { // the directory itself
		if h.Typeflag == tar.TypeDir {
			p.dirs["."] = h
		}
		return nil
	}
	if p.may != nil {
		err := p.may(name)
		if h.Typeflag == tar.TypeLink && err == nil {
			err = p.may(strings.TrimPrefix(path.Clean("/"+h.Linkname), "/"))
		}
		if err != nil {
			return err
		}
	}
	if parent := path.Dir(name); parent != "." {
		if err := p.root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	st, err := p.root.Lstat(name)
	exists := err == nil
	if h.Typeflag == tar.TypeDir {
		if exists && st.IsDir() {
			p.dirs[name] = h
			return nil
		}
		if exists {
			return badPath(h.Name, "a file is in the way of a directory")
		}
	} else if exists && st.IsDir() {
		return badPath(h.Name, "a directory is in the way")
	}
	if exists {
		if err := p.root.Remove(name); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		p.dirs[name] = h
		return p.root.Mkdir(name, 0o700)
	case tar.TypeReg:
		return p.file(name, h, r)
	case tar.TypeSymlink:
		err := p.root.Symlink(h.Linkname, name)
		if err == nil && p.owned {
			err = p.root.Lchown(name, h.Uid, h.Gid)
		}
		return err
	case tar.TypeLink:
		return p.root.Link(strings.TrimPrefix(path.Clean("/"+h.Linkname), "/"), name)
	}
	return nil // devices and pipes are skipped
}

func (p *unpacker) file(name string, h *tar.Header, r io.Reader) (err error) {
	f, err := p.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			_ = p.root.Remove(name)
		}
	}()
	var w io.Writer = f
	if p.owned {
		w = &holes{f}
	}
	if h.Size >= directFrom {
		err = writeLarge(f, w, r, 0)
	} else {
		_, err = io.CopyBuffer(onlyWriter{w}, onlyReader{r}, p.buf)
	}
	if err == nil && p.owned {
		err = f.Truncate(h.Size) // it may end with a hole
	}
	if err != nil {
		return err
	}
	if p.owned {
		err = own(f, h)
	} else {
		err = f.Chmod(goMode(uint32(h.Mode) & 0o7777))
	}
	if err != nil {
		return err
	}
	return p.root.Chtimes(name, time.Time{}, h.ModTime)
}

// finish gives the directories their modes and times, the deepest first.
func (p *unpacker) finish() error {
	names := make([]string, 0, len(p.dirs))
	for n := range p.dirs {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range slices.Backward(names) {
		h := p.dirs[n]
		if n == "." { // the destination existed before; it keeps its mode and times
			continue
		}
		if err := p.finishDir(n, h); err != nil {
			return fileError(n, err)
		}
		if err := p.root.Chtimes(n, time.Time{}, h.ModTime); err != nil {
			return fileError(n, err)
		}
	}
	return nil
}

func (p *unpacker) finishDir(name string, h *tar.Header) error {
	if !p.owned {
		return p.root.Chmod(name, goMode(uint32(h.Mode)&0o7777))
	}
	f, err := p.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(own(f, h), f.Close())
}
