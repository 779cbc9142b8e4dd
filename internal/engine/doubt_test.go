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
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestWritesOutliveASilence dies at each step of a fork and of a snapshot. For a while
// the next engine cannot learn to which file the VM's machine writes. Meanwhile that file
// and the layers below it stay, whatever is collected or requested, and afterwards no
// write of the guest is lost.
func TestWritesOutliveASilence(t *testing.T) {
	silences := map[string]error{
		"attach timeout":        vm.Errorf(vm.Timeout, "", "no answer"),
		"attach internal":       vm.Errorf(vm.Internal, "", "its run directory cannot be read"),
		"disk-name unavailable": vm.Errorf(vm.Unavailable, "", "no answer"),
		"disk-name denied":      vm.Errorf(vm.Denied, "", "permission denied"),
	}
	for _, label := range engine.Labels() {
		if label.Verb != "fork" && label.Verb != "snapshot" {
			continue
		}
		for silence, err := range silences {
			t.Run(label.Verb+" "+label.At+" "+silence, func(t *testing.T) {
				step, _, _ := strings.Cut(silence, " ")
				s, v := diedAt(t, label)
				clock := vmtest.NewClock()
				s.Clock = clock
				s.World.Fail(step, err)
				e, c := open(t, s)
				if got, gerr := e.Get(t.Context(), c, "box"); gerr != nil || step == "attach" && got.Reason != engine.NotRecovered {
					t.Errorf("it is shown as %s (%s), %v", got.State, got.Reason, gerr)
				}
				if _, err := e.Fork(t.Context(), c, "box", engine.ForkRequest{}); err == nil && step == "attach" {
					t.Error("a VM whose monitor does not answer was forked")
				}
				collected(t, s, e, c)
				writesTo(t, s, v.ID)

				s.World.Fail(step, nil)
				recovered(t, e, c, clock, "box")
				writesTo(t, s, v.ID)
				keepsWrites(t, s, e, c)
			})
		}
	}
}

// diedAt returns a site whose engine died at a step of a verb on the VM box.
func diedAt(t *testing.T, label engine.Label) (*vmtest.Site, vm.VM) {
	t.Helper()
	s, e, c := site(t)
	prepare(t, e, c, label.Verb)
	v, err := e.Get(t.Context(), c, "box")
	if err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	hit := false
	s.Fault = faultAt(label.At, engine.ErrDied, &hit)
	e, c = open(t, s)
	if err := doVerb(t, e, c, label.Verb); !errors.Is(err, engine.ErrDied) || !hit {
		t.Fatalf("%s: %v, want death", label.Verb, err)
	}
	closeEngine(t, e)
	s.Fault = nil
	return s, v
}

// collected waits until a collection has removed unneeded generations, as after every
// delete.
func collected(t *testing.T, s *vmtest.Site, e *vmtest.House, c *vm.Call) {
	t.Helper()
	create(t, e, c, engine.CreateRequest{Name: "other"})
	g, err := e.Snapshot(t.Context(), c, "other", engine.SnapshotRequest{Name: "other"})
	if err == nil {
		_, err = e.Delete(t.Context(), c, "other")
	}
	if err == nil {
		_, err = e.RemoveSnapshot(t.Context(), c, "other")
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "what nobody needs is collected", func() bool {
		_, err := os.Stat(s.Dir.Generation(g.ID))
		return err != nil
	})
}

// writesTo checks that the file to which a machine writes exists, and the layers below
// it.
func writesTo(t *testing.T, s *vmtest.Site, id vm.ID) {
	t.Helper()
	path := s.World.Writes(id)
	below, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("the file that its machine writes to: %v", err)
	}
	if strings.Contains(string(below), filepath.Base(s.Dir.Generations())) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), string(below))); err != nil {
			t.Errorf("what its disk lies on: %v", err)
		}
	}
}

// recovered waits until a VM is no longer in doubt.
func recovered(t *testing.T, e *vmtest.House, c *vm.Call, clock *vmtest.Clock, name string) {
	t.Helper()
	eventually(t, "it is recovered", func() bool {
		clock.Advance(time.Second) // not by much: it would fall asleep
		i, err := e.Inspect(t.Context(), c, name)
		return err == nil && i.VM.Reason != engine.NotRecovered && i.Operation == "" && i.Machine != nil
	})
}

// keepsWrites checks that new writes of the guest of box reach its disk, and that
// everything is consistent.
func keepsWrites(t *testing.T, s *vmtest.Site, e *vmtest.House, c *vm.Call) {
	t.Helper()
	sh(t, e, c, "box", "echo late > /work/late")
	if _, err := e.Fork(t.Context(), c, "box", engine.ForkRequest{Prefix: "after"}); err != nil {
		t.Errorf("fork: %v", err)
	}
	if _, err := e.Delete(t.Context(), c, "after-1"); err != nil {
		t.Error(err)
	}
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if out, _ := sh(t, e, c, "box", "cat /work/late"); out != "late\n" {
		t.Errorf("what it wrote is lost: %q", out)
	}
	consistent(t, s)
	afterwards(t, e, c)
}

// TestDoubtInALivingEngine: the monitor is lost during a capture and cannot be found for
// a while. Meanwhile further captures are refused, and undo nothing to which the machine
// may have moved.
func TestDoubtInALivingEngine(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	lost := vm.Errorf(vm.Unavailable, "box", "the VM's monitor does not answer")
	for _, step := range []string{"captured", "disk-name", "status"} {
		s.World.Fail(step, lost)
	}
	s.World.Fail("attach", vm.Errorf(vm.Internal, "box", "its run directory cannot be read"))
	s.World.Lose(v.ID)
	for range 2 {
		if _, err := e.Fork(t.Context(), c, "box", engine.ForkRequest{}); err == nil {
			t.Fatal("forked")
		}
	}
	before := s.World.Writes(v.ID)
	writesTo(t, s, v.ID)
	for _, step := range []string{"captured", "disk-name", "status", "attach"} {
		s.World.Fail(step, nil)
	}
	eventually(t, "it is recovered", func() bool {
		i, err := e.Inspect(t.Context(), c, "box")
		return err == nil && i.VM.Reason != engine.NotRecovered && i.Operation == "" && i.Machine != nil
	})
	if s.World.Writes(v.ID) != before {
		t.Error("its machine has moved")
	}
	keepsWrites(t, s, e, c)
}

// TestSuspendOutlivesASilence: a suspend dies when all memory is saved, and the next
// engine cannot at first learn the state of the machine. The memory stays until it can.
func TestSuspendOutlivesASilence(t *testing.T) {
	for _, at := range []string{"capture:commit", "capture:publish", "suspend:commit"} {
		t.Run(at, func(t *testing.T) {
			s, v := diedAt(t, engine.Label{Verb: "suspend", At: at})
			clock := vmtest.NewClock()
			s.Clock = clock
			s.World.Fail("attach", vm.Errorf(vm.Timeout, "", "no answer"))
			e, c := open(t, s)
			collected(t, s, e, c)
			rams, err := filepath.Glob(filepath.Join(s.Dir.Generations(), "*", "ram"))
			if err != nil || len(rams) != 1 {
				t.Errorf("its memory: %v, %v", rams, err)
			}
			s.World.End(v.ID, "qemu-crash")
			s.World.Fail("attach", nil)
			eventually(t, "it is recovered", func() bool {
				clock.Advance(time.Minute)
				got, err := e.Get(t.Context(), c, "box")
				return err == nil && got.Reason != engine.NotRecovered
			})
			if got := stateOf(t, e, c, "box"); got != vm.Suspended {
				t.Errorf("it is %s, want what was written down", got)
			}
			settle(t, e, c)
			consistent(t, s)
			afterwards(t, e, c)
		})
	}
}

// TestOneSickVM: a VM whose monitor accepts requests and answers none does not keep the
// server from starting, nor the others from being used. It is shown with the reason, can
// be killed, and is recovered once it answers.
func TestOneSickVM(t *testing.T) {
	for _, then := range []string{"answers", "kill", "delete"} {
		t.Run(then, func(t *testing.T) {
			s, e, c := site(t)
			sick := create(t, e, c, engine.CreateRequest{Name: "sick"})
			for range 12 { // more than are recovered at a time
				create(t, e, c, engine.CreateRequest{})
			}
			create(t, e, c, engine.CreateRequest{Name: "well"})
			closeEngine(t, e)
			_, release := s.World.Hold("attach:" + string(sick.ID))
			defer release()
			s.Settings.RecoverWait = 2 * time.Second
			e, c = openSoon(t, s)
			if out, _ := sh(t, e, c, "well", "echo ok"); out != "ok\n" {
				t.Errorf("another one: %q", out)
			}
			i, err := e.Inspect(t.Context(), c, "sick")
			if err != nil || i.VM.State != vm.Running || i.VM.Reason != engine.NotRecovered || len(i.Warnings) == 0 || !strings.Contains(i.Warnings[0], "not recovered") {
				t.Errorf("it is shown as %+v, %v", i, err)
			}
			switch then {
			case "answers":
				release()
				eventually(t, "it is recovered", func() bool {
					got, err := e.Get(t.Context(), c, "sick")
					return err == nil && got.Reason == ""
				})
				if out, _ := sh(t, e, c, "sick", "echo ok"); out != "ok\n" {
					t.Errorf("once it answers: %q", out)
				}
			case "kill":
				if v, err := e.Kill(t.Context(), c, "sick"); err != nil || v.State != vm.Stopped {
					t.Errorf("the killed VM is %q (%v), want it stopped", v.State, err)
				}
				release()
			case "delete":
				if _, err := e.Delete(t.Context(), c, "sick"); err != nil {
					t.Error(err)
				}
				release()
			}
			settle(t, e, c)
			consistent(t, s)
		})
	}
}

// openSoon is open for a host on which something hangs.
func openSoon(t *testing.T, s *vmtest.Site) (*vmtest.House, *vm.Call) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	e, err := s.Open(ctx)
	if err != nil {
		t.Fatalf("one sick VM keeps the engine from starting: %v", err)
	}
	t.Cleanup(func() { closeEngine(t, e) })
	return e, call(t, e)
}

// TestManySickVMs: as many VMs hang as are recovered at a time, and the others are
// recovered anyway.
func TestManySickVMs(t *testing.T) {
	s, e, c := site(t)
	var sick []vm.ID
	for range 24 {
		sick = append(sick, create(t, e, c, engine.CreateRequest{}).ID)
	}
	for range 8 {
		create(t, e, c, engine.CreateRequest{})
	}
	closeEngine(t, e)
	for _, id := range sick {
		_, release := s.World.Hold("attach:" + string(id))
		defer release()
	}
	s.Settings.RecoverWait = 50 * time.Millisecond
	e, c = openSoon(t, s)
	eventually(t, "the others are recovered", func() bool {
		list, _, _, err := e.List(t.Context(), c, engine.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		well := 0
		for _, v := range list {
			if v.Reason == "" && !slices.Contains(sick, v.ID) {
				well++
			}
		}
		return well == 8
	})
}

// TestDoubtIsNotPruned: a VM in doubt is not evicted to make room; once recovered it may
// be.
func TestDoubtIsNotPruned(t *testing.T) {
	s, e, c := site(t)
	clock := vmtest.NewClock()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	s.Clock = clock
	s.World.Fail("disk-on", vm.Errorf(vm.Denied, "overlay.qcow2", "permission denied"))
	e, c = open(t, s)
	if out, err := e.Prune(t.Context(), c, engine.PruneRequest{Free: 1 << 40}); err != nil || len(out.Gone) != 0 {
		t.Errorf("a VM in doubt: prune removed %+v (%v), want nothing", out.Gone, err)
	}
	if got := stateOf(t, e, c, "box"); got != vm.Stopped {
		t.Errorf("it is %s", got)
	}
	s.World.Fail("disk-on", nil)
	eventually(t, "it is recovered", func() bool {
		clock.Advance(time.Second)
		got, err := e.Get(t.Context(), c, "box")
		return err == nil && got.Reason != engine.NotRecovered
	})
	if out, err := e.Prune(t.Context(), c, engine.PruneRequest{Free: 1 << 40}); err != nil || len(out.Gone) != 1 {
		t.Errorf("a VM that is recovered: prune removed %+v (%v), want it", out.Gone, err)
	}
}
