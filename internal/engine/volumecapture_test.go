// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// pluggedIn checks a machine's disk of a volume: "real", "cut" or "none".
func pluggedIn(t *testing.T, s *vmtest.Site, id vm.ID, volume vm.VolumeID, want string) {
	t.Helper()
	spec, _ := s.World.Spec(id)
	got := "none"
	for _, p := range spec.Plugged.Volumes {
		switch {
		case p.ID != volume:
		case p.Cut:
			got = "cut"
		default:
			got = "real"
		}
	}
	if got != want {
		t.Errorf("%s has of %s: %s, want %s", id, volume, got, want)
	}
}

// TestVolumeCut: copies of a VM that writes to a volume do not have it: forks, VMs made
// from a snapshot, and forks of a suspended VM. The remains of the mount are shown and
// can be unmounted, and then the volume can be mounted.
func TestVolumeCut(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	v := newVolume(t, e, c, "work")
	unlock(t, e, c, "work")
	mount(t, e, c, "box", mountOf("work", "/data"))
	_, err := e.Fork(ctx, c, "box", engine.ForkRequest{})
	refused(t, err, vm.WrongState, "VOLUMES_ATTACHED")

	f, err := e.Fork(ctx, c, "box", engine.ForkRequest{Volumes: engine.VolumesCut, Prefix: "kid"})
	if err != nil {
		t.Fatal(err)
	}
	kid := f.Children[0]
	pluggedIn(t, s, kid.ID, v.ID, "cut")
	pluggedIn(t, s, box.ID, v.ID, "real")
	volumeIs(t, e, c, "work", true, 1)
	if !slices.Equal(f.Generation.VolumesSeen, []vm.VolumeID{v.ID}) || !slices.Equal(kid.VolumesSeen, []vm.VolumeID{v.ID}) {
		t.Errorf("labels: the generation %v, the child %v", f.Generation.VolumesSeen, kid.VolumesSeen)
	}
	if l, err := e.Mounts(ctx, c, "kid-1"); err != nil || len(l) != 1 || !l[0].Cut || l[0].Path != "/data" {
		t.Errorf("the child's mounts are %+v, %v", l, err)
	}

	snap, err := e.Snapshot(ctx, c, "box", engine.SnapshotRequest{Name: "s", Volumes: engine.VolumesCut})
	if err != nil {
		t.Fatal(err)
	}
	if g, _ := e.FindSnapshot(ctx, c, string(snap.ID)); !g.Sealed || !g.Cut {
		t.Errorf("the snapshot is sealed %v, cut %v", g.Sealed, g.Cut)
	}
	twin := create(t, e, c, engine.CreateRequest{Name: "twin", Image: "s"})
	pluggedIn(t, s, twin.ID, v.ID, "cut")
	if _, err := e.Delete(ctx, c, "twin"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the snapshot is sealed again", func() bool {
		g, _ := e.FindSnapshot(ctx, c, string(snap.ID))
		return g.Sealed
	})

	if _, err := e.Suspend(ctx, c, "box", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	_, err = e.Fork(ctx, c, "box", engine.ForkRequest{})
	refused(t, err, vm.WrongState, "VOLUMES_ATTACHED")
	f, err = e.Fork(ctx, c, "box", engine.ForkRequest{Volumes: engine.VolumesCut})
	if err != nil {
		t.Fatal(err)
	}
	pluggedIn(t, s, f.Children[0].ID, v.ID, "cut")
	if _, err := e.Start(ctx, c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	pluggedIn(t, s, box.ID, v.ID, "real")

	// A child that sleeps and wakes is as before, without the volume's key.
	if _, err := e.LockVolume(ctx, c, ref("work"), true); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Suspend(ctx, c, "kid-1", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(ctx, c, "kid-1", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	pluggedIn(t, s, kid.ID, v.ID, "cut")
	unlock(t, e, c, "work")
	_, err = e.Mount(ctx, c, "kid-1", mountOf("work", "/other"))
	refused(t, err, vm.Exists, "MOUNT_PATH_NOT_EMPTY")
	if err := e.Unmount(ctx, c, "kid-1", "/data", false); err != nil {
		t.Fatal(err)
	}
	pluggedIn(t, s, kid.ID, v.ID, "none")
	mount(t, e, c, "kid-1", mountOf("work", "/data"))
	pluggedIn(t, s, kid.ID, v.ID, "real")

	if _, err := e.Delete(ctx, c, "kid-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.RemoveVolume(ctx, c, ref("work")); err != nil { // what was cut off keeps nobody
		t.Fatal(err)
	}
	create(t, e, c, engine.CreateRequest{Name: "third", Image: "s"})
	consistent(t, s)
}

// TestVolumeSnapshots: a volume's content is kept and restored, also while a VM writes to
// it; a rollback keeps the content that it replaces.
func TestVolumeSnapshots(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	v := newVolume(t, e, c, "work")
	_, err := e.SnapshotVolume(ctx, c, ref("work"), "empty")
	refused(t, err, vm.WrongState, "VOLUME_LOCKED")
	unlock(t, e, c, "work")
	keep := func(name string) vm.VolumeSnapshot {
		t.Helper()
		snap, err := e.SnapshotVolume(ctx, c, ref("work"), name)
		if err != nil || !slices.Contains(s.World.Volumes.Snapshots(v.ID), snap.ID) {
			t.Fatalf("%+v, %v; the disk has %v", snap, err, s.World.Volumes.Snapshots(v.ID))
		}
		return snap
	}
	keep("empty")
	mount(t, e, c, "box", mountOf("work", "/data"))
	first := keep("first")
	_, err = e.SnapshotVolume(ctx, c, ref("work"), "first")
	refused(t, err, vm.Exists, "VOLUME_EXISTS")
	_, _, err = e.RollbackVolume(ctx, c, ref("work"), "first")
	refused(t, err, vm.Busy, "VOLUME_IN_USE")
	if err := e.Unmount(ctx, c, "box", "/data", false); err != nil {
		t.Fatal(err)
	}
	if _, err := e.ResizeVolume(ctx, c, ref("work"), 16<<10); err != nil {
		t.Fatal(err)
	}
	_, _, err = e.RollbackVolume(ctx, c, ref("work"), "nothing")
	refused(t, err, vm.NotFound, "SNAPSHOT_NOT_FOUND")
	info, before, err := e.RollbackVolume(ctx, c, ref("work"), "")
	if err != nil || info.SizeMiB != first.SizeMiB {
		t.Fatalf("after the rollback the volume has %d MiB (%v), want %d", info.SizeMiB, err, first.SizeMiB)
	}
	if !before.Before || before.SizeMiB != 16<<10 {
		t.Fatalf("what was before the rollback is kept as %+v, want it with 16384 MiB", before)
	}
	if info, _, err = e.RollbackVolume(ctx, c, ref("work"), before.ID); err != nil || info.SizeMiB != 16<<10 {
		t.Fatalf("the undo: %+v, %v", info.Volume, err)
	}
	if info, _, err = e.RollbackVolume(ctx, c, ref("work"), "empty"); err != nil || info.Formatted {
		t.Fatalf("back to the empty disk: %+v, %v", info.Volume, err)
	}
	for range 8 {
		if info, _, err = e.RollbackVolume(ctx, c, ref("work"), "first"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(info.Snapshots); n != 6 || len(s.World.Volumes.Snapshots(v.ID)) != 6 {
		t.Errorf("%d snapshots are left, want the two that were asked for and four", n)
	}

	r := mountOf("work", "/data")
	r.RW = false
	mount(t, e, c, "box", r)
	_, err = e.SnapshotVolume(ctx, c, ref("work"), "beside")
	refused(t, err, vm.Busy, "VOLUME_IN_USE")
	if err := e.Unmount(ctx, c, "box", "/data", false); err != nil {
		t.Fatal(err)
	}
	mount(t, e, c, "box", mountOf("work", "/data"))
	s.World.Fail("volume-snapshot", vm.Errorf(vm.NoSpace, "", "no space"))
	if _, err = e.SnapshotVolume(ctx, c, ref("work"), "fails"); vm.KindOf(err) != vm.NoSpace {
		t.Errorf("a full disk: %v", err)
	}
	s.World.Fail("volume-snapshot", nil)
	if err := e.RemoveVolumeSnapshot(ctx, c, ref("work"), "first"); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(s.World.Volumes.Snapshots(v.ID), first.ID) {
		t.Error("the disk still has it")
	}
	consistentVolumes(t, s)
}

// TestVolumeRollbackDies: the next unlock completes a rollback during which an engine
// died.
func TestVolumeRollbackDies(t *testing.T) {
	for _, label := range []string{"volume-rollback:disk", "volume-rollback:commit"} {
		s, e, c := site(t)
		ctx := t.Context()
		newVolume(t, e, c, "work")
		unlock(t, e, c, "work")
		first, err := e.SnapshotVolume(ctx, c, ref("work"), "first")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.ResizeVolume(ctx, c, ref("work"), 16<<10); err != nil {
			t.Fatal(err)
		}
		closeEngine(t, e)
		hit := false
		s.Fault = faultAt(label, engine.ErrDied, &hit)
		e, c = open(t, s)
		unlock(t, e, c, "work")
		if _, _, err := e.RollbackVolume(ctx, c, ref("work"), "first"); !errors.Is(err, engine.ErrDied) || !hit {
			t.Fatalf("at %s the rollback ends with %v (reached %v), want the engine's death", label, err, hit)
		}
		closeEngine(t, e)
		s.Fault = nil
		e, c = open(t, s)
		unlock(t, e, c, "work")
		v, err := e.VolumeOf(ctx, c, ref("work"))
		if err != nil || v.SizeMiB != first.SizeMiB || v.Reverting != "" {
			t.Errorf("after a death at %s the volume has %d MiB and reverts %q (%v), want %d and it done", label, v.SizeMiB, v.Reverting, err, first.SizeMiB)
		}
		if len(v.Snapshots) != 2 {
			t.Errorf("after a death at %s the volume has the snapshots %+v, want 2", label, v.Snapshots)
		}
	}
}

// TestVolumeReadOn: children read the volumes that their parent reads, each with a lease
// of its own, and never one that it writes.
func TestVolumeReadOn(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	v := newVolume(t, e, c, "work")
	unlock(t, e, c, "work")
	mount(t, e, c, "box", mountOf("work", "/data"))
	_, err := e.Fork(ctx, c, "box", engine.ForkRequest{Volumes: engine.VolumesRO})
	refused(t, err, vm.WrongState, "VOLUMES_ATTACHED")
	if err := e.Unmount(ctx, c, "box", "/data", false); err != nil {
		t.Fatal(err)
	}
	r := mountOf("work", "/data")
	r.RW = false
	mount(t, e, c, "box", r)
	f, err := e.Fork(ctx, c, "box", engine.ForkRequest{Volumes: engine.VolumesRO, Count: 3, Prefix: "kid"})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range f.Children {
		pluggedIn(t, s, k.ID, v.ID, "real")
		if len(k.Cut) != 0 {
			t.Errorf("%s lacks %v", k.ID, k.Cut)
		}
	}
	volumeIs(t, e, c, "work", true, 4)
	nothingPending(t, s)
	consistentVolumes(t, s)
	create(t, e, c, engine.CreateRequest{Name: "writer"})
	_, err = e.Mount(ctx, c, "writer", mountOf("work", "/data"))
	refused(t, err, vm.Busy, "VOLUME_IN_USE")

	s.World.Fail("launch", vm.Errorf(vm.Internal, "", "no machine"))
	if _, err := e.Fork(ctx, c, "box", engine.ForkRequest{Volumes: engine.VolumesRO}); err == nil {
		t.Fatal("the fork succeeds")
	}
	s.World.Fail("launch", nil)
	volumeIs(t, e, c, "work", true, 4)

	if _, err := e.Snapshot(ctx, c, "box", engine.SnapshotRequest{Volumes: engine.VolumesRO}); vm.KindOf(err) != vm.Invalid {
		t.Errorf("a snapshot for readers: %v", err) // nobody keeps writers away from it later
	}
	if _, err := e.Suspend(ctx, c, "kid-1", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(ctx, c, "kid-1", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	pluggedIn(t, s, f.Children[0].ID, v.ID, "real")

	// A reader that lacks another volume: its children lack that, too.
	other := newVolume(t, e, c, "other")
	unlock(t, e, c, "other")
	mount(t, e, c, "writer", mountOf("other", "/other"))
	if f, err = e.Fork(ctx, c, "writer", engine.ForkRequest{Volumes: engine.VolumesCut, Prefix: "cut"}); err != nil {
		t.Fatal(err)
	}
	mount(t, e, c, "cut-1", r)
	if f, err = e.Fork(ctx, c, "cut-1", engine.ForkRequest{Volumes: engine.VolumesRO}); err != nil {
		t.Fatal(err)
	}
	pluggedIn(t, s, f.Children[0].ID, v.ID, "real")
	pluggedIn(t, s, f.Children[0].ID, other.ID, "cut")
	if cut := f.Children[0].Cut; len(cut) != 1 || cut[0].ID != other.ID {
		t.Errorf("the child lacks %+v", cut)
	}
	consistentVolumes(t, s)
	consistent(t, s)
}

// TestVolumeRollback: a rollback unmounts the VM's volumes. It resumes neither the memory
// that had them nor one that has them, with the volume.
func TestVolumeRollback(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	box := create(t, e, c, engine.CreateRequest{Name: "box"})
	v := newVolume(t, e, c, "work")
	unlock(t, e, c, "work")
	if _, err := e.Snapshot(ctx, c, "box", engine.SnapshotRequest{Name: "clean"}); err != nil {
		t.Fatal(err)
	}
	mount(t, e, c, "box", mountOf("work", "/data"))
	_, err := e.Rollback(ctx, c, "box", engine.RollbackRequest{To: "clean"})
	refused(t, err, vm.WrongState, "VOLUMES_ATTACHED")

	s.World.Fail("launch", vm.Errorf(vm.Internal, "", "no machine"))
	if _, err := e.Rollback(ctx, c, "box", engine.RollbackRequest{To: "clean", Volumes: engine.VolumesCut}); err == nil {
		t.Fatal("the rollback succeeds")
	}
	s.World.Fail("launch", nil)
	if _, err := e.Start(ctx, c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	pluggedIn(t, s, box.ID, v.ID, "real") // it continues as it was
	consistentVolumes(t, s)

	back, err := e.Rollback(ctx, c, "box", engine.RollbackRequest{To: "clean", Volumes: engine.VolumesCut})
	if err != nil {
		t.Fatal(err)
	}
	pluggedIn(t, s, box.ID, v.ID, "none")
	volumeIs(t, e, c, "work", false, 0) // its last VM has left it
	if g, _ := e.FindSnapshot(ctx, c, string(back.Before.ID)); !g.Sealed {
		t.Error("the memory that it left is in the clear")
	}
	_, err = e.Rollback(ctx, c, "box", engine.RollbackRequest{To: string(back.Before.ID)})
	refused(t, err, vm.WrongState, "VOLUMES_ATTACHED")
	undone, err := e.Rollback(ctx, c, "box", engine.RollbackRequest{To: string(back.Before.ID), Volumes: engine.VolumesCut})
	if err != nil {
		t.Fatal(err)
	}
	pluggedIn(t, s, box.ID, v.ID, "cut")
	if len(undone.VM.Cut) != 1 || undone.VM.Cut[0].Path != "/data" {
		t.Errorf("it lacks %v", undone.VM.Cut)
	}
	if err := e.Unmount(ctx, c, "box", "work", false); err != nil {
		t.Fatal(err)
	}

	unlock(t, e, c, "work")
	mount(t, e, c, "box", mountOf("work", "/data"))
	s.World.Occupy(box.ID, "12 vim")
	_, err = e.Rollback(ctx, c, "box", engine.RollbackRequest{To: "clean", Volumes: engine.VolumesDetach})
	refused(t, err, vm.Busy, "VOLUME_BUSY")
	volumeIs(t, e, c, "work", true, 1)
	s.World.Occupy(box.ID, "")
	if _, err = e.Rollback(ctx, c, "box", engine.RollbackRequest{To: "clean", Volumes: engine.VolumesDetach}); err != nil {
		t.Fatal(err)
	}
	pluggedIn(t, s, box.ID, v.ID, "none")
	volumeIs(t, e, c, "work", true, 0)
	consistentVolumes(t, s)
	consistent(t, s)
}
