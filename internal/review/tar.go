// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"archive/tar"
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

// Bounds of a tar that the request does not give.
const (
	defaultEntries = 100_000
	defaultBytes   = 1 << 30
	maxDeep        = 200
	maxCached      = 1 << 18 // names of directories that are kept
)

// packer writes files of a disk as a tar.
type packer struct {
	ctx     context.Context
	fs      *ext4.FS
	out     *tar.Writer
	entries int
	bytes   int64             // that may still come
	most    int64             // of them at the beginning
	first   map[uint32]string // the first name of files with several
	cached  int
	dirs    map[uint32]map[string]uint32
}

// writeTar writes paths and what is below them.
func writeTar(ctx context.Context, disk Disk, r Request, w io.Writer) error {
	fs, err := ext4.Open(disk, disk.Size())
	if err != nil {
		return err
	}
	p := &packer{
		ctx: ctx, fs: fs, out: tar.NewWriter(w), entries: cmp.Or(r.Entries, defaultEntries),
		bytes: cmp.Or(r.Bytes, defaultBytes), most: cmp.Or(r.Bytes, defaultBytes),
		first: map[uint32]string{}, dirs: map[uint32]map[string]uint32{},
	}
	for _, path := range r.Paths {
		n, err := p.find(path)
		if err != nil {
			return err
		}
		if err := p.add(strings.Trim(string(path), "/"), n, 0); err != nil {
			return err
		}
	}
	return p.out.Close()
}

// find returns the inode of a path. It follows no link.
func (p *packer) find(path vm.GuestPath) (uint32, error) {
	at := uint32(ext4.RootInode)
	for name := range strings.SplitSeq(strings.Trim(string(path), "/"), "/") {
		if name == "" || name == "." {
			continue
		}
		names, err := p.names(at)
		if err != nil {
			return 0, err
		}
		n, ok := names[name]
		if !ok {
			return 0, vm.Errorf(vm.NotFound, path.String(), "it is not on the disk")
		}
		at = n
	}
	return at, nil
}

// names returns the names of a directory; none for what is no directory.
func (p *packer) names(n uint32) (map[string]uint32, error) {
	if known, ok := p.dirs[n]; ok {
		return known, nil
	}
	p.fs.Renew()
	in, err := p.fs.Inode(n)
	if err != nil || in.Type != ext4.Directory {
		return nil, err
	}
	names := map[string]uint32{}
	err = p.fs.ReadDir(in, func(e ext4.Entry) error {
		if _, twice := names[e.Name]; !twice && !strings.ContainsAny(e.Name, "/\x00") {
			names[e.Name] = e.Inode
		}
		if len(names) > maxCached {
			return vm.Errorf(vm.Limit, "", "a directory has more than %d names", maxCached)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if p.cached += len(names); p.cached > maxCached {
		clear(p.dirs)
		p.cached = len(names)
	}
	p.dirs[n] = names
	return names, nil
}

// add writes one file, and what is below a directory.
func (p *packer) add(name string, n uint32, depth int) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	if p.entries--; p.entries < 0 {
		return vm.Errorf(vm.Limit, shownName(name), "too many files are below the paths").WithHint("name fewer paths")
	}
	if depth > maxDeep {
		return vm.Errorf(vm.Limit, shownName(name), "it is more than %d directories deep", maxDeep)
	}
	p.fs.Renew()
	in, err := p.fs.Inode(n)
	if err != nil {
		return err
	}
	if !in.Used() {
		return vm.Errorf(vm.Corrupt, shownName(name), "the file system is damaged: a name of a file that is not used")
	}
	h, err := p.header(name, in)
	if err != nil || h == nil {
		return err
	}
	if name != "" { // the root itself has no name
		if err := p.out.WriteHeader(h); err != nil {
			return err
		}
	}
	switch {
	case h.Typeflag == tar.TypeReg:
		return p.content(in, h.Size)
	case h.Typeflag != tar.TypeDir:
		return nil
	}
	names, err := p.names(n)
	if err != nil {
		return err
	}
	for _, child := range sortedNames(names) {
		if err := p.add(strings.TrimPrefix(name+"/"+child, "/"), names[child], depth+1); err != nil {
			return err
		}
	}
	return nil
}

func sortedNames(names map[string]uint32) []string {
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// header describes a file; nil = a socket, which has no content and is left out.
func (p *packer) header(name string, in *ext4.Inode) (*tar.Header, error) {
	h := &tar.Header{
		Name: name, Mode: int64(in.Mode), Uid: int(in.UID), Gid: int(in.GID), ModTime: in.Modified,
		Format: tar.FormatPAX, PAXRecords: map[string]string{},
	}
	attrs, err := p.fs.Attrs(in)
	if err != nil {
		return nil, err
	}
	for k, v := range attrs {
		if !strings.ContainsAny(k, "=\x00") {
			h.PAXRecords["SCHILY.xattr."+k] = v
		}
	}
	switch in.Type {
	case ext4.Directory:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case ext4.Symlink:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = p.fs.Target(in); err == nil && strings.ContainsRune(h.Linkname, 0) {
			err = vm.Errorf(vm.Corrupt, shownName(name), "the file system is damaged: a link's target has a zero byte")
		}
	case ext4.Pipe:
		h.Typeflag = tar.TypeFifo
	case ext4.CharDev, ext4.BlockDev:
		h.Typeflag = tar.TypeChar
		if in.Type == ext4.BlockDev {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(in.Device>>20), int64(in.Device&0xfffff)
	case ext4.Socket:
		return nil, nil
	case ext4.Regular:
		if earlier, ok := p.first[in.Number]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, earlier
			break
		}
		if in.Links > 1 {
			p.first[in.Number] = name
		}
		if in.Size > p.most {
			return nil, vm.Errorf(vm.Limit, shownName(name), "it has %s with its holes, more than the limit of %s", size(in.Size), size(p.most)).WithHint("name other paths")
		}
		if p.bytes -= in.Size; p.bytes < 0 {
			return nil, vm.Errorf(vm.Limit, shownName(name), "with it, the files below the paths have more than the limit of %s", size(p.most)).WithHint("name fewer paths")
		}
		h.Typeflag, h.Size = tar.TypeReg, in.Size
	default:
		return nil, vm.Errorf(vm.Corrupt, shownName(name), "the file system is damaged: a file of an unknown type")
	}
	return h, err
}

// content writes a file's bytes, with zeros for its holes.
func (p *packer) content(in *ext4.Inode, size int64) error {
	f, err := p.fs.OpenFile(in)
	if err != nil {
		return err
	}
	buf := make([]byte, min(size, 256<<10))
	for off := int64(0); off < size; {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		n := min(int64(len(buf)), size-off)
		if _, err := f.ReadAt(buf[:n], off); err != nil {
			return err
		}
		if _, err := p.out.Write(buf[:n]); err != nil {
			return err
		}
		off += n
	}
	return nil
}

// shownName is a tar's name as it may be shown.
func shownName(name string) string { return vm.GuestPath("/" + name).String() }
