// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// world is everything that outlives the room: open one room after another in it.
type world struct {
	backend *vmtest.Backend
	audit   *vmtest.Audit
	events  *vmtest.Events
	clock   *vmtest.Clock
	repos   vmtest.Repositories

	mu  sync.Mutex
	vms []vm.VM // guarded by mu
}

// room is an open room, with its records as a test reads them.
type room struct {
	*access.Access
	*journal.Journal
	ledger *ledger.Ledger
}

func newWorld() *world {
	return &world{backend: vmtest.NewBackend(), audit: &vmtest.Audit{}, events: &vmtest.Events{}, clock: vmtest.NewClock(), repos: vmtest.Repositories{}}
}

// site returns a new world, a room in it and a call of the admin's account.
func site(t *testing.T) (*world, *room, *vm.Call) {
	t.Helper()
	w := newWorld()
	r := w.open(t, "here")
	secret, created, err := r.EnsureAdmin(t.Context())
	if err != nil || !created {
		t.Fatal(created, err)
	}
	return w, r, callOf(t, r, secret)
}

// open opens a room on the server of that id.
func (w *world) open(t *testing.T, host string) *room {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	r := &room{ledger: ledger.New(w.backend, host, log)}
	r.Journal = journal.New(journal.Config{Audit: w.audit, Events: w.events, Log: log})
	r.Access = access.New(r.ledger, access.Config{Journal: r.Journal, Clock: w.clock, Log: log})
	if err := r.ledger.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Open(t.Context(), access.Rooms{
		VMs: vms{w, r.Access}, Repositories: w.repos, Empty: func(context.Context, *vm.Call, vm.Account, bool) error { return nil },
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close(t) })
	return r
}

func (r *room) close(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := r.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	r.ledger.Close()
}

// again closes a room and opens the next one.
func (w *world) again(t *testing.T, r *room) *room {
	t.Helper()
	r.close(t)
	return w.open(t, "here")
}

// create makes a VM of an account.
func (w *world) create(c *vm.Call, name string) vm.VM {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := vm.VM{ID: vm.NewID(), Account: c.Actor.Account, Name: name}
	w.vms = append(w.vms, v)
	return v
}

// remove takes a VM away.
func (w *world) remove(id vm.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.vms = slices.DeleteFunc(w.vms, func(v vm.VM) bool { return v.ID == id })
}

// vms is the VMs of the world as the engine shows them.
type vms struct {
	w *world
	a *access.Access
}

func (s vms) Find(a vm.Actor, ref string) (vm.VM, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for _, v := range s.w.vms {
		if v.Account == a.Account && (string(v.ID) == ref || v.Name == ref) && s.a.Reaches(a, v.ID) {
			return v, nil
		}
	}
	if a.Identity != "" {
		return vm.VM{}, access.NotGranted(ref)
	}
	return vm.VM{}, vm.Errorf(vm.NotFound, ref, "no such VM").WithCode("VM_NOT_FOUND")
}

func (s vms) ChangeRepos(_ context.Context, id vm.ID, change func([]vm.RepoGrant) ([]vm.RepoGrant, error)) (vm.VM, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for i := range s.w.vms {
		if s.w.vms[i].ID != id {
			continue
		}
		list, err := change(slices.Clone(s.w.vms[i].Repos))
		if err == nil {
			s.w.vms[i].Repos = list
		}
		return s.w.vms[i], err
	}
	return vm.VM{}, vm.NotFound
}

func (s vms) VMOf(id vm.ID) (vm.VM, bool) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for _, v := range s.w.vms {
		if v.ID == id {
			return v, true
		}
	}
	return vm.VM{}, false
}

// stored reads the records of a kind from the store.
func stored[T any](t *testing.T, w *world, kind string) []T {
	t.Helper()
	list, err := vmtest.Stored[T](w.backend, kind)
	do(t, err)
	return list
}

// revision is that of the last write to the store.
func (w *world) revision(t *testing.T) int64 {
	t.Helper()
	_, revision, err := w.backend.ReadAll(t.Context(), "accounts")
	do(t, err)
	return revision
}

// fail makes every write fail, and returns a function that counts them.
func (w *world) fail(err error) (tries func() int) {
	var n atomic.Int64
	w.backend.Fault = func(bool, []ledger.Op) error { n.Add(1); return err }
	return func() int { return int(n.Load()) }
}

// loses makes the answer to every write get lost. With mute the store does not tell
// either whether the write was made.
func (w *world) loses(mute bool) {
	lost := vm.Errorf(vm.Unavailable, "store", "the answer was lost")
	if mute {
		w.backend.Hold(true) // else an event may tell of the write before the caller gives up
		w.backend.Silent = func(string) error { return lost }
	}
	w.backend.Fault = func(done bool, _ []ledger.Op) error {
		if !done {
			return nil
		}
		return lost
	}
}

// answers ends fail and loses.
func (w *world) answers() {
	w.backend.Fault, w.backend.Silent = nil, nil
	w.backend.Hold(false)
}

func callOf(t *testing.T, r *room, secret string) *vm.Call {
	t.Helper()
	actor, err := r.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	return &vm.Call{Actor: actor}
}

// newAccount makes an account and returns it as a caller, and its key's secret.
func newAccount(t *testing.T, r *room, admin *vm.Call, name string) (*vm.Call, string) {
	t.Helper()
	_, _, secret, err := r.CreateAccount(t.Context(), admin, name)
	if err != nil {
		t.Fatal(err)
	}
	return callOf(t, r, secret), secret
}

// wantCode checks kind and contract code of an error.
func wantCode(t *testing.T, err error, kind vm.Kind, code string) {
	t.Helper()
	if vm.KindOf(err) != kind || vm.AsError(err).Code != code {
		t.Errorf("error %v: kind %q, code %q; want %q, %q", err, vm.KindOf(err), vm.AsError(err).Code, kind, code)
	}
}

// eventually waits for something that happens in the background.
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

// is reports a value that is not the wanted one.
func is[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// do ends the test when a step that is not its subject fails.
func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
