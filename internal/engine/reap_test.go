// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// clocked opens a site whose clock the test moves.
func clocked(t *testing.T) (*vmtest.Site, *vmtest.House, *vm.Call, *vmtest.Clock) {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	clock := vmtest.NewClock()
	s.Clock = clock
	e, c := open(t, s)
	return s, e, c, clock
}

func stateOf(t *testing.T, e *vmtest.House, c *vm.Call, ref string) vm.State {
	t.Helper()
	v, err := e.Get(t.Context(), c, ref)
	if vm.KindOf(err) == vm.NotFound {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return v.State
}

// pass moves the clock in small steps, so that timers set in between fire.
func pass(clock *vmtest.Clock, d time.Duration) {
	for range 4 {
		clock.Advance(d / 4)
	}
}

// TestTTL: a VM is deleted when its TTL ends, also by a later engine.
//
// 003-27
func TestTTL(t *testing.T) {
	s, e, c, clock := clocked(t)
	create(t, e, c, engine.CreateRequest{Name: "a", TTL: vm.Some(vm.Seconds(100 * time.Second))})
	create(t, e, c, engine.CreateRequest{Name: "b", TTL: vm.Some(vm.Seconds(1000 * time.Second))})
	create(t, e, c, engine.CreateRequest{Name: "c"})
	pass(clock, 99*time.Second)
	if st := stateOf(t, e, c, "a"); st != vm.Running {
		t.Fatalf("a is %q before its time", st)
	}
	pass(clock, 2*time.Second)
	eventually(t, "a is deleted", func() bool { clock.Advance(time.Millisecond); return stateOf(t, e, c, "a") == "" })
	closeEngine(t, e)
	clock.Advance(time.Hour)
	e, c = open(t, s)
	inTime(t, clock, "b is deleted by the next engine", func() bool { return stateOf(t, e, c, "b") == "" })
	if st := stateOf(t, e, c, "c"); st != vm.Running {
		t.Errorf("c is %q", st)
	}
	// An event comes after its VM is gone.
	eventually(t, "each has an event vm.expired", func() bool { return eventsOf(s, "vm.expired") == 2 })
}

// TestTTLOfWhatCannotSleep: a suspend that is due and keeps failing does not keep a VM
// alive beyond its TTL.
func TestTTLOfWhatCannotSleep(t *testing.T) {
	s, e, c, clock := clocked(t)
	create(t, e, c, engine.CreateRequest{Name: "a", TTL: vm.Some(vm.Seconds(3600 * time.Second)), IdleTimeout: vm.Some(vm.Seconds(60 * time.Second))})
	s.World.Fail("capture", vm.Errorf(vm.Timeout, "a", "the guest does not answer"))
	pass(clock, 30*time.Minute)
	// One of the suspends may be in progress.
	if st := stateOf(t, e, c, "a"); st != vm.Running && st != vm.Suspending {
		t.Fatalf("it is %q before its time", st)
	}
	pass(clock, 31*time.Minute)
	eventually(t, "it is deleted", func() bool { clock.Advance(time.Minute); return stateOf(t, e, c, "a") == "" })
}

// TestIdle: a VM is suspended, or on request stopped, after its idle timeout; guest verbs
// and attached streams are activity; an exec wakes it.
//
// 000-28, 002-18
func TestIdle(t *testing.T) {
	_, e, c, clock := clocked(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "asked", IdleTimeout: vm.Some(vm.Seconds(60 * time.Second)), StopOnIdle: true})
	if !v.IdleStops || *v.IdleTimeout != vm.Seconds(time.Minute) {
		t.Errorf("the VM stops when idle: %v, after %s s, want true after 60 s", v.IdleStops, *v.IdleTimeout)
	}
	v = create(t, e, c, engine.CreateRequest{Name: "absent"})
	if v.IdleStops || *v.IdleTimeout != vm.Seconds(5*time.Minute) {
		t.Errorf("absent: %+v", v)
	}
	v = create(t, e, c, engine.CreateRequest{Name: "never", IdleTimeout: vm.Null[vm.Seconds]()})
	if v.IdleStops || v.IdleTimeout != nil {
		t.Errorf("null: %+v", v)
	}
	pass(clock, 40*time.Second)
	sh(t, e, c, "asked", "true")
	pass(clock, 40*time.Second)
	if st := stateOf(t, e, c, "asked"); st != vm.Running {
		t.Fatalf("%q in spite of activity", st)
	}
	_, r, err := e.OpenFile(ctx, c, "asked", "", "/etc/hostname")
	if err != nil {
		t.Fatal(err)
	}
	pass(clock, 200*time.Second)
	if st := stateOf(t, e, c, "asked"); st != vm.Running {
		t.Fatalf("%q while a stream is open", st)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	eventually(t, "it is stopped", func() bool { clock.Advance(time.Second); return stateOf(t, e, c, "asked") == vm.Stopped })
	if got, _ := e.Get(ctx, c, "asked"); got.Reason != "idle" {
		t.Errorf("reason %q", got.Reason)
	}
	pass(clock, time.Hour)
	eventually(t, "it is suspended", func() bool { clock.Advance(time.Second); return stateOf(t, e, c, "absent") == vm.Suspended })
	pass(clock, 365*24*time.Hour)
	if st := stateOf(t, e, c, "never"); st != vm.Running {
		t.Errorf("a year later never is %q", st)
	}
	if _, err := e.Stop(ctx, c, "never"); err != nil || stateOf(t, e, c, "never") != vm.Stopped {
		t.Errorf("stopped by hand it is %q, %v", stateOf(t, e, c, "never"), err)
	}
	if out, _ := sh(t, e, c, "absent", "echo awake"); out != "awake\n" || stateOf(t, e, c, "absent") != vm.Running {
		t.Errorf("an exec in a suspended VM: %q", out)
	}
}

// TestOneShot: a VM of `run` is deleted when its runner is gone.
func TestOneShot(t *testing.T) {
	s, e, c, clock := clocked(t)
	create(t, e, c, engine.CreateRequest{Name: "run", OneShot: true})
	x, err := e.Exec(t.Context(), c, "run", vm.ExecSpec{Command: "cat", Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	pass(clock, 10*time.Minute)
	if st := stateOf(t, e, c, "run"); st != vm.Running {
		t.Fatalf("%q while its runner is attached", st)
	}
	if err := x.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Run(io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is deleted", func() bool { clock.Advance(5 * time.Second); return stateOf(t, e, c, "run") == "" })
	nothingLeft(t, s)

	create(t, e, c, engine.CreateRequest{Name: "run", OneShot: true})
	closeEngine(t, e)
	e, c = open(t, s)
	if st := stateOf(t, e, c, "run"); st != "" {
		t.Errorf("%q after a restart of the server", st)
	}
	nothingLeft(t, s)
}

// TestEphemeral: an ephemeral VM is deleted once it has stopped, unless it
// waits for another event.
func TestEphemeral(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "a", Persistence: &vm.Persistence{Type: vm.Ephemeral}})
	create(t, e, c, engine.CreateRequest{Name: "b", Persistence: &vm.Persistence{Type: vm.Ephemeral, DeleteEvent: "OnStop"}})
	create(t, e, c, engine.CreateRequest{Name: "c", Persistence: &vm.Persistence{Type: vm.Ephemeral, DeleteEvent: "onSuspend"}})
	for _, n := range []string{"a", "b", "c"} {
		if _, err := e.Stop(t.Context(), c, n); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []string{"a", "b"} {
		eventually(t, n+" is deleted", func() bool { return stateOf(t, e, c, n) == "" })
	}
	if st := stateOf(t, e, c, "c"); st != vm.Stopped {
		t.Errorf("c is %q", st)
	}
}

// TestGuestHangs: a guest that stops answering gives typed errors, never a
// hang.
func TestGuestHangs(t *testing.T) {
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Settings = engine.Settings{GuestDeadline: 30 * time.Millisecond, StallCheck: 30 * time.Millisecond}
	e, c := open(t, s)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	x, err := e.Exec(ctx, c, "box", vm.ExecSpec{Command: "sleep 600"})
	if err != nil {
		t.Fatal(err)
	}
	s.World.Hang(v.ID)
	if _, err := x.Run(io.Discard, io.Discard); vm.KindOf(err) != vm.GuestFault || !strings.Contains(err.Error(), "stopped answering") {
		t.Errorf("attached: %v", err)
	}
	for _, name := range []string{"stat", "mkdir", "exec", "open", "stats", "start process", "signal", "tar down", "watch", "log"} {
		if err := verbs(e)[name](ctx, c, "box"); vm.KindOf(err) != vm.Timeout {
			t.Errorf("%s: %v, want Timeout", name, err)
		}
	}
	for _, name := range []string{"write", "wait", "tar up"} {
		if err := verbs(e)[name](ctx, c, "box"); vm.KindOf(err) != vm.GuestFault {
			t.Errorf("%s: %v, want GuestFault", name, err)
		}
	}
	if _, err := e.Kill(ctx, c, "box"); err != nil {
		t.Fatal(err)
	}
}

// TestMachineEndsDuringCalls: calls into a guest end with the machine, with that reason.
func TestMachineEndsDuringCalls(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	x, err := e.Exec(t.Context(), c, "box", vm.ExecSpec{Command: "sleep 600"})
	if err != nil {
		t.Fatal(err)
	}
	s.World.End(v.ID, "qemu-crash")
	if _, err := x.Run(io.Discard, io.Discard); vm.KindOf(err) != vm.GuestFault {
		t.Errorf("run: %v", err)
	}
}

// TestConsole reads and follows the console's log across its rotation.
func TestConsole(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	r, at, err := e.ConsoleLog(t.Context(), c, "box", -7, true)
	if err != nil || at == 0 {
		t.Fatalf("at %d, %v", at, err)
	}
	defer func() { _ = r.Close() }()
	read := func(want string) {
		t.Helper()
		buf := make([]byte, len(want))
		if _, err := io.ReadFull(r, buf); err != nil || string(buf) != want {
			t.Errorf("read %q, %v; want %q", buf, err, want)
		}
	}
	read("login:\n")
	path := s.Dir.ConsoleLog(v.ID)
	appendTo(t, path, "more\n")
	read("more\n")
	rotate(t, path)
	appendTo(t, path, "new\n")
	read("new\n")
	if _, err := e.Delete(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the delete: %v", err)
	}
}
