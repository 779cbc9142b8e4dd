// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"testing"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// mark marks a turn of box and returns it.
func mark(t *testing.T, e *vmtest.House, c *vm.Call, note string) vm.Turn {
	t.Helper()
	turn, err := e.Turn(t.Context(), c, "box", engine.TurnRequest{Note: note})
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// turns lists the turns of box.
func turns(t *testing.T, e *vmtest.House, c *vm.Call) []vm.Generation {
	t.Helper()
	_, list, err := e.TurnGenerations(t.Context(), c, "box")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestTurns: turns are listed with number, note and actor, and a rollback to one brings
// its files and processes back.
func TestTurns(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	_, err := e.FindTurn(ctx, c, "box", "")
	wantCode(t, err, vm.NotFound, "SNAPSHOT_NOT_FOUND")
	p, err := e.StartProcess(ctx, c, "box", vm.ExecSpec{Command: "sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	sh(t, e, c, "box", "echo one > /work/f")
	first := mark(t, e, c, "rename the package")
	if first.Number != 1 || first.Note != "rename the package" || first.Actor == "" || !first.Memory {
		t.Errorf("the first turn is %+v, want number 1 with its note, an actor and memory", first)
	}
	sh(t, e, c, "box", "echo two > /work/f")
	mark(t, e, c, "")
	if list := turns(t, e, c); len(list) != 2 || list[0].ID != first.ID || list[1].Turn != 2 {
		t.Fatalf("the turns are %+v, want numbers 1 and 2", list)
	}
	g, err := e.FindTurn(ctx, c, "box", "1")
	if err != nil || g.ID != first.ID {
		t.Fatalf("turn 1 is %s (%v), want %s", g.ID, err, first.ID)
	}
	if err := e.SignalProcess(ctx, c, "box", "", p.ID, "KILL"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Rollback(ctx, c, "box", engine.RollbackRequest{To: string(g.ID)}); err != nil {
		t.Fatal(err)
	}
	if out, _ := sh(t, e, c, "box", "cat /work/f"); out != "one\n" {
		t.Errorf("after the rollback to turn 1 the file has %q, want one", out)
	}
	if !running(t, e, c, "box", p.ID) {
		t.Error("after the rollback to turn 1 its process is gone")
	}
	if next := mark(t, e, c, "again"); next.Number != 3 {
		t.Errorf("the turn after two others has number %d, want 3", next.Number)
	}
	if _, err := e.RemoveSnapshot(ctx, c, string(first.ID)); err != nil {
		t.Errorf("removing a turn: %v", err)
	}
	if list := turns(t, e, c); len(list) != 2 || list[0].Turn != 2 {
		t.Errorf("after removing turn 1 there are %d, the first is %d, want 2 and 3", len(list), list[0].Turn)
	}
	consistent(t, s)
}

// TestTurnMemories: only the newest turns keep their memory; an older one still brings
// back its disk.
func TestTurnMemories(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	sh(t, e, c, "box", "echo one > /work/f")
	first := mark(t, e, c, "1")
	for i := range 5 {
		sh(t, e, c, "box", fmt.Sprintf("echo later > /work/f%d", i))
		mark(t, e, c, "later")
	}
	eventually(t, "the oldest of six turns has lost its memory", func() bool {
		g, err := e.FindTurn(t.Context(), c, "box", "1")
		return err == nil && g.DiskOnly
	})
	if list := turns(t, e, c); len(list) != 6 || list[1].DiskOnly {
		t.Errorf("there are %d turns and the second is %+v, want 6 and its memory kept", len(list), list[1])
	}
	if _, err := e.Rollback(t.Context(), c, "box", engine.RollbackRequest{To: string(first.ID)}); err != nil {
		t.Fatal(err)
	}
	if out, _ := sh(t, e, c, "box", "cat /work/f; ls /work"); out != "one\nf\n" {
		t.Errorf("after the rollback to a turn without memory the directory shows %q, want only f with one", out)
	}
	consistent(t, s)
}

// TestTurnsEvicted: a short disk takes the memory of older turns first, then their disks,
// and never the newest turn of a VM that stays.
func TestTurnsEvicted(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box", Persistence: &vm.Persistence{Type: vm.Persistent}})
	for range 3 {
		g := mark(t, e, c, "")
		grow(t, layout.GenerationDir(s.Dir.Generation(g.ID)).RAM(), 8*mib)
	}
	eventually(t, "the turns are durable", func() bool {
		for _, g := range turns(t, e, c) {
			if !g.Durable {
				return false
			}
		}
		return true
	})
	if _, err := e.Prune(ctx, c, engine.PruneRequest{Free: 12 * mib}); err != nil {
		t.Fatal(err)
	}
	list := turns(t, e, c)
	if len(list) != 3 || list[0].Whole() || list[1].Whole() || !list[2].Whole() {
		t.Fatalf("after a need of 12 MiB the turns are %+v, want the two older ones without their memory of 8 MiB each", list)
	}
	if _, err := e.Prune(ctx, c, engine.PruneRequest{Free: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	if list = turns(t, e, c); len(list) == 0 || !list[len(list)-1].Whole() || list[len(list)-1].Turn != 3 {
		t.Errorf("after a need of 1 GiB the turns are %+v, want the newest with its memory", list)
	}
	if _, err := e.Delete(ctx, c, "box"); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, s)
}

// TestTurnOfIdentity: an identity marks and lists turns of a VM that it was granted as
// root, and may not roll back.
func TestTurnOfIdentity(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	i, _, own := identity(t, e, c, access.TokenRequest{})
	_, err := e.Turn(ctx, own, string(v.ID), engine.TurnRequest{})
	wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED")
	grantVM(t, e, c, i, v, "alice")
	_, err = e.Turn(ctx, own, string(v.ID), engine.TurnRequest{})
	wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED")
	_, _, err = e.TurnGenerations(ctx, own, string(v.ID))
	wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED")
	if _, err := e.ChangeGrant(ctx, c, string(i.ID), string(v.ID), &[]string{"root"}, nil); err != nil {
		t.Fatal(err)
	}
	turn, err := e.Turn(ctx, own, string(v.ID), engine.TurnRequest{Note: "mine"})
	if err != nil || turn.Actor != string(i.ID) {
		t.Fatalf("the turn of the identity is %+v (%v), want its id as actor", turn, err)
	}
	_, err = e.Rollback(ctx, own, string(v.ID), engine.RollbackRequest{To: string(turn.ID)})
	wantCode(t, err, vm.Denied, "FORBIDDEN")
}
