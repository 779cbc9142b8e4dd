// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestUniqueNameRace: of two creates with the same unique name one succeeds.
func TestUniqueNameRace(t *testing.T) {
	s, e, c := site(t)
	const n = 8
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := e.Create(t.Context(), &vm.Call{Actor: c.Actor}, engine.CreateRequest{Name: "one", UniqueName: true})
			errs <- err
		}()
	}
	won := 0
	for range n {
		switch err := <-errs; vm.KindOf(err) {
		case "":
			won++
		case vm.Exists:
		default:
			t.Errorf("create: %v", err)
		}
	}
	if won != 1 || len(s.World.Running()) != 1 {
		t.Errorf("%d won, %d run", won, len(s.World.Running()))
	}
}

// TestExecWaitsForStart: an exec while the VM is starting waits for it.
func TestExecWaitsForStart(t *testing.T) {
	s, e, c := site(t)
	prepare(t, e, c, "start")
	reached, release := s.World.Hold("launch")
	started := make(chan error, 2)
	for range 2 { // the second start waits for the first
		go func() {
			_, err := e.Start(t.Context(), &vm.Call{Actor: c.Actor}, "box", engine.StartRequest{})
			started <- err
		}()
	}
	<-reached
	out := make(chan string, 1)
	go func() {
		x, err := e.Exec(t.Context(), &vm.Call{Actor: c.Actor}, "box", vm.ExecSpec{Command: "echo up"})
		if err != nil {
			out <- err.Error()
			return
		}
		var b bytes.Buffer
		_, err = x.Run(&b, io.Discard)
		out <- fmt.Sprint(b.String(), err)
	}()
	if _, err := e.Stop(t.Context(), c, "box"); vm.KindOf(err) != vm.Busy || !strings.Contains(err.Error(), "start") {
		t.Errorf("stop during start: %v, want Busy that names it", err)
	}
	select {
	case got := <-out:
		t.Errorf("exec did not wait: %s", got)
	default:
	}
	release()
	for range 2 {
		if err := <-started; err != nil {
			t.Errorf("start: %v", err)
		}
	}
	if got := <-out; got != "up\n<nil>" {
		t.Errorf("exec: %q", got)
	}
	if s.World.Launches() != 2 {
		t.Errorf("%d launches, want 2", s.World.Launches())
	}
}

// TestDeleteDuring: delete interrupts a create, a start and a stop; kill
// interrupts a start and a stop.
func TestDeleteDuring(t *testing.T) {
	for _, tc := range []struct{ verb, step, by string }{
		{"create", "launch", "delete"},
		{"start", "launch", "delete"},
		{"stop", "stop", "delete"},
		{"start", "launch", "kill"},
		{"stop", "stop", "kill"},
	} {
		t.Run(tc.by+" during "+tc.verb, func(t *testing.T) {
			s, e, c := site(t)
			prepare(t, e, c, tc.verb)
			reached, release := s.World.Hold(tc.step)
			defer release()
			done := make(chan error, 1)
			go func() { done <- doVerb(t, e, &vm.Call{Actor: c.Actor}, tc.verb) }()
			<-reached
			err := doVerb(t, e, c, tc.by)
			if tc.verb == "create" && vm.KindOf(err) == vm.NotFound {
				err = nil // the create took itself back first
			}
			if err != nil {
				t.Errorf("the %s during the %s failed: %v", tc.by, tc.verb, err)
			}
			if err := <-done; vm.KindOf(err) != vm.Cancelled {
				t.Errorf("%s: %v, want Cancelled", tc.verb, err)
			}
			if tc.by == "delete" {
				nothingLeft(t, s)
			}
			consistent(t, s)
		})
	}
}

// TestBusy: an operation that may not interrupt is refused, and the error names the
// running one.
func TestBusy(t *testing.T) {
	s, e, c := site(t)
	prepare(t, e, c, "stop")
	reached, release := s.World.Hold("stop")
	done := make(chan error, 1)
	go func() { done <- doVerb(t, e, &vm.Call{Actor: c.Actor}, "stop") }()
	<-reached
	for _, verb := range []string{"start", "stop"} {
		if err := doVerb(t, e, c, verb); vm.KindOf(err) != vm.Busy || vm.AsError(err).Fields["operation"] != "stop" {
			t.Errorf("%s during stop: %v", verb, err)
		}
	}
	if _, err := e.Stats(t.Context(), c, "box"); vm.KindOf(err) != vm.Busy {
		t.Errorf("stats during stop: %v", err)
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	consistent(t, s)

	reached, release = s.World.Hold("launch")
	go func() {
		_, err := e.Create(t.Context(), &vm.Call{Actor: c.Actor}, engine.CreateRequest{Name: "new"})
		done <- err
	}()
	<-reached
	_, err := e.Kill(t.Context(), c, "new")
	wantCode(t, err, vm.Busy, "STILL_CREATING")
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// verbs are all methods that name a VM, with harmless arguments.
func verbs(e *vmtest.House) map[string]func(context.Context, *vm.Call, string) error {
	type f = func(context.Context, *vm.Call, string) error
	closing := func(r io.Closer, err error) error {
		if err == nil {
			return r.Close()
		}
		return err
	}
	m := map[string]f{
		"get": func(ctx context.Context, c *vm.Call, r string) error { _, err := e.Get(ctx, c, r); return err },
		"start": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.Start(ctx, c, r, engine.StartRequest{})
			return err
		},
		"suspend": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.Suspend(ctx, c, r, engine.SuspendRequest{})
			return err
		},
		"fork": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.Fork(ctx, c, r, engine.ForkRequest{})
			return err
		},
		"snapshot": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.Snapshot(ctx, c, r, engine.SnapshotRequest{})
			return err
		},
		"rollback": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.Rollback(ctx, c, r, engine.RollbackRequest{})
			return err
		},
		"lineage": func(ctx context.Context, c *vm.Call, r string) error { _, err := e.Lineage(ctx, c, r); return err },
		"turn": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.Turn(ctx, c, r, engine.TurnRequest{})
			return err
		},
		"schedule": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.SetSchedule(ctx, c, r, vm.Seconds(time.Minute))
			return err
		},
		"keep": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.Keep(ctx, c, r, r, false)
			if vm.KindOf(err) == vm.Invalid { // over itself
				return nil
			}
			return err
		},
		"vm-rename": func(ctx context.Context, c *vm.Call, r string) error {
			v, err := e.Get(ctx, c, r)
			if err == nil {
				_, err = e.RenameVM(ctx, c, r, v.Name)
			}
			return err
		},
		"amend": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.Amend(ctx, c, r, engine.Amendment{IdleTimeout: vm.Null[vm.Seconds]()})
			return err
		},
		"label": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.Label(ctx, c, r, vm.SetLabels(map[string]string{"by": "verb"}))
			return err
		},
		"wait port": func(ctx context.Context, c *vm.Call, r string) error { return e.WaitPort(ctx, c, r, 7) },
		"stop":      func(ctx context.Context, c *vm.Call, r string) error { _, err := e.Stop(ctx, c, r); return err },
		"kill":      func(ctx context.Context, c *vm.Call, r string) error { _, err := e.Kill(ctx, c, r); return err },
		"delete":    func(ctx context.Context, c *vm.Call, r string) error { _, err := e.Delete(ctx, c, r); return err },
		"inspect":   func(ctx context.Context, c *vm.Call, r string) error { _, err := e.Inspect(ctx, c, r); return err },
		"network": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.Policy.Set(ctx, c, r, []string{"open"})
			return err
		},
		"exec": func(ctx context.Context, c *vm.Call, r string) error {
			x, err := e.Exec(ctx, c, r, vm.ExecSpec{Argv: []string{"true"}})
			if err != nil {
				return err
			}
			_, err = x.Run(nil, nil)
			return err
		},
		"await": func(ctx context.Context, c *vm.Call, r string) error {
			ctx, stop := context.WithTimeout(ctx, time.Millisecond)
			defer stop()
			_, err := e.Await(ctx, c, r)
			if vm.KindOf(err) == vm.Timeout {
				return nil // it exists and runs
			}
			return err
		},
		"console": func(ctx context.Context, c *vm.Call, r string) error {
			rc, _, err := e.ConsoleLog(ctx, c, r, 0, false)
			return closing(rc, err)
		},
	}
	maps.Copy(m, map[string]f{
		"connections": func(ctx context.Context, c *vm.Call, r string) error { _, err := e.Connections(ctx, c, r); return err },
		"stats":       func(ctx context.Context, c *vm.Call, r string) error { _, err := e.Stats(ctx, c, r); return err },
		"state":       func(ctx context.Context, c *vm.Call, r string) error { _, err := e.State(ctx, c, r); return err },
		"processes":   func(ctx context.Context, c *vm.Call, r string) error { _, err := e.Processes(ctx, c, r); return err },
		"stat": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.Stat(ctx, c, r, "", "/")
			return err
		},
		"readdir": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.ReadDir(ctx, c, r, "", "/")
			return err
		},
		"mkdir": func(ctx context.Context, c *vm.Call, r string) error {
			return e.Mkdir(ctx, c, r, "", "/work/m", 0, true)
		},
		"chmod": func(ctx context.Context, c *vm.Call, r string) error { return e.Chmod(ctx, c, r, "", "/work", 0o755) },
		"start process": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.StartProcess(ctx, c, r, vm.ExecSpec{Argv: []string{"true"}})
			return err
		},
		"write": func(ctx context.Context, c *vm.Call, r string) error {
			_, err := e.WriteFile(ctx, c, r, "", "/work/f", vm.WriteOptions{Size: -1}, strings.NewReader("x"))
			return err
		},
		"open": func(ctx context.Context, c *vm.Call, r string) error {
			_, rc, err := e.OpenFile(ctx, c, r, "", "/etc/hostname")
			return closing(rc, err)
		},
		"tar down": func(ctx context.Context, c *vm.Call, r string) error {
			rc, err := e.TarDown(ctx, c, r, "", "/work")
			return closing(rc, err)
		},
		"watch": func(ctx context.Context, c *vm.Call, r string) error {
			w, err := e.Watch(ctx, c, r, "", "/work", true)
			return closing(w, err)
		},
		"dial": func(ctx context.Context, c *vm.Call, r string) error {
			n, err := e.DialPort(ctx, c, r, 7)
			return closing(n, err)
		},
		"tar up": func(ctx context.Context, c *vm.Call, r string) error {
			return e.TarUp(ctx, c, r, "", "/work", bytes.NewReader(make([]byte, 1024)))
		},
		"rename": func(ctx context.Context, c *vm.Call, r string) error {
			return e.Rename(ctx, c, r, "", "/etc/hostname", "/etc/hostname")
		},
		"process": func(ctx context.Context, c *vm.Call, r string) error {
			return noProcess(func() error { _, err := e.Process(ctx, c, r, "p99"); return err }())
		},
		"wait": func(ctx context.Context, c *vm.Call, r string) error {
			return noProcess(func() error { _, err := e.WaitProcess(ctx, c, r, "p99"); return err }())
		},
		"signal": func(ctx context.Context, c *vm.Call, r string) error {
			return noProcess(e.SignalProcess(ctx, c, r, "", "p99", "TERM"))
		},
		"forget": func(ctx context.Context, c *vm.Call, r string) error {
			return noProcess(e.ForgetProcess(ctx, c, r, "", "p99"))
		},
		"log": func(ctx context.Context, c *vm.Call, r string) error {
			rc, _, err := e.ProcessLog(ctx, c, r, "", "p99", 0, false)
			return noProcess(closing(rc, err))
		},
		"remove": func(ctx context.Context, c *vm.Call, r string) error {
			return noFile(e.Remove(ctx, c, r, "", "/nope", true))
		},
		"symlink": func(ctx context.Context, c *vm.Call, r string) error {
			return noFile(e.Symlink(ctx, c, r, "", "t", "/nope/l"))
		},
	})
	return m
}

// noProcess and noFile accept errors that only a guest returns.
func noProcess(err error) error {
	if err != nil && vm.AsError(err).Code == "NOT_FOUND" {
		return nil
	}
	return err
}

func noFile(err error) error {
	if err != nil && vm.AsError(err).Code == "FILE_NOT_FOUND" {
		return nil
	}
	return err
}

// TestOtherAccounts: for every verb, another account's VM does not exist, by id or name;
// nor do its events and audit records.
func TestOtherAccounts(t *testing.T) {
	s, e, admin := site(t)
	ctx := t.Context()
	other, _ := newAccount(t, e, admin, "other")
	v := create(t, e, admin, engine.CreateRequest{Name: "box"})
	for _, ref := range []string{string(v.ID), "box"} {
		for name, verb := range verbs(e) {
			if err := verb(ctx, other, ref); vm.KindOf(err) != vm.NotFound || vm.AsError(err).Code != "VM_NOT_FOUND" {
				t.Errorf("%s: %v, want VM_NOT_FOUND", name, err)
			}
		}
	}
	if len(s.World.Running()) != 1 {
		t.Error("another account ended the VM")
	}
	if vms, n, counts, err := e.List(ctx, other, engine.Filter{}); err != nil || len(vms) != 0 || n != 0 || counts[vm.Running] != 0 {
		t.Errorf("list: %v, %d, %v, %v", vms, n, counts, err)
	}
	if _, _, _, err := e.List(ctx, other, engine.Filter{All: true}); vm.KindOf(err) != vm.Denied {
		t.Errorf("list of all: %v", err)
	}
	if recs, err := e.AuditList(ctx, other, vm.AuditFilter{Account: admin.Actor.Account}); err != nil || len(recs) != 0 {
		t.Errorf("audit: %v, %v", recs, err)
	}
	if _, err := e.Create(ctx, other, engine.CreateRequest{Name: "box", UniqueName: true}); err != nil {
		t.Errorf("names are per account: %v", err)
	}
	stream, err := e.Events(ctx, other, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for {
		short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
		ev, err := stream.Next(short)
		stop()
		if err != nil {
			break
		}
		if ev.VM == v.ID || ev.Account != other.Actor.Account {
			t.Errorf("foreign event %+v", ev)
		}
	}
}

// bring makes a VM named box in a given state.
func bring(t *testing.T, s *vmtest.Site, e *vmtest.House, c *vm.Call, st vm.State) (end func()) {
	t.Helper()
	switch st {
	case vm.Running:
		prepare(t, e, c, "stop")
	case vm.Stopped:
		prepare(t, e, c, "start")
	case vm.Suspended:
		prepare(t, e, c, "resume")
	case vm.Starting:
		prepare(t, e, c, "start")
		reached, release := s.World.Hold("launch")
		done := make(chan struct{})
		go func() {
			_, _ = e.Start(t.Context(), &vm.Call{Actor: c.Actor}, "box", engine.StartRequest{})
			close(done)
		}()
		<-reached
		return func() { release(); <-done }
	}
	return func() {}
}

// wakes reports whether a verb wakes a sleeping VM: guest verbs, except those that only
// look.
func wakes(op vm.Op) bool {
	ops := vm.StateOps()
	return slices.Index(ops, op) > slices.Index(ops, vm.OpDelete) && op != vm.OpStats
}

// TestAllPairs carries out every verb in every state that can be reached, and
// compares with the state table.
func TestAllPairs(t *testing.T) {
	ops := map[string]vm.Op{
		"suspend": vm.OpSuspend, "fork": vm.OpFork, "snapshot": vm.OpSnapshot, "keep": vm.OpKeep, "turn": vm.OpTurn, "schedule": vm.OpCapture,
		"start": vm.OpStart, "stop": vm.OpStop, "kill": vm.OpKill, "delete": vm.OpDelete, "network": vm.OpNetwork,
		"vm-rename": vm.OpVMRename, "label": vm.OpLabel, "amend": vm.OpAmend, "wait port": vm.OpDial,
		"exec": vm.OpExec, "start process": vm.OpExec, "write": vm.OpWrite, "open": vm.OpRead, "stat": vm.OpRead, "readdir": vm.OpRead,
		"mkdir": vm.OpMkdir, "rename": vm.OpRename, "remove": vm.OpRemove, "chmod": vm.OpChmod, "symlink": vm.OpSymlink,
		"watch": vm.OpWatch, "stats": vm.OpStats, "dial": vm.OpDial, "tar down": vm.OpRead, "tar up": vm.OpWrite,
		"signal": vm.OpSignal, "forget": vm.OpRemove, "process": vm.OpStats, "log": vm.OpRead, "connections": vm.OpStats,
	}
	for _, st := range []vm.State{vm.Running, vm.Stopped, vm.Suspended} {
		for name, op := range ops {
			t.Run(string(st)+" "+name, func(t *testing.T) {
				s, e, c := site(t)
				defer bring(t, s, e, c, st)()
				next, illegal := st.Allow(op)
				err := verbs(e)[name](t.Context(), c, "box")
				v, getErr := e.Get(t.Context(), c, "box")
				switch {
				case illegal != nil && wakes(op):
					next.After = vm.Running
				case illegal != nil:
					wantCode(t, err, vm.WrongState, "VM_NOT_RUNNING")
					next.After = st
				case err != nil:
					t.Errorf("legal, but: %v", err)
				}
				if next.After == "" {
					wantCode(t, getErr, vm.NotFound, "VM_NOT_FOUND")
				} else if v.State != next.After {
					t.Errorf("afterwards %s, the table says %s", v.State, next.After)
				}
			})
		}
	}
}

// TestRandomWalk compares a long random walk with a model of one line per
// verb.
func TestRandomWalk(t *testing.T) {
	s, e, c := site(t)
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	model := map[string]vm.State{} // by name; absent = no VM
	taken := map[string]bool{}     // snapshots, which outlive their VM
	names := []string{"a", "b", "c"}
	steps := 400
	for i := range steps {
		name := names[rnd.IntN(len(names))]
		st, exists := model[name]
		verb := []string{"create", "start", "stop", "kill", "delete", "exec", "poweroff", "reopen", "suspend", "snapshot", "rollback", "fork"}[rnd.IntN(12)]
		var want vm.Kind
		var err error
		switch verb {
		case "create":
			if _, err = e.Create(t.Context(), c, engine.CreateRequest{Name: name, UniqueName: true}); exists {
				want = vm.Exists
			} else {
				model[name] = vm.Running
			}
		case "reopen":
			if rnd.IntN(8) == 0 {
				closeEngine(t, e)
				e, c = open(t, s)
			}
		case "rollback":
			_, err = e.Rollback(t.Context(), c, name, engine.RollbackRequest{To: "snap-" + name})
			switch {
			case !exists || !taken[name]:
				want = vm.NotFound
			default:
				model[name] = vm.Running
			}
		case "snapshot":
			_, err = e.Snapshot(t.Context(), c, name, engine.SnapshotRequest{Name: "snap-" + name})
			switch {
			case taken[name]:
				want = vm.Exists
			case !exists:
				want = vm.NotFound
			default:
				taken[name] = true
			}
		case "fork":
			var f engine.Forked
			f, err = e.Fork(t.Context(), c, name, engine.ForkRequest{Count: 2})
			for _, k := range f.Children {
				if _, err := e.Delete(t.Context(), c, string(k.ID)); err != nil {
					t.Fatal(err)
				}
			}
			switch {
			case !exists:
				want = vm.NotFound
			case st == vm.Stopped:
				want = vm.WrongState
			}
		case "poweroff":
			if st == vm.Running {
				v, _ := e.Get(t.Context(), c, name)
				s.World.End(v.ID, "guest-poweroff")
				if _, err = e.Await(t.Context(), c, name); err == nil {
					model[name] = vm.Stopped
				}
				settle(t, e, c)
			}
		default:
			err = verbs(e)[verb](t.Context(), c, name)
			next, illegal := st.Allow(vm.Op(verb))
			switch {
			case !exists:
				want = vm.NotFound
			case illegal != nil && wakes(vm.Op(verb)):
				model[name] = vm.Running
			case illegal != nil:
				want = vm.WrongState
			case next.After == "":
				delete(model, name)
			default:
				model[name] = next.After
			}
		}
		if vm.KindOf(err) != want {
			t.Fatalf("step %d: %s %s in %q: %v, want %q", i, verb, name, st, err, want)
		}
		compare(t, e, c, model)
	}
	consistent(t, s)
}

func compare(t *testing.T, e *vmtest.House, c *vm.Call, model map[string]vm.State) {
	t.Helper()
	vms, _, _, err := e.List(t.Context(), c, engine.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]vm.State{}
	for _, v := range vms {
		got[v.Name] = v.State
	}
	if !maps.Equal(got, model) {
		t.Fatalf("the engine has %v, the model %v", got, model)
	}
}

// TestManyAtOnce throws verbs at a few VMs from many goroutines and checks
// that what is left is consistent.
func TestManyAtOnce(t *testing.T) {
	s, e, c := site(t)
	for _, n := range []string{"a", "b", "c"} {
		create(t, e, c, engine.CreateRequest{Name: n})
	}
	done := make(chan struct{})
	for g := range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			rnd := rand.New(rand.NewPCG(uint64(g), 7))
			all := verbs(e)
			for range 40 {
				name := string("abc"[rnd.IntN(3)])
				verb := []string{"start", "stop", "kill", "exec", "write", "inspect", "network"}[rnd.IntN(7)]
				err := all[verb](t.Context(), &vm.Call{Actor: c.Actor}, name)
				switch vm.KindOf(err) {
				case "", vm.Busy, vm.WrongState, vm.GuestFault, vm.Cancelled, vm.Unavailable:
				default:
					t.Errorf("%s of %s gives %v, which no meeting explains", verb, name, err)
				}
			}
		}()
	}
	for range 8 {
		<-done
	}
	settle(t, e, c)
	consistent(t, s)
}
