// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

func site(t *testing.T) (*vmtest.Site, *vmtest.House, *vm.Call) {
	t.Helper()
	s := newSite(t)
	e, c := open(t, s)
	return s, e, c
}

func newSite(t *testing.T) *vmtest.Site {
	t.Helper()
	dir, err := os.MkdirTemp("", "wv") // short: the paths of an etcd's sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := vmtest.NewSite(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// onBoth runs a test on simulated records and on those of an embedded etcd.
func onBoth(t *testing.T, f func(t *testing.T, s *vmtest.Site)) {
	t.Run("simulated", func(t *testing.T) { f(t, newSite(t)) })
	t.Run("etcd", func(t *testing.T) {
		s := newSite(t)
		sockets := filepath.Join(filepath.Dir(string(s.Dir)), "s")
		st, err := store.Open(t.Context(), store.Options{Dir: s.Dir.Etcd(), SocketDir: sockets, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := st.Close(); err != nil {
				t.Errorf("store: %v", err)
			}
		})
		s.Backend.Over = store.Backend{Store: st}
		f(t, s)
	})
}

// open opens a server; the test closes it at its end.
func open(t *testing.T, s *vmtest.Site) (*vmtest.House, *vm.Call) {
	t.Helper()
	e, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, e) })
	return e, admin(t, e)
}

func shut(t *testing.T, e *vmtest.House) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := e.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// admin returns a call of the admin's account, which an earlier server may have
// made.
func admin(t *testing.T, e *vmtest.House) *vm.Call {
	t.Helper()
	c, secret, err := vmtest.Admin(t.Context(), e)
	if err == nil && secret != "" {
		return c
	}
	list, err := e.Accounts(t.Context(), &vm.Call{Actor: vm.Actor{Admin: true}})
	if err != nil || len(list) == 0 {
		t.Fatalf("no admin account: %v", err)
	}
	return &vm.Call{Actor: vm.Actor{Account: list[0].ID, Admin: true}}
}

func ref(name string) vault.Ref { return vault.Ref{Volume: name} }

func mountOf(name, path string) engine.MountRequest {
	return engine.MountRequest{Ref: ref(name), Path: path, RW: true}
}

func newBox(t *testing.T, e *vmtest.House, c *vm.Call) vm.VM {
	t.Helper()
	v, err := e.Create(t.Context(), c, engine.CreateRequest{Name: "box"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func newVolume(t *testing.T, e *vmtest.House, c *vm.Call, name string) vault.Info {
	t.Helper()
	v, err := e.CreateVolume(t.Context(), c, vault.VolumeRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func unlock(t *testing.T, e *vmtest.House, c *vm.Call, name string) {
	t.Helper()
	if _, _, err := e.UnlockVolume(t.Context(), c, ref(name), vault.UnlockRequest{}); err != nil {
		t.Fatal(err)
	}
}

func mount(t *testing.T, e *vmtest.House, c *vm.Call, name, path string) {
	t.Helper()
	if _, err := e.Mount(t.Context(), c, "box", mountOf(name, path)); err != nil {
		t.Fatal(err)
	}
}

func volumeIs(t *testing.T, e *vmtest.House, c *vm.Call, name string, unlocked bool, mounts int) {
	t.Helper()
	v, err := e.VolumeOf(t.Context(), c, ref(name))
	if err != nil {
		t.Fatal(err)
	}
	if v.Unlocked != unlocked {
		t.Errorf("%s is unlocked: %v", name, v.Unlocked)
	}
	if len(v.Mounts) != mounts {
		t.Errorf("%s is mounted at %v, want %d mounts", name, v.Mounts, mounts)
	}
}

func refused(t *testing.T, err error, kind vm.Kind, code string) {
	t.Helper()
	if vm.KindOf(err) != kind {
		t.Errorf("kind %s, want %s: %v", vm.KindOf(err), kind, err)
	}
	if got := vm.AsError(err).Code; got != code {
		t.Errorf("code %s, want %s: %v", got, code, err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("did not happen: %s", what)
		}
	}
}
