// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func env(kv ...string) func(string) string {
	return func(k string) string {
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == k {
				return kv[i+1]
			}
		}
		return ""
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "data")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", st.Mode(), err)
	}
	if again, err := Open(path); err != nil || again != d {
		t.Errorf("opened again: %q, %v", again, err)
	}
	if err := os.WriteFile(d.Format(), []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, vm.Unsupported) {
		t.Errorf("newer format: %v", err)
	}
	if err := os.WriteFile(d.Format(), []byte("soup"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, vm.Corrupt) {
		t.Errorf("nonsense as format: %v", err)
	}
}

// A directory of something else is never taken over.
func TestOpenRefusesForeignDirectory(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, vm.Invalid) {
		t.Errorf("got %v, want invalid", err)
	}
	if got, _ := os.ReadDir(path); len(got) != 1 {
		t.Errorf("left %d entries behind", len(got))
	}
}

func TestRunDir(t *testing.T) {
	for _, c := range []struct {
		env  func(string) string
		uid  int
		want string
	}{
		{env("XDG_RUNTIME_DIR", "/run/user/0"), 0, "/run/warren"},
		{env("XDG_RUNTIME_DIR", "/run/user/7"), 7, "/run/user/7/warren"},
		{env(), 7, "/tmp/warren-7"},
	} {
		if got := runBase(c.env, c.uid); got != c.want {
			t.Errorf("uid %d: %q, want %q", c.uid, got, c.want)
		}
	}
	base := filepath.Join(t.TempDir(), "w")
	r, err := Dir("/data").runIn(base, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	other, err := Dir("/data2").runIn(base, os.Getuid())
	if err != nil || other == r {
		t.Errorf("two data directories share %q (%v)", r, err)
	}
	if _, err := Dir("/data").runIn(base, os.Getuid()+1); !errors.Is(err, vm.Denied) {
		t.Errorf("somebody else's directory: %v", err)
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 20))
	if _, err := Dir("/data").runIn(long, os.Getuid()); !errors.Is(err, vm.Invalid) {
		t.Errorf("sockets with long paths: %v", err)
	}
	link := filepath.Join(t.TempDir(), "l")
	if err := os.Symlink(base, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Dir("/data").runIn(link, os.Getuid()); !errors.Is(err, vm.Denied) {
		t.Errorf("a symbolic link as base: %v", err)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, body := range []string{"one", "two"} {
		if err := WriteFile(path, []byte(body), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != body {
			t.Errorf("read %q, %v; want %q", got, err, body)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	boom := errors.New("boom")
	err := WriteFunc(path, 0o600, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v, want boom", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "two" {
		t.Errorf("a failed write left %q", got)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("a failed write left %d files", len(left))
	}
	if err := WriteFile(filepath.Join(dir, "no", "f"), nil, 0o600); !errors.Is(err, vm.NotFound) {
		t.Errorf("no such directory: %v", err)
	}
}

func TestJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	want := vm.File{Name: "n", Size: 3}
	if err := WriteJSON(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	var got vm.File
	if err := ReadJSON(path, &got); err != nil || got.Name != want.Name || got.Size != want.Size {
		t.Errorf("the file is read back as %+v (%v), want %+v", got, err, want)
	}
	if err := os.WriteFile(path, []byte(`{"name":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ReadJSON(path, &got); !errors.Is(err, vm.Corrupt) {
		t.Errorf("half a file: %v", err)
	}
	if err := ReadJSON(path+"x", &got); !errors.Is(err, vm.NotFound) {
		t.Errorf("no file: %v", err)
	}
}

func TestPublish(t *testing.T) {
	dir := t.TempDir()
	tmp, err := Temp(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !IsTemp(filepath.Base(tmp)) {
		t.Errorf("%s is not seen as temporary", tmp)
	}
	if err := os.WriteFile(filepath.Join(tmp, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	final := filepath.Join(dir, "final")
	if err := Publish(tmp, final); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(final, "f")); err != nil {
		t.Error(err)
	}
	tmp2, err := Temp(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Publish(tmp2, final); !errors.Is(err, vm.Exists) {
		t.Errorf("over another: %v", err)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, vm.Busy) {
		t.Errorf("second lock: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if _, err := WaitLock(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a held lock: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		l2, err := WaitLock(t.Context(), path)
		if err == nil {
			err = l2.Unlock()
		}
		got <- err
	}()
	if err := errors.Join(l.Unlock(), l.Unlock()); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Errorf("waiting for a lock given back: %v", err)
	}
}
