// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

func hostKey(t testing.TB) *HostKey {
	t.Helper()
	h, err := EnsureHostKey(filepath.Join(t.TempDir(), "host.key"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func newKey(t testing.TB) Key {
	t.Helper()
	k, err := hostKey(t).NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// wantKind fails the test when err is of another kind or lacks a hint that
// kinds of an operator's making need.
func wantKind(t testing.TB, what string, err error, kind vm.Kind) {
	t.Helper()
	if vm.KindOf(err) != kind {
		t.Errorf("%s: %v (%s), want %s", what, err, vm.KindOf(err), kind)
	}
}

func TestHostKeyIsMadeOnce(t *testing.T) {
	data := layout.Dir(t.TempDir())
	if _, err := LoadHostKey(data.HostKey()); vm.KindOf(err) != vm.NotFound || vm.AsError(err).Hint == "" {
		t.Errorf("load before there is one: %v", err)
	}
	keys := make([]*HostKey, 16)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = EnsureHostKey(data.HostKey()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for _, k := range keys[1:] {
		if k.id.String() != keys[0].id.String() {
			t.Fatal("two that began at once have different keys")
		}
	}
	st, err := os.Stat(data.HostKey())
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", st.Mode(), err)
	}
	if left, _ := os.ReadDir(string(data)); len(left) != 1 {
		t.Errorf("%d files in the directory, want 1", len(left))
	}
}

func TestHostKeyIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.key")
	if _, err := EnsureHostKey(path); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602, 0o610, 0o666, 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		for _, f := range []func(string) (*HostKey, error){LoadHostKey, EnsureHostKey} {
			if _, err := f(path); vm.KindOf(err) != vm.Denied || !strings.Contains(vm.AsError(err).Hint, "chmod 600") {
				t.Errorf("mode %o: %v", mode, err)
			}
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o400} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadHostKey(path); err != nil {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := mayTrust(path, st, os.Getuid()+1); vm.KindOf(err) != vm.Denied || vm.AsError(err).Hint == "" {
		t.Errorf("another's file: %v", err)
	}
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	_, err = EnsureHostKey(link)
	wantKind(t, "symbolic link", err, vm.Denied)
	_, err = EnsureHostKey(t.TempDir())
	wantKind(t, "directory", err, vm.Denied)
}

// A damaged host key is never replaced, and its text is in no error.
func TestHostKeyDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.key")
	for _, text := range []string{"", "\n", "AGE-SECRET-KEY-1QQQQQQHUNTER2", "hello HUNTER2"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := EnsureHostKey(path)
		if vm.KindOf(err) != vm.Corrupt || vm.AsError(err).Hint == "" || strings.Contains(fmt.Sprintf("%v %+v", err, vm.AsError(err)), "HUNTER2") {
			t.Errorf("the key file %q: error %v, want corrupt with a hint and without the file's text", text, err)
		}
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestWrap(t *testing.T) {
	host, other := hostKey(t), hostKey(t)
	secret := []byte("the key of a volume")
	wrapped, err := Wrap(host, secret)
	if err != nil || bytes.Contains(wrapped, secret) {
		t.Fatalf("the wrapped key is %q (%v), want no trace of the secret", wrapped, err)
	}
	if got, err := Unwrap(host, wrapped); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("the unwrapped key is %q (%v), want %q", got, err, secret)
	}
	_, err = Unwrap(other, wrapped)
	wantKind(t, "another host", err, vm.Corrupt)
	_, err = host.Key(wrapped)
	wantKind(t, "not a file's key", err, vm.Corrupt)
	for i := range wrapped {
		bad := bytes.Clone(wrapped)
		bad[i] ^= 1
		if _, err := Unwrap(host, bad); vm.KindOf(err) != vm.Corrupt {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := Unwrap(host, wrapped[:i]); vm.KindOf(err) != vm.Corrupt {
			t.Errorf("cut off at %d: %v", i, err)
		}
	}
}

func TestKeyIsStoredWrappedOnly(t *testing.T) {
	host := hostKey(t)
	key, err := host.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	again, err := host.Key(key.Wrapped)
	if err != nil || again.id.String() != key.id.String() {
		t.Errorf("unwrapped: %v", err)
	}
	if second, err := host.NewKey(); err != nil || second.id.String() == key.id.String() {
		t.Errorf("a second key is the first (%v)", err)
	}
	js, err := json.Marshal(map[string]any{"key": key, "host": host})
	if err != nil {
		t.Fatal(err)
	}
	shown := string(js) + string(key.Wrapped) + fmt.Sprintf("%v %+v %#v %s %v %#v", key, key, &key, key, host, []any{host, key})
	for _, secret := range []string{key.id.String(), host.id.String()} {
		if strings.Contains(shown, secret) {
			t.Error("a secret shows")
		}
	}
}
