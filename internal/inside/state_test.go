// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside_test

import (
	"context"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestState: the guest's lists, each port with its answer to a request, the services;
// asking leaves nothing in the guest.
func TestState(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	p, err := e.StartProcess(t.Context(), c, "box", vm.ExecSpec{Argv: []string{"sleep", "60"}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := e.State(t.Context(), c, "box")
	if err != nil {
		t.Fatal(err)
	}
	if !w.Live || w.Name != "box" || w.State != vm.Running {
		t.Errorf("the state is of %q, %s, live %v, want the running box", w.Name, w.State, w.Live)
	}
	if w.From == "" || w.StartedAt.IsZero() {
		t.Errorf("the state does not say from what (%q) or when (%v) the VM was started", w.From, w.StartedAt)
	}
	if len(w.Problems) != 0 {
		t.Errorf("the look had the problems %q, want none", w.Problems)
	}
	if len(w.Processes) != 2 || w.Processes[1].Exec != p.ID {
		t.Errorf("processes: %+v", w.Processes)
	}
	if len(w.Ports) != 3 {
		t.Fatalf("ports: %+v", w.Ports)
	}
	echo, lost, inside := w.Ports[0].Probe, w.Ports[1].Probe, w.Ports[2].Probe
	if !echo.OK || echo.Kind != "banner" || echo.Answer != "GET / HTTP/1.1" || echo.From != "host" {
		t.Errorf("the echo service was not asked: %+v", echo)
	}
	if lost.OK || lost.Kind != "refused" || lost.Why != "connection refused" || lost.From != "host" {
		t.Errorf("a port that listens and is not reached: %+v", lost)
	}
	if !inside.OK || inside.Status != 204 || inside.From != "guest" {
		t.Errorf("a port of the guest alone is the guest's to ask: %+v", inside)
	}
	if len(w.Services) != 2 || w.Services[0] != (vm.GuestService{Name: "app", Active: "failed", Sub: "failed", Description: "My app"}) || w.Services[1].Name != "cron" {
		t.Errorf("services: %+v", w.Services)
	}
	if r := w.Roles[0]; r.Alive || !strings.Contains(r.Why, "none of its ports answers") {
		t.Errorf("a database whose port does not answer is said to live: %+v", r)
	}
	if list, err := e.Processes(t.Context(), c, "box"); err != nil || len(list) != 1 {
		t.Errorf("the look left commands behind: %+v, %v", list, err)
	}
}

// TestStateOfStopped: a VM that does not run is described by its record, also if it ends
// while it is asked.
func TestStateOfStopped(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	w, err := e.State(t.Context(), c, "box")
	if err != nil {
		t.Fatal(err)
	}
	if w.Live || w.State != vm.Stopped || w.ID != v.ID {
		t.Errorf("the state is of %s, %s, live %v, want the stopped %s", w.ID, w.State, w.Live, v.ID)
	}
	if w.Processes == nil || w.From == "" {
		t.Errorf("a stopped VM's state has the processes %v (want an empty list) and was made from %q", w.Processes, w.From)
	}
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if w, err = e.State(t.Context(), c, "box"); err != nil || !w.Live || len(w.Losses) == 0 || len(w.Restored) == 0 {
		t.Errorf("after a cold start it does not say what was lost: %+v, %v", w, err)
	}
	reached, release := s.World.Hold("guest.state")
	done := make(chan error, 1)
	go func() {
		_, err := e.State(t.Context(), &vm.Call{Actor: c.Actor}, "box")
		done <- err
	}()
	<-reached
	s.World.End(v.ID, "guest-poweroff")
	release()
	if err := <-done; err == nil {
		t.Error("a guest that ended while it was asked gave an answer")
	}
}

// TestStateFailures: partial failures are listed; a guest that does not answer at all is
// an error.
func TestStateFailures(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	s.World.Fail("guest.exec", vm.Errorf(vm.GuestFault, "", "no more processes"))
	w, err := e.State(t.Context(), c, "box")
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Problems) != 1 || !strings.Contains(w.Problems[0], "services: ") || w.Services == nil {
		t.Errorf("services that cannot be listed leave the problems %q and services %v, want one problem and an empty list", w.Problems, w.Services)
	}
	if len(w.Ports) != 3 {
		t.Errorf("beside the services' failure the ports are %+v, want all 3", w.Ports)
	}
	s.World.Fail("guest.state", vm.Errorf(vm.GuestFault, "", "nonsense"))
	if _, err := e.State(t.Context(), c, "box"); vm.KindOf(err) != vm.GuestFault {
		t.Errorf("a guest that answers nonsense gives %v, want a fault of the guest", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := e.State(ctx, c, "box"); err == nil {
		t.Error("a caller that is gone got an answer")
	}
}
