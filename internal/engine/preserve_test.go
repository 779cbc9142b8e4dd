// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestPreserve: a backup finds the disk of every VM in a generation whose files stay until
// it is done, whatever is deleted meanwhile; no operation runs while it reads the records;
// and running VMs keep running.
func TestPreserve(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "running"})
	create(t, e, c, engine.CreateRequest{Name: "stopped"})
	create(t, e, c, engine.CreateRequest{Name: "suspended"})
	if _, err := e.Stop(t.Context(), c, "stopped"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Suspend(t.Context(), c, "suspended", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	var at map[string]vm.VM
	p, err := e.Preserve(t.Context(), c, func(string) {}, func(ctx context.Context) error {
		at = map[string]vm.VM{}
		for _, name := range []string{"running", "stopped", "suspended"} {
			rec, err := e.Get(ctx, c, name)
			if err != nil {
				return err
			}
			at[name] = rec
		}
		bounded, stop := context.WithTimeout(ctx, 50*time.Millisecond)
		defer stop()
		if _, err := e.Snapshot(bounded, c, "running", engine.SnapshotRequest{}); err == nil {
			t.Error("a snapshot is made while the records are read")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Left) != 0 {
		t.Errorf("VMs are left out: %v", p.Left)
	}
	if at["running"].State != vm.Running {
		t.Errorf("the running VM is %s", at["running"].State)
	}
	if _, err := e.Delete(t.Context(), c, "running"); err != nil {
		t.Fatal(err)
	}
	for name, rec := range at {
		id := rec.DiskOn
		if rec.State == vm.Suspended {
			id = rec.Generation
		}
		files, g, err := p.Open(id)
		if err != nil {
			t.Fatalf("the files of %s: %v", name, err)
		}
		has := map[string]bool{}
		for _, f := range files {
			st, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			has[st.Name()] = true
			f.Close()
		}
		if !has["disk.qcow2"] || !has["manifest.json"] || has["ram"] != (name == "suspended") || !g.Durable {
			t.Errorf("%s is in a generation with the files %v, durable %v", name, has, g.Durable)
		}
	}
	count := func() int {
		t.Helper()
		list, err := s.World.Generations(s.Dir).List()
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if n := count(); n != 3 {
		t.Errorf("before the release %d generations have files, want those of three VMs", n)
	}
	p.Release()
	p.Release()
	eventually(t, "after the release only the generations of two VMs have files", func() bool { return count() == 2 })
	closeEngine(t, e) // which waits for what it collects
	if n := count(); n != 2 {
		t.Errorf("at the end %d generations have files, want those of two VMs", n)
	}
}

// TestPreserveLeavesOut: a VM that cannot be captured is named, and the others are in the
// backup.
func TestPreserveLeavesOut(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	s.World.Fail("capture", vm.Errorf(vm.NoSpace, "", "the disk is full"))
	p, err := e.Preserve(t.Context(), c, func(string) {}, func(context.Context) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if why := p.Left[v.ID]; why == "" {
		t.Error("the VM whose capture failed is not named")
	}
	broken := errors.New("the records cannot be read")
	if _, err := e.Preserve(t.Context(), c, func(string) {}, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("records that cannot be read give %v", err)
	}
}
