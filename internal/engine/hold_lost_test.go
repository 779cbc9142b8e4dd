// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestLostAnswerToAHold: a capture has paused the machine, and its answer is lost. The VM
// resumes at once or, if its monitor does not accept that request either, as soon as it
// does. Until then it is shown as not recovered.
func TestLostAnswerToAHold(t *testing.T) {
	for _, verb := range []string{"suspend", "rollback", "reseat"} {
		for _, deaf := range []error{nil, vm.Errorf(vm.Timeout, "box", "no answer"), vm.Errorf(vm.Unavailable, "box", "no answer"), vm.Errorf(vm.GuestFault, "box", "its programs may stand still")} {
			t.Run(verb+" "+string(vm.KindOf(deaf)), func(t *testing.T) {
				s, e, c := site(t)
				clock := vmtest.NewClock()
				prepare(t, e, c, verb)
				closeEngine(t, e)
				s.Clock = clock
				e, c = open(t, s)
				v, err := e.Get(t.Context(), c, "box")
				if err != nil {
					t.Fatal(err)
				}
				s.World.Fail("captured", vm.Errorf(vm.Timeout, "box", "the VM's monitor did not answer"))
				s.World.Fail("resume", deaf)
				if err := doVerb(t, e, c, verb); err == nil {
					t.Fatal("succeeded")
				}
				s.World.Fail("captured", nil)
				if deaf != nil {
					if got, err := e.Get(t.Context(), c, "box"); err != nil || got.Reason != engine.NotRecovered {
						t.Errorf("it is shown as %s (%s), %v", got.State, got.Reason, err)
					}
				}
				s.World.Fail("resume", nil)
				recovered(t, e, c, clock, "box")
				if s.World.Held(v.ID) {
					t.Error("its machine stands still")
				}
				keepsWrites(t, s, e, c)
			})
		}
	}
}

// TestHeldAtTheStart: an engine that finds a machine paused resumes it, even if the first
// attempt fails. So does one that restores a cut connection.
func TestHeldAtTheStart(t *testing.T) {
	for _, how := range []string{"start", "cut"} {
		t.Run(how, func(t *testing.T) {
			s, e, c := site(t)
			v := create(t, e, c, engine.CreateRequest{Name: "box"})
			closeEngine(t, e)
			clock := vmtest.NewClock()
			s.Clock = clock
			if how == "cut" {
				e, c = open(t, s)
			}
			s.World.Fail("resume", vm.Errorf(vm.Internal, "box", "the machine could not be resumed"))
			s.World.Stand(v.ID)
			if how == "cut" {
				s.World.Lose(v.ID)
			} else {
				e, c = open(t, s)
			}
			eventually(t, "it is in doubt", func() bool {
				got, err := e.Get(t.Context(), c, "box")
				return err == nil && got.Reason == engine.NotRecovered
			})
			s.World.Fail("resume", nil)
			recovered(t, e, c, clock, "box")
			consistent(t, s)
			keepsWrites(t, s, e, c)
		})
	}
}

// TestVisitOfAHeldVM: a call into a guest that does not answer makes the engine check
// whether the machine is paused, and resume it.
func TestVisitOfAHeldVM(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	closeEngine(t, e)
	s.Settings.GuestDeadline = 50 * time.Millisecond
	e, c = open(t, s)
	s.World.Stand(v.ID)
	_, release := s.World.Hold("guest")
	if _, err := e.Stats(t.Context(), c, "box"); vm.KindOf(err) != vm.Timeout {
		t.Errorf("a guest that stands gives %v, want a time-out", err)
	}
	release()
	eventually(t, "it goes on", func() bool { return !s.World.Held(v.ID) })
	settle(t, e, c)
	consistent(t, s)
}
