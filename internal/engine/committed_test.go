// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestACommittedStateIsKept: the disk of a generation from which a commit was made stays
// readable while its VM exists, and the record names the commit.
func TestACommittedStateIsKept(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	review := func() vm.GenerationID {
		sh(t, e, c, "box", "date >> /work/f")
		f, release, err := e.FrozenDisk(ctx, c, "box", "")
		if err != nil {
			t.Fatal(err)
		}
		release()
		return f.Side.Generation
	}
	committed := review()
	if err := e.NoteCommit(ctx, committed, "repo", "0123"); err != nil {
		t.Fatal(err)
	}
	review()
	review()
	f, release, err := e.FrozenDisk(ctx, c, "box", string(committed))
	if err != nil {
		t.Fatalf("the committed state cannot be read after two newer ones: %v", err)
	}
	release()
	if len(f.Layers) == 0 {
		t.Error("the committed state has no layers")
	}
	if !e.CommittedFrom(box.ID, "repo", "0123") || e.CommittedFrom(box.ID, "other", "0123") || e.CommittedFrom(box.ID, "repo", "") {
		t.Error("the record does not name exactly the commit that was noted")
	}
	if err := e.NoteCommit(ctx, "sl-0000000000000000", "repo", "0123"); vm.KindOf(err) != vm.NotFound {
		t.Errorf("a commit of an unknown state gives %v, want kind %s", err, vm.NotFound)
	}
}
