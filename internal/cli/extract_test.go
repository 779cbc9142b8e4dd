// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/warren-vm/warren/vm"
)

// ent is one entry of an archive; data is also a link's target.
type ent struct {
	name string
	typ  byte
	data string
	mode int64
	more func(*tar.Header)
}

func file(name, data string) ent   { return ent{name: name, typ: tar.TypeReg, data: data, mode: 0o644} }
func dir(name string) ent          { return ent{name: name + "/", typ: tar.TypeDir, mode: 0o755} }
func sym(name, target string) ent  { return ent{name: name, typ: tar.TypeSymlink, data: target} }
func hard(name, target string) ent { return ent{name: name, typ: tar.TypeLink, data: target} }

func archive(t testing.TB, entries ...ent) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.typ, Mode: e.mode}
		switch e.typ {
		case tar.TypeReg:
			h.Size = int64(len(e.data))
		case tar.TypeSymlink, tar.TypeLink:
			h.Linkname = e.data
		}
		if e.more != nil {
			e.more(h)
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(tw, e.data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tree lists everything below dir: name and what it is.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		switch d.Type() {
		case fs.ModeDir:
			out[rel] = "dir"
		case fs.ModeSymlink:
			target, err := os.Readlink(p)
			out[rel] = "-> " + target
			return err
		default:
			data, err := os.ReadFile(p)
			out[rel] = "file " + string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// arena is a destination in a directory with something to protect around it.
func arena(t testing.TB) (outside string, dest *os.Root) {
	t.Helper()
	outside = t.TempDir()
	for name, data := range map[string]string{"secret": "keep", "dest/neighbour": "keep"} {
		p := filepath.Join(outside, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dest, err := os.OpenRoot(filepath.Join(outside, "dest"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dest.Close() })
	return outside, dest
}

var untouched = fmt.Sprint(map[string]string{"secret": "file keep", "dest": "dir", "dest/neighbour": "file keep"})

// Each attack is refused as a whole: nothing outside the destination changes,
// and nothing is left inside.
//
// 003-24
func TestExtractHostile(t *testing.T) {
	device := func(typ byte) ent { return ent{name: "dev", typ: typ, mode: 0o666} }
	sparse := ent{name: "big", typ: tar.TypeReg, more: func(h *tar.Header) {
		h.Format = tar.FormatPAX
		h.PAXRecords = map[string]string{"WARREN.sparse.x": "1"} // renamed below: the writer refuses GNU's own
	}}
	deep := strings.Repeat("d/", maxDepth+1) + "f"
	for _, tc := range []struct {
		name    string
		entries []ent
		limit   int64
		want    vm.Kind
	}{
		{"absolute name", []ent{file("/etc/passwd", "x")}, 0, vm.GuestFault},
		{"absolute directory", []ent{dir("/tmp/x")}, 0, vm.GuestFault},
		{"dot dot", []ent{file("../secret", "x")}, 0, vm.GuestFault},
		{"dot dot inside", []ent{dir("a"), file("a/../../secret", "x")}, 0, vm.GuestFault},
		{"dot dot that stays inside", []ent{dir("a"), file("a/../b", "x")}, 0, vm.GuestFault},
		{"dot dot alone", []ent{dir("..")}, 0, vm.GuestFault},
		{"symlink outside, then through it", []ent{sym("l", ".."), file("l/secret", "x")}, 0, vm.GuestFault},
		{"symlink inside, then through it", []ent{dir("a"), sym("l", "a"), file("l/f", "x")}, 0, vm.GuestFault},
		{"symlink, then a file of its name", []ent{sym("l", "x"), file("l", "x")}, 0, vm.GuestFault},
		{"file, then a symlink of its name", []ent{file("l", "x"), sym("l", "x")}, 0, vm.GuestFault},
		{"directory replaced by a symlink", []ent{dir("d"), sym("d", "."), file("d/f", "x")}, 0, vm.GuestFault},
		{"empty symlink", []ent{sym("l", "x"), {name: "m", typ: tar.TypeSymlink}}, 0, vm.GuestFault},
		{"hard link outside", []ent{hard("l", "../secret")}, 0, vm.GuestFault},
		{"absolute hard link", []ent{hard("l", "/etc/passwd")}, 0, vm.GuestFault},
		{"hard link to what isn't in the archive", []ent{hard("l", "neighbour")}, 0, vm.GuestFault},
		{"hard link to a symlink", []ent{sym("s", "x"), hard("l", "s")}, 0, vm.GuestFault},
		{"hard link to a directory", []ent{dir("d"), hard("l", "d")}, 0, vm.GuestFault},
		{"hard link to itself", []ent{hard("l", "l")}, 0, vm.GuestFault},
		{"character device", []ent{device(tar.TypeChar)}, 0, vm.GuestFault},
		{"block device", []ent{device(tar.TypeBlock)}, 0, vm.GuestFault},
		{"fifo", []ent{device(tar.TypeFifo)}, 0, vm.GuestFault},
		{"unknown type", []ent{device('Z')}, 0, vm.GuestFault},
		{"sparse", []ent{sparse}, 0, vm.GuestFault},
		{"same file twice", []ent{file("a", "1"), file("a", "2")}, 0, vm.GuestFault},
		{"same file in another spelling", []ent{file("a/b", "1"), file("./a//b", "2")}, 0, vm.GuestFault},
		{"file and directory", []ent{file("a", "1"), file("a/b", "2")}, 0, vm.GuestFault},
		{"names that differ by case", []ent{file("Makefile", "1"), file("makefile", "2")}, 0, vm.GuestFault},
		{"directories that differ by case", []ent{dir("Dir"), file("dir/x", "2")}, 0, vm.GuestFault},
		{"long s", []ent{file("s", "1"), file("ſ", "2")}, 0, vm.GuestFault},
		{"long name", []ent{file(strings.Repeat("n", maxName+1), "x")}, 0, vm.GuestFault},
		{"long path", []ent{file(strings.Repeat("a/", maxPath/2)+"x", "x")}, 0, vm.GuestFault},
		{"deep path", []ent{file(deep, "x")}, 0, vm.GuestFault},
		{"the destination as a file", []ent{file(".", "x")}, 0, vm.GuestFault},
		{"the destination as a symlink", []ent{sym(".", "..")}, 0, vm.GuestFault},
		{"no name", []ent{file("", "x")}, 0, vm.GuestFault},
		{"large file after good ones", []ent{dir("a"), file("a/ok", "1234"), file("a/large", "12345")}, 4, vm.Limit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			outside, dest := arena(t)
			// One good file first: it must be gone afterwards.
			data := archive(t, append([]ent{dir("."), file("first", "x")}, tc.entries...)...)
			data = bytes.ReplaceAll(data, []byte("WARREN.sparse.x"), []byte("GNU.sparse.name"))
			err := extractTar(bytes.NewReader(data), dest, "out", tc.limit, newTransfer())
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want kind %s", err, tc.want)
			}
			if vm.AsError(err).Hint == "" {
				t.Errorf("%v says nothing of what to do", err)
			}
			if got := fmt.Sprint(tree(t, outside)); got != untouched {
				t.Errorf("left behind: %s", got)
			}
		})
	}
}

func TestExtractTooMany(t *testing.T) {
	outside, dest := arena(t)
	r, w := io.Pipe()
	go func() { // ends when the reader closes
		tw := tar.NewWriter(w)
		for i := 0; ; i++ {
			// The name repeats, spelled differently each time.
			if err := tw.WriteHeader(&tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
				return
			}
		}
	}()
	err := extractTar(r, dest, "out", 0, newTransfer())
	r.Close()
	if !errors.Is(err, vm.Limit) {
		t.Errorf("extracting more than the limit: %v, want limit", err)
	}
	if got := fmt.Sprint(tree(t, outside)); got != untouched {
		t.Errorf("left behind: %s", got)
	}
}

// An incomplete stream leaves nothing, wherever it is cut.
func TestExtractCut(t *testing.T) {
	whole := archive(t, dir("."), dir("a"), file("a/b", strings.Repeat("x", 3000)), sym("l", "a/b"))
	broken := errors.New("link broke")
	noMark := vm.Errorf(vm.Corrupt, "/d", "cut short")
	for name, r := range map[string]io.Reader{
		"in a header":            io.MultiReader(bytes.NewReader(whole[:700]), iotest.ErrReader(io.ErrUnexpectedEOF)),
		"in a file":              bytes.NewReader(whole[:3000]),
		"in a file, by an error": io.MultiReader(bytes.NewReader(whole[:3000]), iotest.ErrReader(broken)),
		"after the last byte":    io.MultiReader(bytes.NewReader(whole), iotest.ErrReader(noMark)),
		"not a tar":              strings.NewReader(strings.Repeat("not a tar at all", 100)),
		"never ends":             io.MultiReader(bytes.NewReader(whole), zeros{}),
	} {
		t.Run(name, func(t *testing.T) {
			outside, dest := arena(t)
			if err := extractTar(r, dest, "out", 0, newTransfer()); vm.KindOf(err) != vm.GuestFault && vm.KindOf(err) != vm.Corrupt {
				t.Errorf("extracting a bad archive: %v, want guest-fault or corrupt", err)
			}
			if got := fmt.Sprint(tree(t, outside)); got != untouched {
				t.Errorf("left behind: %s", got)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestExtract(t *testing.T) {
	outside, dest := arena(t)
	nasty := "new\nline \x1b[31m\xff"
	data := archive(t,
		dir("."), dir("a"), file("a/f", "hello"), file("./b/c/implied", "x"), sym("a/up", "../b"), sym("here", "."), sym("s", "a/f"),
		hard("h", "a/f"), file(nasty, "n"), file("..data", "dots"), file("a/..", "").renamed("a/..b"),
		ent{name: "suid", typ: tar.TypeReg, data: "x", mode: 0o6777}, ent{name: "sticky/", typ: tar.TypeDir, mode: 0o1500})
	if err := extractTar(iotest.OneByteReader(bytes.NewReader(data)), dest, "out", 5, newTransfer()); err != nil {
		t.Fatal(err)
	}
	got := tree(t, filepath.Join(outside, "dest", "out"))
	want := map[string]string{
		"a": "dir", "a/f": "file hello", "b": "dir", "b/c": "dir", "b/c/implied": "file x", "a/up": "-> ../b", "here": "-> .",
		"s": "-> a/f", "h": "file hello", nasty: "file n", "..data": "file dots", "a/..b": "file ", "suid": "file x", "sticky": "dir",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("extracted %q\nwant %q", got, want)
	}
	for name, bits := range map[string]fs.FileMode{"suid": fs.ModeSetuid | fs.ModeSetgid, "sticky": fs.ModeSticky} {
		st, err := dest.Lstat("out/" + name)
		if err != nil || st.Mode()&bits != 0 || st.Mode()&0o700 == 0 {
			t.Errorf("%s is extracted with mode %v (%v), want it without that bit and usable by its owner", name, st.Mode(), err)
		}
	}
}

func (e ent) renamed(name string) ent { e.name = name; return e }

// A symlink that leads outside, or could by way of another, is left out and
// told; all else comes, and nothing outside changes.
//
// 003-24
func TestExtractLeavesOut(t *testing.T) {
	for _, tc := range []struct {
		name    string
		entries []ent
		left    leftOut
	}{
		{"absolute", []ent{sym("l", "/etc/passwd")}, leftOut{"l", "/etc/passwd"}},
		{"up", []ent{sym("l", "../secret")}, leftOut{"l", "../secret"}},
		{"up, by the root's own name", []ent{sym("l", "../out/first")}, leftOut{"l", "../out/first"}},
		{"up from below", []ent{dir("a"), sym("a/l", "../../secret")}, leftOut{"a/l", "../../secret"}},
		{"up behind a name", []ent{sym("l", "a/../../secret")}, leftOut{"l", "a/../../secret"}},
		{"by way of another", []ent{dir("a"), dir("a/b"), sym("a/b/up", "../.."), sym("evil", "a/b/up/../secret")}, leftOut{"evil", "a/b/up/../secret"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			outside, dest := arena(t)
			tr := newTransfer()
			data := archive(t, append([]ent{dir(".")}, append(tc.entries, file("first", "x"))...)...)
			if err := extractTar(bytes.NewReader(data), dest, "out", 0, tr); err != nil {
				t.Fatal(err)
			}
			got := tree(t, outside)
			if got["dest/out/first"] != "file x" {
				t.Errorf("the file beside it did not come: %q", got)
			}
			if _, there := got["dest/out/"+tc.left.Path]; there {
				t.Errorf("the link came: %q", got)
			}
			if done := tr.result("", ""); done.LeftOutCount != 1 || done.LeftOut[0] != tc.left || done.Files != 1 || done.Bytes != 1 {
				t.Errorf("told %+v", done)
			}
			for name := range got {
				if strings.HasPrefix(name, "dest/out") {
					delete(got, name)
				}
			}
			if fmt.Sprint(got) != untouched {
				t.Errorf("changed: %s", got)
			}
		})
	}
}

// What is left out of a tree cannot be written through later in it.
func TestExtractThroughLeftOut(t *testing.T) {
	outside, dest := arena(t)
	data := archive(t, dir("."), sym("l", "/tmp"), file("l/f", "x"))
	if err := extractTar(bytes.NewReader(data), dest, "out", 0, newTransfer()); !errors.Is(err, vm.GuestFault) {
		t.Errorf("extracting through a link: %v, want guest-fault", err)
	}
	if got := fmt.Sprint(tree(t, outside)); got != untouched {
		t.Errorf("left behind: %s", got)
	}
}

// A tree from a guest replaces nothing; it only merges into a directory.
func TestExtractTaken(t *testing.T) {
	data := archive(t, file("f", "new"))
	for name, prepare := range map[string]func(p string) error{
		"file":                 func(p string) error { return os.WriteFile(p, []byte("old"), 0o644) },
		"symlink to outside":   func(p string) error { return os.Symlink("../secret", p) },
		"dangling symlink":     func(p string) error { return os.Symlink("nowhere", p) },
		"symlink to directory": func(p string) error { return os.Symlink(t.TempDir(), p) },
	} {
		t.Run(name, func(t *testing.T) {
			outside, dest := arena(t)
			if err := prepare(filepath.Join(outside, "dest", "out")); err != nil {
				t.Fatal(err)
			}
			before := fmt.Sprint(tree(t, outside))
			if err := extractTar(bytes.NewReader(data), dest, "out", 0, newTransfer()); !errors.Is(err, vm.Exists) {
				t.Errorf("extracting over what is there: %v, want exists", err)
			}
			if got := fmt.Sprint(tree(t, outside)); got != before {
				t.Errorf("changed to %s", got)
			}
		})
	}
	_, dest := arena(t)
	if err := dest.Mkdir("out", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := extractTar(bytes.NewReader(data), dest, "out", 0, newTransfer()); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	for _, bad := range []string{"", "..", "a/b", "../x", "/x", "a\x00"} {
		if err := extractTar(bytes.NewReader(data), dest, bad, 0, newTransfer()); !errors.Is(err, vm.Invalid) {
			t.Errorf("as %q: %v", bad, err)
		}
	}
}

// Names from the archive come quoted in errors.
func TestExtractErrorsArePrintable(t *testing.T) {
	_, dest := arena(t)
	err := extractTar(bytes.NewReader(archive(t, hard("a\x1b[2Jb", "/x\ny"))), dest, "out", 0, newTransfer())
	if err == nil || plain(err.Error()) != err.Error() {
		t.Errorf("the error prints what the guest chose: %q", err)
	}
}

// FuzzExtract unpacks damaged archives: nothing outside may change, and an error leaves nothing.
func FuzzExtract(f *testing.F) {
	f.Add(archive(f, dir("."), file("a", "x"), sym("l", "a"), hard("h", "a")))
	f.Add(archive(f, sym("l", ".."), file("l/secret", "x")))
	f.Add(archive(f, file("../secret", "x")))
	f.Fuzz(func(t *testing.T, data []byte) {
		outside, dest := arena(t)
		err := extractTar(bytes.NewReader(data), dest, "out", 1<<20, newTransfer())
		got := tree(t, outside)
		for name := range got {
			if err == nil && (name == "dest/out" || strings.HasPrefix(name, "dest/out/")) {
				delete(got, name)
			}
		}
		if fmt.Sprint(got) != untouched {
			t.Errorf("%v left %q", err, got)
		}
		// Into a directory that is there, with a way out of it.
		outside, dest = arena(t)
		into := outside + "/dest/into"
		if err := errors.Join(os.Mkdir(into, 0o755), os.Symlink("../..", into+"/l"), os.WriteFile(into+"/own", []byte("own"), 0o644)); err != nil {
			t.Fatal(err)
		}
		err = extractTar(bytes.NewReader(data), dest, "into", 1<<20, newTransfer())
		got = tree(t, outside)
		for name := range got {
			if strings.HasPrefix(name, "dest/into/.warren-") {
				t.Errorf("%v left %s", err, name)
			}
			if name == "dest/into" || strings.HasPrefix(name, "dest/into/") {
				delete(got, name)
			}
		}
		if fmt.Sprint(got) != untouched {
			t.Errorf("merged: %v left %q", err, got)
		}
	})
}

func TestReceiveFile(t *testing.T) {
	cut := vm.Errorf(vm.Corrupt, "/f", "the digest does not match")
	for _, tc := range []struct {
		name string
		r    io.Reader
		size int64
		want vm.Kind
	}{
		{"whole", strings.NewReader("hello"), 5, ""},
		{"empty", strings.NewReader(""), 0, ""},
		{"size unknown", strings.NewReader("hello"), -1, ""},
		{"short", strings.NewReader("hell"), 5, vm.GuestFault},
		{"long", strings.NewReader("hello!"), 5, vm.GuestFault},
		{"fails at the end", io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(cut)), 5, vm.Corrupt},
		{"fails on the way", io.MultiReader(strings.NewReader("he"), iotest.ErrReader(io.ErrUnexpectedEOF)), 5, vm.GuestFault},
		{"fails, size unknown", io.MultiReader(strings.NewReader("he"), iotest.ErrReader(io.ErrUnexpectedEOF)), -1, vm.GuestFault},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			dest := filepath.Join(dir, "f")
			if err := os.WriteFile(dest, []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			err := receiveFile(tc.r, tc.size, dest, 0o600|fs.ModeSetuid)
			if vm.KindOf(err) != tc.want {
				t.Fatalf("receiving the file: %v, want %q", err, tc.want)
			}
			want := "file old"
			if err == nil {
				want = "file hello"[:5+max(tc.size, 0)]
				if tc.size < 0 {
					want = "file hello"
				}
				if st, err := os.Stat(dest); err != nil || st.Mode() != 0o600 {
					t.Errorf("mode %v, %v", st.Mode(), err)
				}
			}
			if got := tree(t, dir); len(got) != 1 || got["f"] != want {
				t.Errorf("there is %q, want %q", got, want)
			}
		})
	}
}

// 003-24
func TestReceiveFilePlaces(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("keep"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(outside, "d")
	if err := errors.Join(os.MkdirAll(dir+"/sub", 0o755), os.Symlink("../victim", dir+"/link"), os.Symlink("/dev/null", dir+"/null"),
		os.Symlink("nowhere", dir+"/dangling"), os.Symlink("sub", dir+"/dirlink"), syscall.Mkfifo(dir+"/fifo", 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		dest string
		want vm.Kind
	}{
		{"link", ""},
		{"dangling", ""},
		{"dirlink", ""},
		{"fresh", ""},
		{"sub", vm.Exists},
		{"null", vm.Invalid},
		{"fifo", vm.Invalid},
		{"none/f", vm.NotFound},
		{"sub/", vm.Invalid},
		{".", vm.Invalid},
		{"sub/..", vm.Invalid},
	} {
		err := receiveFile(strings.NewReader("new"), 3, dir+"/"+tc.dest, 0o644)
		if vm.KindOf(err) != tc.want {
			t.Errorf("receiving a file as %s: %v, want %q", tc.dest, err, tc.want)
		}
		if st, err := os.Lstat(dir + "/" + tc.dest); tc.want == "" && (err != nil || !st.Mode().IsRegular()) {
			t.Errorf("the received %s is %v (%v), want a file", tc.dest, st, err)
		}
	}
	if data, err := os.ReadFile(victim); err != nil || string(data) != "keep" {
		t.Errorf("the symlink was followed: %q, %v", data, err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 7 {
		t.Errorf("left over: %v, %v", names, err)
	}
}

// What is packed comes out the same.
func TestPackTar(t *testing.T) {
	src := t.TempDir()
	odd := "caf\xe9 \n"
	if err := errors.Join(os.MkdirAll(src+"/a/empty", 0o755), os.WriteFile(src+"/a/f", []byte("hello"), 0o755),
		os.WriteFile(src+"/"+odd, nil, 0o600), os.Symlink("a/f", src+"/link"), os.Symlink(src, src+"/../packed-"+filepath.Base(src))); err != nil {
		t.Fatal(err)
	}
	for name, root := range map[string]string{"directory": src, "symlink to it": src + "/../packed-" + filepath.Base(src)} {
		var b bytes.Buffer
		if err := packTar(&b, root, newTransfer()); err != nil {
			t.Fatalf("packing a %s: %v", name, err)
		}
		outside, dest := arena(t)
		if err := extractTar(&b, dest, "out", 0, newTransfer()); err != nil {
			t.Fatalf("extracting a packed %s: %v", name, err)
		}
		if got, want := fmt.Sprint(tree(t, outside+"/dest/out")), fmt.Sprint(tree(t, src)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		if st, err := dest.Stat("out/a/f"); err != nil || st.Mode()&0o100 == 0 {
			t.Errorf("mode %v, %v", st, err)
		}
	}
	if err := errors.Join(syscall.Mkfifo(src+"/fifo", 0o600), os.Symlink("../../secret", src+"/a/out")); err != nil {
		t.Fatal(err)
	}
	tr := newTransfer()
	if err := packTar(io.Discard, src, tr); err != nil {
		t.Errorf("with a pipe and a link that leads outside: %v", err)
	}
	if got := tr.result("", "").LeftOut; !slices.Equal(got, []leftOut{{"a/out", "../../secret"}, {"fifo", ""}}) {
		t.Errorf("left out: %+v", got)
	}
	if err := packTar(io.Discard, src+"/none", newTransfer()); !errors.Is(err, vm.NotFound) {
		t.Errorf("nothing: %v", err)
	}
	full := errors.New("full")
	if err := packTar(failing{full}, src+"/a", newTransfer()); !errors.Is(err, full) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
