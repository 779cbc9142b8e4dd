// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// archive makes a tar; files have the content "new".
func archive(t *testing.T, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range entries {
		if h.Typeflag == tar.TypeReg {
			h.Size = 3
		}
		h.Uid, h.Gid = os.Getuid(), os.Getgid()
		h.ModTime = time.Unix(1e9, 0)
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := tw.Write([]byte("new")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// nothingElse wants a directory to have those names only.
func nothingElse(t *testing.T, dir string, names ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, names) {
		t.Errorf("afterwards %s holds %q, want %q", dir, got, names)
	}
}

// onRootDisk skips a test whose directory is not on the file system of "/", on which
// alone the agent restores.
func onRootDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var a, b syscall.Stat_t
	if err := errors.Join(syscall.Stat("/", &a), syscall.Stat(dir, &b)); err != nil {
		t.Fatal(err)
	}
	if a.Dev != b.Dev {
		t.Skipf("%s is on another file system than /, and a restore refuses that", dir)
	}
	return dir
}

// TestRestore: a file, a directory and a link take the place of what is there, with mode,
// time and attributes, and nothing else is left.
func TestRestore(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 30*time.Second)
	base := onRootDisk(t)
	if err := errors.Join(os.MkdirAll(base+"/d/old", 0o755), os.WriteFile(base+"/f", []byte("old"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := r.Restore(ctx, base+"/f", archive(t, tar.Header{Name: "entry", Typeflag: tar.TypeReg, Mode: 0o4750, PAXRecords: map[string]string{"SCHILY.xattr.user.k": "v"}})); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(base + "/f")
	if err != nil || st.Mode() != 0o750|os.ModeSetuid || !st.ModTime().Equal(time.Unix(1e9, 0)) {
		t.Errorf("the restored file has %v and %v (%v), want the archive's mode and time", st.Mode(), st.ModTime(), err)
	}
	if got, err := os.ReadFile(base + "/f"); err != nil || string(got) != "new" {
		t.Errorf("the restored file holds %q (%v), want new", got, err)
	}
	value := make([]byte, 9)
	if n, err := syscall.Getxattr(base+"/f", "user.k", value); err != nil || string(value[:n]) != "v" {
		t.Errorf("the restored file's attribute is %q (%v), want v", value[:max(n, 0)], err)
	}
	dir := archive(t, tar.Header{Name: "entry/", Typeflag: tar.TypeDir, Mode: 0o500}, tar.Header{Name: "entry/a", Typeflag: tar.TypeReg, Mode: 0o644},
		tar.Header{Name: "entry/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"})
	if err := r.Restore(ctx, base+"/d", dir); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(base+"/d", 0o700)
	nothingElse(t, base+"/d", "a", "l")
	if err := r.Restore(ctx, base+"/gone/deep/l", archive(t, tar.Header{Name: "entry", Typeflag: tar.TypeSymlink, Linkname: "/nowhere"})); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(base + "/gone/deep/l"); err != nil || to != "/nowhere" {
		t.Errorf("the restored link leads to %q (%v), want /nowhere", to, err)
	}
	nothingElse(t, base, "d", "f", "gone")
}

// TestRestoreSparse: a large file that is nearly empty has its bytes and its size, and
// takes little space.
func TestRestoreSparse(t *testing.T) {
	r := newRig(t)
	base := onRootDisk(t)
	const size = 32<<20 + 100
	content := make([]byte, size)
	copy(content, "first")
	copy(content[20<<20+7:], "middle")
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	h := tar.Header{Name: "entry", Typeflag: tar.TypeReg, Mode: 0o644, Size: size, Uid: os.Getuid(), Gid: os.Getgid()}
	if err := tw.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if _, err := tw.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Restore(within(t, 30*time.Second), base+"/f", &b); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(base + "/f")
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("the restored file has %d bytes (%v) and not those of the archive", len(got), err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(base+"/f", &st); err != nil || st.Blocks*512 > 4<<20 {
		t.Errorf("the restored file takes %d bytes of the disk (%v), want at most 4 MiB of its 32", st.Blocks*512, err)
	}
}

// TestRestoreRefuses: a link on the way, a broken archive and an archive with something
// else change nothing, inside and outside.
func TestRestoreRefuses(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 30*time.Second)
	base := onRootDisk(t)
	if err := errors.Join(os.MkdirAll(base+"/outside", 0o755), os.WriteFile(base+"/outside/f", []byte("safe"), 0o644), os.Mkdir(base+"/in", 0o755),
		os.WriteFile(base+"/in/f", []byte("old"), 0o644), os.Symlink(base+"/outside", base+"/in/l")); err != nil {
		t.Fatal(err)
	}
	before := tree(t, base)
	file := tar.Header{Name: "entry", Typeflag: tar.TypeReg, Mode: 0o644}
	short := archive(t, file)
	short.Truncate(513)
	for name, try := range map[string]struct {
		path string
		body *bytes.Buffer
	}{
		"a link on the way": {base + "/in/l/f", archive(t, file)},
		"a file on the way": {base + "/in/f/f", archive(t, file)},
		"a short archive":   {base + "/in/f", short},
		"an empty archive":  {base + "/in/f", archive(t)},
		"another entry":     {base + "/in/f", archive(t, tar.Header{Name: "other", Typeflag: tar.TypeReg, Mode: 0o644})},
		"out of it":         {base + "/in/f", archive(t, tar.Header{Name: "../../outside/f", Typeflag: tar.TypeReg, Mode: 0o644})},
		"through a link": {base + "/in/f", archive(t, tar.Header{Name: "entry", Typeflag: tar.TypeSymlink, Linkname: "../../outside"},
			tar.Header{Name: "entry/f", Typeflag: tar.TypeReg, Mode: 0o644})},
		"the root": {"/", archive(t, file)},
	} {
		t.Run(name, func(t *testing.T) {
			if err := r.Restore(ctx, try.path, try.body); vm.KindOf(err) != vm.Invalid {
				t.Errorf("the restore ends with %v, want kind Invalid", err)
			}
			if after := tree(t, base); !slices.Equal(before, after) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			if left, _ := filepath.Glob(base + "/in/.warren-restore-*"); len(left) > 0 {
				t.Errorf("it left %q", left)
			}
		})
	}
}
