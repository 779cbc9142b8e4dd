// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestLooksOfAllowedUsers: an identity sees the processes and output of the Linux users
// that it may act as, and nothing of the others.
func TestLooksOfAllowedUsers(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	sh(t, e, c, "box", "useradd --create-home alice")
	i, own := identity(t, e, c)
	grantVM(t, e, c, i, v, "alice")
	_, every := identity(t, e, c)
	grantVM(t, e, c, vm.Identity{ID: every.Actor.Identity}, v)
	const secret = "hunter2"
	// Each user's program writes a complaint that a diagnosis repeats.
	for user, text := range map[string]string{"": secret, "alice": "alices"} {
		spec := vm.ExecSpec{User: user, Command: "echo listen EADDRINUSE: address already in use " + text + " 0.0.0.0:81; sleep 60"}
		if _, err := e.StartProcess(ctx, c, "box", spec); err != nil {
			t.Fatal(err)
		}
	}
	for id, user := range map[string]string{"roots": "", "alices": "alice"} {
		term, err := e.OpenTerminal(ctx, c, "box", vm.TerminalSpec{ID: id, User: user, Cols: 80, Rows: 24})
		if err == nil {
			err = term.Detach()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.AddService(ctx, c, "box", "", vm.Unit{Name: "job", Mode: vm.UnitOneshot, Exec: []string{"echo " + secret + "; false"}}); err != nil {
		t.Fatal(err)
	}
	look := func(c *vm.Call) map[string]any {
		t.Helper()
		top, err1 := e.Top(ctx, c, "box", 20*time.Millisecond, false)
		state, err2 := e.State(ctx, c, "box")
		stats, err3 := e.Stats(ctx, c, "box")
		found, err4 := e.Diagnose(ctx, c, "box", 20*time.Millisecond)
		for _, err := range []error{err1, err2, err3, err4} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(top.Problems)+len(found.Problems) > 0 {
			t.Errorf("problems of a guest without any: %q %q", top.Problems, found.Problems)
		}
		return map[string]any{"top": top, "state": state, "stats": stats, "diagnosis": found}
	}
	text := func(looks any) string {
		b, err := json.Marshal(looks)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	eventually(t, "the owner and an identity for all users are shown all", func() bool {
		for _, c := range []*vm.Call{c, every} {
			for name, l := range look(c) {
				said := text(l)
				if name != "stats" && (!strings.Contains(said, secret) || !strings.Contains(said, "alices")) {
					return false
				}
				if name != "diagnosis" && !strings.Contains(said, "/sbin/init") {
					return false
				}
			}
		}
		return true
	})
	looks := look(own)
	all := text(looks)
	for _, hidden := range []string{secret, "/sbin/init", `"roots"`, "redis-server", "Out of memory"} {
		if strings.Contains(all, hidden) {
			t.Errorf("%q is shown: %s", hidden, all)
		}
	}
	if top := looks["top"].(vm.Top); len(top.Processes) != 1 || top.Processes[0].User != "alice" || len(top.Logs) != 1 || len(top.Ports) != 3 {
		t.Errorf("its own is not shown: %+v", top)
	}
	if w := looks["state"].(vm.GuestState); len(w.Processes) != 1 || len(w.Terminals) != 1 || w.Terminals[0].User != "alice" || len(w.Ports) != 3 || len(w.Roles) != 0 {
		t.Errorf("its own is not shown: %+v", w)
	}
	if d := looks["diagnosis"].(vm.Diagnosis); !slices.ContainsFunc(d.Findings, func(f vm.Finding) bool { return strings.Contains(text(f), "alices") }) {
		t.Errorf("its own is not shown: %+v", d)
	}
	s.World.LoseTerminals(v.ID)
	for c, want := range map[*vm.Call]int{c: 2, every: 2, own: 1} {
		w, err := e.State(ctx, c, "box")
		lost := slices.DeleteFunc(w.Losses, func(l string) bool { return !strings.Contains(l, "terminal session") })
		if err != nil || len(lost) != want || !strings.Contains(strings.Join(lost, ""), "session alices") {
			t.Errorf("lost sessions: %q, %v", lost, err)
		}
	}
}
