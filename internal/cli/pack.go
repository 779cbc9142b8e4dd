// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

// packer writes a tree of this host as a tar stream.
type packer struct {
	tw  *tar.Writer
	t   *transfer
	buf []byte
}

// packTar writes a directory of this host as a tar stream: files, directories,
// and symlinks that lead inside. It notes the rest in t.
func packTar(w io.Writer, root string, t *transfer) error {
	p := packer{tw: tar.NewWriter(w), t: t, buf: make([]byte, copyBuffer)}
	top, err := os.Stat(root)
	if err != nil {
		return localError(root, err)
	}
	root = filepath.Clean(root) + string(filepath.Separator) // a symlink to a directory is followed here only
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return localError(name, err)
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return localError(name, err)
		}
		st := top
		if rel != "." {
			if st, err = d.Info(); err != nil {
				return localError(name, err)
			}
		}
		return p.entry(name, rel, st)
	})
	if err != nil {
		return err
	}
	return p.tw.Close()
}

func (p *packer) entry(name, as string, st fs.FileInfo) error {
	h := &tar.Header{Name: filepath.ToSlash(as), Mode: int64(st.Mode().Perm()), ModTime: st.ModTime(), Format: tar.FormatPAX}
	switch st.Mode().Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case fs.ModeSymlink:
		target, err := os.Readlink(name)
		if err != nil {
			return localError(name, err)
		}
		if leadsOutside(as, target) {
			p.t.leaveOut(as, target)
			return nil
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case 0:
		return p.file(name, h)
	default:
		p.t.leaveOut(as, "")
		return nil
	}
	return p.tw.WriteHeader(h)
}

func (p *packer) file(name string, h *tar.Header) error {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return localError(name, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return localError(name, err)
	}
	if !st.Mode().IsRegular() {
		return vm.Errorf(vm.Busy, name, "changed while it was copied").WithHint("copy it again")
	}
	h.Typeflag, h.Size = tar.TypeReg, st.Size()
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{p.tw}, p.t.counted(io.LimitReader(f, h.Size)), p.buf)
	p.t.files.Add(1)
	if err == nil && n < h.Size {
		return vm.Errorf(vm.Busy, name, "became shorter while it was copied").WithHint("copy it again")
	}
	return err
}
