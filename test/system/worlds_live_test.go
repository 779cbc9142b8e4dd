//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// ask sends a word to holder.py and returns the value it holds.
func (h *host) ask(name, word string) string {
	h.t.Helper()
	return h.sh(name, "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/holder'); s.sendall(b'"+word+"'); print(s.recv(100).decode())\"")
}

// shows waits until a terminal's screen has a text.
func (h *host) shows(name, session, text string) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("%s: terminal %s shows %q", name, session, text), func() bool {
		return strings.Contains(h.ok("pty", "read", name, session), text)
	})
}

// world is what `state --json` says of what runs.
type world struct {
	Ports []struct {
		Port  int `json:"port"`
		Probe struct {
			OK bool `json:"ok"`
		} `json:"probe"`
	} `json:"ports"`
	Roles []struct {
		Role  string `json:"role"`
		Alive bool   `json:"alive"`
	} `json:"roles"`
}

// serves reports whether the product has probed the port by a request.
func (h *host) serves(name string, port int) bool {
	h.t.Helper()
	var w world
	if err := json.Unmarshal([]byte(h.ok("state", name, "--json")), &w); err != nil {
		h.t.Fatal(err)
	}
	for _, p := range w.Ports {
		if p.Port == port {
			return p.Probe.OK
		}
	}
	return false
}

// work sets a workspace up as an agent leaves it in the middle of its work.
func (h *host) work(name string) {
	h.t.Helper()
	h.install(name, "counter.py", "ticker.py", "writer.py", "watcher.py", "pair.py", "holder.py", "timer.py")
	h.start(name, "counter.py", "curl -sf localhost:3000")
	h.start(name, "ticker.py", "test -s /run/ticker")
	h.start(name, "writer.py", "test -s /run/committed")
	h.start(name, "watcher.py", "test -e /run/watching")
	h.start(name, "pair.py", "test -s /run/pair")
	h.start(name, "holder.py", "test -e /run/holder")
	h.ask(name, "held")
	h.ok("pty", name, "--session", "repl", "--exec", "python3 -q", "-d")
	h.ok("pty", name, "--session", "sh", "--exec", "bash --norc", "-d")
	h.shows(name, "repl", ">>>")
	h.ok("pty", "send", name, "repl", "x = 6 * 7")
	h.ok("pty", "send", name, "sh", "cd /srv; export MINE=yes; PS1='$ '")
	h.ok("pty", "send", name, "sh", "--no-enter", "echo half-$MINE")
	h.shows(name, "sh", "echo half-$MINE")
}

// pids lists the programs of work with their process numbers.
const pids = "pgrep -af '^python3|^bash'"

// wantWork wants the whole of work alive, as after `from` requests to counter.py.
func (h *host) wantWork(name string, requests, committed int, verb time.Duration) {
	t := h.t
	t.Helper()
	// An HTTP server and its counter.
	if got := h.number(name, "curl -s localhost:3000"); got != requests+1 {
		t.Errorf("%s: its server has counted %d requests, %d were made before", name, got, requests)
	}
	// A process's memory behind a unix socket.
	if got := h.ask(name, "?"); got != "held" {
		t.Errorf("%s: the holder holds %q", name, got)
	}
	// A Python on a terminal.
	if got := h.ok("pty", "send", name, "repl", "print('x is', x)", "--wait", "1"); !strings.Contains(got, "x is 42") {
		t.Errorf("%s: the REPL says %q", name, got)
	}
	// A half-typed line, with the shell's directory and environment.
	h.shows(name, "sh", "echo half-$MINE")
	if got := h.ok("pty", "send", name, "sh", " in $PWD", "--wait", "1"); !strings.Contains(got, "half-yes in /srv") {
		t.Errorf("%s: the half-typed line gave %q", name, got)
	}
	h.ok("pty", "send", name, "sh", "--no-enter", "echo half-$MINE")
	// A database that is written to.
	h.wantDatabase(name, committed)
	// A file watcher.
	h.sh(name, "touch /root/watched/of-"+name)
	h.eventually(name+": the watcher sees a new file", func() bool { return strings.Contains(h.sh(name, "cat /run/seen"), "of-"+name) })
	// An open connection within the machine.
	before := h.number(name, "cat /run/pair")
	h.eventually(name+": the loopback connection goes on", func() bool { return h.number(name, "cat /run/pair") > before })
	h.wantSteady(name, verb)
}

// checkDatabase prints what sqlite thinks of the database, and its rows.
const checkDatabase = `
import sqlite3
said = int(open("/run/committed").read())
c = sqlite3.connect("/root/w.db", timeout=30)
print(c.execute("pragma integrity_check").fetchone()[0], *c.execute("select max(n), count(*) from t").fetchone(), said)`

// TestWorldsLive forks a workspace in the middle of its work: all of it
// continues in each copy, and nothing that one does is seen in another.
//
// 000-18, 000-35, 000-42, 002-30, 002-31, 002-32
func TestWorldsLive(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.work("app")
	h.sh("app", "mkdir -p /work && cd /work && git init -q . && git config user.email a@b && git config user.name a && echo one > f && git add f && git commit -qm one && echo dirty >> f")
	h.start("app", "timer.py 25", "test -e /run/timing")
	h.ok("exec", "app", "-d", "--", "sh", "-c", "sleep 25; touch /run/slept")
	before := h.sh("app", pids)
	requests := h.number("app", "curl -s localhost:3000")
	committed := h.number("app", "cat /run/committed")
	begin := time.Now()
	out := h.fork("app", 2, "try")
	took := time.Since(begin)
	t.Logf("fork of 2: %v, the parent stood still for %.1f ms", took, out.PauseMs)

	// The same processes under the same numbers, and no boot.
	for _, n := range []string{"try-1", "try-2"} {
		if got := h.sh(n, pids); got != before {
			t.Errorf("%s runs\n%s\nthe parent ran\n%s", n, got, before)
		}
	}
	names := []string{"app", "try-1", "try-2"}
	for _, n := range names {
		h.wantWork(n, requests, committed, took)
		if !h.serves(n, 3000) {
			t.Errorf("%s: state does not say that port 3000 answers", n)
		}
		if got := h.sh(n, "cd /work && git status --porcelain; git log --oneline | wc -l"); got != "M f\n1" {
			t.Errorf("%s: the repository is %q", n, got)
		}
		// Each goes its own way: memory and disk.
		h.ask(n, "of-"+n)
		h.sh(n, "echo "+n+" > /root/mine; echo "+n+" > /dev/shm/mine; sync")
	}
	for _, n := range names {
		if got := h.ask(n, "?"); got != "of-"+n {
			t.Errorf("%s: the holder holds %s", n, got)
		}
		if got := h.sh(n, "cat /root/mine /dev/shm/mine; cat /run/seen"); got != n+"\n"+n+"\nof-"+n {
			t.Errorf("%s: its files are %q", n, got)
		}
		h.eventually(n+": the timers fire", func() bool {
			return h.run("exec", n, "--", "test", "-e", "/run/fired", "-a", "-e", "/run/slept").code == 0
		})
		var after float64
		if _, err := fmt.Sscan(h.sh(n, "cat /run/fired"), &after); err != nil || after < 25 || after > 30 {
			t.Errorf("%s: a timer of 25 s fired after %v s, %v", n, after, err)
		}
	}
	// A copy that failed is deleted; its parent and its sibling do not notice.
	h.sh("try-1", "rm -rf /srv /work /usr/lib/python3*")
	h.ok("rm", "try-1")
	for _, n := range []string{"app", "try-2"} {
		if got := h.sh(n, "cd /work && git status --porcelain && curl -sf localhost:3000 >/dev/null && echo serves"); got != "M f\nserves" {
			t.Errorf("%s after its sibling's end: %q", n, got)
		}
	}
}
