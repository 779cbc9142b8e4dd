// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ship

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/warren-vm/warren/vm"
)

// restoredAs is the name in the agent's archive of what takes the place of the path; see
// agent.RestoreEntry.
const restoredAs = "entry"

// unpacker translates an archive, which an uploader wrote, into the one that the agent
// gets. It takes files, directories and links below one directory, and nothing else.
type unpacker struct {
	f     *fetching
	w     *tar.Writer
	strip string          // the first part of names, which is the tree itself; "" = none
	types map[string]byte // of the entries so far, by name
	names int             // bytes of those names
	found int             // entries, with those that are left out
	left  int64           // bytes that may still come
}

// translate reads an archive (tar, tar.gz or tar.zst) to its end, with its digest checked,
// and writes the agent's archive.
func (f *fetching) translate(in io.Reader, w io.Writer) error {
	raw := bufio.NewReaderSize(in, 64<<10)
	plain, end, err := decompressed(raw)
	if err != nil {
		return f.refused(err)
	}
	defer end()
	u := &unpacker{f: f, w: tar.NewWriter(w), types: map[string]byte{}, left: f.limit}
	if o := f.content.Origin; o != nil && o.Tree {
		u.strip = path.Base(o.Path)
	} else if err := u.dir(&tar.Header{Mode: 0o755, ModTime: f.content.At}, ""); err != nil {
		return err
	}
	// Compressed padding is bounded, too.
	bounded := &io.LimitedReader{R: plain, N: f.limit + mostEntries*4<<10}
	if err := u.all(tar.NewReader(bounded)); err != nil {
		return f.refused(err)
	}
	if _, err := io.Copy(io.Discard, bounded); err != nil {
		return f.refused(err)
	}
	if bounded.N <= 0 {
		return f.tooLarge()
	}
	if _, err := io.Copy(io.Discard, raw); err != nil { // its end has the digest
		return err
	}
	return u.w.Close()
}

func (f *fetching) tooLarge() error {
	return vm.Errorf(vm.Limit, f.ref().String(), "unpacked it has more than the limit of %d bytes", f.limit).WithHint("allow more: --max-bytes; or --unpack=false")
}

// refused is the error of an archive that cannot be read.
func (f *fetching) refused(err error) error {
	var known *vm.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) { // the guest has refused it
		return err
	}
	return vm.Errorf(vm.Invalid, f.ref().String(), "it is no archive that can be unpacked: %v", err).WithCode("OBJECT_BAD_ARCHIVE").
		WithHint("--unpack=false brings the archive itself")
}

// decompressed returns the tar of an archive.
func decompressed(raw *bufio.Reader) (r io.Reader, end func(), err error) {
	head, err := raw.Peek(4)
	if err != nil {
		return nil, nil, wholly(err, "")
	}
	switch {
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(raw, zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	case head[0] == 0x1f && head[1] == 0x8b:
		g, err := gzip.NewReader(raw)
		return g, func() {}, err
	}
	return raw, func() {}, nil
}

func (u *unpacker) all(in *tar.Reader) error {
	for {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := u.entry(h, in); err != nil {
			return err
		}
	}
	if u.types[""] != tar.TypeDir {
		return u.bad("", "it holds no directory")
	}
	return nil
}

func (u *unpacker) bad(name, why string) error {
	subject := u.f.ref().String()
	if name != "" {
		subject = vm.GuestPath(vm.Clip(name, 200)).String()
	}
	return vm.Errorf(vm.Invalid, subject, "the archive is refused: %s", why).WithCode("OBJECT_BAD_ARCHIVE").WithHint("--unpack=false brings the archive itself")
}

// name returns a name as one below the tree: "" or "a/b".
func (u *unpacker) name(name string) (string, error) {
	switch {
	case len(name) > mostName || strings.ContainsRune(name, 0):
		return "", u.bad(name, "a name is too long or has a zero byte")
	case strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), ".."):
		return "", u.bad(name, "a name leads out of the tree")
	case strings.Count(name, "/") > mostDeep:
		return "", u.bad(name, "a name has too many directories")
	}
	if name = path.Clean(name); name == "." {
		name = ""
	}
	if u.strip == "" {
		return name, nil
	}
	rest, ok := strings.CutPrefix(name, u.strip)
	if !ok || rest != "" && rest[0] != '/' {
		return "", u.bad(name, "a name is not below "+vm.GuestPath(u.strip).String())
	}
	return strings.TrimPrefix(rest, "/"), nil
}

// parents makes the directories above a name, as some archives do not have them.
func (u *unpacker) parents(name string) error {
	for i, r := range name {
		if r != '/' {
			continue
		}
		dir := name[:i]
		switch u.types[dir] {
		case tar.TypeDir:
		case 0:
			if err := u.dir(&tar.Header{Mode: 0o755, ModTime: u.f.content.At}, dir); err != nil {
				return err
			}
		default:
			return u.bad(name, "a directory above it is a file or a link")
		}
	}
	return nil
}

func (u *unpacker) count(name string) error {
	u.f.out.Files++
	u.found++
	if u.names += len(name); u.found > mostEntries || u.names > mostNames {
		return u.bad("", "it has too many files, or their names are too long")
	}
	return nil
}

func (u *unpacker) dir(h *tar.Header, name string) error {
	if err := u.count(name); err != nil {
		return err
	}
	u.types[name] = tar.TypeDir
	return u.w.WriteHeader(clean(h, tar.TypeDir, name))
}

// clean is a header for the agent. Set-id bits, and attributes beside those of users, stay
// behind: the archive's writer is not the VM's owner.
func clean(h *tar.Header, kind byte, name string) *tar.Header {
	records := maps.Clone(h.PAXRecords)
	maps.DeleteFunc(records, func(key, _ string) bool { return !strings.HasPrefix(key, "SCHILY.xattr.user.") })
	out := &tar.Header{
		Typeflag: kind, Name: inAgent(name), Mode: h.Mode & 0o1777, Uid: owner(h.Uid), Gid: owner(h.Gid), ModTime: h.ModTime,
		Format: tar.FormatPAX, PAXRecords: records,
	}
	if kind == tar.TypeDir {
		out.Name += "/"
	}
	return out
}

// inAgent is a name in the agent's archive.
func inAgent(name string) string { return path.Join(restoredAs, name) }

// owner is an id that Linux can store; others become root's.
func owner(id int) int {
	if id < 0 || id >= 1<<32-1 {
		return 0
	}
	return id
}

// entry takes one entry of the archive.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := u.name(h.Name)
	if err == nil {
		err = u.parents(name)
	}
	if err != nil {
		return err
	}
	known := u.types[name]
	if h.Typeflag == tar.TypeDir && (known == 0 || known == tar.TypeDir) {
		if known == tar.TypeDir {
			return nil
		}
		return u.dir(h, name)
	}
	if known != 0 {
		return u.bad(h.Name, "it has a name twice")
	}
	if name == "" || u.types[""] == 0 {
		return u.bad(h.Name, "it does not begin with a directory")
	}
	if err := u.count(name); err != nil {
		return err
	}
	u.types[name] = h.Typeflag
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(h, name, content)
	case tar.TypeSymlink:
		out := clean(h, tar.TypeSymlink, name)
		if out.Linkname = h.Linkname; h.Linkname == "" || len(h.Linkname) > mostName || strings.ContainsRune(h.Linkname, 0) {
			return u.bad(h.Name, "the target of a link is too long or has a zero byte")
		}
		return u.w.WriteHeader(out)
	case tar.TypeLink:
		to, err := u.name(h.Linkname)
		if err != nil {
			return err
		}
		if u.types[to] != tar.TypeReg {
			return u.bad(h.Name, "a hard link leads to no file before it")
		}
		u.types[name] = tar.TypeReg
		out := clean(h, tar.TypeLink, name)
		out.Linkname = inAgent(to)
		return u.w.WriteHeader(out)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		u.f.out.Files--
		if u.f.out.LeftOutCount++; len(u.f.out.LeftOut) < mostListed {
			u.f.out.LeftOut = append(u.f.out.LeftOut, vm.GuestPath(path.Join(string(u.f.out.Path), name)))
		}
		return nil
	}
	return u.bad(h.Name, "an entry has an unknown type")
}

// file takes a file. The guest's agent gets its holes as zeros, and makes holes again.
func (u *unpacker) file(h *tar.Header, name string, content io.Reader) error {
	if u.left -= h.Size; u.left < 0 {
		return u.f.tooLarge()
	}
	u.types[name] = tar.TypeReg
	u.f.out.Bytes += h.Size
	out := clean(h, tar.TypeReg, name)
	out.Size = h.Size
	if err := u.w.WriteHeader(out); err != nil {
		return err
	}
	_, err := io.Copy(u.w, content)
	return err
}
