// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

func idleOf(t *testing.T, e *vmtest.House, c *vm.Call, ref string) vm.Idle {
	t.Helper()
	i, err := e.Idle(t.Context(), c, ref)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func eventsOf(s *vmtest.Site, kind string) int {
	n := 0
	for _, ev := range s.Events.All() {
		if ev.Type == kind {
			n++
		}
	}
	return n
}

// TestActivity: each kind of use is recorded as its kind; looking at a VM is none.
func TestActivity(t *testing.T) {
	_, e, c, clock := clocked(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box"})
	if i := idleOf(t, e, c, "box"); i.LastKind != vm.ActivityStart || i.OnIdle != vm.OpSuspend || !i.SleepsAt.Equal(i.LastActivity.Add(300*time.Second)) {
		t.Errorf("after the start: %+v", i)
	}
	for name, want := range map[string]vm.ActivityKind{
		"exec": vm.ActivityExec, "write": vm.ActivityFiles, "stat": vm.ActivityFiles, "tar down": vm.ActivityFiles, "dial": vm.ActivityGateway, "signal": vm.ActivityExec, "wait": vm.ActivityExec,
	} {
		clock.Advance(time.Second)
		if err := verbs(e)[name](ctx, c, "box"); err != nil {
			t.Fatalf("the use %s: %v", name, err)
		}
		i := idleOf(t, e, c, "box")
		if i.LastKind != want || !i.LastActivity.Equal(clock.Now()) || !i.IdleSince.Equal(clock.Now()) || len(i.Awake) != 0 {
			t.Errorf("%s: %+v, want %s", name, i, want)
		}
	}
	clock.Advance(time.Second)
	term, err := e.OpenTerminal(ctx, c, "box", vm.TerminalSpec{ID: "s", Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = term.Detach() }()
	ssh := &vm.Call{Actor: c.Actor, Via: vm.ActivitySSH}
	if i := idleOf(t, e, c, "box"); i.LastKind != vm.ActivityPTY || len(i.Awake) != 0 {
		t.Errorf("an attached terminal: %+v", i)
	}
	sh(t, e, ssh, "box", "true")
	last := idleOf(t, e, c, "box")
	if last.LastKind != vm.ActivitySSH {
		t.Errorf("by SSH: %+v", last)
	}
	clock.Advance(time.Second)
	for _, name := range []string{"stats", "connections", "process"} {
		if err := verbs(e)[name](ctx, c, "box"); err != nil {
			t.Fatalf("the look %s: %v", name, err)
		}
	}
	for _, look := range []func() error{
		func() error { _, err := e.Inspect(ctx, c, "box"); return err },
		func() error { _, err := e.State(ctx, c, "box"); return err },
		func() error { _, err := e.Terminals(ctx, c, "box"); return err },
	} {
		if err := look(); err != nil {
			t.Fatal(err)
		}
	}
	if i := idleOf(t, e, c, "box"); !i.LastActivity.Equal(last.LastActivity) {
		t.Errorf("a look counted: %+v", i)
	}
}

// TestIdleExplains: what keeps a VM awake is named, and why a VM never sleeps.
func TestIdleExplains(t *testing.T) {
	_, e, c, clock := clocked(t)
	create(t, e, c, engine.CreateRequest{Name: "box", StopOnIdle: true})
	x, err := e.Exec(t.Context(), c, "box", vm.ExecSpec{Command: "cat", Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	pass(clock, time.Hour)
	i := idleOf(t, e, c, "box")
	if i.State != vm.Running || len(i.Awake) != 1 || i.Awake[0].Kind != vm.ActivityExec || i.Awake[0].Count != 1 || !i.SleepsAt.IsZero() || !i.IdleSince.IsZero() {
		t.Errorf("a command that runs with its client: %+v", i)
	}
	if err := x.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Run(io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	if i = idleOf(t, e, c, "box"); i.OnIdle != vm.OpStop || !i.SleepsAt.Equal(clock.Now().Add(300*time.Second)) {
		t.Errorf("after it: %+v", i)
	}
	eventually(t, "it is stopped", func() bool { clock.Advance(10 * time.Second); return stateOf(t, e, c, "box") == vm.Stopped })
	if i = idleOf(t, e, c, "box"); i.AsleepFor != "idle" || i.Asleep.IsZero() || !i.SleepsAt.IsZero() || len(i.Awake) != 0 {
		t.Errorf("asleep: %+v", i)
	}
	for name, r := range map[string]engine.CreateRequest{
		"null": {IdleTimeout: vm.Null[vm.Seconds]()}, "zero": {IdleTimeout: vm.Some(vm.Seconds(0 * time.Second))}, "oneshot": {OneShot: true},
	} {
		r.Name = name
		create(t, e, c, r)
		if i := idleOf(t, e, c, name); i.Never == "" || !i.SleepsAt.IsZero() {
			t.Errorf("a VM whose time-out is %s sleeps at %v because of %q, want never", name, i.SleepsAt, i.Never)
		}
	}
	if _, err := e.Idle(t.Context(), c, "none"); vm.KindOf(err) != vm.NotFound {
		t.Errorf("an unknown VM: %v", err)
	}
}

// TestSilentStreams: a connection, a watch and a followed log count by their traffic, not
// by being open.
func TestSilentStreams(t *testing.T) {
	_, e, c, clock := clocked(t)
	ctx := t.Context()
	create(t, e, c, engine.CreateRequest{Name: "box", IdleTimeout: vm.Some(vm.Seconds(60 * time.Second))})
	conn, err := e.DialPort(ctx, c, "box", 7)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	watch, err := e.Watch(ctx, c, "box", "", "/tmp", true)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	p, err := e.StartProcess(ctx, c, "box", vm.ExecSpec{Command: "sleep 600"})
	if err != nil {
		t.Fatal(err)
	}
	log, _, err := e.ProcessLog(ctx, c, "box", "", p.ID, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if i := idleOf(t, e, c, "box"); len(i.Awake) != 0 {
		t.Errorf("what is open keeps it awake: %+v", i.Awake)
	}
	for range 4 {
		pass(clock, 40*time.Second)
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if i := idleOf(t, e, c, "box"); i.State != vm.Running || i.LastKind != vm.ActivityGateway {
		t.Fatalf("in spite of traffic: %+v", i)
	}
	eventually(t, "it sleeps", func() bool { clock.Advance(time.Second); return stateOf(t, e, c, "box") == vm.Suspended })
}

// TestThreshold: traffic below the threshold does not count as activity.
func TestThreshold(t *testing.T) {
	_, e, c, clock := clocked(t)
	create(t, e, c, engine.CreateRequest{Name: "box", Threshold: 1000})
	conn, err := e.DialPort(t.Context(), c, "box", 7)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	opened := idleOf(t, e, c, "box").LastActivity
	echo := func(n int) {
		t.Helper()
		clock.Advance(time.Second)
		if _, err := conn.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	for range 40 { // 20 bytes a second, both ways
		echo(10)
	}
	if i := idleOf(t, e, c, "box"); !i.LastActivity.Equal(opened) {
		t.Errorf("a trickle counted: %v after it was opened", i.LastActivity.Sub(opened))
	}
	echo(2000)
	if i := idleOf(t, e, c, "box"); !i.LastActivity.Equal(clock.Now()) {
		t.Errorf("a flood did not count: %+v", i)
	}
	if _, err := e.Create(t.Context(), c, engine.CreateRequest{Threshold: -1}); vm.KindOf(err) != vm.Invalid {
		t.Errorf("a negative threshold: %v", err)
	}
}

// TestWakeOnce: twenty concurrent callers of a sleeping VM cause one start.
func TestWakeOnce(t *testing.T) {
	for _, st := range []vm.State{vm.Suspended, vm.Stopped} {
		s, e, c := site(t)
		bring(t, s, e, c, st)
		launches := s.World.Launches()
		reached, release := s.World.Hold("launch")
		errs := make(chan error, 20)
		names := []string{"exec", "write", "stat", "dial", "tar down", "start"}
		for i := range cap(errs) {
			go func() { errs <- verbs(e)[names[i%len(names)]](t.Context(), &vm.Call{Actor: c.Actor}, "box") }()
		}
		<-reached
		if i := idleOf(t, e, c, "box"); i.State != vm.Starting || !i.SleepsAt.IsZero() {
			t.Errorf("while it wakes: %+v", i)
		}
		release()
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Errorf("a caller that woke the %s VM got %v", st, err)
			}
		}
		if n := s.World.Launches() - launches; n != 1 {
			t.Errorf("%s: %d launches", st, n)
		}
		if n := eventsOf(s, "vm.woken"); n > 1 {
			t.Errorf("%s: %d events", st, n)
		}
		consistent(t, s)
	}
}

// TestWakeByIdentity: an identity with a permission wakes the VM in its own name, and
// does not see whose keys keep it awake. One without wakes nothing.
func TestWakeByIdentity(t *testing.T) {
	s, e, c := site(t)
	bring(t, s, e, c, vm.Suspended)
	v, err := e.Get(t.Context(), c, "box")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Hold(t.Context(), c, "box", engine.HoldRequest{}); err != nil {
		t.Fatal(err)
	}
	i, _, own := identity(t, e, c, access.TokenRequest{})
	if err := verbs(e)["exec"](t.Context(), own, string(v.ID)); vm.KindOf(err) != vm.Denied {
		t.Errorf("not granted: %v", err)
	}
	if st := stateOf(t, e, c, "box"); st != vm.Suspended {
		t.Fatalf("a stranger has made it %s", st)
	}
	grantVM(t, e, c, i, v)
	if err := verbs(e)["exec"](t.Context(), own, string(v.ID)); err != nil {
		t.Fatal(err)
	}
	woken := records(t, s)
	if !slices.ContainsFunc(woken, func(r vm.AuditRecord) bool {
		return r.Op == vm.OpStart && r.Subject == "woken" && r.Actor.Identity == i.ID && r.Outcome == "ok"
	}) {
		t.Errorf("no record of its start: %+v", woken)
	}
	if got := idleOf(t, e, own, string(v.ID)); len(got.Holds) != 1 || got.Holds[0].By != (vm.Actor{}) {
		t.Errorf("the identity sees the holds %+v, want one, not whose it is", got.Holds)
	}
	if _, err := e.Hold(t.Context(), own, string(v.ID), engine.HoldRequest{}); vm.KindOf(err) != vm.Denied {
		t.Errorf("a hold by an identity: %v", err)
	}
}

// TestWakeFails: all waiting callers get the reason after one attempt. The VM is
// unchanged, and the next caller wakes it.
func TestWakeFails(t *testing.T) {
	s, e, c := site(t)
	bring(t, s, e, c, vm.Suspended)
	starts := eventsOf(s, "vm.starting")
	s.World.Fail("launch", vm.Errorf(vm.NoSpace, "box", "the disk is full"))
	reached, release := s.World.Hold("launch")
	errs := make(chan error, 10)
	for range cap(errs) {
		go func() { errs <- verbs(e)["stat"](t.Context(), &vm.Call{Actor: c.Actor}, "box") }()
	}
	<-reached
	eventually(t, "all wait", func() bool { _, n := e.Waiting("box"); return n == cap(errs) })
	release()
	for range cap(errs) {
		if err := <-errs; vm.KindOf(err) != vm.NoSpace || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("a caller of the VM that did not wake got %v, want that the disk is full", err)
		}
	}
	if n := eventsOf(s, "vm.starting") - starts; n != 1 {
		t.Errorf("%d attempts", n)
	}
	if st := stateOf(t, e, c, "box"); st != vm.Suspended {
		t.Errorf("it is %s", st)
	}
	s.World.Fail("launch", nil)
	if err := verbs(e)["stat"](t.Context(), c, "box"); err != nil {
		t.Error(err)
	}
	consistent(t, s)
}

// TestWakeOutlivesCaller: a caller that gives up waiting returns at once; the start
// continues.
func TestWakeOutlivesCaller(t *testing.T) {
	for _, name := range []string{"exec", "dial"} {
		s, e, c := site(t)
		bring(t, s, e, c, vm.Suspended)
		reached, release := s.World.Hold("launch")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- verbs(e)[name](ctx, &vm.Call{Actor: c.Actor}, "box") }()
		<-reached
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) && vm.KindOf(err) != vm.Cancelled {
			t.Errorf("the %s of a caller that left ends with %v, want it cancelled", name, err)
		}
		release()
		eventually(t, "it is woken anyway", func() bool { return eventsOf(s, "vm.woken") == 1 })
		if st := stateOf(t, e, c, "box"); st != vm.Running {
			t.Errorf("it is %s", st)
		}
		consistent(t, s)
	}
}

// TestArriveDuringSuspend: a request that arrives while the VM falls asleep waits, then
// wakes it, whether it was suspended or stopped when idle.
func TestArriveDuringSuspend(t *testing.T) {
	for step, stops := range map[string]bool{"capture": false, "stop": true} {
		s, e, c, clock := clocked(t)
		create(t, e, c, engine.CreateRequest{Name: "box", StopOnIdle: stops})
		reached, release := s.World.Hold(step)
		fallen := false
		eventually(t, "it falls asleep", func() bool {
			clock.Advance(10 * time.Second)
			select {
			case <-reached:
				fallen = true
			default:
			}
			return fallen
		})
		out := make(chan error, 3)
		for range cap(out) {
			go func() { out <- verbs(e)["exec"](t.Context(), &vm.Call{Actor: c.Actor}, "box") }()
		}
		eventually(t, "they wait", func() bool { n, _ := e.Waiting("box"); return n == cap(out) })
		release()
		for range cap(out) {
			if err := <-out; err != nil {
				t.Errorf("a caller that came at %s got %v", step, err)
			}
		}
		if n := eventsOf(s, "vm.woken"); n != 1 {
			t.Errorf("%s: woken %d times", step, n)
		}
	}
}

// TestWakeAmidOthers: a call waits for an operation on a sleeping VM, and is not refused.
func TestWakeAmidOthers(t *testing.T) {
	s, e, c := site(t)
	bring(t, s, e, c, vm.Suspended)
	reached, release := s.World.Hold("launch")
	forked, woken := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := e.Fork(t.Context(), &vm.Call{Actor: c.Actor}, "box", engine.ForkRequest{Count: 1})
		forked <- err
	}()
	<-reached
	go func() { woken <- verbs(e)["exec"](t.Context(), &vm.Call{Actor: c.Actor}, "box") }()
	eventually(t, "it waits", func() bool { _, n := e.Waiting("box"); return n == 1 })
	release()
	if err := errors.Join(<-forked, <-woken); err != nil {
		t.Error(err)
	}
}

// TestNeverAsleepAtWork: every call to VMs that fall asleep after a second is answered,
// at whatever moment it arrives.
func TestNeverAsleepAtWork(t *testing.T) {
	s, e, c := site(t)
	const boxes = 4
	for i := range boxes {
		create(t, e, c, engine.CreateRequest{Name: fmt.Sprintf("box-%d", i), IdleTimeout: vm.Some(vm.Seconds(1 * time.Second)), StopOnIdle: i%2 == 1})
	}
	kinds := []func(context.Context, *vm.Call, string) error{
		verbs(e)["exec"], verbs(e)["write"], verbs(e)["stat"], verbs(e)["tar down"], verbs(e)["mkdir"],
		func(ctx context.Context, c *vm.Call, ref string) error { return echo(ctx, e, c, ref) },
		func(ctx context.Context, c *vm.Call, ref string) error {
			_, err := e.Start(ctx, c, ref, engine.StartRequest{})
			return err
		},
		func(ctx context.Context, c *vm.Call, ref string) error { _, err := e.Inspect(ctx, c, ref); return err },
		func(ctx context.Context, c *vm.Call, ref string) error { _, err := e.State(ctx, c, ref); return err },
	}
	until := time.Now().Add(7 * time.Second)
	var wg sync.WaitGroup
	var calls atomic.Int64
	for w := range 2 * boxes {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 7)) //nolint:gosec // a test's
			for time.Now().Before(until) {
				// The calls are about one idle timeout apart, so that they arrive just before,
				// at and after it.
				time.Sleep(900*time.Millisecond + time.Duration(rnd.IntN(600))*time.Millisecond)
				k, ref := rnd.IntN(len(kinds)), fmt.Sprintf("box-%d", w%boxes)
				if err := kinds[k](t.Context(), &vm.Call{Actor: c.Actor}, ref); err != nil {
					t.Errorf("call %d of %s: %v", k, ref, err)
				}
				calls.Add(1)
			}
		})
	}
	wg.Wait()
	slept := eventsOf(s, "vm.suspended") + eventsOf(s, "vm.stopped")
	t.Logf("%d calls, asleep %d times, woken %d times", calls.Load(), slept, eventsOf(s, "vm.woken"))
	if slept < boxes || eventsOf(s, "vm.woken") < boxes {
		t.Errorf("asleep %d times only: nothing was tried", slept)
	}
	consistent(t, s)
}

// echo sends a little to a guest's port and waits for it to come back.
func echo(ctx context.Context, e *vmtest.House, c *vm.Call, ref string) error {
	conn, err := e.DialPort(ctx, c, ref, 7)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return pingPong(conn)
}

func pingPong(conn net.Conn) error {
	if _, err := conn.Write([]byte("ping")); err != nil {
		return err
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != "ping" {
		return fmt.Errorf("%q came back", got)
	}
	return nil
}
