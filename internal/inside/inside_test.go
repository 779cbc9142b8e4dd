// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
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
	if testing.Verbose() {
		s.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
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

// clocked opens a site whose time is moved by the test.
func clocked(t *testing.T) (*vmtest.Site, *vmtest.House, *vm.Call, *vmtest.Clock) {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	clock := vmtest.NewClock()
	s.Clock = clock
	e, c := open(t, s)
	return s, e, c, clock
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

// pass moves the time in small steps, so that what is armed in between fires.
func pass(clock *vmtest.Clock, d time.Duration) {
	for range 4 {
		clock.Advance(d / 4)
	}
}

func idleOf(t *testing.T, e *vmtest.House, c *vm.Call, ref string) vm.Idle {
	t.Helper()
	i, err := e.Idle(t.Context(), c, ref)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// identity makes an identity with a token and returns a call of it.
func identity(t *testing.T, e *vmtest.House, c *vm.Call) (vm.Identity, *vm.Call) {
	t.Helper()
	i, err := e.CreateIdentity(t.Context(), c, "")
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := e.CreateToken(t.Context(), c, string(i.ID), access.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	actor, err := e.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	return i, &vm.Call{Actor: actor}
}

func grantVM(t *testing.T, e *vmtest.House, c *vm.Call, i vm.Identity, v vm.VM, users ...string) {
	t.Helper()
	if _, err := e.GrantVM(t.Context(), c, string(i.ID), string(v.ID), users); err != nil {
		t.Fatal(err)
	}
}
