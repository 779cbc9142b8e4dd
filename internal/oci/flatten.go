// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// A Layer gives the tar of one layer, each time that it is asked.
type Layer func() (io.ReadCloser, error)

// Tree is what the layers of an image make together.
type Tree struct {
	image  *Image
	tree   *tree
	layers []Layer
}

// Tree reads all layers once, checks their digests and merges them. The error names what is wrong with
// a hostile layer, and has the code OCI_INVALID, OCI_TOO_LARGE or OCI_DIGEST_MISMATCH.
func (i *Image) Tree(ctx context.Context) (*Tree, error) {
	t := &Tree{image: i, tree: newTree(i.Source)}
	for _, p := range i.layers {
		t.layers = append(t.layers, func() (io.ReadCloser, error) { return i.store.open(p) })
	}
	for n, l := range t.layers {
		p := i.layers[n]
		t.tree.layer = n
		sum := sha256.New()
		err := t.scan(ctx, l, io.Writer(sum), p.size*blowUp+blowUpFree, t.tree.entry)
		if err != nil {
			return nil, err
		}
		if p.diff.Algorithm != "sha256" || hex.EncodeToString(sum.Sum(nil)) != p.diff.Hex {
			i.store.drop(p.blob)
			return nil, damaged(i.Source, "a layer does not have the digest that the image's configuration gives it")
		}
	}
	return t, nil
}

// Add puts a layer of one's own above the image's.
func (t *Tree) Add(ctx context.Context, l Layer) error {
	t.tree.layer = len(t.layers)
	t.layers = append(t.layers, l)
	return t.scan(ctx, l, io.Discard, maxBytes, t.tree.entry)
}

// open returns the tar of a layer.
func (s store) open(p part) (io.ReadCloser, error) {
	f, err := os.Open(s.path(p.blob))
	if err != nil {
		return nil, fileError(s.path(p.blob), err)
	}
	r, err := decompress(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, errors.Join(invalid(p.blob.String(), "a layer does not decompress: %v", err), f.Close())
	}
	return closeBoth{r, f}, nil
}

type closeBoth struct {
	io.ReadCloser
	below io.Closer
}

func (c closeBoth) Close() error { return errors.Join(c.ReadCloser.Close(), c.below.Close()) }

// errBomb ends the reading of a layer that is far larger than it was.
var errBomb = errors.New("layer is a bomb")

// bounded reads at most n bytes.
type bounded struct {
	r io.Reader
	n int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.n <= 0 {
		return 0, errBomb
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.n)])
	b.n -= int64(n)
	return n, err
}

// scan calls each for the entries of a layer. sum gets every byte of its tar.
func (t *Tree) scan(ctx context.Context, l Layer, sum io.Writer, limit int64, each func(h *tar.Header, seq int) error) error {
	from, err := l()
	if err != nil {
		return err
	}
	err = t.scanFrom(ctx, from, sum, limit, each)
	_ = from.Close() // it was only read
	return err
}

func (t *Tree) scanFrom(ctx context.Context, from io.Reader, sum io.Writer, limit int64, each func(h *tar.Header, seq int) error) error {
	whole := io.TeeReader(&bounded{r: &counting{ctx: ctx, r: from}, n: limit}, sum)
	r := tar.NewReader(whole)
	for seq := 0; ; seq++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = each(h, seq)
		}
		if err != nil {
			return t.explain(ctx, err)
		}
	}
	if _, err := io.Copy(io.Discard, whole); err != nil { // what follows the tar's end counts for the digest
		return t.explain(ctx, err)
	}
	return nil
}

func (t *Tree) explain(ctx context.Context, err error) error {
	var known *vm.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &known):
		return err
	case errors.Is(err, errBomb):
		return tooLarge(t.image.Source, "a layer grows to more than %d times its size", blowUp)
	case errors.As(err, new(*fs.PathError)):
		return fileError(t.image.Source, err)
	}
	return invalid(t.image.Source, "a layer is no readable tar: %v", err)
}

// Summary counts what a tree holds.
type Summary struct {
	Files int // names, without those of directories
	Dirs  int
	Bytes int64 // of their contents
	// What was left out: device nodes, and extended attributes of the host that built it.
	Devices, Xattrs int
}

// Summary counts the tree.
func (t *Tree) Summary() Summary {
	s := Summary{Devices: t.tree.Devices, Xattrs: t.tree.Xattrs}
	seen := map[*inode]bool{}
	t.tree.root.each(func(n *node) {
		if n.isDir() {
			s.Dirs++
			return
		}
		s.Files++
		if !seen[n.file] {
			seen[n.file] = true
			s.Bytes += n.file.size
		}
	})
	return s
}

// each calls f for the names below, each directory before what is in it.
func (n *node) each(f func(*node)) {
	for _, name := range slices.Sorted(maps.Keys(n.below)) {
		c := n.below[name]
		f(c)
		c.each(f)
	}
}

// Write writes the tree as a tar: directories, then the contents of files in the order of the layers, then other
// names of files and symbolic links. So no name in it leads through a link, and nothing in it is outside.
func (t *Tree) Write(ctx context.Context, w io.Writer) error {
	out := &treeTar{tw: tar.NewWriter(w), files: map[[2]int]*inode{}}
	out.dir(t.tree.root)
	t.tree.root.each(out.look)
	for n, l := range t.layers {
		if out.err != nil {
			break
		}
		limit := int64(maxBytes)
		if n < len(t.image.layers) {
			limit = t.image.layers[n].size*blowUp + blowUpFree
		}
		if err := t.contents(ctx, n, l, limit, out); err != nil {
			return err
		}
	}
	for _, n := range out.later {
		out.other(n)
	}
	if out.err == nil {
		out.err = out.tw.Close()
	}
	return out.err
}

// contents writes the files whose contents are in one layer.
func (t *Tree) contents(ctx context.Context, n int, l Layer, limit int64, out *treeTar) error {
	from, err := l()
	if err != nil {
		return err
	}
	defer from.Close() // read only
	r := tar.NewReader(&bounded{r: &counting{ctx: ctx, r: from}, n: limit})
	for seq := 0; ; seq++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return t.explain(ctx, err)
		}
		f := out.files[[2]int{n, seq}]
		if f == nil {
			continue
		}
		if h.Size != f.size {
			return damaged(t.image.Source, "a layer changed while it was read")
		}
		if out.header(f.first, f); out.err == nil {
			_, out.err = io.Copy(out.tw, r)
		}
		if out.err != nil {
			return out.err
		}
	}
}

// treeTar writes the tar of a tree.
type treeTar struct {
	tw    *tar.Writer
	files map[[2]int]*inode // files with contents, by layer and entry
	later []*node
	err   error
}

// look writes a directory, and notes other names for later.
func (o *treeTar) look(n *node) {
	f := n.file
	switch {
	case f.kind == tar.TypeDir:
		o.dir(n)
		return
	case f.kind != tar.TypeReg || o.files[[2]int{f.layer, f.seq}] != nil:
		o.later = append(o.later, n)
		return
	}
	f.first = n
	o.files[[2]int{f.layer, f.seq}] = f
}

func (o *treeTar) dir(n *node) { o.header(n, n.file) }

func (o *treeTar) header(n *node, f *inode) {
	if o.err != nil {
		return
	}
	h := &tar.Header{
		Typeflag: f.kind, Name: "./" + n.path(), Mode: f.mode, Uid: f.uid, Gid: f.gid, ModTime: f.modified, Size: f.size, Linkname: f.target,
		Format: tar.FormatPAX, PAXRecords: f.xattrs,
	}
	if f.kind == tar.TypeDir {
		h.Name = strings.TrimSuffix("./"+n.path(), "/.") + "/"
	}
	o.err = o.tw.WriteHeader(h)
}

// other writes a name that has no contents of its own.
func (o *treeTar) other(n *node) {
	if o.err != nil {
		return
	}
	if first := n.file.first; first != nil && first != n {
		o.err = o.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeLink, Name: "./" + n.path(), Linkname: "./" + first.path(), Format: tar.FormatPAX, ModTime: n.file.modified})
		return
	}
	n.file.first = n
	o.header(n, n.file)
}

// Stat follows a path in the tree, also through symbolic links, and returns the mode of what it leads to.
func (t *Tree) Stat(name string) (mode fs.FileMode, ok bool) {
	parts := strings.Split(name, "/")
	at := t.tree.root
	for hops := 0; len(parts) > 0 && hops < maxHops; {
		dir, err := t.tree.walk(at, parts[:len(parts)-1], false)
		if err != nil || dir == nil {
			return 0, false
		}
		n := dir.below[parts[len(parts)-1]]
		switch {
		case n == nil:
			return 0, false
		case n.file.kind == tar.TypeSymlink:
			hops++
			if at = dir; strings.HasPrefix(n.file.target, "/") {
				at = t.tree.root
			}
			parts = strings.Split(n.file.target, "/")
			continue
		case n.isDir():
			return fs.ModeDir | fs.FileMode(n.file.mode).Perm(), true
		case n.file.kind == tar.TypeReg:
			return fs.FileMode(n.file.mode).Perm(), true
		}
		return fs.ModeIrregular, true
	}
	return 0, false
}

// Program reports whether a path leads to a file that can be executed.
func (t *Tree) Program(name string) bool {
	mode, ok := t.Stat(name)
	return ok && mode.IsRegular() && mode&0o111 != 0
}
