// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"maps"
	"reflect"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

var gib = 1 << 10 // MiB

func resize(t *testing.T, e *vmtest.House, c *vm.Call, ref string, to vm.Size) engine.Resized {
	t.Helper()
	r, err := e.Resize(t.Context(), c, ref, engine.ResizeRequest{Size: to})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Changes that the guest supports happen while it runs, and processes keep running.
// Setting the same size again changes nothing.
func TestResizeLive(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	p, err := e.StartProcess(t.Context(), c, "box", vm.ExecSpec{Command: "sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	launches := s.World.Launches()
	want := vm.Size{VCPU: 2, MemoryMiB: 2 * gib, DiskMiB: 32 * gib}
	r := resize(t, e, c, "box", want)
	if how := map[string]string{"cpu": "live", "memory": "live", "disk": "live"}; !maps.Equal(r.How, how) || len(r.Why) != 0 {
		t.Errorf("the running VM was resized as %v because of %v, want %v", r.How, r.Why, how)
	}
	if r.VM.Size != want {
		t.Errorf("the VM's size is %+v, want %+v", r.VM.Size, want)
	}
	if r := resize(t, e, c, "box", vm.Size{VCPU: 1}); r.How["cpu"] != "live" || len(r.How) != 1 || r.VM.Size.VCPU != 1 || r.VM.Size.MemoryMiB != want.MemoryMiB {
		t.Errorf("one CPU again: %+v", r)
	}
	n := len(records(t, s))
	if r := resize(t, e, c, "box", vm.Size{VCPU: 1, DiskMiB: want.DiskMiB}); len(r.How) != 0 || len(records(t, s)) != n {
		t.Errorf("what it has: %+v", r)
	}
	if !running(t, e, c, "box", p.ID) || s.World.Launches() != launches {
		t.Error("the machine was started anew")
	}
	if spec, _ := s.World.Spec(v.ID); spec.Size != boxNow(t, e, c).Size {
		t.Errorf("machine %+v, record %+v", spec.Size, boxNow(t, e, c).Size)
	}
}

func boxNow(t *testing.T, e *vmtest.House, c *vm.Call) vm.VM {
	t.Helper()
	v, err := e.Get(t.Context(), c, "box")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Hotplugged CPUs and memory survive a suspend, a fork and a rollback; a stop ends them.
func TestResizeStaysInGenerations(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	small := v.Size
	if _, err := e.Snapshot(ctx, c, "box", engine.SnapshotRequest{Name: "small"}); err != nil {
		t.Fatal(err)
	}
	big := resize(t, e, c, "box", vm.Size{MemoryMiB: 1 * gib, DiskMiB: 20 * gib}).VM.Size
	plugged := vm.Plugged{BootVCPU: 1, BootMemoryMiB: 512, Modules: []vm.MemoryModule{{ID: "dimm0", MiB: 512}}}
	check := func(what string, id vm.ID, size vm.Size, p vm.Plugged) {
		t.Helper()
		spec, ok := s.World.Spec(id)
		if !ok || spec.Size != size || !reflect.DeepEqual(spec.Plugged, p) {
			t.Errorf("%s: machine %+v %+v", what, spec.Size, spec.Plugged)
		}
	}
	f, err := e.Fork(ctx, c, "box", engine.ForkRequest{Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	check("fork", f.Children[0].ID, big, plugged)
	if _, err := e.Suspend(ctx, c, "box", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Resize(ctx, c, "box", engine.ResizeRequest{Size: vm.Size{VCPU: 2}}); vm.KindOf(err) != vm.WrongState {
		t.Errorf("resize of a suspended VM: %v", err)
	}
	if _, err := e.Start(ctx, c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	check("resume", v.ID, big, plugged)
	if _, err := e.Rollback(ctx, c, "box", engine.RollbackRequest{To: "small"}); err != nil {
		t.Fatal(err)
	}
	check("rollback", v.ID, small, vm.Plugged{})
	if got := boxNow(t, e, c).Size; got != small {
		t.Errorf("after the rollback its record says %+v", got)
	}
	resize(t, e, c, "box", vm.Size{MemoryMiB: 1 * gib})
	if _, err := e.Stop(ctx, c, "box"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(ctx, c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	check("start", v.ID, boxNow(t, e, c).Size, vm.Plugged{})
}

// Other changes need a stop and a start: the disk is kept, and the answer reports them.
func TestResizeByStart(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	sh(t, e, c, "box", "echo kept > /work/f")
	r := resize(t, e, c, "box", vm.Size{VCPU: 4, MemoryMiB: 256})
	if how := map[string]string{"cpu": "restart", "memory": "restart"}; !maps.Equal(r.How, how) || r.Why["memory"] == "" {
		t.Errorf("the VM was resized as %v because of %v, want %v and why", r.How, r.Why, how)
	}
	if len(r.VM.Losses) == 0 {
		t.Error("the restart does not say what was lost")
	}
	if r.VM.State != vm.Running || r.VM.InstanceID == v.InstanceID {
		t.Errorf("after the restart the VM is %s as instance %s, want it running as another than %s", r.VM.State, r.VM.InstanceID, v.InstanceID)
	}
	if want := (vm.Size{VCPU: 4, MemoryMiB: 256, DiskMiB: v.Size.DiskMiB}); r.VM.Size != want {
		t.Errorf("after the restart the VM's size is %+v, want %+v", r.VM.Size, want)
	}
	if out, _ := sh(t, e, c, "box", "cat /work/f"); out != "kept\n" {
		t.Errorf("the disk has %q", out)
	}
	// If that start fails, the VM is stopped with its new size.
	s.World.Fail("launch", vm.Errorf(vm.GuestFault, "", "boom"))
	_, err := e.Resize(t.Context(), c, "box", engine.ResizeRequest{Size: vm.Size{VCPU: 16}})
	wantCode(t, err, vm.GuestFault, "RESIZE_FAILED")
	s.World.Fail("launch", nil)
	if now := boxNow(t, e, c); now.State != vm.Stopped || now.Size.VCPU != 16 {
		t.Errorf("after a start that failed: %s %+v", now.State, now.Size)
	}
	consistent(t, s)
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
}

// A stopped VM has its new size from its next start on.
func TestResizeStopped(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	want := vm.Size{VCPU: 2, MemoryMiB: 256, DiskMiB: 17 * gib}
	r := resize(t, e, c, "box", want)
	if r.VM.State != vm.Stopped {
		t.Errorf("a resize has made the stopped VM %s", r.VM.State)
	}
	if r.How["memory"] != "at-next-start" || len(r.How) != 3 {
		t.Errorf("the stopped VM was resized as %v, want three parts at the next start", r.How)
	}
	s.World.Fail("grow-disk", vm.Errorf(vm.NoSpace, "", "full"))
	_, err := e.Resize(t.Context(), c, "box", engine.ResizeRequest{Size: vm.Size{DiskMiB: 18 * gib}})
	if vm.KindOf(err) != vm.NoSpace || boxNow(t, e, c).Size != want {
		t.Errorf("a disk that does not grow: %v, size %+v", err, boxNow(t, e, c).Size)
	}
	s.World.Fail("grow-disk", nil)
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if spec, _ := s.World.Spec(v.ID); spec.Size != want {
		t.Errorf("started with %+v", spec.Size)
	}
}

func TestResizeRefuses(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	for code, size := range map[string]vm.Size{
		"RESIZE_VM_EMPTY_REQUEST":               {},
		"RESIZE_VM_VCPU_NOT_POWER_OF_TWO":       {VCPU: 3},
		"RESIZE_VM_VCPU_OUT_OF_RANGE":           {VCPU: 64},
		"RESIZE_VM_MEM_NOT_POWER_OF_TWO":        {MemoryMiB: 768},
		"RESIZE_VM_MEM_OUT_OF_RANGE":            {MemoryMiB: 128},
		"RESIZE_VM_ROOTFS_SHRINK_NOT_SUPPORTED": {VCPU: 2, DiskMiB: 8 * gib},
		"INVALID_PARAMETERS":                    {DiskMiB: vm.MaxDiskMiB + 1},
	} {
		_, err := e.Resize(t.Context(), c, "box", engine.ResizeRequest{Size: size})
		wantCode(t, err, vm.Invalid, code)
		if vm.AsError(err).Hint == "" {
			t.Errorf("%s has no hint", code)
		}
	}
	for _, size := range []vm.Size{{VCPU: -1}, {MemoryMiB: -512}, {DiskMiB: -1}} {
		if _, err := e.Resize(t.Context(), c, "box", engine.ResizeRequest{Size: size}); vm.KindOf(err) != vm.Invalid {
			t.Errorf("a resize to %+v gives %v, want it invalid", size, err)
		}
	}
	_, err := e.Resize(t.Context(), c, "nobox", engine.ResizeRequest{Size: vm.Size{VCPU: 2}})
	wantCode(t, err, vm.NotFound, "VM_NOT_FOUND")
	s.World.SetFree(1300<<20, 1<<40)
	_, err = e.Resize(t.Context(), c, "box", engine.ResizeRequest{Size: vm.Size{MemoryMiB: 2 * gib}})
	if vm.KindOf(err) != vm.Limit {
		t.Errorf("more memory than the host has: %v", err)
	}
	if now := boxNow(t, e, c); now.Size != vm.DefaultSize {
		t.Errorf("it has %+v", now.Size)
	}
}
