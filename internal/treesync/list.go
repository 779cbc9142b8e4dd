// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package treesync

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// ListOptions say what List does.
type ListOptions = vm.TreeOptions

// lister walks one tree.
type lister struct {
	ctx   context.Context
	o     ListOptions
	dev   uint64
	n     int
	out   *bufio.Writer
	buf   []byte
	began int64
}

// List writes the tree below root to w, directories before what they hold, and
// End at last. It follows no link and does not enter other file systems. What is
// removed meanwhile is left out. Kinds: Limit, Cancelled, Invalid.
func List(ctx context.Context, root *os.Root, o ListOptions, w io.Writer) error {
	l := &lister{ctx: ctx, o: o, out: bufio.NewWriterSize(w, 64<<10), buf: make([]byte, 128<<10), began: time.Now().UnixNano()}
	st, err := root.Stat(".")
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return vm.Errorf(vm.Unsupported, "", "this file system cannot be listed")
	}
	l.dev = sys.Dev
	if err := l.dir(root, "", 0); err != nil {
		return err
	}
	end := End{Began: l.began}
	if o.Pair != "" {
		if end.Mark, err = readMark(root, o.Pair); err != nil {
			return err
		}
	}
	if err := writeLine(l.out, line{End: &end}); err != nil {
		return err
	}
	return l.out.Flush()
}

func (l *lister) dir(d *os.Root, at string, depth int) error {
	if depth > maxDepth {
		return vm.Errorf(vm.Limit, vm.GuestPath(at).String(), "is more than %d directories deep", maxDepth)
	}
	f, err := d.Open(".")
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	_ = f.Close()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		p := path.Join(at, name)
		if strings.HasPrefix(name, TempPrefix) || Excluded(p, l.o.Exclude) {
			continue
		}
		if err := l.entry(d, name, p, depth); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (l *lister) entry(d *os.Root, name, p string, depth int) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	if l.o.May != nil {
		if err := l.o.May(p); err != nil { // what is hidden does not exist
			return err
		}
	}
	if l.n++; l.n > maxEntries {
		return vm.Errorf(vm.Limit, "", "the directory has more than %d entries", maxEntries).WithHint("leave some out with --exclude, or sync a smaller directory")
	}
	e, st, err := l.look(d, name, p)
	if err != nil {
		return err
	}
	if e.Type == TypeFile && e.CTime >= l.o.HashFrom {
		if e.Digest, err = l.digest(d, name, st); err != nil {
			return err
		}
	}
	if err := writeLine(l.out, line{Entry: e}); err != nil {
		return err
	}
	if e.Type != TypeDir {
		return nil
	}
	sub, err := d.OpenRoot(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	if now, err := sub.Stat("."); err != nil || !os.SameFile(st, now) {
		return err // it was replaced, perhaps by a link: the next listing has it
	}
	return l.dir(sub, p, depth+1)
}

// look describes an entry without its content.
func (l *lister) look(d *os.Root, name, p string) (*Entry, fs.FileInfo, error) {
	st, err := d.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	e, err := describe(d, name, p, st)
	if err == nil && e.Type == TypeDir && st.Sys().(*syscall.Stat_t).Dev != l.dev {
		e.Type = TypeOther
	}
	return e, st, err
}

// describe makes an entry of the result of Lstat.
func describe(d *os.Root, name, p string, st fs.FileInfo) (*Entry, error) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, vm.Errorf(vm.Unsupported, "", "this file system cannot be listed")
	}
	e := &Entry{Path: vm.GuestPath(p), Type: TypeOther, Inode: sys.Ino}
	switch st.Mode().Type() {
	case 0:
		e.Type, e.Size, e.Exec = TypeFile, st.Size(), st.Mode()&0o100 != 0
		e.MTime, e.CTime = sys.Mtim.Nano(), sys.Ctim.Nano()
	case fs.ModeDir:
		e.Type = TypeDir
	case fs.ModeSymlink:
		target, err := d.Readlink(name)
		if err != nil {
			return nil, err
		}
		e.Type, e.Target = TypeLink, vm.GuestPath(target)
	}
	return e, nil
}

// digest reads a file. "" = it is another file by now.
func (l *lister) digest(d *os.Root, name string, was fs.FileInfo) (string, error) {
	f, err := openFile(d, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !os.SameFile(st, was) {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.CopyBuffer(onlyWriter{sum}, onlyReader{f}, l.buf); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// openFile opens a file for reading; neither a pipe nor a link keeps it.
func openFile(d *os.Root, name string) (*os.File, error) {
	return d.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
}

// onlyWriter and onlyReader hide the methods that make io.Copy skip the buffer.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)
