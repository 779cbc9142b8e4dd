//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// screen is the part of `pty read --json` that tests look at.
type screen struct {
	Cols, Rows     int
	Alternate      bool
	BracketedPaste bool
	Text           string
	Cursor         struct{ X, Y int }
}

func (h *host) screen(name, session string) screen {
	h.t.Helper()
	var s screen
	if err := json.Unmarshal([]byte(h.ok("pty", "read", name, session, "--json")), &s); err != nil {
		h.t.Fatal(err)
	}
	return s
}

// viewer is a command of the binary that is attached to a terminal.
type viewer struct {
	cmd *exec.Cmd
	in  interface {
		Write([]byte) (int, error)
		Close() error
	}
	out bytes.Buffer
}

func (h *host) view(args ...string) *viewer {
	h.t.Helper()
	v := &viewer{cmd: exec.Command(h.binary, args...)}
	v.cmd.Env = h.environ()
	in, err := v.cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	v.in, v.cmd.Stdout = in, &v.out
	if err := v.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = v.cmd.Process.Kill() })
	return v
}

// TestCoreTerminal: programs on terminals live on without their viewers and
// without serve, and whoever looks again sees what was there.
//
// 000-39, 000-40
func TestCoreTerminal(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "box")

	// A value in a Python that nobody is attached to.
	if id := strings.TrimSpace(h.ok("pty", "box", "--session", "repl", "--exec", "python3 -q", "-d")); id != "repl" {
		t.Errorf("opened %q", id)
	}
	h.eventually("the prompt", func() bool { return strings.Contains(h.screen("box", "repl").Text, ">>>") })
	h.ok("pty", "send", "box", "repl", "x = 6 * 7", "--wait", "0.5")
	if got := h.ok("pty", "send", "box", "repl", "print(x, x)", "--wait", "1"); !strings.Contains(got, "\n42 42\n") {
		t.Errorf("python said %q", got)
	}

	// vim is drawn anew as it is, with its modes, in the size of its viewer.
	h.ok("pty", "box", "--session", "ed", "--exec", "vim -u NONE -N -c 'set ruler' /tmp/note", "-d")
	h.eventually("vim is there", func() bool { return h.screen("box", "ed").Alternate })
	h.ok("pty", "send", "box", "ed", "--no-enter", "--wait", "1", "--key", "i", "--key", "enter", "written in vim")
	v := h.view("pty", "attach", "box", "ed")
	h.eventually("the screen is replayed", func() bool { return strings.Contains(v.out.String(), "written in vim") })
	if out := v.out.String(); !strings.Contains(out, "\x1b[?1049h") || strings.Contains(out[:strings.Index(out, "written")], "vim -u") {
		t.Errorf("drawn with %q", out)
	}
	before := h.screen("box", "ed")
	if !before.Alternate || before.Cols != 80 || before.Rows != 24 || before.Cursor.Y != 1 {
		t.Errorf("vim's screen: %+v", before)
	}

	// serve dies; the viewer attaches anew by itself, and its keys arrive.
	h.killServer()
	time.Sleep(time.Second)
	h.serve()
	if after := h.screen("box", "ed"); after != before {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	if _, err := v.in.Write([]byte(" and kept")); err != nil {
		t.Fatal(err)
	}
	h.eventually("the viewer types again", func() bool { return strings.Contains(h.screen("box", "ed").Text, "written in vim and kept") })
	if _, err := v.in.Write([]byte("\x1d")); err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Wait(); err != nil {
		t.Errorf("leaving: %v", err)
	}
	h.ok("pty", "send", "box", "ed", "--wait", "1", "--key", "esc", ":wq")
	if got := h.sh("box", "tail -1 /tmp/note"); got != "written in vim and kept" {
		t.Errorf("vim wrote %q", got)
	}

	// An exit status comes back; closing ends what runs.
	if r := h.run("pty", "box", "--exec", "stty size; exit 9"); r.code != 9 || !strings.Contains(r.stdout, "24 80") {
		t.Error(r)
	}
	h.ok("pty", "close", "box", "repl")
	if got := h.sh("box", "pgrep -c python3 || true"); got != "0" {
		t.Errorf("%s pythons run", got)
	}
	h.run("pty", "read", "box", "repl").wants(t, 3, "no such terminal")
	h.run("pty", "attach", "box", "repl").wants(t, 3, "no such terminal")
}

// TestCoreTerminalMoves: terminals go where the VM's memory goes: into each
// fork, through a suspension, and back at a rollback. A viewer is let go of by a
// suspension, and not by a fork.
//
// 000-41, 000-42
func TestCoreTerminalMoves(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "box")
	h.ok("pty", "box", "--session", "repl", "--exec", "python3 -q", "-d")
	h.eventually("the prompt", func() bool { return strings.Contains(h.screen("box", "repl").Text, ">>>") })
	h.ok("pty", "send", "box", "repl", "x = 42", "--wait", "0.5")
	v := h.view("pty", "attach", "box", "repl")
	h.eventually("it is attached", func() bool { return strings.Contains(v.out.String(), "x = 42") })

	h.ok("fork", "box", "--name", "kid")
	for _, name := range []string{"box", "kid-1"} {
		if got := h.ok("pty", "send", name, "repl", "x += 1; print('"+name+"', x)", "--wait", "1"); !strings.Contains(got, "\n"+name+" 43\n") {
			t.Errorf("after the fork, %s: %q", name, got)
		}
	}
	h.ok("rm", "kid-1")
	h.eventually("the viewer saw it", func() bool { return strings.Contains(v.out.String(), "\nbox 43") })

	h.ok("suspend", "box")
	if err := v.cmd.Wait(); err != nil || h.find("box").State != "suspended" {
		t.Errorf("the viewer of a VM that fell asleep: %v; the VM is %s", err, h.find("box").State)
	}
	if list := h.ok("pty", "ls", "box"); !strings.Contains(list, "suspended") || h.find("box").State != "suspended" {
		t.Errorf("asleep: %s", list)
	}
	if got := h.ok("pty", "send", "box", "repl", "print(x)", "--wait", "1"); !strings.Contains(got, "\n43\n") {
		t.Errorf("awake: %q", got)
	}

	h.ok("snapshot", "create", "box", "--name", "before")
	h.ok("pty", "send", "box", "repl", "x = 'changed'", "--wait", "0.5")
	h.ok("rollback", "box", "before")
	if got := h.ok("pty", "send", "box", "repl", "print(x)", "--wait", "1"); !strings.Contains(got, "\n43\n") {
		t.Errorf("rolled back: %q", got)
	}
}
