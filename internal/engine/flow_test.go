// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// running reports whether a command with that id runs in a VM.
func running(t *testing.T, e *vmtest.House, c *vm.Call, ref, id string) bool {
	t.Helper()
	p, err := e.Process(t.Context(), c, ref, id)
	return err == nil && p.EndedAt == nil
}

// TestFork: children run with the parent's processes and files, each as a VM of its own.
// They do not see each other's writes, and the parent keeps running.
func TestFork(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	parent := create(t, e, c, engine.CreateRequest{Name: "app"})
	p, err := e.StartProcess(ctx, c, "app", vm.ExecSpec{Command: "sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	sh(t, e, c, "app", "echo one > /work/f")
	f, err := e.Fork(ctx, c, "app", engine.ForkRequest{Count: 3, Prefix: "try"})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Children) != 3 || f.Children[2].Name != "try-3" {
		t.Errorf("the fork made %+v, want try-1 to try-3", f.Children)
	}
	if len(f.Caveats) == 0 {
		t.Error("the fork names no caveats")
	}
	if f.Generation.Why != vm.WhyFork {
		t.Errorf("the fork's generation was made for %q, want %q", f.Generation.Why, vm.WhyFork)
	}
	machineIDs := map[string]bool{}
	for _, k := range f.Children {
		spec, ok := s.World.Spec(k.ID)
		if !ok || spec.Generation == nil {
			t.Errorf("the machine of %s did not begin with the fork's memory", k.Name)
		}
		if machineIDs[spec.Reset.MachineID] || len(spec.Reset.HostKeys) == 0 {
			t.Errorf("%s got the identity %+v, want a machine id and host keys of its own", k.Name, spec.Reset)
		}
		machineIDs[spec.Reset.MachineID] = true
		if k.Parent != parent.ID || k.State != vm.Running {
			t.Errorf("%s is %s, a child of %q, want it running, of %s", k.Name, k.State, k.Parent, parent.ID)
		}
		if !running(t, e, c, k.Name, p.ID) {
			t.Errorf("the parent's process does not run in %s", k.Name)
		}
		sh(t, e, c, k.Name, "echo "+k.Name+" > /work/f")
	}
	for _, n := range []string{"app", "try-1", "try-3"} {
		want := map[string]string{"app": "one\n"}[n]
		if want == "" {
			want = n + "\n"
		}
		if out, _ := sh(t, e, c, n, "cat /work/f"); out != want {
			t.Errorf("%s has %q", n, out)
		}
	}
	if !running(t, e, c, "app", p.ID) || s.World.Held(parent.ID) {
		t.Error("the parent does not go on")
	}
	consistent(t, s)
}

// TestForkOfASuspended leaves it asleep.
func TestForkOfASuspended(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "app"})
	sh(t, e, c, "app", "echo one > /work/f")
	if _, err := e.Suspend(t.Context(), c, "app", engine.SuspendRequest{Cold: true}); err != nil {
		t.Fatal(err)
	}
	f, err := e.Fork(t.Context(), c, "app", engine.ForkRequest{Count: 2, Prefix: "k"})
	if err != nil || f.Pause != 0 {
		t.Fatalf("a fork of a suspended VM paused %v (%v), want no pause", f.Pause, err)
	}
	if st := stateOf(t, e, c, "app"); st != vm.Suspended {
		t.Errorf("the parent is %s", st)
	}
	if out, _ := sh(t, e, c, "k-2", "cat /work/f"); out != "one\n" {
		t.Errorf("the child reads %q, want the parent's one", out)
	}
	consistent(t, s)
}

// TestFirstFork: the first fork of a VM is distinguished from later ones, including those
// of its copies.
func TestFirstFork(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	first := func(ref, prefix string) bool {
		t.Helper()
		f, err := e.Fork(ctx, c, ref, engine.ForkRequest{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		return f.First
	}
	if !first("box", "one") {
		t.Error("the first fork does not say so")
	}
	if first("box", "two") {
		t.Error("the second fork says that it is the first")
	}
	if first("one-1", "three") {
		t.Error("a fork of a copy says that it is the first")
	}
	create(t, e, c, engine.CreateRequest{Name: "app"})
	if _, err := e.Suspend(ctx, c, "app", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if !first("app", "four") {
		t.Error("the first fork of a suspended VM does not say so")
	}
	if first("app", "five") {
		t.Error("the second fork of a suspended VM says that it is the first")
	}
}

// TestForkRefusals: nothing is half-made, the parent runs.
func TestForkRefusals(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "app"})
	create(t, e, c, engine.CreateRequest{Name: "try-2"})
	for _, n := range []int{-1, 10000} {
		if _, err := e.Fork(ctx, c, "app", engine.ForkRequest{Count: n}); vm.KindOf(err) != vm.Invalid {
			t.Errorf("%d children: %v", n, err)
		}
	}
	if _, err := e.Fork(ctx, c, "app", engine.ForkRequest{Count: 3, Prefix: "try"}); vm.KindOf(err) != vm.Exists {
		t.Errorf("a taken name: %v", err)
	}
	s.World.SetFree(2<<30, 1<<40)
	_, err := e.Fork(ctx, c, "app", engine.ForkRequest{Count: 100})
	if e := vm.AsError(err); vm.KindOf(err) != vm.Limit || !strings.Contains(e.Hint, "at most") || e.Fields["requested"] != 100 || e.Fields["limit"] == nil {
		t.Errorf("no memory: %v", err)
	}
	s.World.SetFree(64<<30, 10<<20)
	if _, err := e.Fork(ctx, c, "app", engine.ForkRequest{}); vm.KindOf(err) != vm.NoSpace {
		t.Errorf("no disk: %v", err)
	}
	s.World.SetFree(64<<30, 1<<40)
	s.World.Fail("launch", vm.Errorf(vm.GuestFault, "", "no"))
	if _, err := e.Fork(ctx, c, "app", engine.ForkRequest{Count: 4}); vm.KindOf(err) != vm.GuestFault {
		t.Errorf("a child that does not start: %v", err)
	}
	s.World.Fail("launch", nil)
	if vms, _, _, _ := e.List(ctx, c, engine.Filter{}); len(vms) != 2 {
		t.Errorf("%d VMs are left", len(vms))
	}
	if _, err := e.Stop(ctx, c, "app"); err != nil {
		t.Fatal(err)
	}
	_, err = e.Fork(ctx, c, "app", engine.ForkRequest{})
	wantCode(t, err, vm.WrongState, "VM_NOT_RUNNING")
	consistent(t, s)
}

// TestSuspendAndRollback: the same processes run after a suspend; a rollback restores
// memory and disk and can be undone.
func TestSuspendAndRollback(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "app"})
	p, err := e.StartProcess(ctx, c, "app", vm.ExecSpec{Command: "sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Rollback(ctx, c, "app", engine.RollbackRequest{})
	wantCode(t, err, vm.NotFound, "SNAPSHOT_NOT_FOUND")
	sh(t, e, c, "app", "echo good > /work/f")
	sv, err := e.Suspend(ctx, c, "app", engine.SuspendRequest{})
	if err != nil || sv.State != vm.Suspended {
		t.Fatalf("after the suspend the VM is %s (%v)", sv.State, err)
	}
	if n := len(s.World.Running()); n != 0 {
		t.Fatalf("after the suspend %d machines run", n)
	}
	if r, err := e.Start(ctx, c, "app", engine.StartRequest{}); err != nil || len(r.Restored) == 0 || r.ID != v.ID {
		t.Fatalf("the start gives %s with %q restored (%v), want %s with its memory", r.ID, r.Restored, err, v.ID)
	}
	if !running(t, e, c, "app", p.ID) {
		t.Error("its process is gone")
	}
	sh(t, e, c, "app", "echo bad > /work/f")
	back, err := e.Rollback(ctx, c, "app", engine.RollbackRequest{})
	if err != nil || back.VM.ID != v.ID || back.VM.Name != "app" {
		t.Fatalf("the rollback gives %s named %q (%v), want %s named app", back.VM.ID, back.VM.Name, err, v.ID)
	}
	if len(back.NotUndone) == 0 {
		t.Fatal("the rollback does not say what it cannot undo")
	}
	if back.To.Why != vm.WhySuspend {
		t.Fatalf("the rollback leads to what was made for %q, want the suspend", back.To.Why)
	}
	if out, _ := sh(t, e, c, "app", "cat /work/f"); out != "good\n" {
		t.Errorf("after the rollback %q", out)
	}
	if _, err := e.Rollback(ctx, c, "app", engine.RollbackRequest{To: string(back.Before.ID)}); err != nil {
		t.Fatal(err)
	}
	if out, _ := sh(t, e, c, "app", "cat /work/f"); out != "bad\n" {
		t.Errorf("after undoing the rollback %q", out)
	}
	consistent(t, s)
}

// TestSnapshots: snapshots outlive their VM, VMs are made from them, and they can be
// deleted while such a VM exists.
func TestSnapshots(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "app"})
	sh(t, e, c, "app", "echo one > /work/f")
	g, err := e.Snapshot(ctx, c, "app", engine.SnapshotRequest{Name: "first"})
	if err != nil || !g.Durable || g.Persistence.Type != vm.Sticky {
		t.Fatalf("the snapshot is %+v (%v), want it durable and sticky", g, err)
	}
	_, err = e.Snapshot(ctx, c, "app", engine.SnapshotRequest{Name: "first"})
	wantCode(t, err, vm.Exists, "SNAPSHOT_VM_BAD_REQUEST")
	if _, err := e.Delete(ctx, c, "app"); err != nil {
		t.Fatal(err)
	}
	child := create(t, e, c, engine.CreateRequest{Name: "child", Image: string(g.Snapshot)})
	if child.Size != g.Size || len(child.Restored) == 0 {
		t.Errorf("the child has the size %+v and %q restored, want the snapshot's %+v and its memory", child.Size, child.Restored, g.Size)
	}
	if _, err := e.RenameSnapshot(ctx, c, "first", "renamed"); err != nil {
		t.Fatal(err)
	}
	bigger := create(t, e, c, engine.CreateRequest{Name: "bigger", Image: "renamed", Size: vm.Size{VCPU: 2}})
	if bigger.Size.VCPU != 2 || len(bigger.Losses) == 0 {
		t.Errorf("another size gives memory up and says so: %+v", bigger)
	}
	if _, err := e.RemoveSnapshot(ctx, c, "renamed"); err != nil {
		t.Fatal(err)
	}
	_, err = e.RemoveSnapshot(ctx, c, string(g.Snapshot))
	wantCode(t, err, vm.Exists, "SNAPSHOT_ALREADY_DELETED")
	_, err = e.Create(ctx, c, engine.CreateRequest{Image: string(g.Snapshot)})
	wantCode(t, err, vm.NotFound, "SOURCE_SNAPSHOT_DELETED")
	for _, n := range []string{"child", "bigger"} {
		if out, _ := sh(t, e, c, n, "cat /work/f"); out != "one\n" {
			t.Errorf("%s has %q", n, out)
		}
		if _, err := e.Delete(ctx, c, n); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "its files go with the last VM", func() bool {
		_, err := os.Stat(layout.GenerationDir(s.Dir.Generation(g.ID)).Disk())
		return err != nil
	})
	consistent(t, s)
}

// TestSchedule: generations at intervals, thinned.
func TestSchedule(t *testing.T) {
	_, e, c, clock := clocked(t)
	create(t, e, c, engine.CreateRequest{Name: "app", CaptureEvery: vm.Seconds(time.Minute), IdleTimeout: vm.Null[vm.Seconds]()})
	_, err := e.SetSchedule(t.Context(), c, "app", vm.Seconds(3*time.Second))
	wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	eventually(t, "two generations", func() bool {
		clock.Advance(30 * time.Second)
		list, _ := e.Snapshots(t.Context(), c, true)
		n := 0
		for _, g := range list {
			if g.Why == vm.WhySchedule && g.State == vm.GenReady {
				n++
			}
		}
		return n >= 2
	})
}

// TestKeep: the winner takes the name; the other keeps running under a name that shows it
// was replaced.
func TestKeep(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	old := create(t, e, c, engine.CreateRequest{Name: "app"})
	f, err := e.Fork(ctx, c, "app", engine.ForkRequest{Count: 2, Prefix: "try"})
	if err != nil {
		t.Fatal(err)
	}
	k, err := e.Keep(ctx, c, "try-2", "app", false)
	if err != nil || k.VM.ID != f.Children[1].ID || k.VM.Name != "app" {
		t.Fatalf("the kept VM is %s named %q (%v), want %s named app", k.VM.ID, k.VM.Name, err, f.Children[1].ID)
	}
	if !strings.HasPrefix(k.Over.Name, "app-old-") {
		t.Fatalf("the replaced VM is named %q, want app-old-", k.Over.Name)
	}
	if _, err := e.Keep(ctx, c, "try-1", "app", true); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Get(ctx, c, string(k.VM.ID)); vm.KindOf(err) != vm.NotFound {
		t.Errorf("the loser is still there: %v", err)
	}
	if v, err := e.Get(ctx, c, "app"); err != nil || v.ID != f.Children[0].ID || v.Parent != old.ID {
		t.Errorf("app is %s, a child of %q (%v), want %s of %s", v.ID, v.Parent, err, f.Children[0].ID, old.ID)
	}
	l, err := e.Lineage(ctx, c, "app")
	if err != nil || len(l.VMs) != 2 || len(l.Generations) == 0 {
		t.Errorf("the lineage has %d VMs and %d generations (%v), want 2 and some", len(l.VMs), len(l.Generations), err)
	}
	consistent(t, s)
}

// TestReseat: a VM for which a capture found much private memory gets a new base once it
// is unused, and not before. Calls meanwhile wait.
func TestReseat(t *testing.T) {
	s, e, c, clock := clocked(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "app", IdleTimeout: vm.Null[vm.Seconds]()})
	s.World.SetPrivate(200 << 20 / 4096)
	if _, err := e.Snapshot(ctx, c, "app", engine.SnapshotRequest{Name: "snap"}); err != nil {
		t.Fatal(err)
	}
	x, err := e.Exec(ctx, c, "app", vm.ExecSpec{Argv: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	pass(clock, 20*time.Second)
	if got, err := e.Get(ctx, c, "app"); err != nil || got.Generation != v.Generation {
		t.Fatalf("moved with a command in progress: %+v, %v", got, err)
	}
	reached, release := s.World.Hold("reseat")
	if err := x.Detach(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it moves", func() bool {
		clock.Advance(time.Second)
		select {
		case <-reached:
			return true
		default:
			return false
		}
	})
	said := make(chan string)
	go func() {
		out, _ := sh(t, e, c, "app", "echo waited")
		said <- out
	}()
	select {
	case out := <-said:
		t.Errorf("a command was run in a machine that stands still: %q", out)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	if out := <-said; out != "waited\n" {
		t.Errorf("whoever called meanwhile: %q", out)
	}
	got, err := e.Get(ctx, c, "app")
	if err != nil || got.State != vm.Running || got.Generation == v.Generation {
		t.Errorf("the VM is %s on the generation %s (%v), want it running on another than %s", got.State, got.Generation, err, v.Generation)
	}
	pass(clock, 20*time.Second)
	if again, err := e.Get(ctx, c, "app"); err != nil || again.Generation != got.Generation {
		t.Errorf("moved again without need: %+v, %v", again, err)
	}
	consistent(t, s)
}

// TestDiskSettledAtStart: a capture fails after the machine has moved to its next disk,
// its answer is lost, and the machine dies. The next start finds the disk with the
// writes.
func TestDiskSettledAtStart(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "app"})
	if out, code := sh(t, e, c, "app", "echo one > /work/f"); code != 0 {
		t.Fatalf("the command failed: %s", out)
	}
	boom := vm.Errorf(vm.Unavailable, "", "boom")
	for _, step := range []string{"captured", "disk-name", "attach"} {
		s.World.Fail(step, boom)
	}
	if _, err := e.Snapshot(ctx, c, "app", engine.SnapshotRequest{}); err == nil {
		t.Fatal("a snapshot that was not completed succeeded")
	}
	if out, code := sh(t, e, c, "app", "echo two > /work/f"); code != 0 {
		t.Fatalf("the command failed: %s", out)
	}
	for _, step := range []string{"captured", "disk-name", "attach"} {
		s.World.Fail(step, nil)
	}
	if _, err := e.Kill(ctx, c, "app"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(ctx, c, "app", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if out, _ := sh(t, e, c, "app", "cat /work/f"); out != "two\n" {
		t.Errorf("what was written after the move reads %q", out)
	}
	consistent(t, s)
}

// TestFlatten: a long chain is merged, and the unneeded layers are removed.
func TestFlatten(t *testing.T) {
	s, e, c, clock := clocked(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "app", IdleTimeout: vm.Null[vm.Seconds]()})
	for range 10 {
		f, err := e.Fork(ctx, c, "app", engine.ForkRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Delete(ctx, c, string(f.Children[0].ID)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the disk lies on its image", func() bool {
		clock.Advance(time.Second)
		got, err := e.Get(ctx, c, "app")
		return err == nil && got.DiskOn == ""
	})
	eventually(t, "the layers go", func() bool {
		clock.Advance(time.Second)
		ids, err := s.World.Generations(s.Dir).List()
		return err == nil && len(ids) == 0
	})
	if _, err := e.Fork(ctx, c, string(v.ID), engine.ForkRequest{}); err != nil {
		t.Error(err)
	}
	consistent(t, s)
}

// TestSuspendingMachineThatEnds: a machine left paused by an earlier server's suspend,
// and ended by its monitor, does not keep the next server from starting. The VM resumes
// from the capture.
func TestSuspendingMachineThatEnds(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	hit := false
	s.Fault = faultAt("suspend:commit", engine.ErrDied, &hit)
	closeEngine(t, e)
	e, c = open(t, s)
	if _, err := e.Suspend(t.Context(), c, "box", engine.SuspendRequest{}); err == nil || !hit {
		t.Fatalf("it was to die on the way: %v", err)
	}
	closeEngine(t, e)
	s.Fault = nil
	s.World.Fail("resume", vm.Errorf(vm.Internal, "box", "qmp: connection closed"))
	e, c = open(t, s)
	s.World.Fail("resume", nil)
	if got := stateOf(t, e, c, "box"); got != vm.Suspended {
		t.Fatalf("it is %s", got)
	}
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Error(err)
	}
}

// TestSuspendingMachineThatIsSilent: a suspending machine whose monitor does not answer
// does not keep the server from starting; it is recovered when it answers.
func TestSuspendingMachineThatIsSilent(t *testing.T) {
	for step, want := range map[string]vm.State{"capture:files": vm.Running, "suspend:commit": vm.Running} {
		t.Run(step, func(t *testing.T) {
			s, e, c := site(t)
			clock := vmtest.NewClock()
			create(t, e, c, engine.CreateRequest{Name: "box"})
			hit := false
			s.Fault = faultAt(step, engine.ErrDied, &hit)
			closeEngine(t, e)
			e, c = open(t, s)
			if _, err := e.Suspend(t.Context(), c, "box", engine.SuspendRequest{}); err == nil || !hit {
				t.Fatalf("it was to die on the way: %v", err)
			}
			closeEngine(t, e)
			s.Fault, s.Clock = nil, clock
			s.World.Fail("attach", vm.Errorf(vm.Timeout, "", "no answer"))
			e, c = open(t, s)
			if got := stateOf(t, e, c, "box"); got != vm.Suspending {
				t.Errorf("it is %s while its monitor is silent", got)
			}
			s.World.Fail("attach", nil)
			recovered(t, e, c, clock, "box")
			if got := stateOf(t, e, c, "box"); got != want {
				t.Errorf("it is %s once its monitor answers, want %s", got, want)
			}
			consistent(t, s)
			afterwards(t, e, c)
		})
	}
}
