// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/vm"
)

// verbs are the changes of a comparison, one a line.
func verbs(d *vm.Diff) (list []string) {
	for _, c := range d.Changes {
		list = append(list, string(c.Verb)+" "+c.Path.String())
	}
	slices.Sort(list)
	return list
}

// The confined program finds what differs, and only below the paths that were asked for.
func TestDiff(t *testing.T) {
	from, to := disks(t, map[string]string{"work/a": "a", "work/b": "b", "etc/c": "c"}, "rm work/a", "rm etc/c", "mkdir new")
	r := newReader(t)
	d, err := r.Diff(t.Context(), from, to, reader.Options{Workdir: "/work"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := verbs(d), []string{"added /new", "deleted /etc/c", "deleted /work/a"}; !slices.Equal(got, want) {
		t.Errorf("the changes are %q, want %q", got, want)
	}
	d, err = r.Diff(t.Context(), from, to, reader.Options{Workdir: "/work", Paths: []vm.GuestPath{"/work"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := verbs(d), []string{"deleted /work/a"}; !slices.Equal(got, want) {
		t.Errorf("below /work the changes are %q, want %q", got, want)
	}
}

// entry is one file of a tar.
type entry struct {
	header  tar.Header
	content string
}

// unpack reads a tar by name.
func unpack(t *testing.T, data []byte) map[string]entry {
	t.Helper()
	out := map[string]entry{}
	for in := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = entry{*h, string(content)}
	}
}

// A tar has files, directories and links of every kind, with content, modes, owners and
// extended attributes, as they are on the disk.
func TestTar(t *testing.T) {
	long := strings.Repeat("long ", 40000)
	_, to := disks(t, map[string]string{"work/sub/long": long, "work/a b": "text", "other": "no"},
		"symlink work/link ../other", "ln work/sub/long work/again", "sif work/sub/long links_count 2",
		"sif work/sub/long mode 0104750", "sif work/sub/long uid 1000", "sif work/sub/long gid 1001", "ea_set work/sub/long user.note yes",
		"cd work", "mknod pipe p")
	r := newReader(t)
	var buf bytes.Buffer
	if err := r.Tar(t.Context(), to, []vm.GuestPath{"/work"}, reader.TarOptions{}, &buf); err != nil {
		t.Fatal(err)
	}
	got := unpack(t, buf.Bytes())
	for name, want := range map[string]tar.Header{
		"work/":         {Typeflag: tar.TypeDir, Mode: 0o755},
		"work/sub/":     {Typeflag: tar.TypeDir, Mode: 0o755},
		"work/a b":      {Typeflag: tar.TypeReg, Mode: 0o644},
		"work/link":     {Typeflag: tar.TypeSymlink, Mode: 0o777, Linkname: "../other"},
		"work/pipe":     {Typeflag: tar.TypeFifo, Mode: got["work/pipe"].header.Mode},
		"work/again":    {Typeflag: tar.TypeReg, Mode: 0o4750, Uid: 1000, Gid: 1001},
		"work/sub/long": {Typeflag: tar.TypeLink, Mode: 0o4750, Uid: 1000, Gid: 1001, Linkname: "work/again"},
	} {
		h := got[name].header
		if h.Typeflag != want.Typeflag || h.Mode != want.Mode || h.Uid != want.Uid || h.Gid != want.Gid || h.Linkname != want.Linkname {
			t.Errorf("%s is type %c, mode %o, %d:%d, link %q, want type %c, mode %o, %d:%d, link %q", name,
				h.Typeflag, h.Mode, h.Uid, h.Gid, h.Linkname, want.Typeflag, want.Mode, want.Uid, want.Gid, want.Linkname)
		}
	}
	if len(got) != 7 {
		t.Errorf("the tar has %d entries, want 7", len(got))
	}
	if got["work/again"].content != long || got["work/a b"].content != "text" {
		t.Error("a content is not that of the disk")
	}
	if note := got["work/again"].header.PAXRecords["SCHILY.xattr.user.note"]; note != "yes" {
		t.Errorf("the extended attribute is %q, want yes", note)
	}
}

// A path that is not on the disk, and more than the limits allow, are errors of their
// kinds.
func TestTarRefuses(t *testing.T) {
	_, to := disks(t, map[string]string{"work/a": "text", "work/b": "text"}, "symlink work/up ..", "sif work/b size 10000000000",
		"mkdir odd", "symlink odd/zero target", "sif odd/zero block[0] 0")
	r := newReader(t)
	for _, x := range []struct {
		path vm.GuestPath
		o    reader.TarOptions
		want vm.Kind
	}{
		{"/work/none", reader.TarOptions{}, vm.NotFound},
		{"/work/up/work", reader.TarOptions{}, vm.NotFound}, // no link is followed
		{"/work/a/b", reader.TarOptions{}, vm.NotFound},
		{"/work", reader.TarOptions{Entries: 2}, vm.Limit},
		{"/work/a", reader.TarOptions{Bytes: 3}, vm.Limit},
		{"/work/b", reader.TarOptions{}, vm.Limit},
		{"/odd", reader.TarOptions{}, vm.Corrupt},
		{"/work/a", reader.TarOptions{Bytes: 4, Entries: 1}, ""},
	} {
		err := r.Tar(t.Context(), to, []vm.GuestPath{x.path}, x.o, io.Discard)
		if vm.KindOf(err) != x.want {
			t.Errorf("%s with %+v: %v, want kind %q", x.path, x.o, err, x.want)
		}
	}
}
