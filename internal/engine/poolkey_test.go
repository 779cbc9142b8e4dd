// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/generation"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestPoolWorld: a VM from the pool is forked, suspended, resumed and rolled back like
// any other, and so are its children.
func TestPoolWorld(t *testing.T) {
	s, e, c, _, id := pooledSite(t)
	if v := create(t, e, c, engine.CreateRequest{Name: "box"}); v.ID != id {
		t.Fatal("it does not come from the pool")
	}
	forked, err := e.Fork(t.Context(), c, "box", engine.ForkRequest{Count: 2, Prefix: "try"})
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"box", string(forked.Children[1].ID)} {
		if _, err := e.Suspend(t.Context(), c, ref, engine.SuspendRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Start(t.Context(), c, ref, engine.StartRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Rollback(t.Context(), c, ref, engine.RollbackRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	consistent(t, s)
}

// olderSuspended is a VM of the pool that an older Warren suspended, with a stale
// key in its manifest; no engine is open.
func olderSuspended(t *testing.T) (*vmtest.Site, vm.VM) {
	t.Helper()
	s, e, c, _, _ := pooledSite(t)
	s.World.OlderMonitors(true)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	v, err := e.Suspend(t.Context(), c, "box", engine.SuspendRequest{})
	if err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	usePool(s, false)
	store := generation.Store{Dir: s.Dir}
	m, err := store.Load(v.Generation)
	if err != nil {
		t.Fatal(err)
	}
	m.OtherKeys = nil // an older Warren knew of none
	if err := store.Rewrite(m); err != nil {
		t.Fatal(err)
	}
	return s, v.VM
}

// TestOlderKeyMended: a generation that an older Warren captured with a stale key can
// start after an upgrade: the right key is in the VM's machine.json.
func TestOlderKeyMended(t *testing.T) {
	s, v := olderSuspended(t)
	s.World.OlderMonitors(false)
	e, c := open(t, s)
	m, err := generation.Store{Dir: s.Dir}.Load(v.Generation)
	if err != nil || len(m.OtherKeys) == 0 || m.TrueKey {
		t.Errorf("the manifest: %d other keys, true %v, %v", len(m.OtherKeys), m.TrueKey, err)
	}
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Suspend(t.Context(), c, "box", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if v, err = e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if m, err := (generation.Store{Dir: s.Dir}).Load(v.Generation); err != nil || !m.TrueKey || len(m.OtherKeys) > 0 {
		t.Errorf("what was captured since: %+v, %v", m, err)
	}
	consistent(t, s)
}

// TestOlderKeyOfTheImage: if a start failed before the upgrade, machine.json belongs to
// that start; the agent still accepts the key of the image's warm generation.
func TestOlderKeyOfTheImage(t *testing.T) {
	s, v := olderSuspended(t)
	var spec vm.MachineSpec
	path := layout.VMDir(s.Dir.VM(v.ID)).Machine()
	if err := layout.ReadJSON(path, &spec); err != nil {
		t.Fatal(err)
	}
	warm := vm.Manifest{Format: 1, Image: v.Image, GuestKey: spec.GuestKey}
	spec.Reset.LinkKey, spec.GuestKey = []byte("of a start that failed"), []byte("stale")
	manifest := layout.GenerationDir(s.Dir.Warm(v.Image, "key")).Manifest()
	if err := os.MkdirAll(s.Dir.Warm(v.Image, "key"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, v := range map[string]any{path: spec, manifest: warm} {
		if err := layout.WriteJSON(path, v, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.World.OlderMonitors(false)
	e, c := open(t, s)
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Error(err)
	}
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestFailedForkIsQuiet: a failed fork leaves a layer of the parent's disk. The next
// start of the server makes it durable, once, without a log message.
func TestFailedForkIsQuiet(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	s.World.Fail("launch", vm.Errorf(vm.GuestFault, "", "the agent did not answer"))
	if _, err := e.Fork(t.Context(), c, "box", engine.ForkRequest{}); vm.KindOf(err) != vm.GuestFault {
		t.Fatalf("a fork whose child does not answer ends with %v, want a fault of the guest", err)
	}
	s.World.Fail("launch", nil)
	eventually(t, "the memory of the failed fork goes", func() bool {
		g, ok := onlyGeneration(t, s, v.ID)
		return ok && g.DiskOnly
	})
	for range 2 {
		closeEngine(t, e)
		log := &lines{}
		s.Log = slog.New(slog.NewTextHandler(log, nil))
		e, _ = open(t, s)
		eventually(t, "its layer is durable", func() bool {
			g, ok := onlyGeneration(t, s, v.ID)
			return ok && g.Durable
		})
		if text := log.String(); strings.Contains(text, "level=ERROR") {
			t.Errorf("a start of the server says: %s", text)
		}
	}
}

// onlyGeneration returns the record of the one generation of a VM.
func onlyGeneration(t *testing.T, s *vmtest.Site, id vm.ID) (vm.Generation, bool) {
	t.Helper()
	list, err := vmtest.Stored[vm.Generation](s.Backend, "generations")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range list {
		if g.VM == id {
			return g, true
		}
	}
	return vm.Generation{}, false
}
