// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// writes counts the writes of records of a kind.
func writes(b *vmtest.Backend, kind string) *atomic.Int64 {
	var n atomic.Int64
	b.Fault = func(done bool, ops []ledger.Op) error {
		for _, o := range ops {
			if done && o.Kind == kind {
				n.Add(1)
			}
		}
		return nil
	}
	return &n
}

// generationsOf lists the records of generations.
func generationsOf(t *testing.T, s *vmtest.Site) map[vm.GenerationID]vm.Generation {
	t.Helper()
	list, err := vmtest.Stored[vm.Generation](s.Backend, "generations")
	if err != nil {
		t.Fatal(err)
	}
	out := map[vm.GenerationID]vm.Generation{}
	for _, g := range list {
		out[g.ID] = g
	}
	return out
}

// rounds forks a VM and deletes the child, n times, and waits until unneeded generations
// are gone.
func rounds(t *testing.T, s *vmtest.Site, e *vmtest.House, c *vm.Call, clock *vmtest.Clock, n int) {
	t.Helper()
	for range n {
		f, err := e.Fork(t.Context(), c, "app", engine.ForkRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Delete(t.Context(), c, string(f.Children[0].ID)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "records go, but for the layers of its disk", func() bool {
		clock.Advance(time.Second)
		return len(generationsOf(t, s)) <= 12
	})
}

// TestForkAndDelete: deleted forks leave no records: their number, and the number of
// records that a round changes, is the same after the last round as after the first.
func TestForkAndDelete(t *testing.T) {
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	clock := vmtest.NewClock()
	s.Clock = clock
	changes := writes(s.Backend, "generations")
	e, c := open(t, s)
	create(t, e, c, engine.CreateRequest{Name: "app", IdleTimeout: vm.Null[vm.Seconds]()})
	const each = 12
	rounds(t, s, e, c, clock, each) // the disk has as many layers as it may
	cost := func() int64 {
		before := changes.Load()
		rounds(t, s, e, c, clock, each)
		return changes.Load() - before
	}
	first := cost() + cost()
	for range 6 {
		rounds(t, s, e, c, clock, each)
	}
	if last := cost() + cost(); last > first+2*each {
		t.Errorf("%d changes of records in %d rounds, at first %d", last, 2*each, first)
	}
	consistent(t, s)
}

// TestLineageStays: removing a record removes no branch of a lineage: ancestry and
// branching points are still reported.
func TestLineageStays(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	app := create(t, e, c, engine.CreateRequest{Name: "app"})
	var kept []vm.Generation
	for i := range 6 { // every second one is kept
		g, err := e.Snapshot(ctx, c, "app", engine.SnapshotRequest{Name: fmt.Sprint("s", i)})
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, g.Generation)
	}
	f, err := e.Fork(ctx, c, "app", engine.ForkRequest{Count: 2, Prefix: "kid"})
	if err != nil {
		t.Fatal(err)
	}
	part := f.Generation.ID // the histories of app and its children part here
	for _, name := range []string{"kid-1", "app"} {
		if _, err := e.Snapshot(ctx, c, name, engine.SnapshotRequest{Name: "of-" + name}); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{0, 2, 4} {
		if _, err := e.RemoveSnapshot(ctx, c, string(kept[i].Snapshot)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Delete(ctx, c, "kid-2"); err != nil {
		t.Fatal(err)
	}
	l, err := e.Lineage(ctx, c, "app")
	if err != nil || len(l.VMs) != 2 {
		t.Fatalf("the lineage has the VMs %+v (%v), want 2", l.VMs, err)
	}
	gens := generationsOf(t, s)
	reaches := func(from, to vm.GenerationID) bool {
		for n := 0; from != "" && n < 100; n++ {
			if from == to {
				return true
			}
			from = gens[from].Parent
		}
		return false
	}
	for _, g := range gens {
		if g.Parent != "" && gens[g.Parent].ID == "" {
			t.Errorf("the parent of %s has no record", g.ID)
		}
		if g.Name == "of-kid-1" && !reaches(g.ID, part) || g.Name == "of-app" && !reaches(g.ID, part) || g.ID == part && !reaches(part, kept[1].ID) {
			t.Errorf("%s %s has lost its ancestors", g.ID, g.Name)
		}
	}
	closeEngine(t, e)
	e, c = open(t, s)
	if l, err = e.Lineage(ctx, c, "kid-1"); err != nil || len(l.VMs) != 2 || l.VMs[0].ID != app.ID {
		t.Errorf("after a restart: %v, %v", l.VMs, err)
	}
}

// TestDeletedSnapshots: a deleted snapshot is reported as deleted for a while, but not
// forever.
func TestDeletedSnapshots(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "app"})
	var last vm.Generation
	for i := range 130 {
		g, err := e.Snapshot(ctx, c, "app", engine.SnapshotRequest{Name: fmt.Sprint("s", i)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.RemoveSnapshot(ctx, c, string(g.Snapshot)); err != nil {
			t.Fatal(err)
		}
		last = g.Generation
	}
	if _, err := e.Delete(ctx, c, "app"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the oldest are forgotten", func() bool { return len(generationsOf(t, s)) <= 100 })
	_, err := e.RemoveSnapshot(ctx, c, string(last.Snapshot))
	wantCode(t, err, vm.Exists, "SNAPSHOT_ALREADY_DELETED")
}

// TestForgetDies: if the engine dies while it removes records, the next one removes the
// rest.
func TestForgetDies(t *testing.T) {
	s, e, c, clock := clocked(t)
	create(t, e, c, engine.CreateRequest{Name: "app", IdleTimeout: vm.Null[vm.Seconds]()})
	rounds(t, s, e, c, clock, 12)
	closeEngine(t, e)
	var hit atomic.Bool
	s.Fault = func(at string) error {
		if at != "collect:parent" {
			return nil
		}
		hit.Store(true)
		return engine.ErrDied
	}
	e, c = open(t, s)
	for range 12 {
		f, err := e.Fork(t.Context(), c, "app", engine.ForkRequest{})
		if err == nil {
			_, err = e.Delete(t.Context(), c, string(f.Children[0].ID))
		}
		if hit.Load() {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it dies", func() bool { clock.Advance(time.Second); return hit.Load() })
	closeEngine(t, e)
	s.Fault = nil
	e, c = open(t, s)
	rounds(t, s, e, c, clock, 12)
	consistent(t, s)
}
