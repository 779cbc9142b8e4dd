// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func wantError(t *testing.T, what string, err error, kind vm.Kind, code string) {
	t.Helper()
	var e *vm.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Code != code {
		t.Errorf("%s: got %v, want kind %s, code %s", what, err, kind, code)
	}
}

func readAll(t *testing.T, r *rig, user, path string) (vm.FileInfo, []byte) {
	t.Helper()
	i, rc, err := r.Open(within(t, 20*time.Second), user, path)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	return i, b
}

// Files are transferred unchanged in both directions.
func TestFiles(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 30*time.Second)
	dir := t.TempDir()
	path := dir + "/a/b/naïve \"file\" 🦫"
	big := make([]byte, 5<<20+17)
	_, _ = rand.Read(big)
	for _, content := range [][]byte{nil, []byte("x"), big} {
		for _, size := range []int64{int64(len(content)), -1} {
			i, err := r.WriteFile(ctx, "", path, vm.WriteOptions{Parents: true, Size: size, Mode: 0o640}, bytes.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}
			if i.Path != path || i.Size != int64(len(content)) || i.Mode != 0o640 || i.Kind != vm.FileRegular {
				t.Errorf("written: %+v", i)
			}
			if i, b := readAll(t, r, "", path); !bytes.Equal(b, content) || i.Path != path || i.Size != int64(len(content)) {
				t.Errorf("read %d bytes of %d: %+v", len(b), len(content), i)
			}
		}
	}
	if _, err := r.WriteFile(ctx, "", path, vm.WriteOptions{Size: 1, Mode: 0o777}, strings.NewReader("y")); err != nil {
		t.Fatal(err)
	}
	if i, err := r.Stat(ctx, "", path); err != nil || i.Mode != 0o640 || i.Size != 1 {
		t.Errorf("a replaced file keeps its mode: %+v, %v", i, err)
	}
	if err := r.Symlink(ctx, "", "b", dir+"/a/link"); err != nil {
		t.Fatal(err)
	}
	if i, err := r.Stat(ctx, "", dir+"/a/link"); err != nil || i.Kind != vm.FileSymlink || i.Target != "b" {
		t.Errorf("link: %+v, %v", i, err)
	}
	if err := r.Mkdir(ctx, "", dir+"/a/d", 0o1777, false); err != nil {
		t.Fatal(err)
	}
	if err := r.Mkdir(ctx, "", dir+"/a/d", 0, true); err != nil {
		t.Errorf("an existing directory with parents: %v", err)
	}
	list, err := r.ReadDir(ctx, "", dir+"/a")
	if err != nil || len(list) != 3 || list[0].Name != "b" || list[1].Name != "d" || list[1].Mode != 0o1777 || list[2].Name != "link" {
		t.Errorf("list: %+v, %v", list, err)
	}
	if err := r.Chmod(ctx, "", path, 0o4755); err != nil {
		t.Error(err)
	}
	if err := r.Rename(ctx, "", path, dir+"/moved"); err != nil {
		t.Error(err)
	}
	if i, err := r.Stat(ctx, "", dir+"/moved"); err != nil || i.Mode != 0o4755 {
		t.Errorf("moved: %+v, %v", i, err)
	}
	// A write through a link changes the target, and the link stays.
	if err := r.Symlink(ctx, "", "moved", dir+"/to"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.WriteFile(ctx, "", dir+"/to", vm.WriteOptions{Size: 3}, strings.NewReader("new")); err != nil {
		t.Error(err)
	}
	if _, b := readAll(t, r, "", dir+"/moved"); string(b) != "new" {
		t.Errorf("behind the link: %q", b)
	}
	if i, err := r.Stat(ctx, "", dir+"/to"); err != nil || i.Kind != vm.FileSymlink {
		t.Errorf("the link: %+v, %v", i, err)
	}
	if _, b := readAll(t, r, "", "/proc/version"); !strings.HasPrefix(string(b), "Linux") {
		t.Errorf("/proc/version: %q", b)
	}
	if err := r.Remove(ctx, "", dir+"/a", true); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed, and yet: %v", err)
	}
}

func TestFileErrors(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 30*time.Second)
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/full/x", 0o755); err != nil {
		t.Fatal(err)
	}
	missing := dir + "/missing"
	_, err := r.Stat(ctx, "", missing)
	wantError(t, "stat", err, vm.NotFound, "FILE_NOT_FOUND")
	if e := vm.AsError(err); e.Fields["path"] != missing {
		t.Errorf("fields %v", e.Fields)
	}
	_, _, err = r.Open(ctx, "", missing)
	wantError(t, "open", err, vm.NotFound, "FILE_NOT_FOUND")
	_, err = r.ReadDir(ctx, "", missing)
	wantError(t, "readdir", err, vm.NotFound, "FILE_NOT_FOUND")
	wantError(t, "remove", r.Remove(ctx, "", missing, true), vm.NotFound, "FILE_NOT_FOUND")
	wantError(t, "rename", r.Rename(ctx, "", missing, dir+"/x"), vm.NotFound, "FILE_NOT_FOUND")
	wantError(t, "rename into nowhere", r.Rename(ctx, "", dir+"/full", dir+"/no/x"), vm.NotFound, "FILE_NOT_FOUND")
	wantError(t, "chmod", r.Chmod(ctx, "", missing, 0o600), vm.NotFound, "FILE_NOT_FOUND")
	wantError(t, "mkdir", r.Mkdir(ctx, "", missing+"/x", 0, false), vm.NotFound, "FILE_NOT_FOUND")
	wantError(t, "mkdir twice", r.Mkdir(ctx, "", dir+"/full", 0, false), vm.Invalid, "FILES_BAD_REQUEST")
	wantError(t, "remove a full directory", r.Remove(ctx, "", dir+"/full", false), vm.Invalid, "FILES_BAD_REQUEST")
	wantError(t, "remove the root", r.Remove(ctx, "", "/", true), vm.Invalid, "FILES_BAD_REQUEST")
	_, _, err = r.Open(ctx, "", dir)
	wantError(t, "open a directory", err, vm.Invalid, "FILES_BAD_REQUEST")
	_, _, err = r.Open(ctx, "", "/dev/zero")
	wantError(t, "open a device", err, vm.Invalid, "FILES_BAD_REQUEST")
	_, _, err = r.Open(ctx, "", "")
	wantError(t, "open nothing", err, vm.Invalid, "FILES_BAD_REQUEST")
	_, _, err = r.Open(ctx, "no-such-user", "/etc/passwd")
	wantError(t, "open as nobody known", err, vm.NotFound, "USER_NOT_FOUND")
	_, err = r.WriteFile(ctx, "", dir, vm.WriteOptions{Size: 1}, strings.NewReader("x"))
	wantError(t, "write a directory", err, vm.Invalid, "FILES_BAD_REQUEST")
	_, err = r.WriteFile(ctx, "", missing+"/x", vm.WriteOptions{Size: 1}, strings.NewReader("x"))
	wantError(t, "write without parents", err, vm.NotFound, "FILE_NOT_FOUND")
	_, err = r.WriteFile(ctx, "", dir+"/huge", vm.WriteOptions{Size: 1 << 60}, endless{})
	wantError(t, "write more than there is room for", err, vm.NoSpace, "")
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	// The client still works.
	if _, err := r.Stat(ctx, "", dir); err != nil {
		t.Error(err)
	}
}

// A stream that is shorter or longer than announced, or cut, leaves the old
// file unchanged and no temporary file.
func TestWriteCut(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	path := dir + "/f"
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		size int64
		from io.Reader
		want error
	}{
		"short":                      {1 << 20, bytes.NewReader(make([]byte, 1<<20-1)), vm.Invalid},
		"long":                       {1 << 20, bytes.NewReader(make([]byte, 1<<20+1)), vm.Invalid},
		"long for none":              {0, strings.NewReader("x"), vm.Invalid},
		"reader fails":               {1 << 20, io.MultiReader(bytes.NewReader(make([]byte, 500<<10)), failing{boom}), boom},
		"unknown size, reader fails": {-1, io.MultiReader(bytes.NewReader(make([]byte, 500<<10)), failing{boom}), boom},
	} {
		if _, err := r.WriteFile(within(t, 20*time.Second), "", path, vm.WriteOptions{Size: c.size}, c.from); !errors.Is(err, c.want) {
			t.Errorf("a write of %s: %v, want %v", name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	go func() {
		_, _ = pw.Write(make([]byte, 300<<10))
		cancel()
	}()
	if _, err := r.WriteFile(ctx, "", path, vm.WriteOptions{Size: 1 << 20}, pr); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for end := time.Now().Add(5 * time.Second); ; {
		left, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("left behind: %v", left)
		}
		<-time.After(10 * time.Millisecond)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("the old file: %q, %v", b, err)
	}
}

type failing struct{ err error }

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A file that shrinks while it is read causes an error.
func TestReadShort(t *testing.T) {
	r := newRig(t)
	path := t.TempDir() + "/f"
	if err := os.WriteFile(path, make([]byte, 64<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	_, rc, err := r.Open(within(t, 20*time.Second), "", path)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	if _, err := io.CopyN(io.Discard, rc, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 2<<20); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, rc); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d more bytes, then %v", n, err)
	}
}

// File verbs have the rights of the Linux user they act for, and no others.
func TestFileUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act for another user")
	}
	r := newRig(t)
	ctx := within(t, 20*time.Second)
	base := t.TempDir()
	if err := errors.Join(os.Chmod(base, 0o777), os.Chmod(filepath.Dir(base), 0o755)); err != nil {
		t.Fatal(err)
	}
	i, err := r.WriteFile(ctx, "nobody", base+"/theirs", vm.WriteOptions{Size: 1}, strings.NewReader("x"))
	if err != nil || i.UID != 65534 || i.GID != 65534 {
		t.Errorf("a file that nobody writes is %+v (%v), want nobody's", i, err)
	}
	if err := os.WriteFile(base+"/ours", []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = r.Open(ctx, "nobody", base+"/ours")
	wantError(t, "read root's", err, vm.Invalid, "FILES_BAD_REQUEST")
	wantError(t, "chmod root's", r.Chmod(ctx, "nobody", base+"/ours", 0o777), vm.Invalid, "FILES_BAD_REQUEST")
	_, err = r.WriteFile(ctx, "nobody", "/etc/warren-test", vm.WriteOptions{Size: 1}, strings.NewReader("x"))
	wantError(t, "write to /etc", err, vm.Invalid, "FILES_BAD_REQUEST")
	wantError(t, "mkdir in /etc", r.Mkdir(ctx, "nobody", "/etc/warren-test", 0, true), vm.Invalid, "FILES_BAD_REQUEST")
	wantError(t, "tar up to /etc", r.TarUp(ctx, "nobody", "/etc/warren-test", emptyTar()), vm.Invalid, "FILES_BAD_REQUEST")
	for range 30 { // whichever thread serves root afterwards has root's rights
		if _, b := readAll(t, r, "", base+"/ours"); string(b) != "secret" {
			t.Fatalf("root reads %q", b)
		}
	}
	// If root replaces a user's file, it still belongs to the user.
	if i, err := r.WriteFile(ctx, "", base+"/theirs", vm.WriteOptions{Size: 2}, strings.NewReader("yy")); err != nil || i.UID != 65534 {
		t.Errorf("a file of nobody that root replaces is %+v (%v), want nobody's", i, err)
	}
}

func emptyTar() io.Reader {
	var b bytes.Buffer
	_ = tar.NewWriter(&b).Close()
	return &b
}

func TestTar(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 30*time.Second)
	src, dst := t.TempDir(), t.TempDir()+"/new/place"
	big := make([]byte, 3<<20+1)
	_, _ = rand.Read(big)
	for name, content := range map[string][]byte{"a": []byte("a"), "sub/big": big, "sub/empty": nil, "sub/" + strings.Repeat("long", 50): []byte("l")} {
		if err := os.MkdirAll(filepath.Dir(src+"/"+name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(src+"/"+name, content, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("../a", src+"/sub/link"), os.Symlink("/etc/passwd", src+"/abs"), os.Mkdir(src+"/ro", 0o700),
		os.WriteFile(src+"/ro/f", []byte("f"), 0o400), os.Chmod(src+"/ro", 0o500), os.Chmod(src+"/a", 0o755)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(src+"/ro", 0o700)
	stream, err := r.TarDown(ctx, "", src)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.TarUp(ctx, "", dst, stream); err != nil {
		t.Fatal(err)
	}
	_ = stream.Close()
	defer os.Chmod(dst+"/ro", 0o700)
	if a, b := tree(t, src), tree(t, dst); !slices.Equal(a, b) {
		t.Errorf("sent:\n%s\ngot:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	// Once more onto what is there.
	stream, err = r.TarDown(ctx, "", src)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.TarUp(ctx, "", dst, stream); err != nil {
		t.Errorf("a second time: %v", err)
	}
	_ = stream.Close()
	one, err := r.TarDown(ctx, "", src+"/a")
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if h, err := tar.NewReader(one).Next(); err != nil || h.Name != "a" || h.Mode != 0o755 {
		t.Errorf("one file: %+v, %v", h, err)
	}
	_, err = r.TarDown(ctx, "", src+"/missing")
	wantError(t, "missing", err, vm.NotFound, "FILE_NOT_FOUND")
	wantError(t, "no archive", r.TarUp(ctx, "", dst, bytes.NewReader(big[:2000])), vm.Invalid, "FILES_BAD_REQUEST")
}

// tree lists a tree with modes, sizes, times and targets.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == root {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		line := fmt.Sprint(rel, " ", st.Mode())
		switch {
		case st.Mode().IsRegular():
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %x %v", len(b), b[:min(len(b), 32)], st.ModTime().Truncate(time.Microsecond))
		case st.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(name)
			line += " -> " + target
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Nothing outside the destination is touched, whatever an archive contains.
func TestTarUpStaysInside(t *testing.T) {
	r := newRig(t)
	for name, entries := range map[string][]tar.Header{
		"dots":              {{Name: "../../out", Typeflag: tar.TypeReg}},
		"absolute":          {{Name: "/OUT", Typeflag: tar.TypeReg}},
		"through a link":    {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "OUTDIR"}, {Name: "l/out", Typeflag: tar.TypeReg}},
		"relative link":     {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../outside"}, {Name: "l/out", Typeflag: tar.TypeReg}},
		"link to a file":    {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../outside/victim"}, {Name: "l", Typeflag: tar.TypeReg}},
		"hard link":         {{Name: "l", Typeflag: tar.TypeLink, Linkname: "../outside/victim"}, {Name: "l", Typeflag: tar.TypeReg}},
		"hard link by link": {{Name: "d", Typeflag: tar.TypeSymlink, Linkname: "../outside"}, {Name: "l", Typeflag: tar.TypeLink, Linkname: "d/victim"}},
		"mkdir by link":     {{Name: "d", Typeflag: tar.TypeSymlink, Linkname: "../outside"}, {Name: "d/x/y", Typeflag: tar.TypeDir}},
		"device":            {{Name: "dev", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			if err := errors.Join(os.MkdirAll(base+"/outside", 0o755), os.WriteFile(base+"/outside/victim", []byte("safe"), 0o644), os.Mkdir(base+"/in", 0o755)); err != nil {
				t.Fatal(err)
			}
			before := tree(t, base+"/outside")
			var b bytes.Buffer
			tw := tar.NewWriter(&b)
			for _, h := range entries {
				h.Linkname = strings.ReplaceAll(h.Linkname, "OUTDIR", base+"/outside")
				h.Name = strings.ReplaceAll(h.Name, "OUT", base+"/outside/out")
				h.Mode = 0o644
				if h.Typeflag == tar.TypeReg {
					h.Size = 3
				}
				if err := tw.WriteHeader(&h); err != nil {
					t.Fatal(err)
				}
				if h.Typeflag == tar.TypeReg {
					_, _ = tw.Write([]byte("bad"))
				}
			}
			if err := tw.Close(); err != nil {
				t.Fatal(err)
			}
			_ = r.TarUp(within(t, 10*time.Second), "", base+"/in", &b) // refused or kept inside: both are right
			if after := tree(t, base+"/outside"); !slices.Equal(before, after) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			if names, _ := os.ReadDir(base); len(names) != 2 {
				t.Errorf("beside the destination: %v", names)
			}
			if st, err := os.Lstat(base + "/in/dev"); err == nil {
				t.Errorf("a device was made: %v", st.Mode())
			}
		})
	}
}

// Trees are merged: existing entries stay or are replaced by entries of the same
// kind. Nothing replaces a directory, and a directory replaces nothing else.
func TestTarUpMerges(t *testing.T) {
	r := newRig(t)
	base := t.TempDir()
	dst := base + "/dst"
	if err := errors.Join(os.MkdirAll(dst+"/d/sub", 0o755), os.WriteFile(dst+"/f", []byte("old"), 0o644), os.WriteFile(dst+"/own", []byte("own"), 0o644),
		os.Symlink(base, dst+"/l")); err != nil {
		t.Fatal(err)
	}
	send := func(h tar.Header) error {
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		h.Mode, h.Size = 0o755, 0
		if err := errors.Join(tw.WriteHeader(&h), tw.Close()); err != nil {
			t.Fatal(err)
		}
		return r.TarUp(within(t, 10*time.Second), "", dst, &b)
	}
	wantError(t, "a directory in the place of a file", send(tar.Header{Name: "f", Typeflag: tar.TypeDir}), vm.Invalid, "FILES_BAD_REQUEST")
	wantError(t, "a directory in the place of a link", send(tar.Header{Name: "l", Typeflag: tar.TypeDir}), vm.Invalid, "FILES_BAD_REQUEST")
	wantError(t, "a file in the place of a directory", send(tar.Header{Name: "d", Typeflag: tar.TypeReg}), vm.Invalid, "FILES_BAD_REQUEST")
	before := tree(t, dst)
	if err := send(tar.Header{Name: "d/", Typeflag: tar.TypeDir, ModTime: time.Now()}); err != nil {
		t.Errorf("a directory that is there: %v", err)
	}
	if after := tree(t, dst); !slices.Equal(before, after) {
		t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// Changes below a directory are reported, including those in new directories.
func TestWatch(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/old", 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := r.Watch(within(t, 20*time.Second), "", dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	expect := func(what string, want ...vm.FileEvent) {
		t.Helper()
		for _, x := range want {
			got, err := w.Next()
			if err != nil || got != x {
				t.Fatalf("%s: got %+v, %v; want %+v", what, got, err, x)
			}
		}
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.WriteFile(dir+"/old/f", []byte("x"), 0o644))
	expect("write", vm.FileEvent{Type: "create", Path: dir + "/old/f"}, vm.FileEvent{Type: "modify", Path: dir + "/old/f"})
	check(os.MkdirAll(dir+"/new", 0o755))
	expect("mkdir", vm.FileEvent{Type: "create", Path: dir + "/new"})
	check(os.Rename(dir+"/old/f", dir+"/new/g"))
	expect("rename", vm.FileEvent{Type: "rename", Path: dir + "/old/f"}, vm.FileEvent{Type: "create", Path: dir + "/new/g"})
	check(os.Remove(dir + "/new/g"))
	expect("remove", vm.FileEvent{Type: "delete", Path: dir + "/new/g"})
	if _, err := r.WriteFile(t.Context(), "", dir+"/api", vm.WriteOptions{Size: 3}, strings.NewReader("abc")); err != nil {
		t.Fatal(err)
	}
	expect("our own writes", vm.FileEvent{Type: "create", Path: dir + "/api"})
	check(os.RemoveAll(dir + "/old"))
	expect("rmdir", vm.FileEvent{Type: "delete", Path: dir + "/old"})
	time.AfterFunc(50*time.Millisecond, w.Close)
	if ev, err := w.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after Close: %+v, %v", ev, err)
	}
	_, err = r.Watch(t.Context(), "", dir+"/missing", false)
	wantError(t, "missing", err, vm.NotFound, "FILE_NOT_FOUND")
	flat, err := r.Watch(within(t, 10*time.Second), "", dir+"/new", false)
	check(err)
	defer flat.Close()
	check(os.Remove(dir + "/new"))
	if ev, err := flat.Next(); err != nil || ev.Type != "delete" || ev.Path != dir+"/new" {
		t.Errorf("the end of the watched directory: %+v, %v", ev, err)
	}
	if ev, err := flat.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after it: %+v, %v", ev, err)
	}
}
