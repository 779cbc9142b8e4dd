// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestProcesses: background processes have an id, a log, an end.
func TestProcesses(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	p, err := e.StartProcess(ctx, c, "box", vm.ExecSpec{Command: "echo out; sleep 60"})
	if err != nil || !p.Background {
		t.Fatalf("the process did not start in the background: %+v, %v", p, err)
	}
	eventually(t, "it has printed", func() bool {
		now, err := e.Process(ctx, c, "box", p.ID)
		return err == nil && now.LogBytes == 4
	})
	if err := e.SignalProcess(ctx, c, "box", "", p.ID, "TERM"); err != nil {
		t.Fatal(err)
	}
	p, err = e.WaitProcess(ctx, c, "box", p.ID)
	if err != nil || p.Signal != "TERM" || *p.ExitCode != 143 {
		t.Errorf("the process ended as %+v (%v), want code 143 by TERM", p, err)
	}
	r, at, err := e.ProcessLog(ctx, c, "box", "", p.ID, 1, true)
	if err != nil || at != 1 {
		t.Fatalf("log at %d, %v", at, err)
	}
	data, err := io.ReadAll(r)
	if err != nil || string(data) != "ut\n" {
		t.Errorf("log %q, %v", data, err)
	}
	_ = r.Close()
	if err := e.ForgetProcess(ctx, c, "box", "", p.ID); err != nil {
		t.Fatal(err)
	}
	_, err = e.Process(ctx, c, "box", p.ID)
	wantCode(t, err, vm.NotFound, "NOT_FOUND")
}

// TestExecTimeout: a command is ended at its timeout, and the status says so.
func TestExecTimeout(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	x, err := e.Exec(t.Context(), c, "box", vm.ExecSpec{Command: "echo before; sleep 60", Timeout: vm.Millis(20 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	st, err := x.Run(&out, io.Discard)
	if err != nil || !st.TimedOut {
		t.Errorf("the command ended with %+v (%v), want a time-out", st, err)
	}
	if out.String() != "before\n" {
		t.Errorf("the command put out %q, want before", out.String())
	}
	for name, spec := range map[string]vm.ExecSpec{
		"nothing": {}, "both": {Argv: []string{"a"}, Command: "a"}, "empty": {Argv: []string{""}}, "nul": {Command: "a\x00b"},
		"negative": {Command: "a", Timeout: -1},
	} {
		if _, err := e.Exec(t.Context(), c, "box", spec); vm.KindOf(err) != vm.Invalid {
			t.Errorf("a command with %s gives %v, want it invalid", name, err)
		}
	}
}

// TestExecClientGone: a command whose client goes away becomes a background process, and
// the audit record says so.
func TestExecClientGone(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	ctx, gone := context.WithCancel(t.Context())
	x, err := e.Exec(ctx, c, "box", vm.ExecSpec{Command: "echo a; sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	gone()
	if _, err := x.Run(io.Discard, io.Discard); vm.KindOf(err) != vm.Cancelled {
		t.Errorf("run: %v", err)
	}
	p, err := e.Process(t.Context(), c, "box", x.Process().ID)
	if err != nil || !p.Background || p.EndedAt != nil {
		t.Errorf("the command of a client that is gone is %+v (%v), want it running in the background", p, err)
	}
	eventually(t, "the exec's record has an outcome", func() bool {
		list, err := s.Audit.List(t.Context(), vm.AuditFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if r.Op == vm.OpExec && r.VM == v.ID && r.Outcome == string(vm.Cancelled) {
				return true
			}
		}
		return false
	})
}
