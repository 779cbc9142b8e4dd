// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Commands run, and their result is returned unchanged.
func TestExec(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	noexec, nohash := dir+"/noexec", dir+"/nohash"
	if err := os.WriteFile(noexec, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(nohash, []byte("echo plain $1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		spec vm.ExecSpec
		want result
	}{
		{"argv", vm.ExecSpec{Argv: []string{"echo", "a b", "$HOME"}}, result{stdout: "a b $HOME\n"}},
		{"command", vm.ExecSpec{Command: "echo out; echo err >&2; exit 3"}, result{vm.ExitStatus{Code: 3}, "out\n", "err\n"}},
		{"signal", vm.ExecSpec{Command: "kill -SEGV $$"}, result{status: vm.ExitStatus{Code: 139, Signal: "SEGV"}}},
		{"not found", vm.ExecSpec{Argv: []string{"no-such-command"}}, result{vm.ExitStatus{Code: 127}, "", "warren: no-such-command: command not found\n"}},
		{"no such path", vm.ExecSpec{Argv: []string{"/no/such"}}, result{vm.ExitStatus{Code: 127}, "", "warren: /no/such: no such file or directory\n"}},
		{"not executable", vm.ExecSpec{Argv: []string{noexec}}, result{vm.ExitStatus{Code: 126}, "", "warren: " + noexec + ": permission denied\n"}},
		{"a directory", vm.ExecSpec{Argv: []string{"/"}}, result{vm.ExitStatus{Code: 126}, "", "warren: /: permission denied\n"}},
		{"no first line", vm.ExecSpec{Argv: []string{nohash, "x"}}, result{stdout: "plain x\n"}},
		{"env", vm.ExecSpec{Command: "echo $A-$B-$PATH", Env: map[string]string{"A": "1", "B": "x y", "PATH": "/bin"}}, result{stdout: "1-x y-/bin\n"}},
		{"cwd", vm.ExecSpec{Argv: []string{"pwd"}, Cwd: dir}, result{stdout: dir + "\n"}},
		{"stdin is empty", vm.ExecSpec{Argv: []string{"cat"}}, result{}},
		{"own session", vm.ExecSpec{Command: `[ "$(ps -o sid= -p $$ | tr -d " ")" = $$ ] && echo yes`}, result{stdout: "yes\n"}},
		// make ignores signals 32 and 33, which are libc's own
		{"signals are not ignored", vm.ExecSpec{Command: `echo $((0x$(grep SigIgn /proc/self/status | cut -f2) & 0x7fffffff))`}, result{stdout: "0\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := r.run(c.spec); got != c.want {
				t.Errorf("the command ended with %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestExecExitCodes(t *testing.T) {
	r := newRig(t)
	for code := 0; code < 256; code++ {
		if got := r.run(vm.ExecSpec{Argv: []string{"/bin/sh", "-c", fmt.Sprint("exit ", code)}}); got.status != (vm.ExitStatus{Code: code}) {
			t.Fatalf("exit %d gave %+v", code, got.status)
		}
	}
}

func TestExecRefused(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		spec vm.ExecSpec
		kind vm.Kind
		code string
	}{
		"nothing":      {vm.ExecSpec{}, vm.Invalid, ""},
		"both":         {vm.ExecSpec{Argv: []string{"a"}, Command: "b"}, vm.Invalid, ""},
		"unknown user": {vm.ExecSpec{Argv: []string{"id"}, User: "no-such-user"}, vm.NotFound, "USER_NOT_FOUND"},
		"missing cwd":  {vm.ExecSpec{Argv: []string{"id"}, Cwd: "/no/such"}, vm.NotFound, "FILE_NOT_FOUND"},
		"cwd a file":   {vm.ExecSpec{Argv: []string{"id"}, Cwd: "/etc/passwd"}, vm.Invalid, "FILES_BAD_REQUEST"},
		"NUL":          {vm.ExecSpec{Argv: []string{"a\x00b"}}, vm.Invalid, ""},
		"bad env":      {vm.ExecSpec{Argv: []string{"id"}, Env: map[string]string{"": "x"}}, vm.Invalid, ""},
	} {
		_, err := r.Exec(within(t, 10*time.Second), c.spec)
		var e *vm.Error
		if !errors.As(err, &e) || e.Kind != c.kind || e.Code != c.code {
			t.Errorf("exec with %s: %v, want %s with code %q", name, err, c.kind, c.code)
		}
	}
}

func TestExecUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run commands as another user")
	}
	r := newRig(t)
	got := r.run(vm.ExecSpec{Command: "id -un; id -gn; echo $USER $HOME; touch /etc/x 2>/dev/null || echo refused", User: "nobody", Cwd: "/tmp"})
	if got.stdout != "nobody\nnogroup\nnobody /nonexistent\nrefused\n" {
		t.Errorf("as nobody: %+v", got)
	}
	// If the host names no directory, commands and files start in the same one:
	// the user's home, or / if the user has none.
	if got := r.run(vm.ExecSpec{Argv: []string{"pwd"}, User: "nobody"}); got.stdout != "/\n" {
		t.Errorf("a command begins in %q", got.stdout)
	}
	if st, err := r.Stat(within(t, 10*time.Second), "nobody", "."); err != nil || st.Path != "/" {
		t.Errorf("a file's path begins in %q, %v", st.Path, err)
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Exec(within(t, 10*time.Second), vm.ExecSpec{Argv: []string{"true"}, User: "nobody", Cwd: dir}); !errors.Is(err, vm.Invalid) {
		t.Errorf("a directory that may not be entered: %v", err)
	}
}

// The timeout is enforced on the whole process group.
func TestExecTimeout(t *testing.T) {
	r := newRig(t)
	begin := time.Now()
	got := r.run(vm.ExecSpec{Command: "echo begin; sleep 61 & sleep 62; echo never", Timeout: vm.Millis(300 * time.Millisecond)})
	if want := (result{vm.ExitStatus{Code: 137, Signal: "KILL", TimedOut: true}, "begin\n", ""}); got != want {
		t.Errorf("the command that ran out of time ended with %+v, want %+v", got, want)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	list, err := r.Processes(within(t, 5*time.Second))
	if err != nil || len(list) != 1 || !list[0].TimedOut {
		t.Errorf("listed as %+v, %v", list, err)
	}
}

// A child that keeps the pipes open, even in its own session, does not delay
// the exit; its later output is kept.
func TestExecBackgroundChild(t *testing.T) {
	r := newRig(t)
	begin := time.Now()
	got := r.sh("echo first; setsid sh -c 'sleep 1; echo late; sleep 0.3' & exit 4")
	if took := time.Since(begin); took > 900*time.Millisecond {
		t.Errorf("the exit came after %v", took)
	}
	if want := (result{vm.ExitStatus{Code: 4}, "first\n", ""}); got != want {
		t.Errorf("the command ended with %+v, want %+v", got, want)
	}
	for end := time.Now().Add(5 * time.Second); ; {
		p, err := r.Process(within(t, 5*time.Second), "p1")
		if err != nil {
			t.Fatal(err)
		}
		if p.LogBytes == 11 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the late output was not kept: %+v", p)
		}
		<-time.After(20 * time.Millisecond)
	}
	if log, at := r.logOf("p1", 0, false); log != "first\nlate\n" || at != 0 {
		t.Errorf("log %q at %d", log, at)
	}
}

// All output written before the end arrives, however much it is.
func TestExecDrain(t *testing.T) {
	r := newRig(t)
	for range 20 {
		got := r.sh("head -c 300000 /dev/zero; head -c 50000 /dev/zero >&2; sleep 30 & exit 0")
		if len(got.stdout) != 300000 || len(got.stderr) != 50000 {
			t.Fatalf("%d and %d bytes", len(got.stdout), len(got.stderr))
		}
	}
	for _, p := range must(r.Processes(t.Context())) {
		_ = syscall.Kill(-p.PID, syscall.SIGKILL) // the sleeps
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestExecStdin(t *testing.T) {
	r := newRig(t)
	e, err := r.Exec(within(t, 20*time.Second), vm.ExecSpec{Argv: []string{"cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	go func() {
		_, _ = e.Write(want)
		_ = e.CloseStdin()
	}()
	var out bytes.Buffer
	if st, err := e.Run(&out, io.Discard); err != nil || st.Code != 0 {
		t.Fatal(st, err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%d bytes came back of %d", out.Len(), len(want))
	}
}

// A process that does not read its input neither blocks its client's signals
// nor its exit.
func TestExecStdinUnread(t *testing.T) {
	r := newRig(t)
	e, err := r.Exec(within(t, 20*time.Second), vm.ExecSpec{Command: "trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done", Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := e.Write(make([]byte, 4<<20))
		wrote <- err
	}()
	pr, pw := io.Pipe()
	go func() {
		_, _ = io.ReadFull(pr, make([]byte, 6))
		_ = e.Signal("USR1")
	}()
	if st, err := e.Run(pw, io.Discard); err != nil || st.Code != 9 {
		t.Fatal(st, err)
	}
	select {
	case <-wrote: // refused or, after the process's end, dropped
	case <-time.After(5 * time.Second):
		t.Error("the writer still waits")
	}
	if got := r.run(vm.ExecSpec{Argv: []string{"true"}, Stdin: true}); got.status.Code != 0 {
		t.Errorf("the next command ended with %+v, want code 0", got)
	}
}

func TestExecSignal(t *testing.T) {
	r := newRig(t)
	e, err := r.Exec(within(t, 20*time.Second), vm.ExecSpec{Argv: []string{"sleep", "60"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Signal("INT"); err != nil {
		t.Fatal(err)
	}
	if st, err := e.Run(io.Discard, io.Discard); err != nil || st != (vm.ExitStatus{Code: 130, Signal: "INT"}) {
		t.Errorf("the interrupted command ended with %+v (%v), want code 130 by INT", st, err)
	}
	if err := r.Client.Signal(t.Context(), "p1", "TERM"); !errors.Is(err, vm.WrongState) {
		t.Errorf("a signal to what has ended: %v", err)
	}
	if err := r.Client.Signal(t.Context(), "p1", "NONSENSE"); !errors.Is(err, vm.Invalid) {
		t.Errorf("a signal that is none: %v", err)
	}
	if err := r.Client.Signal(t.Context(), "p99", "TERM"); !errors.Is(err, vm.NotFound) {
		t.Errorf("a signal to nobody: %v", err)
	}
}

// gate lets a writer through when it is opened.
type gate struct {
	open chan struct{}
	n    int
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.n += len(p)
	return len(p), nil
}

// A client that does not read slows the command down, and no output is lost.
func TestExecSlowClient(t *testing.T) {
	r := newRig(t)
	const size = 8 << 20
	mark := t.TempDir() + "/done"
	e, err := r.Exec(within(t, 20*time.Second), vm.ExecSpec{Command: fmt.Sprintf("head -c %d /dev/zero; touch %s", size, mark)})
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{open: make(chan struct{})}
	time.AfterFunc(500*time.Millisecond, func() {
		if _, err := os.Stat(mark); err == nil {
			t.Error("the command went on without its client")
		}
		close(g.open)
	})
	if st, err := e.Run(g, io.Discard); err != nil || st.Code != 0 || g.n != size {
		t.Errorf("%+v, %v, %d bytes", st, err, g.n)
	}
	if !t.Failed() && len(must(r.Processes(t.Context()))) != 1 {
		t.Error("not listed")
	}
	// Other streams worked meanwhile and still work.
	if got := r.sh("echo ok"); got.stdout != "ok\n" {
		t.Errorf("a command beside the flood ended with %+v, want ok", got)
	}
}

// A client that leaves turns the command into a background process, whose log
// begins with the latest output.
func TestExecVanishedClient(t *testing.T) {
	for name, vanish := range map[string]func(*rig, interface{ Detach() error }){
		"detach":  func(_ *rig, e interface{ Detach() error }) { _ = e.Detach() },
		"session": func(r *rig, _ interface{ Detach() error }) { r.connect() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			e, err := r.Exec(within(t, 20*time.Second), vm.ExecSpec{
				Command: "head -c 100000 /dev/zero; printf TAIL; cat; while [ ! -e $F ]; do sleep 0.02; done; printf LATER; exit 5",
				Env:     map[string]string{"F": t.TempDir() + "/go"}, Stdin: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			seen := &watchFor{want: 100004, done: make(chan struct{})}
			ran := make(chan error, 1)
			go func() {
				_, err := e.Run(seen, io.Discard)
				ran <- err
			}()
			<-seen.done
			vanish(r, e)
			if err := <-ran; !errors.Is(err, vm.GuestFault) {
				t.Errorf("Run ended with %v", err)
			}
			id := e.Process().ID
			for end := time.Now().Add(5 * time.Second); ; {
				p, err := r.Process(within(t, 5*time.Second), id)
				if err != nil {
					t.Fatal(err)
				}
				if p.Background && p.LogBytes > 0 {
					if p.LogBytes != 100004 || p.LogStart != 100004-65536 || p.ExitCode != nil {
						t.Errorf("the command in the background is %+v, want the last 64 KiB of its log and no exit code", p)
					}
					break
				}
				if time.Now().After(end) {
					t.Fatalf("still attached: %+v", p)
				}
				<-time.After(10 * time.Millisecond)
			}
			if got := r.run(vm.ExecSpec{Command: "tr '\\0' '\\n' < /proc/" + fmt.Sprint(e.Process().PID) + "/environ | sed -n s/^F=//p | xargs touch"}); got.status.Code != 0 {
				t.Fatalf("making its file failed: %+v", got)
			}
			p, err := r.Wait(within(t, 10*time.Second), id)
			if err != nil || p.ExitCode == nil || *p.ExitCode != 5 {
				t.Fatalf("the command in the background ended with %+v (%v), want code 5", p, err)
			}
			log, at := r.logOf(id, 0, false)
			if at != 100004-65536 || len(log) != 65536+5 || !strings.HasSuffix(log, "\x00TAILLATER") {
				t.Errorf("the log begins at %d and has %d bytes", at, len(log))
			}
			if log, at := r.logOf(id, 100004, false); at != 100004 || log != "LATER" {
				t.Errorf("from 100004: %q at %d", log, at)
			}
		})
	}
}

type watchFor struct {
	want int
	done chan struct{}
}

func (w *watchFor) Write(p []byte) (int, error) {
	if w.want -= len(p); w.want == 0 {
		close(w.done)
	}
	return len(p), nil
}

// A dead client never blocks the command, even when every buffer is full.
func TestExecVanishedWhileFull(t *testing.T) {
	r := newRig(t)
	e, err := r.Exec(within(t, 20*time.Second), vm.ExecSpec{Command: "head -c 30000000 /dev/zero; exit 7"})
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(200 * time.Millisecond) // nobody reads: it is stuck by now
	_ = e.Detach()
	p, err := r.Wait(within(t, 10*time.Second), e.Process().ID)
	if err != nil || p.ExitCode == nil || *p.ExitCode != 7 {
		t.Fatalf("the detached command ended with %+v (%v), want code 7", p, err)
	}
}
