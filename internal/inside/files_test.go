// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside_test

import (
	"io"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestFiles moves content both ways and changes the tree.
func TestFiles(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box", Workdir: "/work"})
	if _, err := e.WriteFile(ctx, c, "box", "", "sub/a.txt", vm.WriteOptions{Size: 5, Parents: true}, strings.NewReader("hello")); err != nil {
		t.Fatal(err)
	}
	info, r, err := e.OpenFile(ctx, c, "box", "", "/work/sub/a.txt") // relative = under the workdir
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil || string(data) != "hello" || info.Size != 5 {
		t.Errorf("the file of %d bytes reads as %q (%v), want hello", info.Size, data, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	steps := []func() error{
		func() error { return e.Mkdir(ctx, c, "box", "", "d/e", 0o700, true) },
		func() error { return e.Rename(ctx, c, "box", "", "sub/a.txt", "d/b.txt") },
		func() error { return e.Chmod(ctx, c, "box", "", "d/b.txt", 0o600) },
		func() error { return e.Symlink(ctx, c, "box", "", "b.txt", "d/l") },
		func() error { return e.Remove(ctx, c, "box", "", "sub", true) },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	list, err := e.ReadDir(ctx, c, "box", "", "d")
	if err != nil || len(list) != 3 {
		t.Fatalf("the directory lists %+v (%v), want 3 entries", list, err)
	}
	if list[0].Mode != 0o600 {
		t.Errorf("the changed mode of %s is %o, want 600", list[0].Path, list[0].Mode)
	}
	if list[2].Target != "b.txt" {
		t.Errorf("the link %s leads to %q, want b.txt", list[2].Path, list[2].Target)
	}
	tarball, err := e.TarDown(ctx, c, "box", "", "d")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.TarUp(ctx, c, "box", "", "copy", tarball); err != nil {
		t.Fatal(err)
	}
	if err := tarball.Close(); err != nil {
		t.Error(err)
	}
	if out, _ := sh(t, e, c, "box", "cat copy/l"); out != "hello" {
		t.Errorf("after tar down and up: %q", out)
	}
	_, _, err = e.OpenFile(ctx, c, "box", "", "nope")
	wantCode(t, err, vm.NotFound, "FILE_NOT_FOUND")
}

// TestWatchAndDial: changes are seen, ports are reached.
func TestWatchAndDial(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	w, err := e.Watch(ctx, c, "box", "", "/work", true)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, e, c, "box", "echo x > /work/f")
	if ev, err := w.Next(); err != nil || ev.Path != "/work/f" || ev.Type != "create" {
		t.Errorf("the watch's first event is %+v (%v), want the creation of /work/f", ev, err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	n, err := e.DialPort(ctx, c, "box", 7)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4)
	if _, err := io.ReadFull(n, buf); err != nil || string(buf) != "ping" {
		t.Errorf("the port answers ping with %q (%v), want its echo", buf, err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if _, err := e.DialPort(ctx, c, "box", 9); vm.KindOf(err) != vm.Unavailable || !strings.Contains(err.Error(), "nothing listens on port 9, neither on its network nor on 127.0.0.1 or [::1]") {
		t.Errorf("a closed port: %v", err)
	}
}
