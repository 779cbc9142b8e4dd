// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// quotaed gives an account a quota and returns a call of it.
func quotaed(t *testing.T, e *vmtest.House, admin *vm.Call, q vm.Quota) *vm.Call {
	t.Helper()
	c, _ := newAccount(t, e, admin, "team")
	if _, err := e.SetQuota(t.Context(), admin, "team", q); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestQuotas: each limit refuses with the contract's code and its numbers, and ending a
// VM makes room.
func TestQuotas(t *testing.T) {
	_, e, admin := site(t)
	ctx := t.Context()
	big := engine.CreateRequest{Name: "b", Size: vm.Size{VCPU: 2, MemoryMiB: 2048}}
	for _, tc := range []struct {
		quota vm.Quota
		then  engine.CreateRequest
		code  string
		want  map[string]any
		free  func(c *vm.Call) error // after it there is room
	}{
		{
			vm.Quota{VMs: 1},
			engine.CreateRequest{},
			"TOTAL_VM_LIMIT_EXCEEDED",
			map[string]any{"limit": 1, "current": 1},
			func(c *vm.Call) error { _, err := e.Delete(ctx, c, "a"); return err },
		},
		{
			vm.Quota{Running: 1},
			engine.CreateRequest{},
			"VM_LIMIT_EXCEEDED",
			map[string]any{"limit": 1, "current": 1},
			func(c *vm.Call) error { _, err := e.Suspend(ctx, c, "a", engine.SuspendRequest{}); return err },
		},
		{
			vm.Quota{VCPU: 2},
			big, "VCPU_OVER_PLAN_LIMIT",
			map[string]any{"got": 3, "max": 2},
			func(c *vm.Call) error { _, err := e.Stop(ctx, c, "a"); return err },
		},
		{
			vm.Quota{MemoryMiB: 2048},
			big, "MEM_OVER_PLAN_LIMIT",
			map[string]any{"got": 2560, "max": 2048},
			func(c *vm.Call) error { _, err := e.Stop(ctx, c, "a"); return err },
		},
	} {
		c := quotaed(t, e, admin, tc.quota)
		create(t, e, c, engine.CreateRequest{Name: "a"})
		_, err := e.Create(ctx, c, tc.then)
		wantCode(t, err, vm.Limit, tc.code)
		for k, v := range tc.want {
			if got := vm.AsError(err).Fields[k]; got != v {
				t.Errorf("%s: %s is %v, not %v", tc.code, k, got, v)
			}
		}
		_, err = e.Fork(ctx, c, "a", engine.ForkRequest{Count: 5})
		wantCode(t, err, vm.Limit, tc.code)
		if err := tc.free(c); err != nil {
			t.Fatal(err)
		}
		create(t, e, c, tc.then)
		if n := len(names(t, e, admin)); n != 0 { // another account's are not counted, and nothing is left
			t.Errorf("the admin has %d VMs", n)
		}
		if err := e.RemoveAccount(ctx, admin, c.Actor.Account, true); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQuotaOfStartAndResize: stopped VMs may not start, and running ones may not grow,
// beyond the quota.
func TestQuotaOfStartAndResize(t *testing.T) {
	_, e, admin := site(t)
	ctx := t.Context()
	c := quotaed(t, e, admin, vm.Quota{Running: 1, VCPU: 2})
	create(t, e, c, engine.CreateRequest{Name: "a"})
	if _, err := e.Suspend(ctx, c, "a", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	create(t, e, c, engine.CreateRequest{Name: "b"})
	_, err := e.Start(ctx, c, "a", engine.StartRequest{})
	wantCode(t, err, vm.Limit, "VM_LIMIT_EXCEEDED")
	if st := stateOf(t, e, c, "a"); st != vm.Suspended {
		t.Errorf("a is %s", st)
	}
	_, err = e.Resize(ctx, c, "b", engine.ResizeRequest{Size: vm.Size{VCPU: 4}})
	wantCode(t, err, vm.Limit, "VCPU_OVER_PLAN_LIMIT")
	if _, err := e.Resize(ctx, c, "b", engine.ResizeRequest{Size: vm.Size{VCPU: 2}}); err != nil {
		t.Error(err)
	}
	if _, err := e.Stop(ctx, c, "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(ctx, c, "a", engine.StartRequest{}); err != nil {
		t.Error(err)
	}
}

// TestQuotaAtOnce: concurrent requests get no more than there is room for.
func TestQuotaAtOnce(t *testing.T) {
	_, e, admin := site(t)
	c := quotaed(t, e, admin, vm.Quota{Running: 3})
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			own := *c
			_, err := e.Create(t.Context(), &own, engine.CreateRequest{Name: fmt.Sprintf("vm-%d", i)})
			if err != nil && vm.AsError(err).Code != "VM_LIMIT_EXCEEDED" {
				t.Errorf("the create of vm-%d ends with %v, want success or the limit", i, err)
			}
		})
	}
	wg.Wait()
	if n := len(names(t, e, c)); n != 3 {
		t.Errorf("%d VMs run, 3 may", n)
	}
	if _, err := e.Delete(t.Context(), c, names(t, e, c)[0]); err != nil {
		t.Fatal(err)
	}
	create(t, e, c, engine.CreateRequest{Name: "after"})
}

// TestQuotaOfSnapshots: the number of snapshots, and the memory of snapshots and
// suspended VMs, are limited.
func TestQuotaOfSnapshots(t *testing.T) {
	_, e, admin := site(t)
	ctx := t.Context()
	c := quotaed(t, e, admin, vm.Quota{Snapshots: 1})
	create(t, e, c, engine.CreateRequest{Name: "a"})
	g, err := e.Snapshot(ctx, c, "a", engine.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Snapshot(ctx, c, "a", engine.SnapshotRequest{})
	wantCode(t, err, vm.Limit, "SNAPSHOT_LIMIT_EXCEEDED")
	if _, err := e.RemoveSnapshot(ctx, c, string(g.Snapshot)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.SetQuota(ctx, admin, "team", vm.Quota{MemoryImages: 32 << 20}); err != nil {
		t.Fatal(err)
	}
	_, err = e.Snapshot(ctx, c, "a", engine.SnapshotRequest{})
	wantCode(t, err, vm.Limit, "MEMORY_STORAGE_QUOTA_EXCEEDED")
	_, err = e.Suspend(ctx, c, "a", engine.SuspendRequest{})
	wantCode(t, err, vm.Limit, "MEMORY_STORAGE_QUOTA_EXCEEDED")
	if st := stateOf(t, e, c, "a"); st != vm.Running {
		t.Errorf("a is %s", st)
	}
	if _, err := e.Snapshot(ctx, c, "a", engine.SnapshotRequest{DiskOnly: true}); err != nil {
		t.Error(err)
	}
}

// TestSnapshotsAtOnce: of concurrent snapshots, one more than the quota is refused, and a
// name is given once.
func TestSnapshotsAtOnce(t *testing.T) {
	_, e, admin := site(t)
	c := quotaed(t, e, admin, vm.Quota{Snapshots: 2})
	for _, name := range []string{"a", "b", "c"} {
		create(t, e, c, engine.CreateRequest{Name: name})
	}
	at := func(names [3]string) (made int) {
		var wg sync.WaitGroup
		errs := make(chan error, 3)
		for i, ref := range []string{"a", "b", "c"} {
			wg.Go(func() {
				call := *c
				_, err := e.Snapshot(t.Context(), &call, ref, engine.SnapshotRequest{Name: names[i]})
				errs <- err
			})
		}
		wg.Wait()
		for range 3 {
			if err := <-errs; err == nil {
				made++
			} else if k := vm.KindOf(err); k != vm.Limit && k != vm.Exists {
				t.Errorf("a snapshot beyond the quota ends with %v, want the limit or that it exists", err)
			}
		}
		return made
	}
	if n := at([3]string{"same", "same", "same"}); n != 1 {
		t.Errorf("%d snapshots have the same name", n)
	}
	if n := at([3]string{"", "", ""}); n != 1 {
		t.Errorf("%d snapshots more, with room for one", n)
	}
}

// TestSetQuota: only an admin sets a quota, not below the current use, and it outlives
// the engine.
func TestSetQuota(t *testing.T) {
	s, e, admin := site(t)
	ctx := t.Context()
	c := quotaed(t, e, admin, vm.Quota{VMs: 2, Disk: 1 << 30})
	for _, name := range []string{"a", "b"} {
		create(t, e, c, engine.CreateRequest{Name: name})
	}
	for _, q := range []vm.Quota{{VMs: 1}, {Running: 1}, {VCPU: 1}, {MemoryMiB: 512}, {Disk: 1}, {VMs: -1}, {Disk: -1}, {Disk: 1 << 62}} {
		_, err := e.SetQuota(ctx, admin, "team", q)
		wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	}
	if _, err := e.SetQuota(ctx, c, "team", vm.Quota{}); vm.KindOf(err) != vm.Denied {
		t.Errorf("one's own: %v", err)
	}
	if _, err := e.SetQuota(ctx, admin, "nobody", vm.Quota{}); vm.KindOf(err) != vm.NotFound {
		t.Errorf("of nobody: %v", err)
	}
	if _, err := e.Quota(ctx, c, "admin"); vm.KindOf(err) != vm.NotFound {
		t.Errorf("another's: %v", err)
	}
	closeEngine(t, e)
	e, _ = open(t, s)
	q, err := e.Quota(ctx, c, "")
	if want := (vm.Quota{VMs: 2, Disk: 1 << 30}); err != nil || q.Quota != want {
		t.Errorf("after the restart the quota is %+v (%v), want %+v", q.Quota, err, want)
	}
	if u := q.Use; u.VMs != 2 || u.Running != 2 || u.VCPU != 2 || u.MemoryMiB != 1024 || u.Disk == 0 {
		t.Errorf("after the restart the account uses %+v, want 2 running VMs with 2 CPUs, 1024 MiB and some disk", u)
	}
}

// TestAdmissionByRealMemory: a VM that has reached its size is not expected to grow. A
// refusal names the longest unused VMs that would have to stop, and no more than needed.
// A stalling host admits no VM.
func TestAdmissionByRealMemory(t *testing.T) {
	s, e, c, clock := clocked(t)
	ctx := t.Context()
	for _, name := range []string{"old", "mid", "new"} {
		create(t, e, c, engine.CreateRequest{Name: name, Size: vm.Size{MemoryMiB: 2048}})
		clock.Advance(time.Second)
	}
	s.World.SetFree((512+512+3*512-100)<<20, 1<<40) // the reserve, what is wanted, what three grow: 100 MiB too few
	_, err := e.Create(ctx, c, engine.CreateRequest{})
	wantCode(t, err, vm.Limit, "")
	if hint := vm.AsError(err).Hint; !strings.Contains(hint, "suspend old (2048 MiB), or ask") {
		t.Errorf("the refusal says %q", hint)
	}
	if which, ok := vm.AsError(err).Fields["wouldStop"].([]vm.ID); !ok || len(which) != 1 {
		t.Errorf("these would stop: %v", vm.AsError(err).Fields)
	}
	s.World.SetPSS(2048 << 20) // they have taken all that they will
	create(t, e, c, engine.CreateRequest{Name: "fits"})
	s.World.SetStalled(50)
	_, err = e.Create(ctx, c, engine.CreateRequest{})
	wantCode(t, err, vm.Limit, "")
	_, err = e.Fork(ctx, c, "new", engine.ForkRequest{})
	wantCode(t, err, vm.Limit, "")
	s.World.SetStalled(1)
	if _, err := e.Delete(ctx, c, "old"); err != nil {
		t.Fatal(err)
	}
	create(t, e, c, engine.CreateRequest{Name: "after"})
}
