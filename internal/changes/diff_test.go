// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// open opens the rooms of one server on a simulated host, with a running VM "app".
func open(t *testing.T) (*vmtest.Site, *vmtest.House, *vm.Call) {
	t.Helper()
	return openWith(t, "app")
}

// openWith is open with another name of the VM.
func openWith(t *testing.T, name string) (*vmtest.Site, *vmtest.House, *vm.Call) {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := h.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	c, _, err := vmtest.Admin(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	create(t, h, c, name)
	return s, h, c
}

func create(t *testing.T, h *vmtest.House, c *vm.Call, name string) {
	t.Helper()
	if _, err := h.Create(t.Context(), c, engine.CreateRequest{Name: name}); err != nil {
		t.Fatal(err)
	}
}

// write writes a file in a VM.
func write(t *testing.T, h *vmtest.House, c *vm.Call, ref, path, text string) {
	t.Helper()
	if _, err := h.WriteFile(t.Context(), c, ref, "", path, vm.WriteOptions{Size: int64(len(text))}, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

// diff compares, and returns the changes one a line.
func diff(t *testing.T, h *vmtest.House, c *vm.Call, ref string, r vm.DiffRequest) (vm.Diff, []string) {
	t.Helper()
	d, err := h.Diff(t.Context(), c, ref, r)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, x := range d.Changes {
		if x.Path == "/etc/hostname" { // Warren's own
			continue
		}
		list = append(list, string(x.Verb)+" "+x.Path.String())
	}
	return d, list
}

func wants(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s shows %q, want %q", what, got, want)
	}
}

// A VM is compared with its image unless it has a turn, with a turn by its number, and
// with another VM. What changes between two comparisons changes the manifest, and nothing
// else does.
func TestDiffStates(t *testing.T) {
	_, h, c := open(t)
	write(t, h, c, "app", "/work/one", "1")
	first, list := diff(t, h, c, "app", vm.DiffRequest{})
	wants(t, "a new VM", list, "added /work/one")
	if first.From.Generation != "" || first.From.Image == "" || first.To.Why != vm.WhyReview || first.To.VMName != "app" {
		t.Errorf("the sides are %+v and %+v, want the image and a capture for a review", first.From, first.To)
	}
	again, _ := diff(t, h, c, "app", vm.DiffRequest{})
	if again.Manifest != first.Manifest || again.To.Generation == first.To.Generation {
		t.Errorf("a second comparison of the same content has the manifest %s and the generation %s, want the same manifest and another generation", again.Manifest, again.To.Generation)
	}
	if _, err := h.Turn(t.Context(), c, "app", engine.TurnRequest{Note: "try"}); err != nil {
		t.Fatal(err)
	}
	write(t, h, c, "app", "/work/two", "2")
	since, list := diff(t, h, c, "app", vm.DiffRequest{})
	wants(t, "a VM with a turn", list, "added /work/two")
	if since.From.Why != vm.WhyTurn || since.Manifest == first.Manifest {
		t.Errorf("the older side is %+v, want the turn, with another manifest", since.From)
	}
	_, list = diff(t, h, c, "app", vm.DiffRequest{From: "image", To: "1"})
	wants(t, "the image and turn 1", list, "added /work/one")
	_, list = diff(t, h, c, "app", vm.DiffRequest{From: string(first.To.Generation), Paths: []vm.GuestPath{"/etc"}})
	wants(t, "a path without changes", list)
	create(t, h, c, "other")
	_, list = diff(t, h, c, "app", vm.DiffRequest{From: "vm:other"})
	wants(t, "two VMs", list, "added /work/one", "added /work/two")
}

// A fork is compared with the state in which it left its parent, and a VM that is no fork
// has none.
func TestDiffParent(t *testing.T) {
	_, h, c := open(t)
	write(t, h, c, "app", "/work/before", "1")
	if _, err := h.Fork(t.Context(), c, "app", engine.ForkRequest{Count: 1, Prefix: "try"}); err != nil {
		t.Fatal(err)
	}
	write(t, h, c, "try-1", "/work/child", "2")
	write(t, h, c, "app", "/work/parent", "3")
	d, list := diff(t, h, c, "try-1", vm.DiffRequest{From: "parent"})
	wants(t, "a fork and its parent's state", list, "added /work/child")
	for _, want := range []string{"what programs read", "memory and older generations"} {
		if !slices.ContainsFunc(d.NotCompared, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("not compared is %q, want a line that begins with %q", d.NotCompared, want)
		}
	}
	if slices.ContainsFunc(d.NotCompared, func(s string) bool { return strings.Contains(s, "without writing the guest's cache") }) {
		t.Errorf("not compared is %q, want that a fork is captured with what programs wrote", d.NotCompared)
	}
	_, list = diff(t, h, c, "try-1", vm.DiffRequest{})
	wants(t, "a fork by default", list, "added /work/child")
	_, list = diff(t, h, c, "try-1", vm.DiffRequest{From: "vm:app"})
	wants(t, "a fork and its parent now", list, "added /work/child", "deleted /work/parent")
	if _, err := h.Diff(t.Context(), c, "app", vm.DiffRequest{From: "parent"}); vm.KindOf(err) != vm.NotFound {
		t.Errorf("the parent of a VM that is no fork: %v, want kind not-found", err)
	}
}

// A stopped and a suspended VM are compared without a start. A stopped VM is captured
// once.
func TestDiffAsleep(t *testing.T) {
	_, h, c := open(t)
	write(t, h, c, "app", "/work/one", "1")
	if _, err := h.Suspend(t.Context(), c, "app", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	d, list := diff(t, h, c, "app", vm.DiffRequest{})
	wants(t, "a suspended VM", list, "added /work/one")
	if slices.ContainsFunc(d.NotCompared, func(s string) bool { return strings.Contains(s, "cache") }) {
		t.Errorf("not compared is %q: a suspend syncs the disk", d.NotCompared)
	}
	if d.To.Why != vm.WhySuspend {
		t.Errorf("the newer side was captured for %s, want suspend", d.To.Why)
	}
	if _, err := h.Start(t.Context(), c, "app", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Stop(t.Context(), c, "app"); err != nil {
		t.Fatal(err)
	}
	first, list := diff(t, h, c, "app", vm.DiffRequest{})
	wants(t, "a stopped VM", list, "added /work/one")
	second, _ := diff(t, h, c, "app", vm.DiffRequest{})
	if first.To.Generation != second.To.Generation {
		t.Error("a stopped VM is captured twice")
	}
	if v, err := h.Get(t.Context(), c, "app"); err != nil || v.State != vm.Stopped {
		t.Errorf("after its comparison the VM is %s, %v", v.State, err)
	}
}

// Of the captures for reviews a VM keeps the newest, and none that is read is removed.
func TestDiffKeepsTheNewest(t *testing.T) {
	s, h, c := open(t)
	var last vm.Diff
	for range 3 {
		write(t, h, c, "app", "/work/one", time.Now().String())
		last, _ = diff(t, h, c, "app", vm.DiffRequest{})
	}
	kept := func() (list []vm.GenerationID) {
		all, err := h.Snapshots(t.Context(), c, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range all {
			if g.Why == vm.WhyReview && !g.Gone && !slices.ContainsFunc(all, func(o vm.Generation) bool { return o.DiskOn == g.ID }) {
				list = append(list, g.ID)
			}
		}
		return list
	}
	// The lower layers stay below the VM's disk until they are merged; none is kept for
	// itself.
	if got := kept(); !slices.Equal(got, []vm.GenerationID{last.To.Generation}) {
		t.Errorf("kept for themselves are %q, want the newest, %s", got, last.To.Generation)
	}
	// While a capture is read, its files stay, even if the VM is removed.
	reached, release := s.World.Hold("read-disk")
	done := make(chan error, 1)
	go func() {
		_, err := h.Diff(context.Background(), c, "app", vm.DiffRequest{})
		done <- err
	}()
	<-reached
	if _, err := h.Delete(t.Context(), c, "app"); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-done; err != nil {
		t.Errorf("a VM that is removed while it is read: %v", err)
	}
}

// A comparison that cannot be made is an error.
func TestNoDiff(t *testing.T) {
	s, h, c := open(t)
	for _, p := range []vm.GuestPath{"work", "/work/../etc", "/a\x00b", "/.."} {
		if _, err := h.Diff(t.Context(), c, "app", vm.DiffRequest{Paths: []vm.GuestPath{p}}); vm.KindOf(err) != vm.Invalid {
			t.Errorf("the path %s: %v, want kind invalid", p, err)
		}
	}
	for _, from := range []string{"none", "vm:none", "7"} {
		if _, err := h.Diff(t.Context(), c, "app", vm.DiffRequest{From: from}); vm.KindOf(err) != vm.NotFound {
			t.Errorf("from %s: %v, want kind not-found", from, err)
		}
	}
	broken := vm.Errorf(vm.Corrupt, "", "the file system is damaged")
	s.World.Fail("read-disk", broken)
	if d, err := h.Diff(t.Context(), c, "app", vm.DiffRequest{}); vm.KindOf(err) != vm.Corrupt || len(d.Groups) > 0 {
		t.Errorf("a damaged disk: %+v, %v", d, err)
	}
}

// An identity compares only VMs that it was granted as root, on both sides.
func TestDiffRights(t *testing.T) {
	_, h, c := open(t)
	create(t, h, c, "other")
	i, err := h.CreateIdentity(t.Context(), c, "agent")
	if err != nil {
		t.Fatal(err)
	}
	agent := &vm.Call{Actor: vm.Actor{Account: c.Actor.Account, Identity: i.ID}}
	denied := func(what, ref string, r vm.DiffRequest) {
		t.Helper()
		if _, err := h.Diff(t.Context(), agent, ref, r); vm.KindOf(err) != vm.Denied {
			t.Errorf("%s: %v, want kind denied", what, err)
		}
	}
	grant := func(ref string, users ...string) {
		t.Helper()
		v, err := h.Get(t.Context(), c, ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.GrantVM(t.Context(), c, string(i.ID), string(v.ID), users); err != nil {
			t.Fatal(err)
		}
	}
	denied("a VM that was not granted", "app", vm.DiffRequest{})
	grant("app", "root")
	if _, err := h.Diff(t.Context(), agent, "app", vm.DiffRequest{}); err != nil {
		t.Errorf("a VM that was granted: %v", err)
	}
	denied("another VM as the older side", "app", vm.DiffRequest{From: "vm:other"})
	d, err := h.Diff(t.Context(), c, "other", vm.DiffRequest{})
	if err != nil {
		t.Fatal(err)
	}
	denied("another VM's generation", "app", vm.DiffRequest{From: string(d.To.Generation)})
	grant("other", "nobody")
	denied("a VM that was granted for another user", "other", vm.DiffRequest{})
}
