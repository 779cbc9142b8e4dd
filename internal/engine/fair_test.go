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

// TestFairShare: when the disk is short, sleeping VMs of an account above its share are
// evicted, and none of an account below its share, whatever their priority.
func TestFairShare(t *testing.T) {
	s, e, c, clock := budgeted(t, 40*mib)
	small, _ := newAccount(t, e, c, "small")
	stopped(t, s, e, small, "dear", stickyOf(0), 4*mib)
	for _, name := range []string{"a", "b", "c", "d"} {
		clock.Advance(time.Second)
		stopped(t, s, e, c, name, stickyOf(9), 10*mib)
	}
	clock.Advance(2 * time.Minute)
	inTime(t, clock, "a VM is let go", func() bool { return len(names(t, e, c))+len(names(t, e, small)) == 4 })
	wantNames(t, e, small, "dear")
	wantNames(t, e, c, "b", "c", "d") // the longest unused of those that are equal
	clock.Advance(20 * time.Minute)
	wantNames(t, e, c, "b", "c", "d")
}

// TestOwnRoom: an account above its fair share that has nothing to evict is refused,
// instead of taking room from others.
func TestOwnRoom(t *testing.T) {
	s, e, c, _ := budgeted(t, 40*mib)
	small, _ := newAccount(t, e, c, "small")
	large, _ := newAccount(t, e, c, "large")
	stopped(t, s, e, small, "dear", stickyOf(0), 15*mib)
	held := stopped(t, s, e, large, "held", &vm.Persistence{Type: vm.Persistent}, 20*mib)
	if _, err := e.Hold(t.Context(), small, "dear", engine.HoldRequest{For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	fill(t, s.Dir.VM(held.ID), 30*mib)
	if out, err := e.Storage(t.Context(), c); err != nil || out.Over == 0 { // the engine has looked
		t.Fatalf("the storage is %d bytes over its budget (%v), want some", out.Over, err)
	}
	holds, err := e.Holds(t.Context(), small, "dear")
	if err != nil || len(holds) != 1 {
		t.Fatalf("the VM has the holds %+v (%v), want one", holds, err)
	}
	if err := e.Release(t.Context(), small, "dear", holds[0].ID); err != nil {
		t.Fatal(err)
	}
	_, err = e.Create(t.Context(), large, engine.CreateRequest{Name: "more"})
	wantCode(t, err, vm.NoSpace, "NO_LOCAL_STORAGE_CAPACITY")
	wantNames(t, e, small, "dear")
}

// TestDefaultDisk: an account without a disk quota has the server's default, an admin's
// has no limit, and an explicit quota replaces the default.
func TestDefaultDisk(t *testing.T) {
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	clock := vmtest.NewClock()
	s.Clock, s.Settings.StorageBudget, s.Settings.AccountPercent = clock, 400*mib, 25
	e, c := open(t, s)
	ctx := t.Context()
	team, _ := newAccount(t, e, c, "team")
	for _, who := range []*vm.Call{team, c} {
		stopped(t, s, e, who, "full", &vm.Persistence{Type: vm.Persistent}, 60*mib)
	}
	if _, err := e.Storage(ctx, c); err != nil { // which looks at the disk
		t.Fatal(err)
	}
	_, err = e.Create(ctx, team, engine.CreateRequest{Name: "more"}) // of 100 MiB 60 and 64
	wantCode(t, err, vm.Limit, "ROOTFS_STORAGE_QUOTA_EXCEEDED")
	if _, err := e.Create(ctx, c, engine.CreateRequest{Name: "more"}); err != nil {
		t.Errorf("the admin: %v", err)
	}
	q, err := e.Quota(ctx, team, "")
	if err != nil || q.Quota.Disk != 0 || q.DiskDefault != 100*mib {
		t.Errorf("the account's quota is %+v (%v), want none of its own and a default of 100 MiB", q, err)
	}
	if _, err := e.SetQuota(ctx, c, team.Actor.Account, vm.Quota{Disk: 200 * mib}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Create(ctx, team, engine.CreateRequest{Name: "more"}); err != nil {
		t.Errorf("with a quota of its own: %v", err)
	}
}

// TestStorageOfAccount: only admins see the host's figures. Another account sees its use,
// its limit, and what is free for it.
func TestStorageOfAccount(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	team, _ := newAccount(t, e, c, "team")
	stopped(t, s, e, c, "admins", stickyOf(0), 30*mib)
	v := stopped(t, s, e, team, "own", stickyOf(5), 10*mib)
	all, err := e.Storage(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if all.Path == "" || all.DiskTotal == 0 || all.DiskFree == 0 || all.Reserve == 0 || all.Budget == 0 || all.Available == 0 {
		t.Fatalf("the admin does not see all of the storage: %+v", all)
	}
	if len(all.Items) < 2 {
		t.Fatalf("the admin sees the items %+v, want those of both accounts", all.Items)
	}
	own, err := e.Storage(ctx, team)
	if err != nil || own.Path != "" || own.DiskTotal != 0 || own.DiskFree != 0 || own.Reserve != 0 || own.Budget != 0 || own.Over != 0 {
		t.Errorf("without a quota: %+v, %v", own, err)
	}
	if own.Used < 10*mib || own.Used > 20*mib {
		t.Errorf("the account uses %d bytes, want 10 to 20 MiB", own.Used)
	}
	if own.Available != all.Available {
		t.Errorf("the account has %d bytes left, want all %d of the host", own.Available, all.Available)
	}
	if len(own.Items) != 1 || own.Items[0].ID != string(v.ID) || own.Items[0].Next != 1 {
		t.Errorf("the account sees the items %+v, want %s, which is freed first", own.Items, v.ID)
	}
	if len(own.Accounts) != 1 {
		t.Errorf("the account sees the accounts %+v, want itself", own.Accounts)
	}
	if _, err := e.SetQuota(ctx, c, team.Actor.Account, vm.Quota{Disk: 40 * mib}); err != nil {
		t.Fatal(err)
	}
	if own, err = e.Storage(ctx, team); err != nil || own.Budget != 40*mib || own.Available != own.Budget-own.Used || own.DiskTotal != 0 {
		t.Errorf("with a quota: %+v, %v", own, err)
	}
}
