// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

func renameVM(t *testing.T, e *vmtest.House, c *vm.Call, ref, name string) vm.VM {
	t.Helper()
	v, err := e.RenameVM(t.Context(), c, ref, name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRenameVM: the new name finds the VM and the old one nothing. There is one audit
// record and one event. The guest gets the name with its next start.
func TestRenameVM(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	c.Receipt = ""
	if got := renameVM(t, e, c, "box", "web"); got.Name != "web" || got.ID != v.ID {
		t.Errorf("the renamed VM is %s named %q, want %s named web", got.ID, got.Name, v.ID)
	}
	if got, err := e.Get(t.Context(), c, "web"); err != nil || got.ID != v.ID {
		t.Errorf("by the new name: %s, %v", got.ID, err)
	}
	_, err := e.Get(t.Context(), c, "box")
	wantCode(t, err, vm.NotFound, "VM_NOT_FOUND")
	all := records(t, s)
	last := all[0]
	if last.ID != c.Receipt || last.Op != vm.OpVMRename || last.VM != v.ID || last.Subject != "web" || last.Detail["from"] != "box" || last.Outcome != "ok" {
		t.Errorf("recorded as %+v", last)
	}
	if n := eventsOf(s, "vm.renamed"); n != 1 {
		t.Errorf("%d events", n)
	}
	renameVM(t, e, c, "web", "web")
	if n := len(records(t, s)); n != len(all) || eventsOf(s, "vm.renamed") != 1 {
		t.Errorf("the name that it has is recorded: %d records, then %d", len(all), n)
	}
	if out, _ := sh(t, e, c, "web", "hostname"); out != "box\n" {
		t.Errorf("while it runs its host name is %q", out)
	}
	if _, err := e.Suspend(t.Context(), c, "web", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	renameVM(t, e, c, "web", "shop")
	if st := stateOf(t, e, c, "shop"); st != vm.Suspended {
		t.Errorf("a sleeping VM was made %s", st)
	}
	if out, _ := sh(t, e, c, "shop", "hostname"); out != "shop\n" {
		t.Errorf("woken, its host name is %q", out)
	}
}

// TestRenameVMRefused: a name is unique in its account, and has a fixed form.
func TestRenameVMRefused(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	create(t, e, c, engine.CreateRequest{Name: "web"})
	_, err := e.RenameVM(t.Context(), c, "box", "web")
	wantCode(t, err, vm.Exists, "")
	_, err = e.RenameVM(t.Context(), c, "box", "Bad_Name")
	wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	_, err = e.RenameVM(t.Context(), c, "none", "other")
	wantCode(t, err, vm.NotFound, "VM_NOT_FOUND")
	other, _ := newAccount(t, e, c, "other")
	_, err = e.RenameVM(t.Context(), other, "box", "mine")
	wantCode(t, err, vm.NotFound, "VM_NOT_FOUND")
	create(t, e, other, engine.CreateRequest{Name: "box"})
	renameVM(t, e, other, "box", "web") // another account's name is no obstacle
}

// TestRenameVMWaits: a VM that is being started is renamed when it runs.
func TestRenameVMWaits(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	reached, release := s.World.Hold("launch")
	started, renamed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := e.Start(t.Context(), &vm.Call{Actor: c.Actor}, "box", engine.StartRequest{})
		started <- err
	}()
	<-reached
	go func() {
		_, err := e.RenameVM(t.Context(), &vm.Call{Actor: c.Actor}, "box", "web")
		renamed <- err
	}()
	select {
	case err := <-renamed:
		t.Errorf("renamed while it started: %v", err)
	default:
	}
	release()
	if err := <-started; err != nil {
		t.Errorf("start: %v", err)
	}
	if err := <-renamed; err != nil {
		t.Errorf("rename: %v", err)
	}
	if st := stateOf(t, e, c, "web"); st != vm.Running {
		t.Errorf("web is %q", st)
	}
}

// TestRenameVMsMeet: a name that a VM is about to get counts as taken.
func TestRenameVMsMeet(t *testing.T) {
	s, e, _ := site(t)
	closeEngine(t, e)
	g := gate(s.Backend, "vms", func(v vm.VM) bool { return v.Name == "same" })
	e, c := open(t, s)
	create(t, e, c, engine.CreateRequest{Name: "a"})
	create(t, e, c, engine.CreateRequest{Name: "b"})
	g.armed.Store(true)
	done := make(chan error, 1)
	go func() {
		_, err := e.RenameVM(t.Context(), &vm.Call{Actor: c.Actor}, "a", "same")
		done <- err
	}()
	<-g.reached
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	_, err := e.RenameVM(ctx, &vm.Call{Actor: c.Actor}, "b", "same")
	wantCode(t, err, vm.Exists, "")
	close(g.release)
	if err := <-done; err != nil {
		t.Errorf("the first: %v", err)
	}
}
