//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// verbs are the commands of the mix by the state of a workspace, each as often
// as its share. A command that wakes a stopped one has to boot it.
var verbs = map[vm.State][]string{
	vm.Running: {
		"write", "write", "write", "write", "tag", "tag", "exec", "busy", "terminal", "stop", "kill", "start", "suspend", "suspend", "suspend",
		"fork", "fork", "snapshot", "snapshot", "rollback", "rollback", "from", "rm", "unsnapshot",
	},
	vm.Suspended: {"start", "start", "start", "write", "exec", "tag", "fork", "snapshot", "rollback", "stop", "rm"},
	vm.Stopped:   {"start", "write", "rollback", "rm"},
}

// choose picks a command and a workspace that it is for, "" when there is none;
// with few workspaces it creates one.
func (k *keeper) choose() (verb string, w *workspace) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var free []*workspace
	for _, w := range k.spaces {
		if w.busy {
			continue
		}
		free = append(free, w)
		if w.state != vm.Stopped {
			free = append(free, w, w)
		}
	}
	room := len(k.spaces)+len(k.maybe) < keptVMs
	if room && (len(k.spaces) < 2 || k.rng.IntN(8) == 0) {
		return "create", nil
	}
	if len(free) == 0 {
		return "", nil
	}
	w = free[k.rng.IntN(len(free))]
	mix := verbs[cmp.Or(w.state, vm.Running)]
	verb = mix[k.rng.IntN(len(mix))]
	switch {
	case k.dead >= deadVMs && (verb == "stop" || verb == "kill"):
		verb = "suspend"
	case !room && (verb == "fork" || verb == "from"):
		verb = "rm"
	case len(k.spaces) < 3 && verb == "rm":
		verb = "write"
	case len(k.snaps) >= keptSnapshots && verb == "snapshot":
		verb = "unsnapshot"
	case len(k.snaps) == 0 && (verb == "from" || verb == "unsnapshot"):
		verb = "snapshot"
	}
	w.busy = true
	return verb, w
}

// begin runs a command and notes what may be true from then on. The channel is
// closed when it has ended. With mustWork, nothing is killed meanwhile: its
// failure is one of Warren.
func (k *keeper) begin(verb string, w *workspace, mustWork bool) chan struct{} {
	name := "-"
	if w != nil {
		name = w.name
	}
	k.note("begin %s %s", verb, name)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := within()
		defer cancel()
		began := time.Now()
		err := k.do(ctx, verb, w)
		k.note("ended %s %s after %v: %v", verb, name, time.Since(began).Round(time.Millisecond), err)
		if w != nil {
			k.mu.Lock()
			w.busy = false
			k.mu.Unlock()
		}
		if err == nil || !mustWork {
			return
		}
		switch vm.KindOf(err) {
		case vm.Busy, vm.WrongState, vm.NotFound, vm.Limit: // a refusal: not in this state
		default:
			if k.ending(w) && k.powersOff(ctx, w) {
				return
			}
			k.broken("%s %s with nothing killed: %v", verb, name, err)
		}
	}()
	return done
}

// ending reports whether a stop of the workspace was asked for and not answered.
func (k *keeper) ending(w *workspace) (is bool) {
	if w == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	w.each(func(in *inside) { is = is || in.ending })
	return is
}

// powersOff waits until a workspace runs no more: its guest was powering off.
func (k *keeper) powersOff(ctx context.Context, w *workspace) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		v, err := k.c.Get(ctx, string(w.id))
		if err == nil && v.State != vm.Running {
			return true
		}
		<-time.After(50 * time.Millisecond)
	}
	return false
}

func (k *keeper) do(ctx context.Context, verb string, w *workspace) error {
	switch verb {
	case "create":
		return k.create(ctx, "", []inside{{}})
	case "write":
		return k.write(ctx, w)
	case "tag":
		return k.tag(ctx, w)
	case "exec":
		return k.sh(ctx, w, "true", nil)
	case "busy":
		return k.sh(ctx, w, "timeout 2 sh -c 'while :; do :; done'; true", nil)
	case "terminal":
		return k.terminal(ctx, w)
	case "stop", "kill":
		return k.halt(ctx, w, verb)
	case "start":
		_, err := k.c.Start(ctx, string(w.id), api.StartVM{})
		return err
	case "suspend":
		_, err := k.c.Suspend(ctx, string(w.id), api.SuspendVM{})
		return err
	case "fork":
		return k.fork(ctx, w)
	case "snapshot":
		return k.snapshot(ctx, w)
	case "rollback":
		return k.rollback(ctx, w)
	case "from":
		return k.from(ctx)
	case "unsnapshot":
		return k.unsnapshot(ctx)
	case "rm":
		return k.remove(ctx, w)
	}
	return fmt.Errorf("no verb %q", verb)
}

// sh runs a shell line in a guest; its output goes to out.
func (k *keeper) sh(ctx context.Context, w *workspace, line string, out func(string)) error {
	e, err := k.c.Exec(ctx, string(w.id), vm.ExecSpec{Argv: []string{"sh", "-c", line}})
	if err != nil {
		return err
	}
	status, err := e.Run(byLine(out), &bytes.Buffer{})
	if err == nil && status.Code != 0 {
		err = fmt.Errorf("%q: status %d", line, status.Code)
	}
	return err
}

// lineWriter calls f with each whole line.
type lineWriter struct {
	f    func(string)
	rest []byte
}

func byLine(f func(string)) *lineWriter { return &lineWriter{f: f} }

func (l *lineWriter) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		l.rest = rest
		if l.f != nil {
			l.f(string(line))
		}
	}
}

// write appends a few lines to the ledger, each on the disk before the guest
// says so.
func (k *keeper) write(ctx context.Context, w *workspace) error {
	var want []string
	k.mu.Lock()
	for range 3 + k.rng.IntN(5) {
		k.lines++
		n := k.lines
		want = append(want, fmt.Sprint(n))
		w.each(func(in *inside) { in.ledger = append(in.ledger, entry{n: n}) })
	}
	k.mu.Unlock()
	heard := 0
	// Without its client the command keeps running: the lock has the next one, and whoever reads,
	// wait.
	line := "exec 9>/root/lock; flock 9; for n in " + strings.Join(want, " ") + "; do echo $n >> /root/ledger && sync /root/ledger && echo $n || exit 1; done"
	err := k.sh(ctx, w, line, func(text string) {
		k.mu.Lock()
		defer k.mu.Unlock()
		heard++
		w.each(func(in *inside) {
			for i := range in.ledger {
				if fmt.Sprint(in.ledger[i].n) == text {
					in.ledger[i].sure = true
				}
			}
		})
	})
	if err == nil && heard != len(want) {
		k.broken("%s: a command was said to have worked and %d of its %d lines came", w.name, heard, len(want))
	}
	return err
}

// tag puts a word into the guest's memory.
func (k *keeper) tag(ctx context.Context, w *workspace) error {
	word := k.name("t")
	k.mu.Lock()
	w.each(func(in *inside) { in.tag = "" })
	k.mu.Unlock()
	if err := k.sh(ctx, w, "echo "+word+" > /run/tag", nil); err != nil {
		return err
	}
	k.mu.Lock()
	w.each(func(in *inside) { in.tag = word })
	k.mu.Unlock()
	return nil
}

// terminal opens a terminal, types a sum and reads it.
func (k *keeper) terminal(ctx context.Context, w *workspace) error {
	id := k.name("pty")
	t, err := k.c.OpenTerminal(ctx, string(w.id), vm.TerminalSpec{ID: id})
	if err != nil {
		return err
	}
	if err := t.Detach(); err != nil {
		return err
	}
	atOnce := vm.Millis(0)
	if _, err := k.c.SendTerminal(ctx, string(w.id), "", id, api.PtyInput{Data: "echo T$((40+2))\n", Quiet: &atOnce}); err != nil {
		return err
	}
	for text := ""; !strings.Contains(text, "T42"); { // a shell on a busy host takes its time
		select {
		case <-ctx.Done():
			return fmt.Errorf("the terminal shows %q: %w", text, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
		if text, _, err = k.c.TerminalText(ctx, string(w.id), "", id, 0); err != nil {
			return err
		}
	}
	k.mu.Lock()
	w.each(func(in *inside) { in.term = id })
	k.mu.Unlock()
	return nil
}

// halt ends the machine, in order or not. Memory is gone when it works and may
// be gone when it does not.
func (k *keeper) halt(ctx context.Context, w *workspace, verb string) error {
	k.mu.Lock()
	w.loseMemory()
	k.mu.Unlock()
	if verb == "kill" {
		return k.c.Kill(ctx, string(w.id))
	}
	_, err := k.c.Stop(ctx, string(w.id))
	if err != nil {
		k.mu.Lock()
		w.each(func(in *inside) { in.ending = true })
		k.mu.Unlock()
	}
	return err
}

func (k *keeper) name(prefix string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.names++
	return fmt.Sprintf("%s%d", prefix, k.names)
}

// create makes a workspace, of a snapshot if one is named.
func (k *keeper) create(ctx context.Context, snapshot vm.SnapshotID, holds []inside) error {
	name := k.name("k")
	k.expect(name, holds)
	out, err := k.c.Create(ctx, api.CreateVM{Name: name, Image: string(snapshot), IdleTimeout: vm.Null[vm.Seconds]()})
	if err != nil {
		return err
	}
	k.adopt(name, out.ID)
	return nil
}

// expect notes a workspace that may come to be.
func (k *keeper) expect(name string, holds []inside) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.maybe[name] = holds
}

// adopt notes that a workspace that was asked for is there.
func (k *keeper) adopt(name string, id vm.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spaces = append(k.spaces, &workspace{name: name, id: id, may: k.maybe[name]})
	delete(k.maybe, name)
}

func (k *keeper) fork(ctx context.Context, w *workspace) error {
	name := k.name("f")
	k.mu.Lock()
	holds := w.clones()
	k.mu.Unlock()
	k.expect(name+"-1", holds)
	out, err := k.c.Fork(ctx, string(w.id), api.ForkVM{Name: name, IdleTimeout: vm.Null[vm.Seconds]()})
	if err != nil {
		return err
	}
	k.adopt(name+"-1", out.Forks[0].ID)
	return nil
}

func (k *keeper) snapshot(ctx context.Context, w *workspace) error {
	s := &savepoint{name: k.name("s"), of: w}
	k.mu.Lock()
	s.may = w.clones()
	k.snaps = append(k.snaps, s)
	k.mu.Unlock()
	out, err := k.c.Snapshot(ctx, string(w.id), api.TakeSnapshot{Name: s.name})
	if err != nil {
		return err
	}
	k.mu.Lock()
	s.id = out.SnapshotID
	k.mu.Unlock()
	return nil
}

// saved picks a snapshot, of w if it is given; nil = there is none.
func (k *keeper) saved(w *workspace) *savepoint {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []*savepoint
	for _, s := range k.snaps {
		if s.id != "" && !s.gone && (w == nil || s.of == w) {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[k.rng.IntN(len(list))]
}

func (s *savepoint) clones() []inside { return (&workspace{may: s.may}).clones() }

// rollback puts a workspace back; when it fails, it is what it was or what it
// was to be.
func (k *keeper) rollback(ctx context.Context, w *workspace) error {
	s := k.saved(w)
	if s == nil {
		return k.snapshot(ctx, w)
	}
	k.note("%s goes back to %s", w.name, s.name)
	k.mu.Lock()
	back := s.clones()
	w.may = append(w.may, back...)
	k.mu.Unlock()
	if _, err := k.c.Rollback(ctx, string(w.id), api.RollbackVM{To: string(s.id)}); err != nil {
		return err
	}
	k.mu.Lock()
	w.may = slices.Clone(back)
	k.mu.Unlock()
	return nil
}

// from creates a workspace of a snapshot.
func (k *keeper) from(ctx context.Context) error {
	s := k.saved(nil)
	if s == nil {
		return nil
	}
	k.note("a workspace of %s", s.name)
	k.mu.Lock()
	holds := s.clones()
	k.mu.Unlock()
	return k.create(ctx, s.id, holds)
}

func (k *keeper) unsnapshot(ctx context.Context) error {
	s := k.saved(nil)
	if s == nil {
		return nil
	}
	k.note("delete %s", s.name)
	k.mu.Lock()
	s.gone = true
	k.mu.Unlock()
	if err := k.c.DeleteSnapshot(ctx, string(s.id)); err != nil {
		return err
	}
	k.mu.Lock()
	k.snaps = slices.DeleteFunc(k.snaps, func(o *savepoint) bool { return o == s })
	k.mu.Unlock()
	return nil
}

func (k *keeper) remove(ctx context.Context, w *workspace) error {
	k.mu.Lock()
	w.gone = true
	k.mu.Unlock()
	if err := k.c.Delete(ctx, string(w.id)); err != nil {
		return err
	}
	k.mu.Lock()
	k.spaces = slices.DeleteFunc(k.spaces, func(o *workspace) bool { return o == w })
	k.mu.Unlock()
	return nil
}
