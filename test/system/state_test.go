//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// Programs that the world check has to find, each by what it does.
var worldPrograms = map[string]string{
	"terminal.py": `
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.chdir("/srv")
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    try: os.read(fd, 4096)
    except OSError: break
`,
	"watch.py": `
import ctypes, os, sys
c = ctypes.CDLL(None)
fd = c.inotify_init1(0)
for d in sys.argv[1:]: c.inotify_add_watch(fd, d.encode(), 0x3c6)
while True: os.read(fd, 4096)
`,
	"data.py": `
import sqlite3, time
c = sqlite3.connect("/work/app.db")
c.execute("pragma journal_mode=wal"); c.execute("create table t(a)"); c.execute("insert into t values(1)"); c.commit()
time.sleep(3600)
`,
	"queue_worker.py": "import time\nwhile True: time.sleep(60)\n",
	"mute.py":         "import socket, time\ns = socket.create_server(('', 4000))\nc = s.accept()[0]\nc.close()\nwhile True: s.accept()[0].close()\n",
}

// TestCoreState: the world check names what lives in a guest, asks each port
// by a request, and says after a stop and start what is lost.
//
// 000-13, 000-45, 003-25
func TestCoreState(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	dir := t.TempDir()
	for name, text := range worldPrograms {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		h.ok("cp", file, "box:/work/"+name)
	}
	h.sh("box", "cp $(command -v sleep) /work/chromium")
	for _, argv := range [][]string{
		{"python3", "-m", "http.server", "3000"},
		{"python3", "-m", "http.server", "5000", "--bind", "127.0.0.1"},
		{"python3", "/work/mute.py"},
		{"python3", "/work/terminal.py", "python3"},
		{"python3", "/work/terminal.py", "bash", "-c", "sleep 1000; true"},
		{"python3", "/work/watch.py", "/work", "/etc"},
		{"python3", "/work/data.py"},
		{"python3", "/work/queue_worker.py"},
		{"/work/chromium", "1000"}, // by its name: the image has no browser
	} {
		h.ok(append([]string{"exec", "-d", "box", "--"}, argv...)...)
	}
	wanted := []string{
		"state", "box", "--expect", "port:3000", "--expect", "port:5000", "--expect", "process:watch.py", "--expect", "role:repl",
		"--expect", "role:watcher", "--expect", "role:browser", "--expect", "role:database", "--expect", "role:worker",
	}
	h.eventually("the world is there", func() bool { return h.run(wanted...).code == 0 })
	w := h.world("box")
	port := func(n int) vm.GuestPort {
		for _, p := range w.Ports {
			if p.Port == n {
				return p
			}
		}
		t.Fatalf("port %d is not listed: %+v", n, w.Ports)
		return vm.GuestPort{}
	}
	if p := port(3000).Probe; !p.OK || p.Status != 200 || p.From != "host" || !strings.Contains(p.Server, "SimpleHTTP") {
		t.Errorf("port 3000: %+v", p)
	}
	if p := port(5000).Probe; !p.OK || p.Status != 200 || p.From != "guest" {
		t.Errorf("port 5000 of the guest alone: %+v", p)
	}
	if p := port(4000).Probe; p.OK || p.Kind != "closed" {
		t.Errorf("port 4000 takes connections and answers nothing: %+v", p)
	}
	if got := h.sh("box", "grep -c GET /var/log/warren/p*.log | grep -v ':0'"); got == "" {
		t.Error("no server's log shows the request") // the claim can be held against the log
	}
	terminals := ""
	for _, l := range w.Terminals {
		terminals += l.Command + " in " + l.Cwd + " " + l.Waits + "\n"
	}
	for _, want := range []string{"python3 in /srv reads its terminal\n", "bash -c sleep 1000; true in /srv waits for a child: ", " sleep sleeps\n"} {
		if !strings.Contains(terminals, want) {
			t.Errorf("the terminals lack %q:\n%s", want, terminals)
		}
	}
	roles := ""
	for _, r := range w.Roles {
		roles += string(r.Role) + ": " + r.Seen + " because " + r.Why + "\n"
	}
	for _, want := range []string{
		"repl: python3", "it reads its terminal", "watcher: watches 2 places", "inotify with 2 watches", "database: SQLite /work/app.db", "its wal is open too",
		"worker: queue_worker.py",
	} {
		if !strings.Contains(roles, want) {
			t.Errorf("the roles lack %q:\n%s", want, roles)
		}
	}
	if len(w.Services) == 0 || len(w.Mounts) == 0 || w.Mounts[0].Path != "/" || w.Mounts[0].Free == 0 {
		t.Errorf("services %+v, mounts %+v", w.Services, w.Mounts)
	}
	if strings.Contains(h.ok("ps", "box"), "systemctl") {
		t.Error("the look left a command in the list")
	}
	h.ok("down", "box")
	if w := h.world("box"); w.Live || w.State != vm.Stopped {
		t.Errorf("stopped: %+v", w)
	}
	h.ok("start", "box")
	if w := h.world("box"); !w.Live || !strings.Contains(strings.Join(w.Losses, " "), "memory") {
		t.Errorf("what the cold start lost: %+v", w.Losses)
	}
	h.run(wanted...).wants(t, 1, "missing: port:3000: nothing listens")
	// That the files are there does not say that the program works.
	h.ok("state", "box", "--expect", "file:/work/app.db")
	h.run("state", "box", "--expect", "file:/work/app.db", "--expect", "role:database").wants(t, 1, "missing: role:database: ")
	for _, role := range []string{"repl", "watcher", "worker", "browser"} {
		h.run("state", "box", "--expect", "role:"+role).wants(t, 1, "missing: role:"+role)
	}
	h.run("state", "box", "--expect", "file:/work/other").wants(t, 1, "missing: file:/work/other: there is no such file")
}

func (h *host) world(name string) (w vm.GuestState) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.ok("state", "--json", name)), &w); err != nil {
		h.t.Fatal(err)
	}
	return w
}
