// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestSandboxEnds: a sandbox is ended at its time-out as it was asked for. A start after
// that gives it its time-out again, and a fork is a sandbox only if it is made as one.
func TestSandboxEnds(t *testing.T) {
	_, e, c, clock := clocked(t)
	ends := map[string]vm.Op{"deleted": vm.OpDelete, "suspended": vm.OpSuspend, "stopped": vm.OpStop, "longer": vm.OpDelete}
	for name, op := range ends {
		sb := &vm.Sandbox{Timeout: vm.Seconds(100 * time.Second), EndsAt: clock.Now().Add(100 * time.Second), OnEnd: op}
		create(t, e, c, engine.CreateRequest{Name: name, Sandbox: sb, IdleTimeout: vm.Optional[vm.Seconds]{Set: true, Null: true}})
	}
	forked, err := e.Fork(t.Context(), c, "longer", engine.ForkRequest{})
	if err != nil || forked.Children[0].Sandbox != nil {
		t.Errorf("a fork that is not asked to be a sandbox is %+v (%v)", forked.Children, err)
	}
	pass(clock, 99*time.Second)
	for name := range ends {
		if st := stateOf(t, e, c, name); st != vm.Running {
			t.Errorf("%s is %q before its time-out, want running", name, st)
		}
	}
	later := clock.Now().Add(time.Hour)
	if _, err := e.ChangeSandbox(t.Context(), c, "longer", func(s *vm.Sandbox) { s.EndsAt = later }); err != nil {
		t.Fatalf("its time-out is not changed: %v", err)
	}
	pass(clock, 2*time.Second)
	for name, want := range map[string]vm.State{"deleted": "", "suspended": vm.Suspended, "stopped": vm.Stopped, "longer": vm.Running} {
		inTime(t, clock, name+" has ended as asked", func() bool { return stateOf(t, e, c, name) == want })
	}
	v, err := e.Start(t.Context(), c, "suspended", engine.StartRequest{})
	if err != nil || v.Sandbox.EndsAt.Sub(clock.Now()) != 100*time.Second {
		t.Errorf("after a start it ends at %v (%v), want 100 s from %v", v.Sandbox, err, clock.Now())
	}
}
