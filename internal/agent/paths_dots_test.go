// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/pathrule"
	"github.com/warren-vm/warren/internal/treesync"
	"github.com/warren-vm/warren/vm"
)

// TestPathRulesDots: what is judged is what is used. The kernel takes bin/../keys for usr/keys where
// bin leads to usr/bin. Under rules that path is keys, for every call about files.
//
// 001-07
func TestPathRulesDots(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 60*time.Second)
	dir := t.TempDir()
	for name, content := range map[string]string{"usr/keys/k": "secret", "usr/bin/sh": "", "free/f": "f"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("usr/bin", dir+"/bin"); err != nil {
		t.Fatal(err)
	}
	g := r.Under(pathrule.Encode([]vm.PathRule{{Action: vm.PathDeny, Path: dir + "/usr/keys"}}))
	keys := dir + "/bin/../keys" // the kernel's way to usr/keys
	open := func(o vm.OpenOptions) error {
		f, err := g.OpenHandle(ctx, "", keys+"/k", o)
		if err == nil {
			_ = f.Close()
		}
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "k", Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}), second(w.Write([]byte("x"))), w.Close()); err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, x := range []struct {
		what string
		err  error
	}{
		{"stat", second(g.Stat(ctx, "", keys+"/k"))},
		{"stat through a link", second(g.StatFollow(ctx, "", keys+"/k"))},
		{"list", second(g.ReadDir(ctx, "", keys))},
		{"read", func() error { _, rc, err := g.Open(ctx, "", keys+"/k"); return listed(rc, err) }()},
		{"a handle", open(vm.OpenOptions{Read: true})},
		{"a handle that truncates", open(vm.OpenOptions{Write: true, Truncate: true})},
		{"write", second(g.WriteFile(ctx, "", keys+"/k", vm.WriteOptions{Size: 1}, strings.NewReader("x")))},
		{"make a directory", g.Mkdir(ctx, "", keys+"/d", 0o755, false)},
		{"chmod", g.Chmod(ctx, "", keys+"/k", 0o777)},
		{"set attributes", g.SetAttr(ctx, "", keys+"/k", vm.FileAttr{Size: &size})},
		{"a symbolic link", g.Symlink(ctx, "", "x", keys+"/l")},
		{"a second name of it", g.Link(ctx, "", keys+"/k", dir+"/free/l")},
		{"a second name there", g.Link(ctx, "", dir+"/free/f", keys+"/l")},
		{"an archive of it", listed(g.TarDown(ctx, "", keys))},
		{"its tree", listed(g.ListTree(ctx, "", keys, vm.TreeOptions{}))},
		{"picked files", listed(g.PickFiles(ctx, "", keys, vm.TreePick{Names: []vm.GuestPath{"k"}}))},
		{"placed files", second(g.PlaceFiles(ctx, "", keys, "", "", strings.NewReader(`{"path":"n","new":{"type":"`+treesync.TypeLink+`","target":"x"}}`+"\n"+`{"end":true}`+"\n")))},
		{"a watch", second(g.Watch(ctx, "", keys, false))},
		{"move it away", g.Rename(ctx, "", keys+"/k", dir+"/free/k")},
		{"move something there", g.Rename(ctx, "", dir+"/free/f", keys+"/f")},
		{"remove", g.Remove(ctx, "", keys+"/k", false)},
		{"remove all", g.Remove(ctx, "", keys, true)},
		{"a restore", g.Restore(ctx, keys+"/k", bytes.NewReader(nil))}, // it makes missing directories
	} {
		if x.err == nil {
			t.Errorf("%s by %s succeeds", x.what, keys)
		}
	}
	// It unpacks into a directory of its own.
	if err := g.TarUp(ctx, "", keys, bytes.NewReader(archive.Bytes())); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(dir + "/keys/k"); err != nil || string(data) != "x" {
		t.Errorf("the unpacked file is %q, %v, want x", data, err)
	}
	left, err := os.ReadDir(dir + "/usr/keys")
	if err != nil || len(left) != 1 {
		t.Fatalf("the denied directory has the entries %v, %v, want k alone", left, err)
	}
	if data, err := os.ReadFile(dir + "/usr/keys/k"); err != nil || string(data) != "secret" {
		t.Errorf("the denied file holds %q, %v", data, err)
	}
	if st, err := os.Stat(dir + "/usr/keys/k"); err != nil || st.Mode() != 0o600 {
		t.Errorf("the denied file is %v, %v, want its mode unchanged", st, err)
	}
	if list, err := os.ReadDir(dir + "/free"); err != nil || len(list) != 1 {
		t.Errorf("the open directory has %v, %v, want f alone", list, err)
	}
	// Without rules the kernel's way stays.
	if st, err := r.Stat(ctx, "", keys+"/k"); err != nil || st.Size != 6 {
		t.Errorf("without rules the path is %+v, %v", st, err)
	}
}

// TestPathRulesMissing: no call makes a directory that the rules restrict on the way to another one.
//
// 001-07
func TestPathRulesMissing(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 60*time.Second)
	dir := t.TempDir()
	g := r.Under(pathrule.Encode([]vm.PathRule{{Action: vm.PathAllow, Path: dir + "/ro/open"}, {Action: vm.PathReadOnly, Path: dir + "/ro"}}))
	_, err := g.WriteFile(ctx, "", dir+"/ro/open/f", vm.WriteOptions{Parents: true, Size: 1}, strings.NewReader("x"))
	wantError(t, "a file with its parents", err, vm.Denied, "PATH_READ_ONLY")
	wantError(t, "a directory with its parents", g.Mkdir(ctx, "", dir+"/ro/open/d", 0o755, true), vm.Denied, "PATH_READ_ONLY")
	wantError(t, "an archive", g.TarUp(ctx, "", dir+"/ro/new", bytes.NewReader(nil)), vm.Denied, "PATH_READ_ONLY")
	if _, err := os.Lstat(dir + "/ro"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the read-only directory was made (%v)", err)
	}
	if err := os.MkdirAll(dir+"/ro/open", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := g.Mkdir(ctx, "", dir+"/ro/open/a/b", 0o755, true); err != nil {
		t.Errorf("below an exception: %v", err)
	}
}

// TestPathRulesWatch: a watch tells of nothing that the rules hide, and looks into no directory that
// they deny.
//
// 001-07
func TestPathRulesWatch(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 60*time.Second)
	dir := t.TempDir()
	for _, d := range []string{"tree/keys", "tree/.env", "tree/open"} {
		if err := os.MkdirAll(dir+"/"+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("tree", dir+"/way"); err != nil {
		t.Fatal(err)
	}
	g := r.Under(pathrule.Encode([]vm.PathRule{
		{Action: vm.PathHide, Path: "/**/.env"}, {Action: vm.PathHide, Path: "/**/.env.*"}, {Action: vm.PathDeny, Path: "/**/keys"}, {Action: vm.PathDeny, Path: dir + "/tree/later"},
	}))
	for path, code := range map[string]string{"/tree/keys": "PATH_DENIED", "/way/keys": "PATH_DENIED", "/tree/.env": "FILE_NOT_FOUND"} {
		_, err := g.Watch(ctx, "", dir+path, false)
		if vm.AsError(err).Code != code {
			t.Errorf("a watch of %s gives %v, want %s", path, err, code)
		}
	}
	w, err := g.Watch(ctx, "", dir+"/way", true)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, name := range []string{"keys/k", ".env/x", ".env.local", "later/deep/x", "new/.env", "new/keys/k", "open/end"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(dir+"/tree/"+name), 0o755), os.WriteFile(dir+"/tree/"+name, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for last := ""; last != dir+"/way/open/end"; {
		ev, err := w.Next()
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		last = ev.Path
		got = append(got, ev.Type+" "+strings.TrimPrefix(ev.Path, dir+"/way"))
	}
	want := []string{"create /later", "create /new", "create /new/keys", "create /open/end"}
	if !slices.Equal(slices.Compact(got), want) {
		t.Errorf("the watch tells of %q, want %q", got, want)
	}
}
