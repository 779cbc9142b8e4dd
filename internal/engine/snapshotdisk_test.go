// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// The disk of a suspended VM can be kept alone: its memory does not change, even if it is
// sealed, and the VM resumes from it.
func TestDiskSnapshotOfSuspended(t *testing.T) {
	for _, cold := range []bool{false, true} {
		t.Run(fmt.Sprintf("cold %v", cold), func(t *testing.T) {
			s, e, c := site(t)
			ctx := t.Context()
			create(t, e, c, engine.CreateRequest{Name: "box"})
			sh(t, e, c, "box", "echo kept > /work/f")
			p, err := e.StartProcess(ctx, c, "box", vm.ExecSpec{Command: "sleep 60"})
			if err != nil {
				t.Fatal(err)
			}
			before, err := e.Suspend(ctx, c, "box", engine.SuspendRequest{Cold: cold})
			if err != nil {
				t.Fatal(err)
			}
			g, err := e.Snapshot(ctx, c, "box", engine.SnapshotRequest{Name: "disk", DiskOnly: true})
			if err != nil || g.Memory || g.Whole() || !g.Durable || g.State != vm.GenReady {
				t.Fatalf("the snapshot is %+v (%v), want the disk alone, durable and ready", g, err)
			}
			if disk, memory := s.World.Generations(s.Dir).Present(g.ID); !disk || memory {
				t.Errorf("files of the disk %v, of memory %v", disk, memory)
			}
			if now, err := e.Get(ctx, c, "box"); err != nil || now.State != vm.Suspended || now.Generation != before.Generation {
				t.Errorf("the VM is %s on %s, %v", now.State, now.Generation, err)
			}
			if from, err := e.FindSnapshot(ctx, c, string(before.Generation)); err != nil || from.Sealed != cold {
				t.Errorf("its memory is sealed %v, %v", from.Sealed, err)
			}
			child := create(t, e, c, engine.CreateRequest{Name: "child", Image: "disk"})
			if out, _ := sh(t, e, c, "child", "cat /work/f"); out != "kept\n" || len(child.Losses) == 0 {
				t.Errorf("what is made of it has %q, lost %v", out, child.Losses)
			}
			if _, err := e.Start(ctx, c, "box", engine.StartRequest{}); err != nil {
				t.Fatal(err)
			}
			if !running(t, e, c, "box", p.ID) {
				t.Error("its process is gone")
			}
			for _, name := range []string{"box", "child"} {
				if _, err := e.Delete(ctx, c, name); err != nil {
					t.Fatal(err)
				}
			}
			again := create(t, e, c, engine.CreateRequest{Name: "again", Image: "disk"})
			if out, _ := sh(t, e, c, string(again.ID), "cat /work/f"); out != "kept\n" {
				t.Errorf("without its VM it has %q", out)
			}
			consistent(t, s)
		})
	}
}

// gated is a collection whose first matching change, once it is armed, waits.
type gated struct {
	armed            atomic.Bool
	reached, release chan struct{}
}

func gate[T any](b *vmtest.Backend, kind string, want func(T) bool) *gated {
	g := &gated{reached: make(chan struct{}), release: make(chan struct{})}
	b.Fault = func(done bool, ops []ledger.Op) error {
		for _, o := range ops {
			var rec T
			if done || o.Kind != kind || o.Revision == 0 || o.Delete || json.Unmarshal(o.Value, &rec) != nil || !want(rec) {
				continue
			}
			if g.armed.CompareAndSwap(true, false) {
				close(g.reached)
				<-g.release
			}
		}
		return nil
	}
	return g
}

// recorded counts the audit records of a verb that have no outcome yet.
func recorded(s *vmtest.Site, op vm.Op) (n int) {
	all, err := s.Audit.Pending(context.Background())
	if err != nil {
		return -1
	}
	for _, r := range all {
		if r.Op == op {
			n++
		}
	}
	return n
}

// Of two concurrent snapshots with the same name, one is refused.
func TestRenamesMeet(t *testing.T) {
	s, e, _ := site(t)
	ctx := t.Context()
	closeEngine(t, e)
	g := gate(s.Backend, "generations", func(g vm.Generation) bool { return g.Name == "same" })
	e, c := open(t, s)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	for _, name := range []string{"a", "b"} {
		if _, err := e.Snapshot(ctx, c, "box", engine.SnapshotRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	errs := make(chan error, 2)
	rename := func(name string) {
		_, err := e.RenameSnapshot(ctx, &vm.Call{Actor: c.Actor, Request: vm.NewRequestID()}, name, "same")
		errs <- err
	}
	g.armed.Store(true)
	go rename("a")
	<-g.reached
	go rename("b")
	// It has checked the name by the time its audit record is written.
	eventually(t, "both are in progress", func() bool { return recorded(s, vm.OpSnapshotRename) == 2 })
	close(g.release)
	if one, other := <-errs, <-errs; (one == nil) == (other == nil) {
		t.Errorf("renamed: %v; %v", one, other)
	}
	list, err := e.Snapshots(ctx, c, false)
	if n := len(slices.DeleteFunc(list, func(g vm.Generation) bool { return g.Name != "same" })); err != nil || n != 1 {
		t.Errorf("%d snapshots have the name, %v", n, err)
	}
}

// Losers that are replaced within a second under one name get different names, and no VM
// takes a name that is moving from one VM to another.
func TestKeptNamesAreUnique(t *testing.T) {
	s, e, _ := site(t)
	ctx := t.Context()
	closeEngine(t, e)
	s.Clock = vmtest.NewClock()
	g := gate(s.Backend, "vms", func(v vm.VM) bool { return strings.HasPrefix(v.Name, "app-old-") })
	e, c := open(t, s)
	for _, name := range []string{"app", "one", "two"} {
		create(t, e, c, engine.CreateRequest{Name: name})
	}
	kept := func(name string) {
		t.Helper()
		if _, err := e.Keep(ctx, c, name, "app", false); err != nil {
			t.Fatal(err)
		}
	}
	kept("one")
	g.armed.Store(true)
	ended := make(chan error, 1)
	go func() {
		_, err := e.Keep(ctx, c, "two", "app", false)
		ended <- err
	}()
	<-g.reached // app is about to get another name
	_, err := e.Create(ctx, &vm.Call{Actor: c.Actor, Request: vm.NewRequestID()}, engine.CreateRequest{
		Name: "app-old-" + s.Clock.Now().Format("0102-150405") + "-2", UniqueName: true,
	})
	if vm.KindOf(err) != vm.Exists {
		t.Errorf("the name of the loser is taken from it: %v", err)
	}
	close(g.release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	list, _, _, err := e.List(ctx, c, engine.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if seen[v.Name] {
			t.Errorf("two VMs have the name %s", v.Name)
		}
		seen[v.Name] = true
	}
}

// A volume is not locked while a VM that uses it is about to resume.
func TestLockMeetsResume(t *testing.T) {
	for _, at := range []string{"start:record", "start:disk", "start:launch"} {
		t.Run(at, func(t *testing.T) {
			s, e, _ := site(t)
			ctx := t.Context()
			closeEngine(t, e)
			reached, release := make(chan struct{}), make(chan struct{})
			var armed atomic.Bool
			s.Fault = func(label string) error {
				if label == at && armed.CompareAndSwap(true, false) {
					close(reached)
					<-release
				}
				return nil
			}
			e, c := open(t, s)
			create(t, e, c, engine.CreateRequest{Name: "box"})
			newVolume(t, e, c, "vol")
			unlock(t, e, c, "vol")
			mount(t, e, c, "box", mountOf("vol", "/data"))
			if _, err := e.Suspend(ctx, c, "box", engine.SuspendRequest{}); err != nil {
				t.Fatal(err)
			}
			armed.Store(true)
			ended := make(chan error, 1)
			go func() {
				_, err := e.Start(ctx, &vm.Call{Actor: c.Actor, Request: vm.NewRequestID()}, "box", engine.StartRequest{})
				ended <- err
			}()
			<-reached
			for _, force := range []bool{false, true} {
				if _, err := e.LockVolume(ctx, c, ref("vol"), force); vm.KindOf(err) != vm.Busy {
					t.Errorf("locked with force %v: %v", force, err)
				}
			}
			close(release)
			if err := <-ended; err != nil {
				t.Errorf("the resume: %v", err)
			}
			volumeIs(t, e, c, "vol", true, 1)
			consistent(t, s)
			if _, err := e.Suspend(ctx, c, "box", engine.SuspendRequest{}); err != nil {
				t.Fatal(err)
			}
			if _, err := e.LockVolume(ctx, c, ref("vol"), false); err != nil {
				t.Errorf("below a VM that sleeps: %v", err)
			}
		})
	}
}
