// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// site opens a simulated host and one engine on it.
func site(t *testing.T) (*vmtest.Site, *vmtest.House, *vm.Call) {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e, c := open(t, s)
	return s, e, c
}

// open opens an engine; the test closes it at its end.
func open(t *testing.T, s *vmtest.Site) (*vmtest.House, *vm.Call) {
	t.Helper()
	e, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeEngine(t, e) })
	return e, call(t, e)
}

func closeEngine(t *testing.T, e *vmtest.House) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := e.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// call returns a call of the admin's account.
func call(t *testing.T, e *vmtest.House) *vm.Call {
	t.Helper()
	c := &vm.Call{Actor: vm.Actor{Admin: true}}
	secret, created, err := e.EnsureAdmin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if created {
		if c.Actor, err = e.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		return c
	}
	list, err := e.Accounts(t.Context(), c)
	if err != nil || len(list) == 0 {
		t.Fatalf("accounts: %v, %v", list, err)
	}
	for _, a := range list {
		if a.Admin {
			c.Actor.Account = a.ID
		}
	}
	return c
}

func create(t *testing.T, e *vmtest.House, c *vm.Call, r engine.CreateRequest) vm.VM {
	t.Helper()
	v, err := e.Create(t.Context(), c, r)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return v
}

// sh runs a script and returns its output and exit status.
func sh(t *testing.T, e *vmtest.House, c *vm.Call, ref, script string) (string, int) {
	t.Helper()
	x, err := e.Exec(t.Context(), c, ref, vm.ExecSpec{Command: script})
	if err != nil {
		t.Fatalf("exec: %v", err)
	}
	var out bytes.Buffer
	st, err := x.Run(&out, &out)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return out.String(), st.Code
}

// records returns every audit record.
func records(t *testing.T, s *vmtest.Site) []vm.AuditRecord {
	t.Helper()
	list, err := s.Audit.List(t.Context(), vm.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func snapshotOf(t *testing.T, e *vmtest.House, c *vm.Call, ref, name string) vm.SnapshotID {
	t.Helper()
	g, err := e.Snapshot(t.Context(), c, ref, engine.SnapshotRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return g.Snapshot
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

func mount(t *testing.T, e *vmtest.House, c *vm.Call, box, volume, path string) {
	t.Helper()
	if _, err := e.Mount(t.Context(), c, box, engine.MountRequest{Ref: ref(volume), Path: path, RW: true}); err != nil {
		t.Fatal(err)
	}
}

func volumeIs(t *testing.T, e *vmtest.House, c *vm.Call, name string, unlocked bool, mounts int) {
	t.Helper()
	v, err := e.VolumeOf(t.Context(), c, ref(name))
	if err != nil || v.Unlocked != unlocked || len(v.Mounts) != mounts {
		t.Errorf("%s: unlocked %v, mounts %v, %v; want %v and %d", name, v.Unlocked, v.Mounts, err, unlocked, mounts)
	}
}

func stateOf(t *testing.T, e *vmtest.House, c *vm.Call, ref string) vm.State {
	t.Helper()
	v, err := e.Get(t.Context(), c, ref)
	if vm.KindOf(err) == vm.NotFound {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return v.State
}

func ref(volume string) vault.Ref { return vault.Ref{Volume: volume} }
