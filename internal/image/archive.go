// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// maxUnpacked limits the bytes of all files of one archive.
const maxUnpacked = 4 << 30

// archive copies the files of a download to the tar, below their destination.
func (t *treeWriter) archive(d RecipeDownload, file string) {
	if t.err != nil {
		return
	}
	into := &unpacking{t: t, d: d}
	if archiveKind(d.From) == "zip" {
		t.err = into.zip(file)
	} else {
		t.err = into.tgz(file)
	}
	if t.err == nil && into.files == 0 {
		t.err = vm.Errorf(vm.Invalid, d.From, "the archive holds no file below %q", d.Path)
	}
}

// unpacking is an archive while it is copied into the tar.
type unpacking struct {
	t     *treeWriter
	d     RecipeDownload
	files int
	bytes int64
}

// place returns the destination of an entry; false = the recipe does not use it.
func (u *unpacking) place(name string) (string, bool, error) {
	if !filepath.IsLocal(name) {
		return "", false, vm.Errorf(vm.Corrupt, u.d.From, "the archive holds %q, which leads out of it", name)
	}
	name = path.Clean(name)
	if u.d.Path != "" {
		rest, ok := strings.CutPrefix(name, u.d.Path+"/")
		if !ok {
			return "", false, nil
		}
		name = rest
	}
	return strings.TrimPrefix(path.Join(u.d.To, name), "/"), true, nil
}

// file writes one file. It keeps only the execute bits of the mode.
func (u *unpacking) file(name string, mode fs.FileMode, size int64, r io.Reader) error {
	to, wanted, err := u.place(name)
	if err != nil || !wanted {
		return err
	}
	u.files++
	if u.bytes += size; u.bytes > maxUnpacked {
		return vm.Errorf(vm.Invalid, u.d.From, "the archive is larger than %d MiB unpacked", maxUnpacked>>20)
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: to, Mode: 0o644, Size: size, ModTime: time.Unix(guestEpoch, 0), Format: tar.FormatGNU}
	if mode&0o100 != 0 {
		h.Mode = 0o755
	}
	if err := u.t.tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(u.t.tw, r, size)
	return err
}

// link writes a symbolic link, which must lead to a place below d.To.
func (u *unpacking) link(name, target string) error {
	to, wanted, err := u.place(name)
	if err != nil || !wanted {
		return err
	}
	root := strings.TrimPrefix(u.d.To, "/")
	dir := strings.TrimPrefix(strings.TrimPrefix(path.Dir(to), root), "/")
	if path.IsAbs(target) || !filepath.IsLocal(path.Join(dir, target)) {
		return vm.Errorf(vm.Corrupt, u.d.From, "the link %q of the archive leads out of %s", name, u.d.To)
	}
	u.files++
	return u.t.tw.WriteHeader(&tar.Header{
		Typeflag: tar.TypeSymlink, Name: to, Linkname: target, Mode: 0o777, ModTime: time.Unix(guestEpoch, 0), Format: tar.FormatGNU,
	})
}

func (u *unpacking) tgz(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fileError(file, err)
	}
	defer f.Close() // read only
	z, err := gzip.NewReader(f)
	if err != nil {
		return vm.Errorf(vm.Corrupt, u.d.From, "not a gzip file: %w", err)
	}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return vm.Errorf(vm.Corrupt, u.d.From, "not readable: %w", err)
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = u.file(h.Name, h.FileInfo().Mode(), h.Size, r)
		case tar.TypeSymlink:
			err = u.link(h.Name, h.Linkname)
		case tar.TypeDir, tar.TypeXGlobalHeader:
		default:
			err = vm.Errorf(vm.Invalid, u.d.From, "the archive holds %q, which is neither a file nor a directory nor a symbolic link", h.Name)
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacking) zip(file string) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return vm.Errorf(vm.Corrupt, u.d.From, "not a zip file: %w", err)
	}
	defer func() { _ = z.Close() }() // read only
	for _, e := range z.File {
		if e.Mode().IsDir() {
			continue
		}
		if !e.Mode().IsRegular() {
			return vm.Errorf(vm.Invalid, u.d.From, "the archive holds %q, which is not a file", e.Name)
		}
		r, err := e.Open()
		if err != nil {
			return vm.Errorf(vm.Corrupt, u.d.From, "%s: %w", e.Name, err)
		}
		err = u.file(e.Name, e.Mode(), int64(e.UncompressedSize64), r) //nolint:gosec // a size above 2^63 is negative, which tar refuses
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return nil
}
