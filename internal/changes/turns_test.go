// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/changes"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// house opens a simulated server with a VM named box.
func house(t *testing.T) (*vmtest.Site, *vmtest.House, *vm.Call) {
	t.Helper()
	return openWith(t, "box")
}

// sh runs a command in a VM and returns its output.
func sh(t *testing.T, h *vmtest.House, c *vm.Call, ref, command string) string {
	t.Helper()
	x, err := h.Exec(t.Context(), c, ref, vm.ExecSpec{Command: command})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := x.Run(&out, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func mark(t *testing.T, h *vmtest.House, c *vm.Call, note string) vm.Turn {
	t.Helper()
	turn, err := h.Turn(t.Context(), c, "box", engine.TurnRequest{Note: note})
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// TestTurnsCompared: each turn shows what changed until the next one, the last until now;
// a comparison is made once, and one that fails says so.
func TestTurnsCompared(t *testing.T) {
	s, h, c := house(t)
	ctx := t.Context()
	mark(t, h, c, "add two files")
	sh(t, h, c, "box", "echo 1 > /work/a; echo 2 > /work/b")
	mark(t, h, c, "remove one")
	sh(t, h, c, "box", "rm /work/a")
	if list, err := h.Turns(ctx, c, "box", false); err != nil || len(list) != 2 || list[0].Stat != nil {
		t.Fatalf("without a comparison the turns are %+v (%v), want two without figures", list, err)
	}
	s.World.Fail("read-disk", vm.Errorf(vm.Corrupt, "", "a damaged disk"))
	list, err := h.Turns(ctx, c, "box", true)
	if err != nil || list[0].Stat != nil || !strings.Contains(list[0].StatError, "damaged") || list[1].StatError == "" {
		t.Errorf("with a damaged disk the turns are %+v (%v), want the error in each and no figures", list, err)
	}
	s.World.Fail("read-disk", nil)
	if list, err = h.Turns(ctx, c, "box", true); err != nil {
		t.Fatal(err)
	}
	if st := list[0].Stat; st == nil || st.Added != 2 || st.Deleted != 0 {
		t.Errorf("the first turn changed %+v, want 2 files added", st)
	}
	if st := list[1].Stat; st == nil || st.Deleted != 1 || st.Added != 0 {
		t.Errorf("the last turn changed %+v until now, want 1 file deleted", st)
	}
	s.World.Fail("read-disk", vm.Errorf(vm.Corrupt, "", "a damaged disk"))
	if list, err = h.Turns(ctx, c, "box", true); err != nil || list[0].Stat == nil || list[0].Stat.Added != 2 {
		t.Errorf("the figures of the first turn are not kept: %+v (%v)", list[0], err)
	}
}

// TestUndo: undo puts files back to the last turn or one by number, can be undone, and
// names what it cannot undo.
func TestUndo(t *testing.T) {
	_, h, c := house(t)
	ctx := t.Context()
	sh(t, h, c, "box", "echo one > /work/f")
	mark(t, h, c, "")
	sh(t, h, c, "box", "echo two > /work/f")
	mark(t, h, c, "")
	sh(t, h, c, "box", "rm /work/f")
	u, err := h.Undo(ctx, c, "box", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, h, c, "box", "cat /work/f"); got != "two\n" {
		t.Errorf("after undo the file has %q, want that of the last turn", got)
	}
	if _, err := h.Undo(ctx, c, "box", "1", ""); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, h, c, "box", "cat /work/f"); got != "one\n" {
		t.Errorf("after undo to turn 1 the file has %q, want one", got)
	}
	if _, err := h.Undo(ctx, c, "box", string(u.Before.ID), ""); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, h, c, "box", "ls /work"); strings.Contains(got, "f") {
		t.Errorf("after undoing the undo /work holds %q, want no f", got)
	}
	_, err = h.Undo(ctx, c, "box", "9", "")
	if vm.KindOf(err) != vm.NotFound {
		t.Errorf("undo to a turn that does not exist: %v, want kind NotFound", err)
	}
}

// TestRestorePath: one directory comes back with all below it, the rest stays, and a
// running process with it.
func TestRestorePath(t *testing.T) {
	_, h, c := house(t)
	ctx := t.Context()
	sh(t, h, c, "box", "mkdir -p /work/src/deep; echo good > /work/src/deep/f; echo old > /work/other")
	p, err := h.StartProcess(ctx, c, "box", vm.ExecSpec{Command: "sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	mark(t, h, c, "")
	sh(t, h, c, "box", "rm -r /work/src; echo new > /work/other")
	req := vm.RestoreRequest{Path: "/work/src", DryRun: true}
	plan, err := h.Restore(ctx, c, "box", req)
	if err != nil || plan.Stat.Added != 3 || !plan.DryRun || plan.State == "" || plan.Turn != nil {
		t.Fatalf("the plan is %+v (%v), want 3 paths to come back and a state", plan, err)
	}
	if got := sh(t, h, c, "box", "ls /work"); strings.Contains(got, "src") {
		t.Errorf("after a plan /work holds %q, want no src", got)
	}
	req.DryRun, req.IfUnchanged = false, plan.State
	sh(t, h, c, "box", "mkdir /work/src")
	if _, err := h.Restore(ctx, c, "box", req); vm.KindOf(err) != vm.WrongState {
		t.Errorf("restore of a path that changed since: %v, want kind WrongState", err)
	}
	req.IfUnchanged = ""
	got, err := h.Restore(ctx, c, "box", req)
	if err != nil || got.Turn == nil || got.Turn.Number != 2 {
		t.Fatalf("the restore is %+v (%v), want turn 2 marked before it", got, err)
	}
	if out := sh(t, h, c, "box", "cat /work/src/deep/f /work/other"); out != "good\nnew\n" {
		t.Errorf("after the restore the files have %q, want the directory as it was and the other file as it is", out)
	}
	list, err := h.Processes(ctx, c, "box")
	if err != nil || !slices.ContainsFunc(list, func(q vm.Process) bool { return q.ID == p.ID && q.ExitCode == nil }) {
		t.Errorf("after the restore the process is gone: %+v (%v)", list, err)
	}
	for path, kind := range map[vm.GuestPath]vm.Kind{"/work/never": vm.NotFound, "/": vm.Invalid, "work/src": vm.Invalid, "/work/../etc": vm.Invalid} {
		if _, err := h.Restore(ctx, c, "box", vm.RestoreRequest{Path: path, From: "1"}); vm.KindOf(err) != kind {
			t.Errorf("restore of %s: %v, want kind %s", path, err, kind)
		}
	}
}

// TestSummary: a summary counts what a command changed and names what is outside its
// directory; a disk that cannot be read is an error, not zero.
func TestSummary(t *testing.T) {
	s, h, c := house(t)
	ctx := t.Context()
	a, err := h.Before(ctx, c, "box", nil)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, h, c, "box", "echo 1 > /work/a; echo 2 > /etc/outside")
	sum := a.Summary(ctx, "/work")
	if sum.Error != "" || sum.Stat.Added != 2 || !slices.Equal(sum.Outside, []vm.GuestPath{"/etc/outside"}) {
		t.Errorf("the summary is %+v, want 2 added files, /etc/outside outside", sum)
	}
	if a, err = h.Before(ctx, c, "box", nil); err != nil {
		t.Fatal(err)
	}
	s.World.Fail("read-disk", vm.Errorf(vm.Corrupt, "", "a damaged disk"))
	if sum = a.Summary(ctx, "/work"); !strings.Contains(sum.Error, "damaged") {
		t.Errorf("the summary of a damaged disk is %+v, want its error", sum)
	}
}

// TestCompareForks: forks stand beside each other with what each changed and how a command
// ended in it.
func TestCompareForks(t *testing.T) {
	_, h, c := house(t)
	ctx := t.Context()
	if _, err := h.Fork(ctx, c, "box", engine.ForkRequest{Count: 2, Prefix: "try"}); err != nil {
		t.Fatal(err)
	}
	sh(t, h, c, "try-1", "echo 1 > /work/a")
	sh(t, h, c, "try-2", "echo 1 > /work/a; echo 2 > /work/b")
	got, err := h.Compare(ctx, c, vm.CompareRequest{VMs: []string{"try-1", "try-2"}, Run: "cat /work/b"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Common == "" {
		t.Error("two children of one fork have no common state")
	}
	one, two := got.Candidates[0], got.Candidates[1]
	if one.Stat.Added != 1 || two.Stat.Added != 2 || one.Error != "" || two.Error != "" {
		t.Errorf("the candidates are %+v and %+v, want 1 and 2 files added", one, two)
	}
	if one.Run == nil || one.Run.ExitCode == 0 || two.Run == nil || two.Run.ExitCode != 0 || two.Run.Tail != "2" {
		t.Errorf("the command ended as %+v and %+v, want a failure and success with output 2", one.Run, two.Run)
	}
	if _, err := h.Compare(ctx, c, vm.CompareRequest{}); vm.KindOf(err) != vm.Invalid {
		t.Errorf("a comparison of nothing: %v, want kind Invalid", err)
	}
}

// TestKeepOthers: keep removes the other candidates of the fork, and no VM that was forked
// at another time.
func TestKeepOthers(t *testing.T) {
	_, h, c := house(t)
	ctx := t.Context()
	for prefix, n := range map[string]int{"try": 3, "later": 1} {
		if _, err := h.Fork(ctx, c, "box", engine.ForkRequest{Count: n, Prefix: prefix}); err != nil {
			t.Fatal(err)
		}
	}
	k, err := h.KeepOver(ctx, c, "try-2", changes.KeepRequest{Over: "box", RemoveOthers: true})
	if err != nil || k.VM.Name != "box" || len(k.Removed) != 2 {
		t.Fatalf("keep gives %+v (%v), want try-2 as box and two removed", k, err)
	}
	list, _, _, err := h.List(ctx, c, engine.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, v := range list {
		left = append(left, v.Name)
	}
	if !slices.Contains(left, "later-1") || slices.Contains(left, "try-1") || slices.Contains(left, "try-3") {
		t.Errorf("after keep there are %q, want later-1 and neither try-1 nor try-3", left)
	}
}
