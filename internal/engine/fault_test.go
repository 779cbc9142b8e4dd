// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// faultAt returns a Fault that occurs at one label.
func faultAt(label string, with error, hit *bool) func(string) error {
	var once sync.Once // children of a fork come by at the same time
	return func(at string) error {
		if at != label {
			return nil
		}
		once.Do(func() { *hit = true })
		return with
	}
}

// doVerb prepares a VM named box for a verb and carries it out.
func doVerb(t *testing.T, e *vmtest.House, c *vm.Call, verb string) error {
	t.Helper()
	var err error
	switch verb {
	case "create":
		_, err = e.Create(t.Context(), c, engine.CreateRequest{Name: "box", Layers: []spec.Layer{{Files: []spec.File{{Path: "/f"}}}}})
	case "pool":
		eventually(t, "the pool has its first member", func() bool { return poolOf(t, e, c).Ready == 1 })
		_, err = e.Create(t.Context(), c, engine.CreateRequest{Name: "box", Layers: []spec.Layer{{Files: []spec.File{{Path: "/f"}}}}})
	case "start":
		_, err = e.Start(t.Context(), c, "box", engine.StartRequest{})
	case "stop":
		_, err = e.Stop(t.Context(), c, "box")
	case "kill":
		_, err = e.Kill(t.Context(), c, "box")
	case "delete":
		_, err = e.Delete(t.Context(), c, "box")
	case "suspend":
		_, err = e.Suspend(t.Context(), c, "box", engine.SuspendRequest{})
	case "cold":
		_, err = e.Suspend(t.Context(), c, "box", engine.SuspendRequest{Cold: true})
	case "resume", "resume cold":
		_, err = e.Start(t.Context(), c, "box", engine.StartRequest{})
	case "fork":
		_, err = e.Fork(t.Context(), c, "box", engine.ForkRequest{Count: 2, Prefix: "kid"})
	case "snapshot":
		_, err = e.Snapshot(t.Context(), c, "box", engine.SnapshotRequest{Name: "snap"})
	case "turn":
		_, err = e.Turn(t.Context(), c, "box", engine.TurnRequest{Note: "try"})
	case "resize":
		_, err = e.Resize(t.Context(), c, "box", engine.ResizeRequest{Size: vm.Size{VCPU: 2, MemoryMiB: 1024, DiskMiB: 32 << 10}})
	case "resize stopped":
		_, err = e.Resize(t.Context(), c, "box", engine.ResizeRequest{Size: vm.Size{DiskMiB: 32 << 10}})
	case "resize by start":
		_, err = e.Resize(t.Context(), c, "box", engine.ResizeRequest{Size: vm.Size{MemoryMiB: 256}})
	case "reseat":
		err = e.Reseat(t.Context(), c, "box")
	case "mount":
		unlock(t, e, c, "vol")
		_, err = e.Mount(t.Context(), c, "box", mountOf("vol", "/data"))
	case "folder":
		if _, err = e.MountFolder(t.Context(), c, "box", fixture(plainDir, "/data", false)); err == nil {
			err = e.Unmount(t.Context(), c, "box", "/data", false)
		}
	case "unmount":
		err = e.Unmount(t.Context(), c, "box", "/data", false)
	case "rollback", "rollback disk":
		_, err = e.Rollback(t.Context(), c, "box", engine.RollbackRequest{To: "first"})
	case "rollback volumes":
		unlock(t, e, c, "vol")
		_, err = e.Rollback(t.Context(), c, "box", engine.RollbackRequest{To: "first", Volumes: engine.VolumesCut})
	case "volume-snapshot", "volume-snapshot mounted":
		unlock(t, e, c, "vol")
		_, err = e.SnapshotVolume(t.Context(), c, ref("vol"), "snap")
	case "volume-rollback":
		unlock(t, e, c, "vol")
		_, _, err = e.RollbackVolume(t.Context(), c, ref("vol"), "first")
	default:
		t.Fatalf("no such verb: %s", verb)
	}
	return err
}

// prepare makes the VM that a verb needs.
func prepare(t *testing.T, e *vmtest.House, c *vm.Call, verb string) {
	t.Helper()
	if verb == "create" || verb == "pool" {
		return
	}
	create(t, e, c, engine.CreateRequest{Name: "box"})
	var err error
	switch verb {
	case "start", "resize stopped":
		_, err = e.Stop(t.Context(), c, "box")
	case "resume":
		_, err = e.Suspend(t.Context(), c, "box", engine.SuspendRequest{})
	case "resume cold":
		_, err = e.Suspend(t.Context(), c, "box", engine.SuspendRequest{Cold: true})
	case "mount", "unmount", "volume-snapshot", "volume-snapshot mounted", "volume-rollback", "rollback volumes":
		_, err = e.CreateVolume(t.Context(), c, vault.VolumeRequest{Name: "vol"})
		if err == nil && verb == "rollback volumes" {
			_, err = e.Snapshot(t.Context(), c, "box", engine.SnapshotRequest{Name: "first"})
		}
		unlock(t, e, c, "vol")
		if err == nil && verb == "volume-rollback" {
			_, err = e.SnapshotVolume(t.Context(), c, ref("vol"), "first")
		}
		if err == nil && (verb == "unmount" || verb == "volume-snapshot mounted" || verb == "rollback volumes") {
			_, err = e.Mount(t.Context(), c, "box", mountOf("vol", "/data"))
		}
	case "rollback":
		_, err = e.Snapshot(t.Context(), c, "box", engine.SnapshotRequest{Name: "first"})
	case "rollback disk":
		prepareDiskRollback(t, e, c)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// consistent checks that records, directories and machines agree, and that no VM has an
// operation in progress.
func consistent(t *testing.T, s *vmtest.Site) {
	t.Helper()
	recs, err := vmtest.Stored[vm.VM](s.Backend, "vms")
	if err != nil {
		t.Fatal(err)
	}
	var known, running []vm.ID
	for _, rec := range recs {
		known = append(known, rec.ID)
		if rec.Op != "" {
			t.Errorf("record %s has %s in progress", rec.ID, rec.Op)
		}
		switch rec.State {
		case vm.Running:
			running = append(running, rec.ID)
			if spec, ok := s.World.Spec(rec.ID); ok && spec.Size != rec.Size {
				t.Errorf("the machine of %s has %s, its record says %s", rec.ID, spec.Size, rec.Size)
			}
			if s.World.Held(rec.ID) {
				t.Errorf("the machine of %s stands still", rec.ID)
			}
		case vm.Stopped, vm.Suspended:
		case vm.Lost:
			continue // has no files by definition
		default:
			t.Errorf("record %s is %s", rec.ID, rec.State)
		}
		if _, err := os.Stat(s.Dir.Overlay(rec.ID)); err != nil {
			t.Errorf("a record without its disk: %v", err)
		}
	}
	slices.Sort(running)
	if got := s.World.Running(); !slices.Equal(got, running) {
		t.Errorf("machines %v, records say %v", got, running)
	}
	for dir, want := range map[string][]vm.ID{s.Dir.VMs(): known, string(s.Run): running} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if !slices.Contains(want, vm.ID(entry.Name())) {
				t.Errorf("leaked %s/%s", dir, entry.Name())
			}
		}
	}
	for _, kind := range []string{"vms", "generations"} {
		if left, err := os.ReadDir(filepath.Join(s.Dir.Unrecorded(), kind)); err == nil && len(left) > 0 {
			t.Errorf("%d %s were put aside as without a record", len(left), kind)
		}
	}
	consistentGenerations(t, s, recs)
	consistentVolumes(t, s)
	pending, err := s.Audit.Pending(t.Context())
	if err != nil || len(pending) != 0 {
		t.Errorf("audit records without outcome: %v, %v", pending, err)
	}
}

// consistentGenerations checks that the records of generations agree with their files,
// and that the files that VMs need exist.
func consistentGenerations(t *testing.T, s *vmtest.Site, vms []vm.VM) {
	t.Helper()
	store := s.World.Generations(s.Dir)
	gens, err := vmtest.Stored[vm.Generation](s.Backend, "generations")
	if err != nil {
		t.Fatal(err)
	}
	known := map[vm.GenerationID]vm.Generation{}
	for _, g := range gens {
		known[g.ID] = g
		if g.State == vm.GenBuilding {
			t.Errorf("generation %s (%s) is still being built", g.ID, g.Why)
		}
	}
	ids, err := store.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if _, ok := known[id]; !ok {
			t.Errorf("leaked the files of generation %s", id)
		}
	}
	for _, v := range vms {
		if pending, err := store.Pending(v.ID); err != nil || len(pending) != 0 {
			t.Errorf("VM %s has two disks: %v, %v", v.ID, pending, err)
		}
		for id := v.DiskOn; id != ""; id = known[id].DiskOn {
			if disk, _ := store.Present(id); !disk {
				t.Errorf("VM %s lacks the layer %s of its disk", v.ID, id)
			}
		}
		if v.State == vm.Suspended {
			if g := known[v.Generation]; !g.Whole() || !g.Durable {
				t.Errorf("VM %s is suspended on %+v", v.ID, g)
			}
		}
	}
}

// TestDeathAtEachLabel dies at each step of each verb and opens a new engine
// on what is left.
func TestDeathAtEachLabel(t *testing.T) {
	for _, label := range engine.Labels() {
		t.Run(label.Verb+" "+label.At, func(t *testing.T) {
			verb := label.Verb
			s, e, c := site(t)
			s.Folders.Put(plainDir, false)
			prepare(t, e, c, verb)
			closeEngine(t, e)

			hit := false
			s.Fault = faultAt(label.At, engine.ErrDied, &hit)
			usePool(s, verb == "pool")
			e, c = open(t, s)
			if err := doVerb(t, e, c, verb); !errors.Is(err, engine.ErrDied) {
				t.Fatalf("%s: %v, want death", verb, err)
			}
			if !hit {
				t.Fatal("the label was not reached")
			}
			if _, err := e.Create(t.Context(), c, engine.CreateRequest{}); err == nil {
				t.Error("a dead engine creates VMs")
			}
			closeEngine(t, e)

			s.Fault = nil
			usePool(s, false)
			e, c = open(t, s)
			asleep(t, e, c)
			consistent(t, s)
			nothingPending(t, s)
			afterwards(t, e, c)
			nothingLeft(t, s)
		})
	}
}

// asleep waits until memory that may hold volume data is encrypted, which a server does
// right after its start.
func asleep(t *testing.T, e *vmtest.House, c *vm.Call) {
	t.Helper()
	v, err := e.Get(t.Context(), c, "box")
	if err != nil || v.State != vm.Suspended || len(v.VolumesSeen) == 0 {
		return
	}
	eventually(t, "its memory is encrypted", func() bool {
		i, err := e.Inspect(t.Context(), c, "box")
		g, gerr := e.FindSnapshot(t.Context(), c, string(v.Generation))
		return err == nil && gerr == nil && g.Sealed && i.Operation == ""
	})
}

// afterwards uses and deletes the VM, whatever its state, and its children.
func afterwards(t *testing.T, e *vmtest.House, c *vm.Call) {
	t.Helper()
	for _, kid := range []string{"kid-1", "kid-2"} {
		if _, err := e.Delete(t.Context(), c, kid); err != nil && vm.KindOf(err) != vm.NotFound {
			t.Errorf("delete: %v", err)
		}
	}
	v, err := e.Get(t.Context(), c, "box")
	if vm.KindOf(err) == vm.NotFound {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.VolumeOf(t.Context(), c, ref("vol")); err == nil {
		unlock(t, e, c, "vol") // what it sleeps with
	}
	if v.State == vm.Stopped || v.State == vm.Suspended {
		if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
			t.Errorf("start: %v", err)
		}
	}
	if v.State != vm.Lost {
		if out, _ := sh(t, e, c, "box", "echo ok"); out != "ok\n" {
			t.Errorf("exec: %q", out)
		}
	}
	if _, err := e.Delete(t.Context(), c, "box"); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// TestFailureAtEachLabel fails at each step of each verb, in an engine that keeps
// running.
func TestFailureAtEachLabel(t *testing.T) {
	for _, label := range engine.Labels() {
		t.Run(label.Verb+" "+label.At, func(t *testing.T) {
			verb := label.Verb
			s, e, c := site(t)
			s.Folders.Put(plainDir, false)
			prepare(t, e, c, verb)
			closeEngine(t, e)

			hit := false
			s.Fault = faultAt(label.At, vm.Errorf(vm.NoSpace, "", "no space"), &hit)
			usePool(s, verb == "pool")
			e, c = open(t, s)
			err := doVerb(t, e, c, verb)
			if !hit {
				t.Fatal("the label was not reached")
			}
			if err != nil && vm.KindOf(err) != vm.NoSpace {
				t.Errorf("%s: %v, want the failure's own kind", verb, err)
			}
			if err == nil && label.At != "delete:done" && label.At != "suspend:machine" {
				t.Errorf("%s succeeded", verb)
			}
			settle(t, e, c)
			asleep(t, e, c)
			consistent(t, s)
			if verb == "create" || verb == "pool" {
				nothingLeft(t, s)
			}
			closeEngine(t, e)
			s.Fault = nil
			usePool(s, false)
			e, c = open(t, s)
			afterwards(t, e, c)
			nothingLeft(t, s)
		})
	}
}

// settle waits until the engine has noticed that machines have ended.
func settle(t *testing.T, e *vmtest.House, c *vm.Call) {
	t.Helper()
	eventually(t, "records agree with machines", func() bool {
		vms, _, _, err := e.List(t.Context(), c, engine.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range vms {
			i, err := e.Inspect(t.Context(), c, string(v.ID))
			if err != nil || i.Operation != "" || (v.State == vm.Running && (i.Machine == nil || !i.Machine.Ready)) {
				return false
			}
		}
		return true
	})
}

// TestPortFailures fails at the ports instead of between them.
func TestPortFailures(t *testing.T) {
	boom := vm.Errorf(vm.Corrupt, "", "boom")
	for _, tc := range []struct{ verb, step string }{
		{"create", "warm"},
		{"create", "overlay"},
		{"create", "boot"},
		{"create", "launch"},
		{"create", "find"},
		{"create", "guest.write"},
		{"start", "launch"},
		{"start", "boot"},
		{"start", "find"},
		{"reseat", "capture"},
		{"reseat", "reseat"},
	} {
		t.Run(tc.verb+" "+tc.step, func(t *testing.T) {
			s, e, c := site(t)
			prepare(t, e, c, tc.verb)
			s.World.Fail(tc.step, boom)
			err := doVerb(t, e, c, tc.verb)
			if err == nil {
				t.Fatal("succeeded")
			}
			if tc.step != "guest.write" && vm.KindOf(err) != vm.Corrupt {
				t.Errorf("kind %v of %v", vm.KindOf(err), err)
			}
			s.World.Fail(tc.step, nil)
			consistent(t, s)
			if tc.verb == "create" {
				nothingLeft(t, s)
			}
			afterwards(t, e, c)
			nothingLeft(t, s)
		})
	}
}

// TestStopOfAStubbornMachine: if the monitor fails to carry out a stop, kill or delete,
// the machine is swept.
func TestStopOfAStubbornMachine(t *testing.T) {
	for _, verb := range []string{"stop", "kill", "delete"} {
		t.Run(verb, func(t *testing.T) {
			s, e, c := site(t)
			s.Folders.Put(plainDir, false)
			prepare(t, e, c, verb)
			s.World.Fail("stop", vm.Errorf(vm.Unavailable, "", "no answer"))
			s.World.Fail("kill", vm.Errorf(vm.Unavailable, "", "no answer"))
			if err := doVerb(t, e, c, verb); err != nil {
				t.Fatal(err)
			}
			consistent(t, s)
		})
	}
}

// TestRestart: a new engine adopts running machines with their processes, and records
// dead ones as stopped.
func TestRestart(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	live := create(t, e, c, engine.CreateRequest{Name: "live"})
	dead := create(t, e, c, engine.CreateRequest{Name: "dead"})
	p, err := e.StartProcess(ctx, c, "live", vm.ExecSpec{Command: "sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	s.World.End(dead.ID, "guest-poweroff")

	e, c = open(t, s)
	v, err := e.Get(ctx, c, "live")
	if err != nil || v.State != vm.Running || v.InstanceID != live.InstanceID {
		t.Errorf("live: %+v, %v", v, err)
	}
	if got, err := e.Process(ctx, c, "live", p.ID); err != nil || got.EndedAt != nil {
		t.Errorf("its process: %+v, %v", got, err)
	}
	v, err = e.Get(ctx, c, "dead")
	if err != nil || v.State != vm.Stopped || v.Reason != "guest-poweroff" {
		t.Errorf("dead: %+v, %v", v, err)
	}
	consistent(t, s)
}

// TestHostRestart: VMs whose machines ended with the host are stopped, with that reason.
func TestHostRestart(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	closeEngine(t, e)
	s.World.Reboot()
	e, c = open(t, s)
	v, err := e.Get(t.Context(), c, "box")
	if err != nil || v.State != vm.Stopped || v.Reason != "host-restart" {
		t.Errorf("after the host's restart the VM is %s because of %q (%v), want it stopped by that", v.State, v.Reason, err)
	}
	told := false
	for _, ev := range s.Events.All() {
		if ev.Type == "vm.stopped" && ev.Data["reason"] == "host-restart" && strings.Contains(ev.Data["detail"].(string), "memory") {
			told = true
		}
	}
	if !told {
		t.Error("no event names the memory that was lost")
	}
	consistent(t, s)
	afterwards(t, e, c)
}

// TestSilentMonitor: a machine whose monitor does not answer at the start is neither
// killed nor forgotten, and is adopted when it answers.
func TestSilentMonitor(t *testing.T) {
	s, e, c := site(t)
	clock := vmtest.NewClock()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	closeEngine(t, e)
	s.Clock = clock
	s.World.Fail("attach", vm.Errorf(vm.Timeout, "", "no answer"))
	e, c = open(t, s)
	if _, err := e.Stats(t.Context(), c, "box"); vm.KindOf(err) != vm.Unavailable {
		t.Errorf("stats: %v", err)
	}
	if !slices.Equal(s.World.Running(), []vm.ID{v.ID}) {
		t.Error("the machine was killed for being silent")
	}
	s.World.Fail("attach", nil)
	eventually(t, "it is adopted", func() bool {
		clock.Advance(time.Minute)
		_, err := e.Stats(t.Context(), c, "box")
		return err == nil
	})
}

// TestMachineEndsInCapture: the caller of a capture is told that the machine has ended,
// and the VM is stopped with its whole disk.
func TestMachineEndsInCapture(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	s.World.Fail("capture", vm.Errorf(vm.Internal, "box", "qmp: connection closed"))
	reached, release := s.World.Hold("capture")
	go func() {
		<-reached
		s.World.End(v.ID, "qemu-crash")
		release()
	}()
	_, err := e.Snapshot(t.Context(), c, "box", engine.SnapshotRequest{Name: "first"})
	if vm.KindOf(err) != vm.GuestFault || !strings.Contains(err.Error(), "its machine has ended (qemu-crash)") {
		t.Errorf("a snapshot whose machine crashed ends with %v, want that it crashed", err)
	}
	s.World.Fail("capture", nil)
	eventually(t, "it is stopped", func() bool { return stateOf(t, e, c, "box") == vm.Stopped })
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Error(err)
	}
	consistent(t, s)
	afterwards(t, e, c)
}

// TestSuspendThatFailsLate: if the monitor dies after a suspend has saved the memory,
// only the layer below the VM's disk stays. The unusable memory is removed at once.
func TestSuspendThatFailsLate(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	s.World.Fail("captured", vm.Errorf(vm.Unavailable, "box", "the VM's monitor does not answer"))
	if _, err := e.Suspend(t.Context(), c, "box", engine.SuspendRequest{}); vm.KindOf(err) != vm.Unavailable {
		t.Fatalf("a suspend whose monitor died ends with %v, want unavailable", err)
	}
	s.World.Fail("captured", nil)
	if got := stateOf(t, e, c, "box"); got != vm.Running {
		t.Fatalf("it is %s", got)
	}
	eventually(t, "its memory goes", func() bool {
		left, err := filepath.Glob(filepath.Join(s.Dir.Generations(), "*", "ram"))
		return err == nil && len(left) == 0
	})
	disks, err := filepath.Glob(filepath.Join(s.Dir.Generations(), "*", "disk.qcow2"))
	if err != nil || len(disks) != 1 {
		t.Errorf("the layer below its disk: %v, %v", disks, err)
	}
}

// TestSuspendWhoseMonitorDies: if the monitor dies during a suspend, the VM keeps
// running, with its memory, under another monitor.
func TestSuspendWhoseMonitorDies(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	p, err := e.StartProcess(t.Context(), c, "box", vm.ExecSpec{Command: "sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	dead := vm.Errorf(vm.Unavailable, "box", "the VM's monitor does not answer")
	s.World.Fail("captured", dead)
	s.World.Fail("status", dead)
	_, err = e.Suspend(t.Context(), c, "box", engine.SuspendRequest{})
	wantCode(t, err, vm.Unavailable, "SUSPEND_FAILED_VM_RESUMED")
	s.World.Fail("captured", nil)
	s.World.Fail("status", nil)
	if !running(t, e, c, "box", p.ID) {
		t.Error("its processes are gone")
	}
	consistent(t, s)
	afterwards(t, e, c)
}

// TestOrphans: a start that finds VMs and generations without records, because the
// records were lost, ends their machines and keeps their files, and unrelated files. Once
// the records are restored, so are the VMs.
func TestOrphans(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	sh(t, e, c, "box", "echo kept > /root/f")
	g, err := e.Snapshot(t.Context(), c, "box", engine.SnapshotRequest{Name: "first"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is durable", func() bool {
		_, err := os.Stat(layout.GenerationDir(s.Dir.Generation(g.ID)).Manifest())
		return err == nil
	})
	closeEngine(t, e)
	vms, err := vmtest.Stored[vm.VM](s.Backend, "vms")
	if err != nil {
		t.Fatal(err)
	}
	gens, err := vmtest.Stored[vm.Generation](s.Backend, "generations")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vms {
		err = errors.Join(err, vmtest.Erase(s.Backend, "vms", string(v.ID)))
	}
	for _, g := range gens {
		err = errors.Join(err, vmtest.Erase(s.Backend, "generations", string(g.ID)))
	}
	if err != nil {
		t.Fatal(err)
	}
	pooled := s.Dir.VM(vm.NewID()) // a machine of the pool, whose server died: nobody's
	other := s.Dir.VMs() + "/README"
	err = errors.Join(os.Mkdir(pooled, 0o700), layout.WriteJSON(layout.VMDir(pooled).Machine(), vm.MachineSpec{Pooled: true}, 0o600), os.WriteFile(other, nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	e, _ = open(t, s)
	closeEngine(t, e)
	if _, err := os.Stat(pooled); err == nil {
		t.Error("the pool's machine is still there")
	}
	if err := os.Remove(other); err != nil {
		t.Errorf("a foreign file is gone: %v", err)
	}
	nothingLeft(t, s)

	for _, dir := range []string{s.Dir.VM(v.ID), s.Dir.Generation(g.ID)} {
		rel, err := filepath.Rel(string(s.Dir), dir)
		if err == nil {
			err = os.Rename(filepath.Join(s.Dir.Unrecorded(), rel), dir)
		}
		if err != nil {
			t.Fatalf("put back: %v", err)
		}
	}
	for _, v := range vms {
		err = errors.Join(err, vmtest.Put(s.Backend, "vms", string(v.ID), v))
	}
	for _, g := range gens {
		err = errors.Join(err, vmtest.Put(s.Backend, "generations", string(g.ID), g))
	}
	if err != nil {
		t.Fatal(err)
	}
	e, c = open(t, s)
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if out, _ := sh(t, e, c, "box", "cat /root/f"); out != "kept\n" {
		t.Errorf("its file says %q", out)
	}
	if _, err := e.Rollback(t.Context(), c, "box", engine.RollbackRequest{To: "first"}); err != nil {
		t.Errorf("its snapshot: %v", err)
	}
}

// TestLostDisk: a VM whose disk is gone is described as lost and can be
// deleted.
func TestLostDisk(t *testing.T) {
	s, e, c := site(t)
	prepare(t, e, c, "start")
	v, err := e.Get(t.Context(), c, "box")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.Dir.Overlay(v.ID)); err != nil {
		t.Fatal(err)
	}
	_, err = e.Start(t.Context(), c, "box", engine.StartRequest{})
	wantCode(t, err, vm.Corrupt, "VM_DELETED")
	if i, err := e.Inspect(t.Context(), c, "box"); err != nil || i.VM.State != vm.Lost {
		t.Errorf("inspect: %+v, %v", i, err)
	}
	if _, err := e.Delete(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, s)
}

// TestDamagedDisk: an unreadable disk affects only its VM: the server starts, and
// starting that VM reports the damage.
func TestDamagedDisk(t *testing.T) {
	s, e, c := site(t)
	prepare(t, e, c, "start")
	closeEngine(t, e)
	s.World.Fail("disk-on", vm.Errorf(vm.Corrupt, "overlay.qcow2", "not a qcow2 file"))
	e, c = open(t, s)
	if st := stateOf(t, e, c, "box"); st != vm.Stopped {
		t.Errorf("it is %s", st)
	}
	s.World.Fail("disk-on", nil)
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Errorf("restored: %v", err)
	}
}

// TestEndsByItself: the engine records how a machine ended by itself.
func TestEndsByItself(t *testing.T) {
	for reason, want := range map[string]vm.State{"guest-poweroff": vm.Stopped, "qemu-crash": vm.Stopped, "guest-reboot": vm.Running} {
		t.Run(reason, func(t *testing.T) {
			s, e, c := site(t)
			v := create(t, e, c, engine.CreateRequest{Name: "box"})
			sh(t, e, c, "box", "echo x > /work/f")
			s.World.End(v.ID, reason)
			eventually(t, "the record follows", func() bool {
				now, err := e.Get(t.Context(), c, "box")
				if err != nil {
					t.Fatal(err)
				}
				return now.State == want && (now.InstanceID != v.InstanceID || now.Reason == reason)
			})
			settle(t, e, c)
			consistent(t, s)
			if want == vm.Running {
				if out, _ := sh(t, e, c, "box", "cat /work/f"); out != "x\n" {
					t.Errorf("after the reboot: %q", out)
				}
			}
		})
	}
}

// TestLostConnection: a cut connection to a monitor is restored.
func TestLostConnection(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	s.World.Lose(v.ID)
	eventually(t, "the engine is attached again and sees the end", func() bool {
		_, err := e.Stats(t.Context(), c, "box")
		return err == nil
	})
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	consistent(t, s)
}

// TestCallerGoesAway: a create whose caller goes away leaves nothing; a stop continues.
func TestCallerGoesAway(t *testing.T) {
	s, e, c := site(t)
	reached, release := s.World.Hold("launch")
	defer release()
	ctx, gone := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := e.Create(ctx, c, engine.CreateRequest{})
		done <- err
	}()
	<-reached
	gone()
	if err := <-done; vm.KindOf(err) != vm.Cancelled {
		t.Errorf("create: %v", err)
	}
	nothingLeft(t, s)
	release()

	create(t, e, c, engine.CreateRequest{Name: "box"})
	ctx, gone = context.WithCancel(t.Context())
	gone()
	if v, err := e.Stop(ctx, c, "box"); err != nil || v.State != vm.Stopped {
		t.Errorf("stop: %+v, %v", v, err)
	}
}

// TestStartDeadline: a machine that is not ready in time gives a typed error and leaves
// nothing.
func TestStartDeadline(t *testing.T) {
	s, e, c := site(t)
	_, release := s.World.Hold("launch")
	defer release()
	_, err := e.Create(t.Context(), c, engine.CreateRequest{Deadline: 20 * time.Millisecond})
	wantCode(t, err, vm.Timeout, "VM_START_TIMEOUT")
	nothingLeft(t, s)
}

// TestDeathWhileCollecting: the record of an unneeded generation says which of its files
// will be removed, before they are. The next start removes those that a crash left,
// including whole memories.
func TestDeathWhileCollecting(t *testing.T) {
	for _, whole := range []bool{false, true} {
		s, e, c := site(t)
		create(t, e, c, engine.CreateRequest{Name: "box"})
		g, err := e.Snapshot(t.Context(), c, "box", engine.SnapshotRequest{Name: "first"})
		if err != nil {
			t.Fatal(err)
		}
		if whole { // then its disk is needed by nobody, too
			if _, err := e.Delete(t.Context(), c, "box"); err != nil {
				t.Fatal(err)
			}
		}
		closeEngine(t, e)
		var hit atomic.Bool
		s.Fault = func(at string) error {
			if at != "collect:drop" {
				return nil
			}
			hit.Store(true)
			return engine.ErrDied
		}
		e, c = open(t, s)
		if _, err := e.RemoveSnapshot(t.Context(), c, "first"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it dies", hit.Load)
		closeEngine(t, e)
		s.Fault = nil
		e, _ = open(t, s)
		eventually(t, "what nobody needs is gone", func() bool {
			dir := s.Dir.Generation(g.ID)
			_, noRAM := os.Stat(layout.GenerationDir(dir).RAM())
			_, noDir := os.Stat(dir)
			return noRAM != nil && (noDir != nil) == whole
		})
		closeEngine(t, e)
		consistent(t, s)
	}
}

// TestForeignDisk: a disk whose header names another account's generation as its layer is
// not started, since a guest that took over its QEMU may have written that.
func TestForeignDisk(t *testing.T) {
	s, e, admin := site(t)
	ctx := t.Context()
	other, _ := newAccount(t, e, admin, "other")
	create(t, e, other, engine.CreateRequest{Name: "secret"})
	snapshotOf(t, e, other, "secret", "kept")
	disks, err := filepath.Glob(filepath.Join(s.Dir.Generations(), "*", "disk.qcow2"))
	if err != nil || len(disks) != 1 {
		t.Fatalf("the other account's disks are %v (%v), want one", disks, err)
	}
	v := create(t, e, admin, engine.CreateRequest{Name: "box"})
	if _, err := e.Stop(ctx, admin, "box"); err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(s.Dir.Overlay(v.ID))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := filepath.Rel(filepath.Dir(s.Dir.Overlay(v.ID)), disks[0])
	if err == nil {
		err = os.WriteFile(s.Dir.Overlay(v.ID), []byte(foreign), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(ctx, admin, "box", engine.StartRequest{}); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("a start above another account's disk ends with %v, want that the disk is corrupt", err)
	}
	if err := os.WriteFile(s.Dir.Overlay(v.ID), own, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(ctx, admin, "box", engine.StartRequest{}); err != nil {
		t.Errorf("its own again: %v", err)
	}
}
