// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ship

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/warren-vm/warren/vm"
)

// packedBody is the tar.zst of a tree. Close returns why the packing failed, if it did.
type packedBody struct {
	*io.PipeReader
	done chan error
}

// Close ends the packing and waits for it.
func (b *packedBody) Close() error {
	_ = b.CloseWithError(context.Canceled) // always nil
	if err := <-b.done; !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// packed packs a tree while it is read.
func (p *publishing) packed(src *source) io.ReadCloser {
	r, w := io.Pipe()
	b := &packedBody{PipeReader: r, done: make(chan error, 1)}
	go func() { // ends when the source ends, or when Close has closed the pipe
		err := wholly(p.pack(src, w), "warren-reader")
		w.CloseWithError(err)
		b.done <- err
	}()
	return b
}

// packer writes the archive of a tree. What it reads comes from a program that read a
// hostile disk, so that it takes only what an honest one sends.
type packer struct {
	p    *publishing
	w    *tar.Writer
	root string          // of the names that are read
	base string          // of the names that are written
	dirs map[string]bool // read so far, as the next two
	seen map[string]bool // what is no directory
	// files are those to which hard links may lead.
	files map[string]bool
	buf   []byte
}

// pack writes a tree. Its names begin with the directory's own name.
func (p *publishing) pack(src *source, w io.Writer) error {
	comp, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window), zstd.WithEncoderCRC(true))
	if err != nil {
		return err
	}
	root := strings.TrimPrefix(string(p.out.Path), "/")
	k := &packer{p: p, w: tar.NewWriter(comp), root: root, base: path.Base(root), dirs: map[string]bool{}, seen: map[string]bool{}, files: map[string]bool{}, buf: make([]byte, searched)}
	return errors.Join(k.all(src), comp.Close())
}

func (k *packer) all(src *source) error {
	for h := src.first; ; {
		if err := k.entry(h, src.in); err != nil {
			return err
		}
		var err error
		if h, err = src.in.Next(); err == io.EOF {
			break
		}
		if err != nil {
			return wholly(err, "warren-reader")
		}
	}
	if err := src.finish(); err != nil {
		return err
	}
	if err := k.p.refuse(); err != nil {
		return err
	}
	return k.w.Close()
}

// entry takes one file, directory or link.
func (k *packer) entry(h *tar.Header, content io.Reader) error {
	rel, err := k.relative(h.Name)
	if err != nil {
		return err
	}
	if known := k.seen[rel] || k.dirs[rel]; known || rel != "" && !k.dirs[strings.TrimSuffix(path.Dir(rel), "/")] {
		return odd(h.Name)
	}
	out := &k.p.out
	if out.Files++; out.Files+out.LeftOutCount > mostEntries {
		return vm.Errorf(vm.Limit, out.Path.String(), "it has more than %d files", mostEntries)
	}
	clean := &tar.Header{
		Typeflag: h.Typeflag, Name: k.base + rel, Mode: h.Mode & 0o7777, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime,
		Format: tar.FormatPAX, PAXRecords: xattrs(h.PAXRecords),
	}
	k.seen[rel] = h.Typeflag != tar.TypeDir
	switch h.Typeflag {
	case tar.TypeDir:
		clean.Name += "/"
		k.dirs[rel] = true
	case tar.TypeSymlink:
		clean.Linkname = h.Linkname
		if leads(strings.TrimPrefix(rel, "/"), h.Linkname) {
			k.leave(rel)
			return nil
		}
	case tar.TypeReg:
		clean.Size = h.Size
		k.files[rel] = true
		return k.file(string(out.Path)+rel, clean, content)
	case tar.TypeLink:
		to, err := k.relative(h.Linkname)
		if err != nil || !k.files[to] {
			return odd(h.Linkname)
		}
		clean.Linkname = k.base + to
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		k.leave(rel)
		return nil
	default:
		return odd(h.Name)
	}
	return k.header(clean)
}

// leave leaves an entry out.
func (k *packer) leave(rel string) {
	out := &k.p.out
	if out.LeftOutCount++; len(out.LeftOut) < mostListed {
		out.LeftOut = append(out.LeftOut, out.Path+vm.GuestPath(rel))
	}
	out.Files--
}

// header writes a header, unless the object will not be stored.
func (k *packer) header(h *tar.Header) error {
	if len(k.p.secrets) > 0 {
		return nil
	}
	return k.w.WriteHeader(h)
}

// relative returns a name without the root: "" or "/…".
func (k *packer) relative(name string) (string, error) {
	name = strings.TrimSuffix(name, "/")
	rel, ok := strings.CutPrefix(name, k.root)
	if !ok || rel != "" && rel[0] != '/' || path.Clean("/"+name) != "/"+name || strings.ContainsRune(name, 0) {
		return "", odd(name)
	}
	return rel, nil
}

// file writes a file, and searches its beginning for secrets.
func (k *packer) file(at string, h *tar.Header, content io.Reader) error {
	if err := k.p.count(h.Size); err != nil {
		return err
	}
	head := k.buf[:min(h.Size, int64(len(k.buf)))]
	if _, err := io.ReadFull(content, head); err != nil {
		return wholly(err, "warren-reader")
	}
	k.p.search(at, head)
	if len(k.p.secrets) > 0 { // the object will not be stored: only the other secrets count
		return nil
	}
	if err := k.w.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(k.w, io.MultiReader(bytes.NewReader(head), content))
	return wholly(err, "warren-reader")
}

func odd(name string) error {
	return vm.Errorf(vm.Corrupt, vm.GuestPath(name).String(), "the reader of the disk sent an entry that was not asked for")
}

// xattrs are the extended attributes among PAX records.
func xattrs(records map[string]string) map[string]string {
	out := maps.Clone(records)
	maps.DeleteFunc(out, func(key, _ string) bool { return !strings.HasPrefix(key, "SCHILY.xattr.") })
	return out
}
