// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ownIdentity prints what must differ between siblings.
const ownIdentity = "cat /etc/machine-id /proc/sys/kernel/random/boot_id; hostname; head -c16 /dev/urandom | od -An -tx1"

// TestWorldForks: running copies with the parent's memory, each its own machine.
//
// 000-17, 000-35
func TestWorldForks(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.install("app", "counter.py", "drawer.py")
	h.start("app", "counter.py", "curl -sf localhost:3000")
	h.start("app", "drawer.py", "test -e /run/drawing")
	before := h.number("app", "curl -s localhost:3000")
	h.ok("fork", "app", "-n", "2", "--name", "try")
	seen := map[string]string{}
	names := []string{"app", "try-1", "try-2"}
	drawn := map[string][]draw{}
	for _, n := range names {
		drawn[n] = h.drawn(n)
		if got := h.sh(n, "curl -s localhost:3000"); got != strconv.Itoa(before+1) {
			t.Errorf("%s: the counter says %s, it was %d at the fork", n, got, before)
		}
		for _, line := range strings.Split(h.sh(n, ownIdentity), "\n") {
			if other, twice := seen[line]; twice {
				t.Errorf("%s and %s share %s", n, other, line)
			}
			seen[line] = n
		}
		host := time.Now()
		at, err := strconv.ParseFloat(h.sh(n, "date +%s.%N"), 64)
		if off := at - float64(host.UnixNano())/1e9; err != nil || off < -0.05 || off > 1.5 {
			t.Errorf("%s: its clock is off by %.3f s", n, off) // the way of the answer is in it
		}
		h.sh(n, "echo "+n+" > /root/mine")
	}
	wantDifferent(t, drawn)
	for _, n := range names {
		if got := h.sh(n, "cat /root/mine"); got != n {
			t.Errorf("%s sees %s's file", n, got)
		}
	}
	deeper(h, t)
}

// deeper forks a fork of a fork, and checks the refusals beside.
func deeper(h *host, t *testing.T) {
	h.ok("rm", "try-2")
	h.sh("try-1", "echo one >> /root/path")
	h.ok("fork", "try-1", "--name", "deep")
	h.sh("deep-1", "echo two >> /root/path")
	h.ok("fork", "deep-1", "--name", "deeper")
	if got := h.sh("deeper-1", "cat /root/path; curl -s localhost:3000 >/dev/null && echo serves"); got != "one\ntwo\nserves" {
		t.Errorf("three deep: %q", got)
	}
	h.run("fork", "nobody").wants(t, 3, "no such VM")
	h.run("fork", "app", "-n", "10000").wants(t, 2, "1 to 1000")
	h.run("fork", "app", "-n", "900").wants(t, 8, "there is memory for")
	h.ok("rm", "deep-1", "deeper-1", "try-1")
	h.ok("stop", "app")
	h.run("fork", "app").wants(t, 6, "is stopped")
}

// TestCoreSuspend: the same processes after a suspend, also a cold one, and
// over a restart of the server; a rollback brings back what was broken.
//
// 000-09
func TestCoreSuspend(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.ok("exec", "app", "-d", "--", "python3", "-m", "http.server", "3000")
	h.eventually("the server answers", func() bool { return h.run("exec", "app", "--", "curl", "-sf", "localhost:3000").code == 0 })
	pid := h.sh("app", "pgrep -f [h]ttp.server")
	for _, how := range [][]string{{"suspend", "app"}, {"suspend", "app", "--cold"}} {
		h.ok(how...)
		if v := h.find("app"); v.State != "suspended" || h.runs(v.ID) {
			t.Fatalf("after %v: %+v", how, v)
		}
		h.killServer()
		h.serve()
		if got := h.sh("app", "pgrep -f [h]ttp.server; curl -s -o /dev/null -w '%{http_code}' localhost:3000"); got != pid+"\n200" { // an exec wakes it
			t.Errorf("after %v: %q, the process was %s", how, got, pid)
		}
		at, err := strconv.ParseInt(h.sh("app", "date +%s"), 10, 64)
		if err != nil || at < time.Now().Unix()-2 {
			t.Errorf("its clock says %d", at)
		}
	}
	h.ok("snapshot", "create", "app", "--name", "good")
	h.sh("app", "rm -rf /usr/lib/python3 /usr/lib/python3.11; echo bad > /root/bad")
	h.ok("rollback", "app")
	if got := h.sh("app", "python3 -c 'print(6*7)'; ls /root/bad 2>&1; curl -s -o /dev/null -w '%{http_code}' localhost:3000"); !strings.HasPrefix(got, "42\n") || !strings.HasSuffix(got, "200") || strings.Contains(got, "\n/root/bad") {
		t.Errorf("after the rollback: %q", got)
	}
	h.ok("up", "good", "--name", "twin")
	h.ok("snapshot", "rm", "good")
	if got := h.sh("twin", "curl -s -o /dev/null -w '%{http_code}' localhost:3000"); got != "200" {
		t.Errorf("a VM of a deleted snapshot: %q", got)
	}
	if tree := h.ok("tree"); !strings.Contains(tree, "VM twin (running)") || !strings.Contains(tree, "before-rollback") {
		t.Errorf("tree:\n%s", tree)
	}
	h.ok("snapshot", "create", "twin", "--disk-only", "--name", "disk")
	h.ok("up", "disk", "--name", "booted")
	if got := h.sh("booted", "test -d /usr/lib/python3 && echo whole"); got != "whole" {
		t.Errorf("a VM of a disk-only snapshot: %q", got)
	}
}

// TestWorldDamaged: memory that is not what was written is not continued, and
// the disk is still there.
func TestWorldDamaged(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.sh("app", "echo kept > /root/f; sync")
	for i, spoil := range []func(path string) error{
		func(p string) error { return flip(filepath.Join(p, "ram")) },
		func(p string) error { return os.Truncate(filepath.Join(p, "device"), 100) },
		func(p string) error { return os.Remove(filepath.Join(p, "ram")) },
	} {
		h.ok("suspend", "app")
		// The memories that could not be continued before are kept.
		gens, err := filepath.Glob(filepath.Join(h.data, "generations", "*", "manifest.json"))
		if err != nil || len(gens) != i+1 {
			t.Fatalf("generations: %v, %v", gens, err)
		}
		if err := spoil(filepath.Join(h.data, "generations", h.find("app").Generation)); err != nil {
			t.Fatal(err)
		}
		r := h.run("resume", "app")
		if r.code == 0 || !strings.Contains(r.stderr, "--disk-only") {
			t.Errorf("damage %d: %s", i, r)
		}
		if v := h.find("app"); v.State != "suspended" {
			t.Errorf("damage %d: it is %s", i, v.State)
		}
		h.ok("start", "app", "--disk-only")
		if got := h.sh("app", "cat /root/f"); got != "kept" {
			t.Errorf("damage %d: %q", i, got)
		}
	}
}

// runs reports whether a VM has a process.
func (h *host) runs(id string) bool {
	for _, cmd := range h.processes() {
		if strings.Contains(cmd, id) {
			return true
		}
	}
	return false
}

// TestWorldKilledInCapture kills a process at a random moment of a capture: the
// VM keeps running, or comes back whole; no acknowledged write is lost.
func TestWorldKilledInCapture(t *testing.T) {
	h := newHost(t)
	h.withLedger("app")
	for _, verb := range []string{"fork", "suspend", "snapshot"} {
		for _, who := range victims {
			h.killedCapture(verb, who, time.Duration(5+rand.IntN(150))*time.Millisecond, who == "qemu" || verb == "suspend")
			h.tidy()
		}
	}
	h.whole("after the kills")
}
