//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWorldsSuspend puts a workspace to sleep in the middle of its work and wakes it: the same processes
// keep running, and its clock is right.
//
// 000-03, 000-09, 000-10, 000-11, 000-12, 000-41, 000-47, 001-37, 001-48, 002-02, 002-22, 002-23, 002-24,
// 002-26, 002-27
func TestWorldsSuspend(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.work("app")
	// What is local to a workspace: modules, a virtual environment, a program that
	// failed, and the log of it.
	h.sh("app", "mkdir -p /srv/node_modules/left && echo 'module.exports = 1' > /srv/node_modules/left/index.js")
	h.sh("app", "mkdir -p /srv/venv/bin && ln -s /usr/bin/python3 /srv/venv/bin/python3 && printf 'home = /usr/bin\\n' > /srv/venv/pyvenv.cfg")
	h.sh("app", "cd /srv && echo 'x = 1' > m.py && python3 -c 'import m' && ls __pycache__/m.*.pyc && mkdir -p /root/.cache/tool /root/.config/chromium/Default /root/Downloads && "+
		"echo cached > /root/.cache/tool/c && echo profile > /root/.config/chromium/Default/Preferences && echo fetched > /root/Downloads/f")
	const local = "find /srv /root/.cache /root/.config /root/Downloads -type f | sort | xargs sha256sum"
	files := h.sh("app", local)
	// A failure that somebody is in the middle of looking at.
	h.sh("app", "printf 'y = 7\nraise ValueError(y)\n' > /opt/fails.py")
	h.ok("pty", "app", "--session", "dbg", "--exec", "python3 -m pdb /opt/fails.py", "-d")
	h.shows("app", "dbg", "(Pdb)")
	h.ok("pty", "send", "app", "dbg", "--wait", "1", "next")
	failed := strings.TrimSpace(h.ok("exec", "app", "-d", "--", "sh", "-c", "echo the failure that is looked at; exit 7"))
	h.ok("pty", "send", "app", "repl", "print('scrolled', 6*7)", "--wait", "1")
	before := h.sh("app", pids)
	requests := h.number("app", "curl -s localhost:3000")
	committed := h.number("app", "cat /run/committed")
	id := h.find("app").ID
	begin := time.Now()
	h.ok("suspend", "app")
	down := time.Since(begin)
	for _, cmd := range h.processes() {
		if strings.Contains(cmd, id) {
			t.Errorf("a process of a suspended VM: %s", cmd)
		}
	}
	time.Sleep(3 * time.Second)
	begin = time.Now()
	h.ok("resume", "app")
	took := down + time.Since(begin)
	h.wantClock("app")
	if v := h.find("app"); v.ID != id || v.State != "running" {
		t.Errorf("it came back as %+v, its id was %s", v, id)
	}
	if got := h.sh("app", pids); got != before {
		t.Errorf("before\n%s\nafter\n%s", before, got)
	}
	h.wantWork("app", requests, committed, took)
	asked := h.number("app", "curl -s localhost:3000")
	if !h.serves("app", 3000) {
		t.Error("state does not say that port 3000 answers")
	}
	if got := h.number("app", "curl -s localhost:3000"); got < asked+2 {
		t.Errorf("state says so without a request: %d were made before, now %d", asked, got)
	}
	if w := h.world("app"); len(w.Restored) != 2 || !strings.HasPrefix(w.Restored[0], "memory, processes, terminals and ports as of 20") ||
		w.Restored[1] != "the disk of the same instant" || !slices.Equal(w.Losses, []string{"connections to the outside that were open then"}) {
		t.Errorf("what is true since the resume: %q, and lost: %q", w.Restored, w.Losses)
	}
	if got := h.sh("app", local); got != files {
		t.Errorf("its local files are\n%s\nthey were\n%s", got, files)
	}
	if got := h.sh("app", "cat /srv/node_modules/left/index.js && /srv/venv/bin/python3 -c 'import sys; print(sys.prefix)'"); got != "module.exports = 1\n/srv/venv" {
		t.Errorf("its modules and virtual environment: %q", got)
	}
	if got := h.ok("logs", "app", failed); !strings.Contains(got, "the failure that is looked at") {
		t.Errorf("the log of what failed: %q", got)
	}
	if got := h.ok("pty", "read", "app", "repl", "--scrollback"); !strings.Contains(got, "scrolled 42") {
		t.Errorf("the scrollback: %q", got)
	}
	// And it can be split: a copy of it has the same programs in the same place.
	before = h.sh("app", pids)
	h.fork("app", 1, "split")
	for _, n := range []string{"app", "split-1"} {
		if got := h.sh(n, pids); got != before {
			t.Errorf("%s runs\n%s\nnot\n%s", n, got, before)
		}
		if got := h.ok("pty", "send", n, "dbg", "--wait", "1", "p y * 6"); !strings.Contains(got, "42") || h.ask(n, "?") != "held" {
			t.Errorf("%s: the debugger says %q, the holder holds %q", n, got, h.ask(n, "?"))
		}
	}
}

// TestWorldsBack breaks a workspace and goes back; makes VMs of a snapshot that
// is deleted then; has a copy take its parent's place.
//
// 000-08, 000-22, 000-25, 000-36, 002-20, 003-06, 003-25
func TestWorldsBack(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	id := h.find("app").ID
	h.install("app", "counter.py")
	h.start("app", "counter.py", "curl -sf localhost:3000")
	h.sh("app", "mkdir -p /tmp/p/DEBIAN /tmp/p/usr/bin && printf '#!/bin/sh\\necho installed\\n' > /tmp/p/usr/bin/installed && chmod +x /tmp/p/usr/bin/installed && "+
		"printf 'Package: installed\\nVersion: 1\\nArchitecture: all\\nMaintainer: a <a@b>\\nDescription: a\\n' > /tmp/p/DEBIAN/control && dpkg-deb -b /tmp/p /tmp/p.deb && dpkg -i /tmp/p.deb")
	h.ok("pty", "app", "--session", "sh", "--exec", "bash --norc", "-d")
	h.ok("pty", "send", "app", "sh", "PS1='$ '")
	h.ok("pty", "send", "app", "sh", "--no-enter", "echo half")
	h.shows("app", "sh", "echo half")
	requests := h.number("app", "curl -s localhost:3000")
	if said := h.ok("snapshot", "create", "app", "--name", "good"); !strings.Contains(said, "memory, processes, files, prompts, credentials") {
		t.Errorf("a snapshot does not say what it can hold: %s", said)
	}
	said := h.ok("snapshot", "create", "app", "--name", "disk", "--disk-only")
	if strings.Contains(said, "memory") || !strings.Contains(said, "files, prompts, credentials") {
		t.Errorf("a snapshot of a disk does not say what it can hold: %s", said)
	}
	h.ok("snapshot", "rm", "disk")
	h.run("snapshot", "create", "app", "--name", "good").wants(t, 5, "good")

	h.sh("app", "rm -rf /usr/lib/python3 /usr/lib/python3.11; pkill -f [c]ounter.py; touch /root/bad; sync")
	if h.run("exec", "app", "--", "python3", "-c", "print(1)").code == 0 {
		t.Fatal("python works without its library: the test breaks nothing")
	}
	h.ok("rollback", "app")
	if v := h.find("app"); v.ID != id {
		t.Errorf("the rollback made another VM of it: %s, was %s", v.ID, id)
	}
	if got := h.sh("app", "python3 -c 'import sqlite3; print(6*7)'; installed; test -e /root/bad || echo clean"); got != "42\ninstalled\nclean" {
		t.Errorf("after the rollback: %q", got)
	}
	if got := h.number("app", "curl -s localhost:3000"); got != requests+1 {
		t.Errorf("the server has counted %d requests, %d were made before the snapshot", got, requests)
	}
	if got := h.ok("pty", "send", "app", "sh", "--wait", "1", "--", "-typed"); !strings.Contains(got, "half-typed") {
		t.Errorf("the half-typed line of the snapshot: %q", got)
	}
	h.wantClock("app")

	// Two VMs of one snapshot, which is deleted below them.
	h.ok("up", "good", "--name", "one")
	h.ok("up", "good", "--name", "two")
	h.ok("snapshot", "rm", "good")
	ids := map[string]string{}
	for _, n := range []string{"one", "two"} {
		if got := h.number(n, "curl -s localhost:3000"); got != requests+1 {
			t.Errorf("%s: the server has counted %d requests, %d were made before the snapshot", n, got, requests)
		}
		if got := h.sh(n, "installed; find /usr/lib/python3.11 -type f -exec cat {} + | wc -c"); !strings.HasPrefix(got, "installed\n") {
			t.Errorf("%s of a deleted snapshot: %q", n, got)
		}
		ids[n] = h.sh(n, "cat /etc/machine-id")
	}
	distinct(t, "machine-id", ids)
	h.ok("rm", "two")

	// The better copy takes the place.
	h.sh("one", "echo better > /root/which")
	better := h.find("one").ID
	h.ok("keep", "one", "--over", "app", "--rm")
	if v := h.find("app"); v.ID != better {
		t.Errorf("app is %s, the better one was %s", v.ID, better)
	}
	if got := h.sh("app", "cat /root/which; curl -sf localhost:3000 >/dev/null && echo serves"); got != "better\nserves" {
		t.Errorf("the kept one: %q", got)
	}
	if tree := h.ok("tree"); !strings.Contains(tree, "VM app (running)") {
		t.Errorf("tree:\n%s", tree)
	}
}

// TestWorldsRefused wants bad requests refused with a reason and a remedy, the
// parent running and nothing half-made.
func TestWorldsRefused(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.install("app", "counter.py")
	h.start("app", "counter.py", "curl -sf localhost:3000")
	h.ok("up", "--name", "still")
	h.ok("stop", "still")
	for _, c := range []struct {
		code int
		why  string
		args []string
	}{
		{6, "stopped", []string{"fork", "still"}},
		{3, "no such vm", []string{"fork", "nobody"}},
		{2, "1 to 1000", []string{"fork", "app", "-n", "0"}},
		{2, "1 to 1000", []string{"fork", "app", "-n", "-1"}},
		{2, "1 to 1000", []string{"fork", "app", "-n", "10000"}},
		{8, "there is memory for", []string{"fork", "app", "-n", "900"}},
		{2, "", []string{"fork", "app", "--name", "no/name"}},
		{3, "", []string{"rollback", "app", "nothing"}},
		{3, "", []string{"snapshot", "rm", "nothing"}},
		{3, "no such vm", []string{"suspend", "nobody"}},
		{3, "", []string{"keep", "app", "--over", "nobody"}},
	} {
		r := h.run(c.args...)
		r.wants(t, c.code, c.why)
		if r.code != 0 && !strings.Contains(r.stderr, "hint:") {
			t.Errorf("no remedy: %s", r)
		}
	}
	if l := h.list(); len(l) != 2 {
		t.Errorf("something was half made: %+v", l)
	}
	if got, err := filepath.Glob(filepath.Join(h.data, "generations", "*")); err != nil || len(got) != 0 {
		t.Errorf("refusals left generations: %v, %v", got, err)
	}
	if got := h.sh("app", "curl -sf localhost:3000 >/dev/null && echo serves"); got != "serves" {
		t.Errorf("the parent: %q", got)
	}
	h.damaged("app")
}

// damaged wakes a VM whose memory file is not what was written: it is refused,
// the VM stays as it is, and with the file put back it continues.
func (h *host) damaged(name string) {
	t := h.t
	t.Helper()
	requests := h.number(name, "curl -s localhost:3000")
	h.ok("suspend", name)
	manifests, err := filepath.Glob(filepath.Join(h.data, "generations", "*", "manifest.json"))
	if err != nil || len(manifests) != 1 {
		t.Fatalf("generations: %v, %v", manifests, err)
	}
	ram := filepath.Join(filepath.Dir(manifests[0]), "ram")
	whole, err := os.Stat(ram)
	if err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func() (repair func() error, err error){
		"bit-flipped": func() (func() error, error) { return func() error { return flip(ram) }, flip(ram) },
		"missing": func() (func() error, error) {
			return func() error { return os.Rename(ram+".away", ram) }, os.Rename(ram, ram+".away")
		},
		"truncated": func() (func() error, error) {
			last := make([]byte, 4096)
			f, err := os.OpenFile(ram, os.O_RDWR, 0)
			if err != nil {
				return nil, err
			}
			if _, err := f.ReadAt(last, whole.Size()-4096); err != nil {
				return nil, err
			}
			return func() error {
				_, err := f.WriteAt(last, whole.Size()-4096)
				return errors.Join(err, f.Close())
			}, f.Truncate(whole.Size() - 4096)
		},
	} {
		repair, err := spoil()
		if err != nil {
			t.Fatal(err)
		}
		for _, verb := range [][]string{{"resume", name}, {"fork", name}} {
			if r := h.run(verb...); r.code == 0 || !strings.Contains(r.stderr, "disk-only") {
				t.Errorf("%s memory: %s", what, r)
			}
		}
		if v := h.find(name); v.State != "suspended" || len(h.list()) != 2 {
			t.Errorf("%s memory: %+v", what, h.list())
		}
		if err := repair(); err != nil {
			t.Fatal(err)
		}
	}
	h.ok("resume", name)
	if got := h.number(name, "curl -s localhost:3000"); got != requests+1 {
		t.Errorf("with its memory file put right it counts %d requests, %d were made", got, requests)
	}
}

// flip changes a bit in the middle of a file.
func flip(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b := make([]byte, 1)
	const at = 64 << 20
	if _, err := f.ReadAt(b, at); err != nil {
		return errors.Join(f.Close(), err)
	}
	b[0] ^= 0x40
	_, err = f.WriteAt(b, at)
	return errors.Join(err, f.Close())
}
