//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
// 000-40, 001-36, 001-44, 002-07
func TestCoreTerminal(t *testing.T) {
	t.Parallel()
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

	// vim is drawn again as it is, with its modes, in the size of its viewer.
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

	// serve dies; the viewer attaches again by itself, and its keys arrive.
	h.killServer()
	time.Sleep(time.Second) // the viewer is to find nobody for a while
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

	h.hostileOutput("box")
	h.shells("box")

	h.execTerminal("box")
	h.waitPort("box")

	// An exit status comes back; closing ends what runs.
	if r := h.run("pty", "box", "--exec", "stty size; exit 9"); r.code != 9 || !strings.Contains(r.stdout, "24 80") {
		t.Errorf("want status 9 and the size 24 80, got %s", r)
	}
	h.ok("pty", "close", "box", "repl")
	if got := h.sh("box", "pgrep -c python3 || true"); got != "0" {
		t.Errorf("%s pythons run", got)
	}
	h.run("pty", "read", "box", "repl").wants(t, 3, "no such terminal")
	h.run("pty", "attach", "box", "repl").wants(t, 3, "no such terminal")

	// The agent dies: what went with it is named, by the list and by state.
	h.run("exec", "box", "--", "sh", "-c", "kill -9 $(pgrep -f '^@warren-agent agent')")
	h.eventually("the lost terminals are named", func() bool {
		r := h.run("state", "box")
		return r.code == 0 && strings.Contains(r.stdout, "terminal session shell (login shell): it ended because the guest's agent died")
	})
	if list := h.ok("pty", "ls", "box"); !strings.Contains(list, "lost") {
		t.Errorf("lost: %s", list)
	}
	h.run("pty", "attach", "box", "shell").wants(t, 3, "was lost")
	h.ok("pty", "box", "--session", "shell", "-d")
	if list := h.ok("pty", "ls", "box", "--json"); strings.Count(list, `"running": true`) != 1 {
		t.Errorf("opened anew: %s", list)
	}
}

// execTerminal: exec -it joins a terminal of the guest with this one, with its
// size and keys, and leaves this one as it was.
func (h *host) execTerminal(name string) {
	h.t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	master := os.NewFile(uintptr(fd), "ptmx")
	defer master.Close()
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		h.t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		h.t.Fatal(err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	defer tty.Close()
	resize := func(cols, rows uint16) {
		if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
			h.t.Fatal(err)
		}
	}
	resize(100, 30)
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(h.binary, "exec", "-it", name, "-e", "GIVEN=v 1", "--", "sh", "-c",
		`trap 'stty size' WINCH; trap 'echo caught; exit 7' INT; stty size; echo "$GIVEN $TERM ready"; while :; do sleep 0.1; done`)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = h.environ(), tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	var shown []byte
	shows := func(text string) {
		h.t.Helper()
		for buf := make([]byte, 256); !bytes.Contains(shown, []byte(text)); {
			n, err := master.Read(buf)
			if err != nil {
				h.t.Fatalf("%v, after %q", err, shown)
			}
			shown = append(shown, buf[:n]...)
		}
	}
	shows("30 100\r\nv 1 xterm-256color ready")
	resize(50, 20)
	shows("20 50")
	if _, err := master.WriteString("\x03"); err != nil {
		h.t.Fatal(err)
	}
	shows("caught")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		h.t.Errorf("the shell ended with %v, want status 7; it showed %q", err, shown)
	}
	if after, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil || *after != *before {
		h.t.Errorf("the terminal is left as %+v, it was %+v, %v", after, before, err)
	}
	if list := h.ok("pty", "ls", name, "--json"); strings.Contains(list, "GIVEN") {
		h.t.Errorf("it is still listed: %s", list)
	}
}

// waitPort: wait --port returns when a server of the guest's loopback is there,
// and says when none is.
func (h *host) waitPort(name string) {
	h.t.Helper()
	h.ok("exec", name, "-d", "--", "sh", "-c", "sleep 1; exec python3 -m http.server 8123 --bind 127.0.0.1")
	h.ok("wait", name, "--port", "8123", "--timeout", "60")
	if got := h.sh(name, "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123)); print(1)'"); got != "1" {
		h.t.Errorf("after the wait a connection gives %q", got)
	}
	h.run("wait", name, "--port", "8124", "--timeout", "1").wants(h.t, 124, "nothing has accepted connections on port 8124 within 1s")
	h.ok("exec", name, "--", "pkill", "-f", "http.server")
}

// hostileOutput: output that asks a terminal to type what the program likes, to
// set or read the clipboard or to write a file is shown by none of the ways to
// look, nor answered with the program's own words.
func (h *host) hostileOutput(name string) {
	h.t.Helper()
	const attack = `printf '\033]0;evil-title\007\033[21t\033]52;c;ZXZpbA==\007\033P$qm\033\\\005\033]1337;File=:ZXZpbA==\007\033[5ishown\033[4i\r\n'; ` +
		`read -t 2 answer; printf 'answer=%s.\r\n' "$answer"; cat`
	h.ok("pty", name, "--session", "hostile", "--exec", attack, "-d")
	h.eventually("it has waited for answers", func() bool { return strings.Contains(h.screen(name, "hostile").Text, "answer=.") })
	live := h.view("pty", "attach", name, "hostile")
	h.eventually("the viewer is shown what is there", func() bool { return strings.Contains(live.out.String(), "shown") })
	h.ok("pty", "send", name, "hostile", `--key=ctrl-v`, "--key=esc", "]52;c;ZXZpbA==", "--no-enter")
	seen := map[string]string{
		"read":       h.ok("pty", "read", name, "hostile"),
		"scrollback": h.ok("pty", "read", name, "hostile", "--scrollback"),
		"ls":         h.ok("pty", "ls", name),
		"state":      h.ok("state", name),
		"attach":     live.out.String(),
	}
	_ = live.in.Close()
	for way, out := range seen {
		for _, bad := range []string{"\x1b]52", "\x1b[21t", "\x1bP$q", "\x05", "\x1b]1337", "\x1b[5i"} {
			if strings.Contains(out, bad) {
				h.t.Errorf("%s shows %q: %q", way, bad, out)
			}
		}
		if way != "attach" && strings.Contains(out, "\x1b") {
			h.t.Errorf("%s has an escape character: %q", way, out)
		}
	}
	if !strings.Contains(seen["ls"], "evil-title") {
		h.t.Errorf("the list lacks the terminal's title: %q", seen["ls"])
	}
	if !strings.Contains(seen["scrollback"], "shown") {
		h.t.Errorf("the scrollback lacks the program's text: %q", seen["scrollback"])
	}
	h.run("pty", "close", name, "hostile")
}

// shells: a shell stays when its user has left, belongs to its Linux user, and
// marks pasted text; commands on standard input are a script.
func (h *host) shells(name string) {
	h.t.Helper()
	h.ok("pty", name, "--session", "shell", "-d")
	h.eventually("a prompt that wants pasted text marked", func() bool { return h.screen(name, "shell").BracketedPaste })
	v := h.view("shell", name, "--session", "shell")
	if _, err := v.in.Write([]byte("echo at-$((6*7))\r")); err != nil {
		h.t.Fatal(err)
	}
	h.eventually("the shell answers", func() bool { return strings.Contains(v.out.String(), "at-42") })
	if _, err := v.in.Write([]byte("\x1d")); err != nil {
		h.t.Fatal(err)
	}
	if err := v.cmd.Wait(); err != nil || !strings.Contains(v.out.String(), "\x1b[?2004h") {
		h.t.Errorf("leaving a shell: %v; %q", err, v.out.String())
	}
	h.run("shell", name, "--session", "shell", "--user", "nobody").wants(h.t, 4, "opened as Linux user root")
	r := h.runIn("", []byte("echo $((6*7)) $(tty)\nexit 5\n"), "shell", name)
	if r.code != 5 || r.stdout != "42 not a tty\n" {
		h.t.Errorf("a shell without a terminal: want status 5 and 42, got %s", r)
	}
}

// TestCoreTerminalMoves: terminals go where the VM's memory goes: into each
// fork, through a suspension, past a monitor that dies, and back at a rollback.
// A viewer is let go of by a suspension, and not by a fork.
//
// 000-41, 000-42, 002-26
func TestCoreTerminalMoves(t *testing.T) {
	t.Parallel()
	h := pooledHost(t)
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

	h.ok("pty", "send", "box", "repl", "--no-enter", "half = 't", "--wait", "0.5")
	h.ok("suspend", "box")
	if err := v.cmd.Wait(); err != nil || h.find("box").State != "suspended" {
		t.Errorf("the viewer of a VM that fell asleep: %v; the VM is %s", err, h.find("box").State)
	}
	h.killServer()
	h.serve()
	if list := h.ok("pty", "ls", "box"); !strings.Contains(list, "suspended") || h.find("box").State != "suspended" {
		t.Errorf("asleep, by the next serve: %s", list)
	}
	woken := h.view("shell", "box", "--session", "repl")
	if _, err := woken.in.Write([]byte("yped'\rprint(half, x + 1000)\r")); err != nil {
		t.Fatal(err)
	}
	h.eventually("the shell has woken it", func() bool { return strings.Contains(woken.out.String(), "typed 1043") })
	if got := h.ok("pty", "read", "box", "repl", "--scrollback"); !strings.Contains(got, ">>> x = 42\n") || !strings.Contains(got, "half = 'typed'") {
		t.Errorf("what it wrote before it slept: %q", got)
	}

	// The monitor dies; the viewer is attached again when another is there.
	if err := syscall.Kill(h.pidOf(h.find("box").ID, "monitor"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.eventually("the viewer types again", func() bool {
		_, err := woken.in.Write([]byte("print(x + 2000)\r"))
		return err == nil && strings.Contains(woken.out.String(), "2043")
	})
	_ = woken.cmd.Process.Kill()

	h.ok("snapshot", "create", "box", "--name", "before")
	h.ok("pty", "send", "box", "repl", "x = 'changed'", "--wait", "0.5")
	h.ok("rollback", "box", "before")
	if got := h.ok("pty", "send", "box", "repl", "print(x)", "--wait", "1"); !strings.Contains(got, "\n43\n") {
		t.Errorf("rolled back: %q", got)
	}
}
