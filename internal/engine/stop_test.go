// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// A sleeping VM is stopped without being woken: its disk stays, its memory is removed,
// and nothing of it runs meanwhile.
func TestStopAsleep(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "app"})
	p, err := e.StartProcess(ctx, c, "app", vm.ExecSpec{Command: "sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	sh(t, e, c, "app", "echo kept > /work/f")
	if _, err := e.Suspend(ctx, c, "app", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	v, err := e.Stop(ctx, c, "app")
	if err != nil || v.State != vm.Stopped || v.Generation != "" {
		t.Fatalf("the stopped VM is %s on the generation %q (%v), want it stopped without memory", v.State, v.Generation, err)
	}
	if n := len(s.World.Running()); n != 0 {
		t.Errorf("%d machines run", n)
	}
	if _, err := e.Start(ctx, c, "app", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if out, _ := sh(t, e, c, "app", "cat /work/f"); out != "kept\n" {
		t.Errorf("its disk holds %q", out)
	}
	if running(t, e, c, "app", p.ID) {
		t.Error("a process of the memory that went is there")
	}
}
