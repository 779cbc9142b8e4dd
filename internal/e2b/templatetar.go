// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Limits of the names in an archive of a client.
const (
	maxCopyName  = 4096
	maxCopyDepth = 100 // directories above a file
)

// copyLimits are limits of what one archive unpacks to.
type copyLimits struct {
	bytes   int64
	entries int
	names   int // bytes of all names
}

var mostCopied = copyLimits{bytes: 8 << 30, entries: 200_000, names: 64 << 20}

// copied is what a COPY takes from its archive.
type copied struct {
	entries int
	single  string // its only file, which may get another name; "" = a directory, or several
}

// repacker writes the entries of a client's archive under names below the destination.
type repacker struct {
	tw    *tar.Writer
	most  copyLimits
	src   string // as the client named it, cleaned
	tops  map[string]bool
	names map[string]string // of files, new by old: for hard links
	out   copied
	bytes int64
	seen  int // entries
	named int // bytes of names
	files int // that are tops
	dirs  int // that are tops
}

// repack reads an archive of a client, a tar or one in gzip, and writes what a COPY of src
// takes of it: of a directory what is in it, of a file the file. Names in the archive are
// relative to the client's directory.
func repack(w io.Writer, r io.Reader, src string, most copyLimits) (copied, error) {
	in := bufio.NewReader(r)
	plain := io.Reader(in)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return copied{}, badArchive(err)
		}
		plain = z
	}
	p := &repacker{tw: tar.NewWriter(w), most: most, src: path.Clean(src), tops: map[string]bool{}, names: map[string]string{}}
	for tr := tar.NewReader(io.LimitReader(plain, most.bytes+int64(most.entries)*4096)); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return copied{}, badArchive(err)
		}
		if err := p.entry(h, tr); err != nil {
			return copied{}, err
		}
	}
	if p.out.entries == 0 && p.dirs == 0 {
		return copied{}, invalid(vm.Clip(src, 100), "the uploaded archive has no such files")
	}
	if p.files != 1 || p.dirs > 0 || strings.ContainsAny(src, "*?[{") {
		p.out.single = ""
	}
	return p.out, p.tw.Close()
}

func badArchive(err error) error {
	return invalid("files", "the uploaded archive is damaged: %s", vm.Clip(err.Error(), 100))
}

// relative refuses a name that leads out of the archive.
func relative(name string) (string, error) {
	clean := path.Clean(name)
	if name == "" {
		clean = "."
	}
	if path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(name, 0) || len(name) > maxCopyName || strings.Count(clean, "/") > maxCopyDepth {
		return "", invalid(vm.Clip(name, 100), "the uploaded archive has a name that leads out of it, or is too long")
	}
	return clean, nil
}

// entry passes on one entry.
func (p *repacker) entry(h *tar.Header, body io.Reader) error {
	name, err := relative(h.Name)
	if err != nil {
		return err
	}
	p.seen++
	p.named += len(h.Name) + len(h.Linkname)
	if p.bytes += max(h.Size, 0); p.seen > p.most.entries || p.bytes > p.most.bytes || p.named > p.most.names {
		return vm.Errorf(vm.Limit, "files", "a COPY takes at most %d files and %d MiB", p.most.entries, p.most.bytes>>20).WithHint("name what is not needed in .dockerignore")
	}
	out := &tar.Header{Typeflag: h.Typeflag, Mode: h.Mode & 0o7777, ModTime: h.ModTime, Format: tar.FormatPAX}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		out.Typeflag, out.Size = tar.TypeReg, h.Size
	case tar.TypeDir:
	case tar.TypeSymlink:
		out.Linkname = h.Linkname
	case tar.TypeLink:
		target, err := relative(h.Linkname)
		if err != nil {
			return err
		}
		if out.Linkname = p.names[target]; out.Linkname == "" {
			return invalid(vm.Clip(h.Name, 100), "the uploaded archive has a hard link to a file that is not in it")
		}
	default: // devices and pipes
		return nil
	}
	if out.Name = p.below(name, h.Typeflag == tar.TypeDir); out.Name == "" {
		return nil
	}
	p.out.entries++
	if out.Typeflag == tar.TypeReg {
		p.names[name] = out.Name
	}
	if err := p.tw.WriteHeader(out); err != nil {
		return err
	}
	if out.Typeflag != tar.TypeReg {
		return nil
	}
	if _, err := io.Copy(p.tw, body); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) {
			return badArchive(err)
		}
		return err
	}
	return nil
}

// below is the name of an entry at the destination; "" = it is a directory whose content
// is taken.
func (p *repacker) below(name string, dir bool) string {
	if p.src == "." {
		p.dirs = 1
		if name == "." {
			return ""
		}
		return name
	}
	if rest, ok := strings.CutPrefix(name, p.src+"/"); ok && !p.tops[p.src] {
		p.tops[p.src] = true // the archive does not name the directory itself
		p.dirs++
		return rest
	}
	for at := strings.LastIndexByte(name, '/'); at > 0; at = strings.LastIndexByte(name[:at], '/') {
		if p.tops[name[:at]] {
			return name[at+1:]
		}
	}
	if dir {
		p.tops[name] = true
		p.dirs++
		return ""
	}
	p.files++
	p.out.single = path.Base(name)
	return p.out.single
}
