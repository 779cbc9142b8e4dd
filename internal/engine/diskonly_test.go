// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestDiskOnlyKeepsMemory: a VM whose memory cannot be resumed boots from its disk. The
// memory survives collections, and a rollback restores it.
func TestDiskOnlyKeepsMemory(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	if _, err := e.Exec(t.Context(), c, "box", vm.ExecSpec{Command: "sleep 1000"}); err != nil {
		t.Fatal(err)
	}
	suspended, err := e.Suspend(t.Context(), c, "box", engine.SuspendRequest{})
	if err != nil {
		t.Fatal(err)
	}
	v := suspended.VM
	memory := v.Generation
	s.World.Fail("launch", vm.Errorf(vm.GuestFault, "", "the agent in the guest refuses this server's key"))
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); vm.KindOf(err) != vm.GuestFault {
		t.Fatalf("a start whose agent refuses the key ends with %v, want a fault of the guest", err)
	}
	s.World.Fail("launch", nil)
	if v, err = e.Start(t.Context(), c, "box", engine.StartRequest{DiskOnly: true}); err != nil || v.State != vm.Running || v.Generation != "" {
		t.Fatalf("the start from the disk alone gives %+v (%v), want it running without memory", v, err)
	}
	closeEngine(t, e)
	e, _ = open(t, s)
	closeEngine(t, e) // which waits for what it collects
	e, c = open(t, s)
	g, ok := onlyGeneration(t, s, v.ID)
	if !ok || g.ID != memory || !g.Whole() || g.Why != vm.WhyBeforeBoot {
		t.Fatalf("the memory: %+v", g)
	}
	if _, err := e.Rollback(t.Context(), c, "box", engine.RollbackRequest{To: string(memory)}); err != nil {
		t.Fatal(err)
	}
	list, err := e.Processes(t.Context(), c, "box")
	if err != nil || len(list) != 1 || !strings.Contains(strings.Join(list[0].Argv, " "), "sleep 1000") {
		t.Errorf("what ran then: %+v, %v", list, err)
	}
	consistent(t, s)
}

// TestPatientStarts: the server's own deadline is extended under load, one that the
// caller named is not.
func TestPatientStarts(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	wants := func(what string, id vm.ID, patient bool) {
		t.Helper()
		if spec, ok := s.World.Spec(id); !ok || spec.Patient != patient || spec.Deadline <= 0 {
			t.Errorf("%s: patient %v, deadline %v", what, spec.Patient, spec.Deadline)
		}
	}
	wants("create", v.ID, true)
	wants("create within a minute", create(t, e, c, engine.CreateRequest{Deadline: time.Minute}).ID, false)
	forked, err := e.Fork(t.Context(), c, "box", engine.ForkRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wants("fork", forked.Children[0].ID, true)
	if _, err := e.Suspend(t.Context(), c, "box", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	wants("resume", v.ID, true)
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{Deadline: time.Minute}); err != nil {
		t.Fatal(err)
	}
	wants("a boot within a minute", v.ID, false)
}
