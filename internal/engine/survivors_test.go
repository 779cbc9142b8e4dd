// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestDeadRollbackOfAStoppedVM: a rollback that dies after changing the disk leaves the
// old disk; one that was answered leaves the new disk.
func TestDeadRollbackOfAStoppedVM(t *testing.T) {
	for _, at := range []string{"start:record", "start:disk", "start:launch", "start:commit", "start:done"} {
		t.Run(at, func(t *testing.T) {
			s, e, c := site(t)
			ctx := t.Context()
			create(t, e, c, engine.CreateRequest{Name: "box"})
			sh(t, e, c, "box", "echo old > /work/f")
			if _, err := e.Snapshot(ctx, c, "box", engine.SnapshotRequest{Name: "first"}); err != nil {
				t.Fatal(err)
			}
			sh(t, e, c, "box", "echo new > /work/f")
			if _, err := e.Stop(ctx, c, "box"); err != nil {
				t.Fatal(err)
			}
			closeEngine(t, e)
			hit := false
			s.Fault = faultAt(at, engine.ErrDied, &hit)
			e, c = open(t, s)
			if _, err := e.Rollback(ctx, c, "box", engine.RollbackRequest{To: "first"}); err == nil || !hit {
				t.Fatalf("it was to die on the way: %v", err)
			}
			closeEngine(t, e)
			s.Fault = nil
			e, c = open(t, s)
			want, state := "new\n", vm.Stopped
			if at == "start:done" {
				want, state = "old\n", vm.Running
			}
			if got := stateOf(t, e, c, "box"); got != state {
				t.Errorf("it is %s, want %s", got, state)
			}
			if _, err := e.Start(ctx, c, "box", engine.StartRequest{}); err != nil {
				t.Fatal(err)
			}
			if out, _ := sh(t, e, c, "box", "cat /work/f"); out != want {
				t.Errorf("its disk says %q, want %q", out, want)
			}
			consistent(t, s)
		})
	}
}

// TestHostRestartBeforeFsync: captured data that was not durable when the host went down
// may be torn. Then a suspend is not resumed from it, and a snapshot is dropped. If only
// the server ended, both are completed.
func TestHostRestartBeforeFsync(t *testing.T) {
	for _, verb := range []string{"suspend", "snapshot"} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %v", verb, restart), func(t *testing.T) {
				s, v := diedAt(t, engine.Label{Verb: verb, At: "capture:publish"})
				if restart {
					s.World.Reboot()
				} else {
					s.World.End(v.ID, "qemu-crash")
				}
				e, c := open(t, s)
				if verb == "suspend" {
					want := vm.Suspended
					if restart {
						want = vm.Stopped
					}
					if got := stateOf(t, e, c, "box"); got != want {
						t.Errorf("it is %s, want %s", got, want)
					}
				} else {
					eventually(t, "its fate is known", func() bool {
						g, err := e.FindSnapshot(t.Context(), c, "snap")
						if err != nil {
							t.Fatal(err)
						}
						return g.Durable || g.State == vm.GenFailed
					})
					if g, err := e.FindSnapshot(t.Context(), c, "snap"); err != nil || g.Durable == restart {
						t.Errorf("it is %s, durable %v, %v", g.State, g.Durable, err)
					}
				}
				settle(t, e, c)
				consistent(t, s)
				afterwards(t, e, c)
			})
		}
	}
}

// TestThin: of automatic generations the latest five stay, the last of each hour for a
// day and the last of each day for thirty days.
func TestThin(t *testing.T) {
	now := time.Date(2026, 3, 20, 12, 30, 0, 0, time.UTC)
	var list []vm.Generation
	for at := now.Add(-40 * 24 * time.Hour); at.Before(now); at = at.Add(10 * time.Minute) {
		list = append(list, vm.Generation{ID: vm.GenerationID(at.Format(time.RFC3339)), CreatedAt: at})
	}
	want := []string{"2026-03-20T12:20:00Z", "2026-03-20T12:10:00Z", "2026-03-20T12:00:00Z", "2026-03-20T11:50:00Z", "2026-03-20T11:40:00Z"}
	for h := range 22 { // 10:50 of today to 13:50 of yesterday, younger than a day
		want = append(want, time.Date(2026, 3, 20, 10, 50, 0, 0, time.UTC).Add(-time.Duration(h)*time.Hour).Format(time.RFC3339))
	}
	want = append(want, "2026-03-19T12:50:00Z", "2026-03-19T12:30:00Z") // the last of its hour, and the last that counts by the day
	for d := range 29 {
		want = append(want, time.Date(2026, 3, 18, 23, 50, 0, 0, time.UTC).AddDate(0, 0, -d).Format(time.RFC3339))
	}
	var got []string
	for _, id := range engine.Thin(list, now) {
		got = append(got, string(id))
	}
	slices.Sort(got)
	slices.Sort(want)
	want = slices.Compact(want)
	if !slices.Equal(got, want) {
		t.Errorf("kept\n%v, want\n%v", got, want)
	}
	few := []vm.Generation{{ID: "a", CreatedAt: now.AddDate(0, -3, 0)}, {ID: "b", CreatedAt: now.AddDate(0, -2, 0)}}
	if got := engine.Thin(few, now); len(got) != 2 {
		t.Errorf("of two old ones stay %v", got)
	}
}

// TestLayerStaysBelow: a machine that moved to its next disk in a capture that died keeps
// its layer and its writes; see also TestWritesOutliveASilence.
func TestLayerStaysBelow(t *testing.T) {
	s, v := diedAt(t, engine.Label{Verb: "snapshot", At: "capture:commit"})
	writes := s.World.Writes(v.ID)
	e, c := open(t, s)
	got, err := e.Get(t.Context(), c, "box")
	if err != nil || got.DiskOn == "" || got.Head != got.DiskOn {
		t.Fatalf("its disk lies on %q, %v", got.DiskOn, err)
	}
	if _, err := os.Stat(layout.GenerationDir(s.Dir.Generation(got.DiskOn)).Disk()); err != nil {
		t.Error(err)
	}
	a, aerr := os.Stat(writes)
	b, berr := os.Stat(s.Dir.Overlay(v.ID))
	if aerr != nil || berr != nil || !os.SameFile(a, b) {
		t.Errorf("the file that it writes is not its disk: %v, %v", aerr, berr)
	}
	keepsWrites(t, s, e, c)
}

// TestLayerWithoutARecord: if the record of the layer below a live disk is gone, neither
// the layer nor the disk is removed. The VM is shown as not recovered, until the record
// is back.
func TestLayerWithoutARecord(t *testing.T) {
	s, v := diedAt(t, engine.Label{Verb: "snapshot", At: "capture:commit"})
	gens, err := vmtest.Stored[vm.Generation](s.Backend, "generations")
	if err != nil || len(gens) != 1 {
		t.Fatalf("the stored generations are %+v (%v), want one", gens, err)
	}
	if err := vmtest.Erase(s.Backend, "generations", string(gens[0].ID)); err != nil {
		t.Fatal(err)
	}
	e, c := open(t, s)
	if got, err := e.Get(t.Context(), c, "box"); err != nil || got.Reason != engine.NotRecovered {
		t.Errorf("it is shown as %s (%s), %v", got.State, got.Reason, err)
	}
	if _, err := e.Fork(t.Context(), c, "box", engine.ForkRequest{}); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("fork: %v", err)
	}
	collected(t, s, e, c)
	writesTo(t, s, v.ID)
	closeEngine(t, e)
	if err := vmtest.Put(s.Backend, "generations", string(gens[0].ID), gens[0]); err != nil {
		t.Fatal(err)
	}
	e, c = open(t, s)
	writesTo(t, s, v.ID)
	keepsWrites(t, s, e, c)
}
