// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestSilentMachine: while a VM's monitor or QEMU hangs, verbs that must save it are
// refused with a hint, and nothing is begun. Other VMs keep running, and so does this one
// when it answers again.
func TestSilentMachine(t *testing.T) {
	for what, step := range map[string]string{"monitor": "status", "QEMU": "run-state"} {
		t.Run(what, func(t *testing.T) {
			s, e, c := site(t)
			v := create(t, e, c, engine.CreateRequest{Name: "box"})
			s.World.Fail(step, vm.Errorf(vm.Timeout, "box", "no answer"))
			s.World.Fail("attach", vm.Errorf(vm.Timeout, "box", "no answer")) // nor does it answer another
			for verb, do := range map[string]func() error{
				"suspend": func() error { _, err := e.Suspend(t.Context(), c, "box", engine.SuspendRequest{}); return err },
				"snapshot": func() error {
					_, err := e.Snapshot(t.Context(), c, "box", engine.SnapshotRequest{Name: "first"})
					return err
				},
				"fork": func() error { _, err := e.Fork(t.Context(), c, "box", engine.ForkRequest{Count: 1}); return err },
			} {
				err := do()
				var e *vm.Error
				if !errors.As(err, &e) || e.Kind != vm.Unavailable || !strings.Contains(err.Error(), what+" does not answer") || !strings.Contains(e.Hint, "warren kill") {
					t.Errorf("a silent machine gives the %s %v, want that the %s does not answer and the hint to kill", verb, err, what)
				}
			}
			if got := stateOf(t, e, c, "box"); got != vm.Running {
				t.Errorf("it is %s", got)
			}
			if left, err := os.ReadDir(s.Dir.Generations()); err != nil || len(left) != 0 {
				t.Errorf("generations were begun: %v, %v", left, err)
			}
			if _, err := os.Stat(layout.VMDir(s.Dir.VM(v.ID)).Overlay()); err != nil {
				t.Error(err)
			}
			create(t, e, c, engine.CreateRequest{Name: "other"})
			s.World.Fail(step, nil)
			s.World.Fail("attach", nil)
			if _, err := e.Snapshot(t.Context(), c, "box", engine.SnapshotRequest{Name: "second"}); err != nil {
				t.Errorf("after it answers again: %v", err)
			}
			consistent(t, s)
		})
	}
}

// TestAuditDiskHangs: while the audit log's disk stores no record, requests that need one
// are refused after a while, and others are answered.
func TestAuditDiskHangs(t *testing.T) {
	s, e, _ := site(t)
	closeEngine(t, e)
	clock := vmtest.NewClock()
	s.Clock = clock
	e, c := open(t, s)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	create(t, e, c, engine.CreateRequest{Name: "other"})
	release := s.Audit.Hold()
	done := make(chan error, 1)
	go func() { _, err := e.Stop(t.Context(), c, "box"); done <- err }()
	var err error
	eventually(t, "the stop is refused", func() bool {
		if _, err := e.Stats(t.Context(), c, "other"); err != nil {
			t.Fatalf("what needs no record: %v", err)
		}
		clock.Advance(time.Minute)
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	})
	if vm.KindOf(err) != vm.Timeout || !strings.Contains(err.Error(), "audit record") {
		t.Errorf("a stop without a record ends with %v, want a time-out of the audit record", err)
	}
	release()
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Errorf("when the disk answers again: %v", err)
	}
}
