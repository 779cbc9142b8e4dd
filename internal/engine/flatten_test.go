// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// depth counts the generations below a VM's disk according to the disks' headers.
func depth(t *testing.T, s *vmtest.Site, id vm.ID) (n int) {
	t.Helper()
	g := s.World.Generations(s.Dir)
	on, err := g.DiskOn(id)
	for ; on != "" && err == nil; n++ {
		on, err = g.Below(on)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var diskOnly = engine.SnapshotRequest{DiskOnly: true}

// TestDeepDiskInUse: the layers of a VM in use are merged before they are many, and its
// disk's content does not change.
func TestDeepDiskInUse(t *testing.T) {
	s, e, c, _ := clocked(t) // no time passes: it is never left alone
	v := create(t, e, c, engine.CreateRequest{Name: "app", IdleTimeout: vm.Null[vm.Seconds]()})
	sh(t, e, c, "app", "echo one > /work/f")
	for range 17 {
		if _, err := e.Snapshot(t.Context(), c, "app", diskOnly); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the layers are merged", func() bool { return depth(t, s, v.ID) <= 8 })
	if out, _ := sh(t, e, c, "app", "cat /work/f"); out != "one\n" {
		t.Errorf("the disk holds %q", out)
	}
	if _, err := e.Snapshot(t.Context(), c, "app", diskOnly); err != nil { // the merge has ended then, and its record
		t.Fatal(err)
	}
	consistent(t, s)
}

// TestDeepDiskMergedFirst: a capture merges the layers of a deep disk itself if nothing
// else could. A capture of a disk that is far too deep is refused with a hint, as is that
// of a stopped VM, whose layers cannot be merged.
func TestDeepDiskMergedFirst(t *testing.T) {
	s, e, c, _ := clocked(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "app", IdleTimeout: vm.Null[vm.Seconds]()})
	s.World.Fail("flatten", vm.Errorf(vm.NoSpace, s.Dir.Overlay(v.ID), "no room"))
	snapshots := func(most int) (err error) {
		for range most {
			if _, err = e.Snapshot(ctx, c, "app", diskOnly); err != nil {
				break
			}
		}
		return err
	}
	if err := snapshots(30); err != nil || depth(t, s, v.ID) != 30 {
		t.Fatalf("%d layers, %v", depth(t, s, v.ID), err)
	}
	// The reaper has failed once and does not try again, because no time passes.
	s.World.Fail("flatten", nil)
	if err := snapshots(1); err != nil || depth(t, s, v.ID) > 8 {
		t.Errorf("%d layers, %v", depth(t, s, v.ID), err)
	}
	if _, err := e.Stop(ctx, c, "app"); err != nil {
		t.Fatal(err)
	}
	err := snapshots(100)
	if n := depth(t, s, v.ID); n != 64 || !errors.Is(err, vm.Limit) || !strings.Contains(vm.AsError(err).Hint, "start") {
		t.Fatalf("%d layers, %v", n, err)
	}
	if _, err := e.Start(ctx, c, "app", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := snapshots(1); err != nil || depth(t, s, v.ID) > 8 {
		t.Errorf("%d layers after a start, %v", depth(t, s, v.ID), err)
	}
	consistent(t, s)
}

// TestMergeGivesWay: a merge on a VM in use yields to any other operation.
func TestMergeGivesWay(t *testing.T) {
	s, e, c, _ := clocked(t)
	create(t, e, c, engine.CreateRequest{Name: "app", IdleTimeout: vm.Null[vm.Seconds]()})
	reached, release := s.World.Hold("flatten")
	defer release()
	for range 17 {
		if _, err := e.Snapshot(t.Context(), c, "app", diskOnly); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-reached:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is merged")
	}
	if _, err := e.Fork(t.Context(), c, "app", engine.ForkRequest{}); err != nil {
		t.Error(err)
	}
}
