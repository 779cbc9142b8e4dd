// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package names_test

import (
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// show enters a preview by a label, as the gateway does.
func show(t *testing.T, e *vmtest.House, label string) error {
	t.Helper()
	at, ok := e.PreviewSite(label, 3000)
	if !ok {
		t.Fatalf("nothing is shown under %s", label)
	}
	_, leave, err := e.EnterPreview(t.Context(), &vm.Call{Actor: vm.Actor{Account: at.Account, System: "preview"}}, at)
	if err == nil {
		leave()
	}
	return err
}

// A browser keeps what a page stored under its host name. So the name of a VM
// that is gone shows no other account's VM, also after a restart, until nobody's
// browser remembers.
func TestShownNameStays(t *testing.T) {
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	clock := vmtest.NewClock()
	s.Clock = clock
	e, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := call(t, e)
	other := account(t, e, c, "other")
	first := create(t, e, c, engine.CreateRequest{Name: "box"})
	unseen := create(t, e, c, engine.CreateRequest{Name: "unseen"})
	if err := show(t, e, "box"); err != nil {
		t.Fatal(err)
	}
	for _, v := range []vm.VM{first, unseen} {
		if _, err := e.Delete(t.Context(), c, string(v.ID)); err != nil {
			t.Fatal(err)
		}
	}
	theirs := create(t, e, other, engine.CreateRequest{Name: "box"})
	create(t, e, other, engine.CreateRequest{Name: "unseen"})
	if _, ok := e.PreviewSite("box", 3000); ok {
		t.Error("another account's VM is shown under the name at once")
	}
	if _, ok := e.PreviewSite(string(theirs.ID), 3000); !ok {
		t.Error("it is not shown by its id")
	}
	if _, byName, err := e.Site(t.Context(), other, "box", 3000); err != nil || byName {
		t.Errorf("its owner is given the name: %v, %v", byName, err)
	}
	if err := show(t, e, "unseen"); err != nil {
		t.Errorf("a name under which nothing was shown: %v", err)
	}
	closeEngine(t, e)

	if e, err = s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer closeEngine(t, e)
	if _, ok := e.PreviewSite("box", 3000); ok {
		t.Error("another account's VM is shown under the name after a restart")
	}
	clock.Advance(vm.ShownNameLasts + 24*time.Hour)
	if err := show(t, e, "box"); err != nil {
		t.Errorf("the name is not free again after %s: %v", vm.ShownNameLasts, err)
	}
	if at, _ := e.PreviewSite("box", 3000); at.VM != theirs.ID {
		t.Errorf("shown under the name: %s, want %s", at.VM, theirs.ID)
	}
}

// A mapped name below the preview domain is first come, first served, too.
func TestShownNameMapped(t *testing.T) {
	_, e, c := site(t)
	other := account(t, e, c, "other")
	create(t, e, c, engine.CreateRequest{Name: "mine"})
	create(t, e, other, engine.CreateRequest{Name: "theirs"})
	name := "web.warren.localhost"
	if _, err := e.MapDomain(t.Context(), c, name, "mine", 80); err != nil {
		t.Fatal(err)
	}
	at, ok := e.DomainSite(name)
	if !ok {
		t.Fatal("the name shows nothing")
	}
	_, leave, err := e.EnterPreview(t.Context(), &vm.Call{Actor: vm.Actor{Account: at.Account, System: "preview"}}, at)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	if _, err := e.Unmap(t.Context(), c, name); err != nil {
		t.Fatal(err)
	}
	if _, err := e.MapDomain(t.Context(), other, name, "theirs", 80); err == nil {
		t.Error("another account has the name at once")
	}
	if _, err := e.MapDomain(t.Context(), c, name, "mine", 80); err != nil {
		t.Errorf("its own account has it not: %v", err)
	}
}

// TestNamelessPreview: a VM without a name is found by its id only, also if no other VM is without one.
func TestNamelessPreview(t *testing.T) {
	_, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{})
	if _, byName, err := e.Site(t.Context(), c, string(v.ID), 3000); err != nil || byName {
		t.Errorf("its preview has no name, but byName is %v: %v", byName, err)
	}
	if at, ok := e.PreviewSite("", 3000); ok {
		t.Errorf("no name finds %s", at.VM)
	}
}
