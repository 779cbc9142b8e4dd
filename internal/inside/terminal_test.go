// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside_test

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestTerminalIdle: traffic through a terminal is activity, an attachment is not. When a
// VM falls asleep, its viewers are disconnected without an exit, and its terminals are
// listed as sleeping, without waking it.
func TestTerminalIdle(t *testing.T) {
	s, e, c, clock := clocked(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box", IdleTimeout: vm.Some(vm.Seconds(60 * time.Second))})
	term, err := e.OpenTerminal(ctx, c, "box", vm.TerminalSpec{ID: "s", Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		_, err := term.Run(func(vm.TerminalReplay) error { return nil }, io.Discard)
		over <- err
	}()
	for range 4 {
		pass(clock, 40*time.Second)
		if _, err := term.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if st := stateOf(t, e, c, "box"); st != vm.Running {
		t.Fatalf("%q in spite of typing", st)
	}
	eventually(t, "it sleeps", func() bool { clock.Advance(time.Second); return stateOf(t, e, c, "box") == vm.Suspended })
	if err := <-over; err == nil {
		t.Error("a viewer was told of an exit")
	}
	list, err := e.Terminals(ctx, c, "box")
	if err != nil || len(list) != 1 {
		t.Fatalf("the suspended VM has the terminals %+v (%v), want one", list, err)
	}
	if s := list[0]; s.ID != "s" || !s.Suspended || s.Attached != 0 {
		t.Errorf("the terminal of the suspended VM is %+v, want s, suspended, without viewers", s)
	}
	closeEngine(t, e)
	e, c = open(t, s)
	again, err := e.Terminals(ctx, c, "box")
	if err != nil || !reflect.DeepEqual(again, list) {
		t.Errorf("by the next engine: %+v, %v", again, err)
	}
	if st := stateOf(t, e, c, "box"); st != vm.Suspended {
		t.Errorf("the list has made it %q", st)
	}
}

// TestTerminalAudit: opening, attaching, sending and closing leave an audit record; no
// record contains the input.
func TestTerminalAudit(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	term, err := e.OpenTerminal(ctx, c, "box", vm.TerminalSpec{ID: "s", Command: "", Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := term.Write([]byte("secretword")); err != nil {
		t.Fatal(err)
	}
	if err := term.Detach(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.SendTerminal(ctx, c, "box", "s", vm.TerminalSend{Data: []byte("secretword\r"), Limit: time.Second}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.CloseTerminal(ctx, c, "box", "", "s"); err != nil {
		t.Fatal(err)
	}
	records, err := e.AuditList(ctx, c, vm.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, r := range records {
		text := fmt.Sprintf("%+v", r)
		if strings.Contains(text, "secretword") {
			t.Errorf("a record holds what was typed: %s", text)
		}
		if r.Op == vm.OpTerminal {
			found++
		}
	}
	if found != 3 {
		t.Errorf("%d records", found)
	}
	for what, spec := range map[string]vm.TerminalSpec{"INVALID_SESSION_ID": {ID: "a b"}, "INVALID_REQUEST": {Command: "a\x00b"}} {
		if _, err := e.OpenTerminal(ctx, c, "box", spec); err == nil || vm.AsError(err).Code != what {
			t.Errorf("the terminal %+v is refused with %v, want %s", spec, err, what)
		}
	}
}
