// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestKeepMovesNames: the winner takes the names and open ports of the loser. If that
// fails, both keep their own.
func TestKeepMovesNames(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	old := create(t, e, c, engine.CreateRequest{Name: "app"})
	f, err := e.Fork(ctx, c, "app", engine.ForkRequest{Count: 1, Prefix: "try"})
	if err != nil {
		t.Fatal(err)
	}
	won := f.Children[0].ID
	names := []string{"a.warren.localhost", "b.warren.localhost"}
	for _, n := range names {
		if _, err := e.MapDomain(ctx, c, n, "app", 3000); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.MapDomain(ctx, c, "try.warren.localhost", string(won), 4000); err != nil {
		t.Fatal(err)
	}
	for ref, port := range map[vm.ID]uint16{old.ID: 3000, won: 4000} {
		if _, err := e.SetPreview(ctx, c, string(ref), port, true); err != nil {
			t.Fatal(err)
		}
	}
	where := func(e *vmtest.House, name string) vm.ID {
		s, _ := e.DomainSite(name)
		return s.VM
	}
	public := func(id vm.ID, port uint16) bool {
		s, _ := e.PreviewSite(string(id), port)
		return s.Public
	}
	var broken atomic.Bool // once
	broken.Store(true)
	s.Backend.Fault = func(done bool, ops []ledger.Op) error {
		if !done && ops[0].Kind == "mappings" && ops[0].ID == names[1] && broken.Swap(false) {
			return errors.New("made to fail")
		}
		return nil
	}
	if _, err := e.Keep(ctx, c, string(won), string(old.ID), false); err == nil {
		t.Fatal("kept, though a name could not be moved")
	}
	v, err := e.Get(ctx, c, string(won))
	if err != nil || v.Name == "app" || where(e, names[0]) != old.ID || where(e, names[1]) != old.ID || where(e, "try.warren.localhost") != won ||
		!public(old.ID, 3000) || public(won, 3000) || !public(won, 4000) {
		t.Errorf("after a failure: %+v, %v; %s %s", v, err, where(e, names[0]), where(e, names[1]))
	}
	if _, err := e.Keep(ctx, c, string(won), string(old.ID), false); err != nil {
		t.Fatal(err)
	}
	for range 2 { // and again after a restart
		for _, n := range append(names, "try.warren.localhost") {
			if where(e, n) != won {
				t.Errorf("%s leads to %s", n, where(e, n))
			}
		}
		if !public(won, 3000) || !public(won, 4000) || public(old.ID, 3000) {
			t.Error("open ports did not move")
		}
		closeEngine(t, e)
		e, _ = open(t, s)
	}
	consistent(t, s)
}
