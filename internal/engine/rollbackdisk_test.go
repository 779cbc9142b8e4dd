// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// prepareDiskRollback stops the VM box, whose disk then differs from its disk snapshot,
// first.
func prepareDiskRollback(t *testing.T, e *vmtest.House, c *vm.Call) {
	t.Helper()
	sh(t, e, c, "box", "echo first > /work/f")
	if _, err := e.Snapshot(t.Context(), c, "box", engine.SnapshotRequest{Name: "first", DiskOnly: true}); err != nil {
		t.Fatal(err)
	}
	sh(t, e, c, "box", "echo now > /work/f")
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
}

// holds starts the VM box if needed, and checks the content of its file.
func holds(t *testing.T, e *vmtest.House, c *vm.Call, want string) {
	t.Helper()
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if out, _ := sh(t, e, c, "box", "cat /work/f"); out != want {
		t.Errorf("its disk holds %q, want %q", out, want)
	}
}

// A rollback of a stopped VM to a disk snapshot that the end of the server interrupts is
// done or not done: the next start undoes it, unless the VM already runs. One that fails
// is undone at once.
func TestDiskRollbackIsWhole(t *testing.T) {
	for _, label := range engine.Labels() {
		if label.Verb != "rollback disk" {
			continue
		}
		for _, with := range []error{engine.ErrDied, vm.Errorf(vm.NoSpace, "", "no space")} {
			t.Run(label.At+" "+string(vm.KindOf(with)), func(t *testing.T) {
				s, e, c := site(t)
				create(t, e, c, engine.CreateRequest{Name: "box"})
				prepareDiskRollback(t, e, c)
				closeEngine(t, e)
				hit := false
				s.Fault = func(at string) error {
					if at != label.At || hit {
						return nil
					}
					hit = true
					return with
				}
				e, c = open(t, s)
				if err := doVerb(t, e, c, label.Verb); vm.KindOf(err) != vm.KindOf(with) || !hit {
					t.Fatalf("%v, reached %v", err, hit)
				}
				s.Fault = nil
				want := "now\n"
				if label.At == "start:done" && errors.Is(with, engine.ErrDied) {
					want = "first\n" // its record says that it runs
				}
				if errors.Is(with, engine.ErrDied) {
					closeEngine(t, e)
					e, c = open(t, s)
				} else {
					settle(t, e, c)
				}
				consistent(t, s)
				holds(t, e, c, want)
			})
		}
	}
}

// A rollback that can be neither completed nor undone, because the disk is full, is
// undone by the next start of the VM or of the server.
func TestDiskRollbackIsTakenBackLater(t *testing.T) {
	full := vm.Errorf(vm.NoSpace, "", "no space")
	for _, restart := range []bool{false, true} {
		s, e, c := site(t)
		create(t, e, c, engine.CreateRequest{Name: "box"})
		prepareDiskRollback(t, e, c)
		closeEngine(t, e)
		room := false
		s.Fault = func(at string) error {
			if at != "start:disk" || room {
				return nil
			}
			s.World.Fail("disk", full)
			return full
		}
		e, c = open(t, s)
		if err := doVerb(t, e, c, "rollback disk"); vm.KindOf(err) != vm.NoSpace {
			t.Fatalf("a rollback on a full disk ends with %v, want that there is no room", err)
		}
		if v, err := e.Get(t.Context(), c, "box"); err != nil || v.State != vm.Stopped {
			t.Errorf("it is %s, %v", v.State, err)
		}
		if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); vm.KindOf(err) != vm.NoSpace {
			t.Errorf("it is started on half a rollback: %v", err)
		}
		s.World.Fail("disk", nil)
		room = true
		if restart {
			closeEngine(t, e)
			e, c = open(t, s)
			consistent(t, s)
		}
		holds(t, e, c, "now\n")
	}
}
