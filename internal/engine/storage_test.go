// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

const mib = 1 << 20

// fill makes a directory take so much more of the disk.
func fill(t *testing.T, dir string, bytes int) {
	t.Helper()
	grow(t, filepath.Join(dir, "filling"), bytes)
}

func grow(t *testing.T, path string, bytes int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, bytes)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func stickyOf(priority int) *vm.Persistence {
	return &vm.Persistence{Type: vm.Sticky, Priority: &priority}
}

// stopped makes a stopped VM whose disk takes that many bytes.
func stopped(t *testing.T, s *vmtest.Site, e *vmtest.House, c *vm.Call, name string, keep *vm.Persistence, bytes int) vm.VM {
	t.Helper()
	v := create(t, e, c, engine.CreateRequest{Name: name, Persistence: keep})
	fill(t, s.Dir.VM(v.ID), bytes)
	if _, err := e.Stop(t.Context(), c, name); err != nil {
		t.Fatal(err)
	}
	return v
}

// names lists the account's VMs.
func names(t *testing.T, e *vmtest.House, c *vm.Call) []string {
	t.Helper()
	list, _, _, err := e.List(t.Context(), c, engine.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, v := range list {
		out = append(out, v.Name)
	}
	slices.Sort(out)
	return out
}

func wantNames(t *testing.T, e *vmtest.House, c *vm.Call, want ...string) {
	t.Helper()
	if got := names(t, e, c); !slices.Equal(got, want) {
		t.Errorf("there are %v, not %v", got, want)
	}
}

// budgeted opens an engine with a storage budget.
func budgeted(t *testing.T, budget int64) (*vmtest.Site, *vmtest.House, *vm.Call, *vmtest.Clock) {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	clock := vmtest.NewClock()
	s.Clock, s.Settings.StorageBudget = clock, budget
	e, c := open(t, s)
	return s, e, c, clock
}

// TestEvictionSaysWhatIsLost: the audit record and the event of an eviction say what
// existed only in the VM. The VM is not started for that.
func TestEvictionSaysWhatIsLost(t *testing.T) {
	s, e, c, clock := budgeted(t, 4*mib)
	v := create(t, e, c, engine.CreateRequest{Name: "box", Persistence: stickyOf(1), Workdir: "/work"})
	sh(t, e, c, "box", "echo mine > /work/only")
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	fill(t, s.Dir.VM(v.ID), 8*mib)
	clock.Advance(2 * time.Minute)
	inTime(t, clock, "the VM is evicted, and an event says so", func() bool { return eventsOf(s, "vm.evicted") == 1 })
	want := map[string]any{"files": 1, "bytes": int64(5), "commits": 0, "moreCommits": false, "examples": []string{"/work/only"}}
	for _, ev := range s.Events.All() {
		if ev.Type == "vm.evicted" && !reflect.DeepEqual(ev.Data["onlyHere"], want) {
			t.Errorf("the event says that %+v was only there, want %+v", ev.Data["onlyHere"], want)
		}
	}
	eventually(t, "the audit record says the same", func() bool {
		return slices.ContainsFunc(records(t, s), func(r vm.AuditRecord) bool {
			return r.VM == v.ID && r.Op == vm.OpDelete && r.Subject == "evicted" && reflect.DeepEqual(r.Detail["onlyHere"], want)
		})
	})
}

// TestEvictionByPriority: of two sticky VMs under a small budget the one of priority 1 is
// evicted automatically, with an event and an audit record that give the reason. Running,
// held and persistent VMs stay, whatever their priority.
//
// 004-05, 004-08, 004-11
func TestEvictionByPriority(t *testing.T) {
	s, e, c, clock := budgeted(t, 20*mib)
	ctx := t.Context()
	stopped(t, s, e, c, "ten", stickyOf(10), 8*mib)
	one := stopped(t, s, e, c, "one", stickyOf(1), 8*mib)
	stopped(t, s, e, c, "persistent", &vm.Persistence{Type: vm.Persistent}, 2*mib)
	stopped(t, s, e, c, "held", stickyOf(0), 2*mib)
	if _, err := e.Hold(ctx, c, "held", engine.HoldRequest{For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	runs := create(t, e, c, engine.CreateRequest{Name: "runs", Persistence: stickyOf(0), IdleTimeout: vm.Null[vm.Seconds]()})
	fill(t, s.Dir.VM(runs.ID), 4*mib)
	clock.Advance(2 * time.Minute)
	inTime(t, clock, "a VM is let go", func() bool { return len(names(t, e, c)) == 4 })
	wantNames(t, e, c, "held", "persistent", "runs", "ten")
	eventually(t, "an event says so", func() bool { return eventsOf(s, "vm.evicted") > 0 }) // it comes after the VM is gone
	for _, ev := range s.Events.All() {
		if ev.Type == "vm.evicted" && (ev.VM != one.ID || ev.Data["priority"] != 1 || !strings.Contains(ev.Data["why"].(string), "short")) {
			t.Errorf("the event says %+v", ev)
		}
	}
	if n := eventsOf(s, "vm.evicted"); n != 1 {
		t.Errorf("%d events say that a VM was let go", n)
	}
	eventually(t, "an audit record says why", func() bool {
		return slices.ContainsFunc(records(t, s), func(r vm.AuditRecord) bool {
			return r.VM == one.ID && r.Op == vm.OpDelete && r.Subject == "evicted" && r.Outcome == "ok" && r.Actor.System == "storage" && r.Detail["priority"] == 1
		})
	})
	for range 3 { // it is enough now
		clock.Advance(20 * time.Minute)
	}
	out, err := e.Storage(ctx, c)
	if err != nil || out.Over != 0 {
		t.Errorf("%d bytes over, %v", out.Over, err)
	}
	wantNames(t, e, c, "held", "persistent", "runs", "ten")
}

// TestNothingGoesInVain: a request for more room than all sticky VMs together take is
// refused, and none of them is evicted.
func TestNothingGoesInVain(t *testing.T) {
	s, e, admin := site(t)
	ctx := t.Context()
	c := quotaed(t, e, admin, vm.Quota{Disk: 100 * mib})
	stopped(t, s, e, c, "sticky", stickyOf(0), mib)
	stopped(t, s, e, c, "kept", &vm.Persistence{Type: vm.Persistent}, 60*mib)
	_, err := e.Create(ctx, c, engine.CreateRequest{Name: "more"})
	wantCode(t, err, vm.Limit, "ROOTFS_STORAGE_QUOTA_EXCEEDED")
	wantNames(t, e, c, "kept", "sticky")
}

// Among equals the longest unused is evicted.
//
// 004-08, 004-10
func TestEvictionByAge(t *testing.T) {
	s, e, c, clock := budgeted(t, 20*mib)
	for _, name := range []string{"first", "second", "third"} {
		stopped(t, s, e, c, name, nil, 8*mib)
		clock.Advance(time.Second)
	}
	if _, err := e.Start(t.Context(), c, "first", engine.StartRequest{}); err != nil { // it is of use again
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	if _, err := e.Stop(t.Context(), c, "first"); err != nil {
		t.Fatal(err)
	}
	out, err := e.Storage(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range out.Items {
		if want := map[string]int{"second": 1, "third": 2, "first": 3}[it.Name]; it.Kind == "vm" && (it.Next != want || it.Goes != (want == 1)) {
			t.Errorf("%s is number %d, goes now: %v", it.Name, it.Next, it.Goes)
		}
	}
	clock.Advance(time.Minute)
	inTime(t, clock, "a VM is let go", func() bool { return len(names(t, e, c)) == 2 })
	wantNames(t, e, c, "first", "third")
}

// TestEvictionOfWhatOnlyItNeeds: the freed bytes include the memory of a suspended VM,
// but not files that a snapshot keeps.
func TestEvictionOfWhatOnlyItNeeds(t *testing.T) {
	s, e, c, _ := budgeted(t, 1<<30)
	ctx := t.Context()
	for _, name := range []string{"asleep", "snapped"} {
		create(t, e, c, engine.CreateRequest{Name: name})
		v, err := e.Suspend(ctx, c, name, engine.SuspendRequest{})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, filepath.Dir(layout.GenerationDir(s.Dir.Generation(v.Generation)).RAM()), 8*mib)
	}
	g, err := e.Snapshot(ctx, c, "snapped", engine.SnapshotRequest{Name: "kept", Persistence: &vm.Persistence{Type: vm.Persistent}})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s.Dir.Generation(g.ID), 8*mib)
	dry, err := e.Prune(ctx, c, engine.PruneRequest{DryRun: true, Free: 1 << 40})
	if err != nil || len(dry.Gone) != 2 || dry.Left == 0 {
		t.Fatalf("the dry run would remove %+v with %d bytes left (%v), want 2 and some left", dry.Gone, dry.Left, err)
	}
	for _, it := range dry.Gone {
		if it.Frees < 8*mib || it.Frees > 9*mib {
			t.Errorf("without %s %d KiB are free", it.Name, it.Frees>>10)
		}
	}
	wantNames(t, e, c, "asleep", "snapped")
	before := dry.Frees
	done, err := e.Prune(ctx, c, engine.PruneRequest{Free: 10 * mib})
	if err != nil || len(done.Gone) != 2 || done.Left != 0 || done.Frees < before-mib {
		t.Errorf("%+v, %v; %d were foretold", done, err, before)
	}
	wantNames(t, e, c)
	if _, err := e.Create(ctx, c, engine.CreateRequest{Image: "kept"}); err != nil {
		t.Errorf("the snapshot of a VM that was let go: %v", err)
	}
}

// TestEvictionOfLayers: layers, which can be made again, are evicted before all VMs,
// sticky snapshots after them. The source of a VM being made stays, and so do persistent
// snapshots.
func TestEvictionOfLayers(t *testing.T) {
	s, e, c, clock := budgeted(t, 1<<30)
	ctx := t.Context()
	layers := []spec.Layer{command("one", "echo 1 > /root/one"), command("two", "echo 2 > /root/two")}
	create(t, e, c, engine.CreateRequest{Name: "built", Layers: layers})
	if _, err := e.Delete(ctx, c, "built"); err != nil {
		t.Fatal(err)
	}
	v := create(t, e, c, engine.CreateRequest{Name: "zero", Persistence: stickyOf(0)})
	g, err := e.Snapshot(ctx, c, "zero", engine.SnapshotRequest{Name: "snap", Persistence: stickyOf(0)})
	if err != nil {
		t.Fatal(err)
	}
	grow(t, layout.GenerationDir(s.Dir.Generation(g.ID)).RAM(), mib)
	forever, err := e.Snapshot(ctx, c, "zero", engine.SnapshotRequest{Name: "forever", Persistence: &vm.Persistence{Type: vm.Persistent}})
	if err != nil {
		t.Fatal(err)
	}
	grow(t, layout.GenerationDir(s.Dir.Generation(forever.ID)).RAM(), mib)
	if _, err := e.Stop(ctx, c, "zero"); err != nil {
		t.Fatal(err)
	}
	dry, err := e.Prune(ctx, c, engine.PruneRequest{DryRun: true, Free: 1 << 40})
	if err != nil || len(dry.Gone) != 3 {
		t.Fatalf("the dry run would remove %+v (%v), want 3", dry.Gone, err)
	}
	if dry.Gone[0].Why != vm.WhyLayer || dry.Gone[1].ID != string(v.ID) || dry.Gone[2].Snapshot != g.Snapshot {
		t.Fatalf("the dry run would remove %+v, want the layer, then %s, then the snapshot %s", dry.Gone, v.ID, g.Snapshot)
	}
	made := layersOf(t, e, c)
	if len(made) != 1 {
		t.Fatalf("%d layers", len(made))
	}
	s.Settings.StorageBudget = 1
	closeEngine(t, e)
	e, c = open(t, s)
	if _, err := e.Storage(ctx, c); err != nil { // seen
		t.Fatal(err)
	}
	if _, err := e.Create(ctx, c, engine.CreateRequest{Image: string(made[0].ID)}); vm.KindOf(err) != vm.NoSpace {
		t.Errorf("a create in a full directory: %v", err)
	}
	if n := eventsOf(s, "layer.evicted"); n != 0 {
		t.Error("a layer has made room for what was made of it")
	}
	eventually(t, "the layer is let go", func() bool { clock.Advance(time.Minute); return eventsOf(s, "layer.evicted") == 1 })
	eventually(t, "the sticky snapshot is let go", func() bool { clock.Advance(time.Minute); return eventsOf(s, "snapshot.evicted") == 1 })
	if g, err := e.FindSnapshot(ctx, c, "forever"); err != nil || g.Deleted {
		t.Errorf("the persistent snapshot: %+v, %v", g, err)
	}
	wantNames(t, e, c)
}

// TestFullOfPersistent: when persistent VMs fill an account's quota of disk, no
// VM is created, with the contract's code; sticky ones make room.
//
// 004-11, 004-12
func TestFullOfPersistent(t *testing.T) {
	s, e, admin, _ := budgeted(t, 1<<40)
	ctx := t.Context()
	c, _ := newAccount(t, e, admin, "team")
	stopped(t, s, e, c, "sticky", stickyOf(10), 30*mib)
	stopped(t, s, e, c, "kept", &vm.Persistence{Type: vm.Persistent}, 60*mib)
	stopped(t, s, e, admin, "anothers", stickyOf(0), 60*mib)
	if _, err := e.SetQuota(ctx, admin, "team", vm.Quota{Disk: 130 * mib}); err != nil {
		t.Fatal(err)
	}
	create(t, e, c, engine.CreateRequest{Name: "new"})
	wantNames(t, e, c, "kept", "new")
	v := stopped(t, s, e, c, "more", &vm.Persistence{Type: vm.Persistent}, 30*mib)
	_, err := e.Create(ctx, c, engine.CreateRequest{Name: "none"})
	wantCode(t, err, vm.Limit, "ROOTFS_STORAGE_QUOTA_EXCEEDED")
	if f := vm.AsError(err).Fields; f["limit"] != int64(130*mib) || f["current"].(int64) < 90*mib || f["requested"].(int64) == 0 {
		t.Errorf("the refusal says %v", f)
	}
	wantNames(t, e, c, "kept", "more", "new")
	wantNames(t, e, admin, "anothers")
	if _, err := e.Delete(ctx, c, string(v.ID)); err != nil {
		t.Fatal(err)
	}
	create(t, e, c, engine.CreateRequest{Name: "again"})
}

// TestFullBudget: a data directory full of files that may not be evicted has no room for
// another VM; an existing one starts.
func TestFullBudget(t *testing.T) {
	s, e, c, _ := budgeted(t, 20*mib)
	stopped(t, s, e, c, "kept", &vm.Persistence{Type: vm.Persistent}, 30*mib)
	if _, err := e.Storage(t.Context(), c); err != nil { // it was seen
		t.Fatal(err)
	}
	_, err := e.Create(t.Context(), c, engine.CreateRequest{})
	wantCode(t, err, vm.NoSpace, "NO_LOCAL_STORAGE_CAPACITY")
	if _, err := e.Start(t.Context(), c, "kept", engine.StartRequest{}); err != nil {
		t.Error(err)
	}
}

// TestPruneOfOthers: callers who are not admins prune and see only their own account.
func TestPruneOfOthers(t *testing.T) {
	s, e, admin, _ := budgeted(t, 1<<40)
	ctx := t.Context()
	c, _ := newAccount(t, e, admin, "team")
	stopped(t, s, e, admin, "anothers", stickyOf(0), mib)
	stopped(t, s, e, c, "own", stickyOf(5), mib)
	done, err := e.Prune(ctx, c, engine.PruneRequest{Free: 1 << 40})
	if err != nil || len(done.Gone) != 1 || done.Gone[0].Name != "own" {
		t.Errorf("the account's prune removed %+v (%v), want its own VM", done.Gone, err)
	}
	wantNames(t, e, admin, "anothers")
	out, err := e.Storage(ctx, c)
	if err != nil || len(out.Accounts) != 1 {
		t.Errorf("the account sees the accounts %+v (%v), want itself", out.Accounts, err)
	}
	if slices.ContainsFunc(out.Items, func(it vm.StorageItem) bool { return it.Account != c.Actor.Account }) {
		t.Errorf("the account sees others' items: %+v", out.Items)
	}
	for _, n := range []int64{-1, 1 << 62} {
		if _, err := e.Prune(ctx, c, engine.PruneRequest{Free: n}); vm.KindOf(err) != vm.Invalid {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
