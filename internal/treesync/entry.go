// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package treesync

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Types of entries.
const (
	TypeFile  = "file"
	TypeDir   = "dir"
	TypeLink  = "link"
	TypeOther = "other" // a device, pipe or socket, or a directory of another file system
)

// TempPrefix begins the names of files that are not complete. They are no part of
// a tree.
const TempPrefix = ".warren-tmp-"

// Limits of a tree. Whoever exceeds them gets an error of kind Limit.
const (
	maxEntries = 1 << 20
	maxDepth   = 200
	maxPath    = 4096
	maxName    = 255
	maxLine    = 64 << 10
)

// Entry is one path of a tree.
type Entry struct {
	Path   vm.GuestPath `json:"path"` // relative to the tree, with slashes
	Type   string       `json:"type"`
	Exec   bool         `json:"exec,omitempty"` // the owner may execute it
	Size   int64        `json:"size,omitempty"`
	MTime  int64        `json:"mtime,omitempty"` // nanoseconds since 1970
	CTime  int64        `json:"ctime,omitempty"`
	Inode  uint64       `json:"inode,omitempty"`
	Target vm.GuestPath `json:"target,omitempty"` // of a link
	Digest string       `json:"digest,omitempty"` // SHA-256 of a file in hex; "" = not computed
}

// stamp says whether a file may have changed since it was listed: the kernel sets
// the ctime at every change, and no program can choose it.
type stamp struct {
	size, mtime, ctime int64
	inode              uint64
}

func (e *Entry) stamp() stamp { return stamp{e.Size, e.MTime, e.CTime, e.Inode} }

// same reports whether two entries, each may be nil, have the same content.
func same(a, b *Entry) bool {
	if a == nil || b == nil {
		return a == b
	}
	switch {
	case a.Type != b.Type:
		return false
	case a.Type == TypeFile:
		return a.Digest != "" && a.Digest == b.Digest && a.Exec == b.Exec
	case a.Type == TypeLink:
		return a.Target == b.Target
	}
	return a.Type == TypeDir
}

// End is the last line of a listing.
type End struct {
	Began int64  `json:"began"` // the clock of that side when the listing began, in nanoseconds
	Mark  string `json:"mark"`  // what Place has left at the directory; "" = nothing
}

// line is one line of a listing.
type line struct {
	*Entry
	End *End `json:"end,omitempty"`
}

// Listing is a whole tree.
type Listing struct {
	End
	Entries map[string]*Entry
}

// ReadListing decodes what List wrote, and checks it: the other side is not
// trusted. Kinds: Limit, GuestFault, and those of r.
func ReadListing(r io.Reader) (Listing, error) {
	out := Listing{Entries: map[string]*Entry{}}
	in := newLines(r)
	for {
		var l line
		if err := in.next(&l); err != nil {
			return out, err
		}
		if l.End != nil {
			out.End = *l.End
			return out, in.drained()
		}
		e := l.Entry
		if e == nil {
			return out, fault("a line of the listing is empty")
		}
		p := string(e.Path)
		if err := checkPath(p); err != nil {
			return out, err
		}
		if out.Entries[p] != nil || len(out.Entries) >= maxEntries {
			return out, fault("the listing names %s twice, or has more than %d entries", e.Path, maxEntries)
		}
		if dir := path.Dir(p); dir != "." && (out.Entries[dir] == nil || out.Entries[dir].Type != TypeDir) {
			return out, fault("the listing names %s, but not its directory", e.Path)
		}
		switch e.Type {
		case TypeFile, TypeDir, TypeLink, TypeOther:
		default:
			return out, fault("the listing has an entry of an unknown type")
		}
		if e.Size < 0 || len(e.Target) > maxPath || len(e.Digest) > 64 || e.Type == TypeLink && e.Target == "" || strings.Contains(string(e.Target), "\x00") {
			return out, fault("the entry of %s is malformed", e.Path)
		}
		out.Entries[p] = e
	}
}

// checkPath refuses a path that does not stay in the tree.
func checkPath(p string) error {
	if p == "" || len(p) > maxPath || strings.Contains(p, "\x00") || path.Clean("/"+p) != "/"+p {
		return fault("%s is no path within the directory", vm.GuestPath(p))
	}
	depth := 0
	for name := range strings.SplitSeq(p, "/") {
		if depth++; len(name) > maxName || depth > maxDepth || strings.HasPrefix(name, TempPrefix) {
			return fault("%s is no path within the directory", vm.GuestPath(p))
		}
	}
	return nil
}

func fault(format string, args ...any) *vm.Error {
	return vm.Errorf(vm.GuestFault, "", format, args...)
}

// lines reads lines of JSON, with bytes of content between them.
type lines struct{ in *bufio.Reader }

func newLines(r io.Reader) *lines { return &lines{bufio.NewReaderSize(r, maxLine)} }

// next decodes the next line into v. It returns io.ErrUnexpectedEOF at the end.
func (l *lines) next(v any) error {
	b, err := l.in.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, bufio.ErrBufferFull):
		return fault("a line is longer than %d bytes", maxLine)
	case err != nil:
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fault("a line cannot be decoded: %w", err)
	}
	return nil
}

// drained reads the stream to its end, so that an error of the last read counts.
func (l *lines) drained() error {
	if n, err := io.Copy(io.Discard, io.LimitReader(l.in, maxLine)); err != nil {
		return err
	} else if n > 0 {
		return fault("the stream continues after its end")
	}
	return nil
}

// writeLine writes v as a line.
func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
