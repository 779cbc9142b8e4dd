// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/vt"
	"github.com/warren-vm/warren/vm"
)

// looker is a viewer of a terminal.
type looker struct {
	*guest.Terminal
	t      *testing.T
	mu     sync.Mutex
	raw    bytes.Buffer
	screen *vt.Screen
	drawn  int   // how often the screen was drawn again
	next   int64 // offset after what was seen
	left   int   // bytes of a replay to come
	done   chan struct{}
	status vm.ExitStatus
	err    error
	slow   chan struct{} // when set: one token per write
}

func (l *looker) Write(p []byte) (int, error) {
	if l.slow != nil {
		<-l.slow
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.raw.Write(p)
	_, _ = l.screen.Write(p)
	if l.left > 0 {
		l.left -= len(p)
	} else {
		l.next += int64(len(p))
	}
	return len(p), nil
}

func (l *looker) replay(r vm.TerminalReplay) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next, l.left = r.Offset, r.Bytes
	if r.Redraw {
		l.drawn++
	}
	return nil
}

func watch(t *testing.T, term *guest.Terminal, err error, slow chan struct{}) *looker {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	l := &looker{Terminal: term, t: t, screen: vt.New(term.Session().Cols, term.Session().Rows), done: make(chan struct{}), slow: slow}
	go func() {
		defer close(l.done)
		l.status, l.err = l.Run(l.replay, l)
	}()
	t.Cleanup(func() { _ = l.Detach(); <-l.done })
	return l
}

func (r *rig) open(spec vm.TerminalSpec) *looker {
	r.t.Helper()
	term, err := r.OpenTerminal(r.t.Context(), spec)
	return watch(r.t, term, err, nil)
}

func (r *rig) attach(id string, view vm.TerminalView) *looker {
	r.t.Helper()
	term, err := r.AttachTerminal(r.t.Context(), id, view)
	return watch(r.t, term, err, nil)
}

// shows waits until the screen has a text.
func (l *looker) shows(text string) {
	l.t.Helper()
	for range 1000 {
		l.mu.Lock()
		got := l.screen.Text()
		l.mu.Unlock()
		if strings.Contains(got, text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Fatalf("no %q on the screen:\n%s\nraw: %q", text, l.screen.Text(), l.raw.Bytes())
}

func (l *looker) types(text string) {
	l.t.Helper()
	if _, err := l.Terminal.Write([]byte(text)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *looker) ends() vm.ExitStatus {
	l.t.Helper()
	select {
	case <-l.done:
	case <-time.After(20 * time.Second):
		l.t.Fatal("the terminal did not end")
	}
	if l.err != nil {
		l.t.Fatal(l.err)
	}
	return l.status
}

// sh is a shell without a profile.
func sh(id string) vm.TerminalSpec {
	return vm.TerminalSpec{ID: id, Command: "PS1='$ ' exec bash --norc --noprofile", Cols: 80, Rows: 24}
}

// A terminal has size, type, echo, ^C and an exit status like a real one. It
// outlives its viewers, and the next viewer sees its screen.
func TestTerminal(t *testing.T) {
	r := newRig(t)
	l := r.open(sh(""))
	if id := l.Session().ID; id != "pty-1" {
		t.Errorf("the id is %q", id)
	}
	l.types("tty -s && stty size && echo $TERM\n")
	l.shows("24 80\nxterm-256color")
	l.types("x=kept; (echo asl''eep; exec sleep 100)\n")
	l.shows("asleep") // so it is in front, and the one that ^C is for
	l.types("\x03")
	l.shows("^C")
	if err := l.Detach(); err != nil {
		t.Fatal(err)
	}
	again := r.attach("pty-1", vm.TerminalView{Cols: 100, Rows: 30, Since: -1})
	again.shows("xterm-256color")
	again.types("echo $x-$x; stty size\n")
	again.shows("kept-kept\n30 100")
	again.types("exit 7\n")
	if st := again.ends(); st.Code != 7 {
		t.Errorf("it ended with %+v", st)
	}
	after := r.attach("pty-1", vm.TerminalView{Cols: 80, Rows: 24, Since: -1})
	if st := after.ends(); st.Code != 7 || !strings.Contains(after.screen.Text(), "kept-kept") {
		t.Errorf("an ended terminal: %+v, %q", st, after.screen.Text())
	}
	list, err := r.Terminals(t.Context())
	if err != nil || len(list) != 1 || list[0].Running() || *list[0].ExitCode != 7 || list[0].ExitedAt == nil || list[0].Cols != 100 {
		t.Errorf("the terminals are %+v (%v), want one of 100 columns that exited with 7", list, err)
	}
}

// A full-screen program is redrawn correctly, with alternate screen, cursor
// and modes; the main screen returns at its end.
func TestTerminalFullScreen(t *testing.T) {
	r := newRig(t)
	l := r.open(sh("s"))
	l.types("printf 'below\\n'; printf '\\033[?1049h\\033[?2004h\\033[2J\\033[5;10H\\033[1;31mFU''LL\\033[7;3H\\033]0;title\\007'; read x; printf '\\033[?1049l'\n")
	l.shows("FULL")
	again := r.attach("s", vm.TerminalView{Cols: 80, Rows: 24, Since: -1})
	again.shows("FULL")
	again.mu.Lock()
	x, y, _ := again.screen.Cursor()
	if !again.screen.Alternate() || !again.screen.BracketedPaste() || x != 2 || y != 6 || again.screen.Title() != "title" {
		t.Errorf("drawn: alternate %v, cursor %d,%d, title %q", again.screen.Alternate(), x, y, again.screen.Title())
	}
	again.mu.Unlock()
	again.types("\n")
	again.shows("below")
	again.mu.Lock()
	defer again.mu.Unlock()
	if again.screen.Alternate() {
		t.Error("still on the alternate screen")
	}
}

// The size is the smallest of the viewers'; it stays after they detach.
func TestTerminalSize(t *testing.T) {
	r := newRig(t)
	a := r.open(sh("s"))
	b := r.attach("s", vm.TerminalView{Cols: 60, Rows: 40, Since: -1})
	size := func(want string) {
		t.Helper()
		for range 500 {
			list, err := r.Terminals(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(list[0].Cols, list[0].Rows, list[0].Attached); got == want {
				return
			} else if list[0].Attached > 5 {
				t.Fatalf("columns, rows and views are %s, want %s", got, want)
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("never %s", want)
	}
	size("60 24 2")
	if err := a.Resize(50, 50); err != nil {
		t.Fatal(err)
	}
	size("50 40 2")
	b.types("stty size\n")
	b.shows("40 50")
	_ = a.Detach()
	size("60 40 1")
	_ = b.Detach()
	size("60 40 0")
}

// Output is replayed from an offset without losses or duplicates.
func TestTerminalSince(t *testing.T) {
	r := newRig(t)
	l := r.open(vm.TerminalSpec{ID: "s", Command: "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; sleep 1"})
	l.shows("line")
	_ = l.Detach()
	<-l.done
	l.mu.Lock()
	got, next := append([]byte(nil), l.raw.Bytes()...), l.next
	l.mu.Unlock()
	more := r.attach("s", vm.TerminalView{Since: next})
	more.ends()
	if more.drawn != 0 {
		t.Error("it was drawn anew")
	}
	var want strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&want, "line %d\r\n", i)
	}
	t.Logf("%d bytes before, %d after", len(got), more.raw.Len())
	if all := string(got) + more.raw.String(); all != want.String() {
		t.Errorf("%d and %d bytes are not %d", len(got), more.raw.Len(), want.Len())
	}
}

// Refusals have the contract's codes.
func TestTerminalRefusals(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	l := r.open(sh("s"))
	for want, f := range map[string]func() error{
		"SESSION_ALREADY_EXISTS": func() error { _, err := r.OpenTerminal(ctx, sh("s")); return err },
		"INVALID_SESSION_ID":     func() error { _, err := r.OpenTerminal(ctx, sh("a/b")); return err },
		"SESSION_NOT_FOUND":      func() error { _, err := r.AttachTerminal(ctx, "none", vm.TerminalView{}); return err },
		"SESSION_USER_MISMATCH":  func() error { _, err := r.CloseTerminal(ctx, "daemon", "s"); return err },
		"USER_NOT_FOUND":         func() error { _, err := r.OpenTerminal(ctx, vm.TerminalSpec{User: "nobodyhere"}); return err },
	} {
		if err := f(); err == nil || vm.AsError(err).Code != want {
			t.Errorf("the call that is refused as %s: %v", want, err)
		}
	}
	s, err := r.CloseTerminal(ctx, "", "s")
	if err != nil || s.ExitCode == nil {
		t.Errorf("the closed terminal is %+v (%v), want an exit code", s, err)
	}
	if st := l.ends(); st.Code != 129 && st.Code != 137 {
		t.Errorf("the viewer saw %+v", st)
	}
	if _, err := r.ReadTerminal(ctx, "", "s", 0); vm.AsError(err).Code != "SESSION_NOT_FOUND" {
		t.Errorf("after it was closed: %v", err)
	}
	r.open(sh("k"))
	k := r.attach("k", vm.TerminalView{Since: -1})
	if err := k.Signal("KILL"); err != nil {
		t.Fatal(err)
	}
	if st := k.ends(); st.Code != 137 {
		t.Errorf("killed, it ended with %+v", st)
	}
}

// The number of running terminals is limited; ended ones do not count.
func TestTerminalCap(t *testing.T) {
	r := newRig(t)
	for i := range vm.MaxTerminals {
		term, err := r.OpenTerminal(t.Context(), vm.TerminalSpec{Command: "exec sleep 100"})
		if err != nil {
			t.Fatal(i, err)
		}
		_ = term.Detach()
	}
	_, err := r.OpenTerminal(t.Context(), vm.TerminalSpec{Command: "true"})
	if e := vm.AsError(err); err == nil || e.Code != "SESSION_CAP_REACHED" {
		t.Fatal(err)
	}
	list, err := r.Terminals(t.Context())
	if err != nil || len(list) != vm.MaxTerminals {
		t.Fatal(len(list), err)
	}
	for _, s := range list {
		if _, err := r.CloseTerminal(t.Context(), "", s.ID); err != nil {
			t.Fatal(err)
		}
	}
	if st := r.open(vm.TerminalSpec{Command: "exit 3"}).ends(); st.Code != 3 {
		t.Errorf("the terminal after the limit ended with %+v, want code 3", st)
	}
}

// Input that waits for its effect: new output, and the screen.
func TestTerminalSend(t *testing.T) {
	r := newRig(t)
	l := r.open(sh("s"))
	l.shows("$")
	c, err := r.SendTerminal(t.Context(), "s", vm.TerminalSend{Data: []byte("echo a$((6*7))b\n"), Quiet: 200 * time.Millisecond, Limit: 10 * time.Second})
	if err != nil || !c.Quiet || !strings.Contains(string(c.Output), "\ra42b\r\n") || c.Since+int64(len(c.Output)) != c.Session.End {
		t.Errorf("the input gave %+v with %q (%v), want its output and quiet", c.Session, c.Output, err)
	}
	begin := time.Now()
	c, err = r.SendTerminal(t.Context(), "s", vm.TerminalSend{Data: []byte("sh -c 'while echo y; do sleep 0.01; done'\n"), Quiet: 5 * time.Second, Limit: 300 * time.Millisecond})
	if err != nil || c.Quiet || time.Since(begin) > 3*time.Second || !bytes.Contains(c.Output, []byte("y\r\ny\r\n")) {
		t.Errorf("after %v: %v, %v", time.Since(begin), c.Quiet, err)
	}
	// bash may lose input that it reads during a signal, so wait until it is quiet.
	c, err = r.SendTerminal(t.Context(), "s", vm.TerminalSend{Data: []byte("\x03"), Quiet: 500 * time.Millisecond, Limit: 10 * time.Second})
	if err != nil || !c.Quiet {
		t.Errorf("after the interrupt the terminal is %+v (%v), want quiet", c.Session, err)
	}
	c, err = r.SendTerminal(t.Context(), "s", vm.TerminalSend{Data: []byte("exit 5\n"), Quiet: 5 * time.Second, Limit: 10 * time.Second})
	if err != nil || c.Session.ExitCode == nil || *c.Session.ExitCode != 5 {
		t.Errorf("after exit 5 the terminal is %+v (%v), want exit code 5", c.Session, err)
	}
}

// A slow viewer neither slows a second one nor sees output out of order:
// missed output is redrawn. The fast one gets every byte.
func TestTerminalSlowViewer(t *testing.T) {
	r := newRig(t)
	const lines = 400_000
	flag := t.TempDir() + "/go"
	spec := vm.TerminalSpec{ID: "s", Command: fmt.Sprintf("while [ ! -e %s ]; do sleep 0.05; done; seq 1 %d; sleep 0.2", flag, lines)}
	fast := r.open(spec)
	tokens := make(chan struct{}, 1)
	term, err := r.AttachTerminal(t.Context(), "s", vm.TerminalView{Since: -1})
	slow := watch(t, term, err, tokens)
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	fast.ends()
	t.Logf("%d bytes in %v", fast.raw.Len(), time.Since(begin))
	close(tokens)
	slow.ends()
	var want bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&want, "%d\r\n", i+1)
	}
	if !bytes.Equal(fast.raw.Bytes(), want.Bytes()) {
		t.Errorf("the fast viewer got %d of %d bytes", fast.raw.Len(), want.Len())
	}
	if slow.drawn < 2 || slow.raw.Len() > want.Len()/2 {
		t.Errorf("the slow viewer got %d bytes and %d drawings", slow.raw.Len(), slow.drawn)
	}
	if !strings.Contains(slow.screen.Text(), fmt.Sprint("\n", lines)) {
		t.Errorf("the slow viewer ends with\n%s", slow.screen.Text())
	}
}

// A program whose only viewer has stopped reading continues.
func TestTerminalStalledViewer(t *testing.T) {
	r := newRig(t)
	stuck := make(chan struct{})
	term, err := r.OpenTerminal(t.Context(), vm.TerminalSpec{ID: "s", Command: "seq 1 1000000 && sleep 100"})
	l := watch(t, term, err, stuck)
	defer close(stuck)
	for {
		c, err := r.ReadTerminal(t.Context(), "", "s", -1)
		if err != nil {
			t.Fatal(err)
		}
		if c.Session.End > 6_000_000 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("held up for ever")
		}
		time.Sleep(20 * time.Millisecond)
	}
	_ = l.Detach()
}

// After an agent died, the next one names the terminals that were lost with
// it, until their ids are used again; ended terminals do not count as lost.
func TestTerminalLost(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.open(sh("work")).shows("$")
	first := r.open(sh("")).Session().ID
	r.open(vm.TerminalSpec{ID: "done", Command: "exit 3"}).ends()
	for { // what runs is noted a moment after the end is told
		b, err := os.ReadFile(filepath.Join(r.cfg.RunDir, "terminals"))
		if err != nil || ctx.Err() != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), "done") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	r.stop()
	r.start()
	list, err := r.Terminals(ctx)
	if err != nil || len(list) != 2 || list[0].ID != "work" || !list[0].Lost || list[0].Running() || list[0].ExitCode != nil || list[0].ExitedAt == nil {
		t.Fatalf("after the restart the terminals are %+v (%v), want two, work lost", list, err)
	}
	if _, err := r.AttachTerminal(ctx, "work", vm.TerminalView{}); vm.AsError(err).Code != "SESSION_EXPIRED" || !strings.Contains(err.Error(), "agent died") {
		t.Error(err)
	}
	if id := r.open(sh("")).Session().ID; id == first {
		t.Errorf("the id of the lost %s is given again", id)
	}
	r.open(sh("work")).shows("$")
	list, err = r.Terminals(ctx)
	if err != nil || len(list) != 3 {
		t.Fatalf("the terminals are %+v (%v), want 3", list, err)
	}
	for _, s := range list {
		if s.Lost != (s.ID == first) {
			t.Errorf("lost is %t in %+v, want it for %s alone", s.Lost, s, first)
		}
	}
}

// An ended terminal that is no longer kept is remembered as expired. A redrawn
// attachment begins with whole sequences, wherever the output was cut.
func TestTerminalExpired(t *testing.T) {
	r := newRig(t)
	for i := range 34 { // 32 are kept
		r.open(vm.TerminalSpec{ID: fmt.Sprint("e", i), Command: "true"}).ends()
	}
	for id, want := range map[string]string{"e0": "SESSION_EXPIRED", "never": "SESSION_NOT_FOUND"} {
		if _, err := r.AttachTerminal(t.Context(), id, vm.TerminalView{}); vm.AsError(err).Code != want {
			t.Errorf("attaching to %s: %v, want %s", id, err, want)
		}
	}
	r.open(vm.TerminalSpec{ID: "e33", Command: "printf 'text\\033[31'; sleep 100", Cols: 80, Rows: 24}).shows("text")
	l := r.attach("e33", vm.TerminalView{Since: -1})
	l.shows("text")
	l.mu.Lock()
	defer l.mu.Unlock()
	if raw := l.raw.String(); !strings.HasPrefix(raw, "\x1b") || !strings.HasSuffix(raw, "\x1b[31") {
		t.Errorf("it begins and ends with %q", raw)
	}
}

// An upgrade of the agent keeps terminals: program, screen, output, offsets.
func TestTerminalUpgrade(t *testing.T) {
	r, _ := startAgent(t, t.TempDir())
	ctx := within(t, 30*time.Second)
	l := r.open(sh("s"))
	l.types("x=kept; printf '\\033[3;5Hmar''ked\\033[?2004h\\033[12;1H'\n")
	l.shows("marked" + strings.Repeat("\n", 9) + "$") // and the prompt after it
	done := r.open(vm.TerminalSpec{ID: "done", Command: "echo bye; exit 4"})
	done.ends()
	before, err := r.ReadTerminal(ctx, "", "s", 0)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Upgrade(ctx, bytes.NewReader(program), int64(len(program))); err != nil {
		t.Fatal(err)
	}
	<-l.done
	if !errors.Is(l.err, vm.GuestFault) {
		t.Errorf("the viewer saw %v", l.err)
	}
	r.connect()
	if h, err := r.Hello(context.WithoutCancel(ctx)); err != nil || h.Version != "new" {
		t.Fatal(h, err)
	}
	after, err := r.ReadTerminal(ctx, "", "s", 0)
	if err != nil || !bytes.Equal(before.Redraw, after.Redraw) || !bytes.Equal(before.Output, after.Output) || after.Session.PID != before.Session.PID {
		t.Errorf("before %+v %q\nafter %+v %q\n%v", before.Session, before.Redraw, after.Session, after.Redraw, err)
	}
	again := r.attach("s", vm.TerminalView{Since: -1})
	again.shows("marked")
	again.types("echo $x$x; exit 6\n")
	again.shows("keptkept")
	if st := again.ends(); st.Code != 6 {
		t.Errorf("the shell after the upgrade ended with %+v, want code 6", st)
	}
	old := r.attach("done", vm.TerminalView{Since: 0})
	if st := old.ends(); st.Code != 4 || old.raw.String() != "bye\r\n" {
		t.Errorf("the terminal that had ended has %+v and %q, want code 4 and bye", st, old.raw.Bytes())
	}
}
