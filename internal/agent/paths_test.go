// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/pathrule"
	"github.com/warren-vm/warren/vm"
)

// TestPathRules: every call about files keeps the rules of its request, on the real path.
//
// 001-07
func TestPathRules(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 60*time.Second)
	dir := t.TempDir()
	for name, content := range map[string]string{"secret": "top", "docs/a": "read", "tree/.env": "hidden", "tree/open": "open", "ask": "ask", "other/deep/key": "key"} {
		if err := os.MkdirAll(dir+"/"+name[:strings.LastIndex("/"+name, "/")], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir+"/secret", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/docs", dir+"/linked"); err != nil {
		t.Fatal(err)
	}
	g := r.Under(pathrule.Encode([]vm.PathRule{
		{Action: vm.PathDeny, Path: dir + "/secret"},
		{Action: vm.PathReadOnly, Path: dir + "/docs"},
		{Action: vm.PathHide, Path: "/**/.env"},
		{Action: vm.PathAsk, Path: dir + "/ask"},
		{Action: vm.PathDeny, Path: dir + "/other/deep/key"},
	}))
	write := func(p string) error {
		_, err := g.WriteFile(ctx, "", p, vm.WriteOptions{Parents: true, Size: 1}, bytes.NewReader([]byte("x")))
		return err
	}
	open := func(p string) error {
		_, rc, err := g.Open(ctx, "", p)
		if err == nil {
			_ = rc.Close()
		}
		return err
	}
	down := func(p string) error {
		rc, err := g.TarDown(ctx, "", p)
		if err == nil {
			_ = rc.Close()
		}
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "linked/new", Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}), second(w.Write([]byte("x"))), w.Close()); err != nil {
		t.Fatal(err)
	}
	handle := func(p string, o vm.OpenOptions) error {
		f, err := g.OpenHandle(ctx, "", p, o)
		if err == nil {
			_ = f.Close()
		}
		return err
	}
	size := int64(0)
	for what, x := range map[string]struct {
		err  error
		kind vm.Kind
		code string
	}{
		"open a denied file":         {open(dir + "/secret"), vm.Denied, "PATH_DENIED"},
		"open it by a link":          {open(dir + "/link"), vm.Denied, "PATH_DENIED"},
		"open a hidden file":         {open(dir + "/tree/.env"), vm.NotFound, "FILE_NOT_FOUND"},
		"open in another case":       {open(dir + "/tree/.ENV"), vm.NotFound, "FILE_NOT_FOUND"},
		"open a file of asks":        {open(dir + "/ask"), vm.Denied, "PATH_ASK"},
		"a handle of a denied file":  {handle(dir+"/link", vm.OpenOptions{Read: true}), vm.Denied, "PATH_DENIED"},
		"a handle to write":          {handle(dir+"/docs/a", vm.OpenOptions{Write: true}), vm.Denied, "PATH_READ_ONLY"},
		"write a denied file":        {write(dir + "/secret"), vm.Denied, "PATH_DENIED"},
		"write it by a link":         {write(dir + "/link"), vm.Denied, "PATH_DENIED"},
		"write read-only by a link":  {write(dir + "/linked/new"), vm.Denied, "PATH_READ_ONLY"},
		"make a hidden file":         {write(dir + "/.env"), vm.Denied, "PATH_DENIED"},
		"make a directory":           {g.Mkdir(ctx, "", dir+"/docs/d", 0o755, false), vm.Denied, "PATH_READ_ONLY"},
		"make a link":                {g.Symlink(ctx, "", "a", dir+"/linked/l"), vm.Denied, "PATH_READ_ONLY"},
		"a second name":              {g.Link(ctx, "", dir+"/secret", dir+"/named"), vm.Denied, "PATH_DENIED"},
		"chmod by a link":            {g.Chmod(ctx, "", dir+"/link", 0o777), vm.Denied, "PATH_DENIED"},
		"truncate":                   {g.SetAttr(ctx, "", dir+"/docs/a", vm.FileAttr{Size: &size}), vm.Denied, "PATH_READ_ONLY"},
		"remove":                     {g.Remove(ctx, "", dir+"/docs/a", false), vm.Denied, "PATH_READ_ONLY"},
		"remove a tree":              {g.Remove(ctx, "", dir+"/other", true), vm.Denied, "PATH_DENIED"},
		"rename":                     {g.Rename(ctx, "", dir+"/secret", dir+"/free"), vm.Denied, "PATH_DENIED"},
		"rename a directory above":   {g.Rename(ctx, "", dir+"/other", dir+"/free"), vm.Denied, "PATH_DENIED"},
		"a tree with a denied file":  {down(dir + "/other"), vm.Denied, "PATH_DENIED"},
		"an archive through a link":  {g.TarUp(ctx, "", dir, bytes.NewReader(archive.Bytes())), vm.Denied, "PATH_READ_ONLY"},
		"a restore of a restricted":  {g.Restore(ctx, dir+"/other", bytes.NewReader(nil)), vm.Denied, "PATH_DENIED"},
		"a listing of a denied tree": {listed(g.ListTree(ctx, "", dir+"/other", vm.TreeOptions{})), vm.Denied, "PATH_DENIED"},
		"picking a denied file":      {listed(g.PickFiles(ctx, "", dir, vm.TreePick{Names: []vm.GuestPath{"secret"}})), vm.Denied, "PATH_DENIED"},
	} {
		wantError(t, what, x.err, x.kind, x.code)
	}
	for name, want := range map[string]string{"secret": "top", "docs/a": "read", "other/deep/key": "key"} {
		if data, err := os.ReadFile(dir + "/" + name); err != nil || string(data) != want {
			t.Errorf("%s afterwards is %q, %v, want %q", name, data, err, want)
		}
	}
	list, err := g.ReadDir(ctx, "", dir+"/tree")
	if err != nil || len(list) != 1 || list[0].Name != "open" {
		t.Errorf("a directory with a hidden file lists %v, %v, want only open", list, err)
	}
	rc, err := g.TarDown(ctx, "", dir+"/tree")
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	var names []string
	for in := tar.NewReader(rc); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if !slices.Equal(names, []string{"./", "open"}) {
		t.Errorf("the archive of a tree with a hidden file has %q, want ./ and open", names)
	}
	if err := write(dir + "/tree/new"); err != nil {
		t.Errorf("a path without a rule: %v", err)
	}
	if err := r.Mkdir(ctx, "", dir+"/docs/d", 0o755, false); err != nil {
		t.Errorf("a request without rules: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// listed reads a listing to its end.
func listed(rc io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, rc)
	return errors.Join(err, rc.Close())
}
