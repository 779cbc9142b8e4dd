//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// anotherBuild writes a program that differs from this one as the next version would: its agent, its monitor and its
// reader have other digests. Only the ids that Go gave these builds are changed, so that nothing is compiled.
func anotherBuild(t *testing.T, program string) string {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	mark := []byte("\x04\x00\x00\x00Go\x00\x00") // the ELF note of Go's build id, before the id
	changed := 0
	for at := 0; ; {
		i := bytes.Index(data[at:], mark)
		if i < 0 {
			break
		}
		at += i + len(mark)
		data[at] ^= 1
		changed++
	}
	if changed < 4 {
		t.Fatalf("%s has %d builds in it, want its own and three more", program, changed)
	}
	next := filepath.Join(t.TempDir(), "warren")
	if err := os.WriteFile(next, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return next
}

// The server is replaced by one of another version while machines run. They run on, with the same processes, under
// the monitors that they have; the new server stops, forks, suspends and resumes them. WARREN_LAST_BINARY names the
// program of an earlier version, if not only another build is to be tried.
func TestUpgrade(t *testing.T) {
	h := unstarted(t)
	next := h.binary
	if last := os.Getenv("WARREN_LAST_BINARY"); last != "" {
		h.binary = last
	} else {
		next = anotherBuild(t, h.binary)
	}
	h.serve("--pool", "0") // with another agent, the pool would boot the tests' image for a warm generation of its own
	t.Cleanup(h.close)
	h.ok("up", "--name", "app", "--persist", "persistent")
	h.ok("up", "--name", "asleep", "--persist", "persistent")
	h.sh("app", "nohup sh -c 'while :; do date +%s%N > /run/beat; sleep 0.2; done' >/dev/null 2>&1 & echo $! > /run/pid")
	h.sh("asleep", "nohup sleep 100000 >/dev/null 2>&1 & echo $! > /run/pid")
	h.ok("suspend", "asleep")
	id := h.find("app").ID
	qemu, monitor := h.pidOf(id, "qemu"), h.pidOf(id, "monitor")
	before, err := os.ReadDir(filepath.Join(h.data, "bin"))
	if err != nil {
		t.Fatal(err)
	}

	h.stopServer()
	h.binary = next
	h.serve("--pool", "0") // the pool would boot the tests' image with the new agent

	after, err := os.ReadDir(filepath.Join(h.data, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	if len(after) < len(before)+2 { // the programs of machines that run stay
		t.Errorf("there are %d unpacked programs after the upgrade and were %d before: agent and monitor are the old ones, so nothing was tried", len(after), len(before))
	}
	if state := h.find("app").State; state != "running" {
		t.Errorf("app is %s after the upgrade, want running", state)
	}
	if now := h.pidOf(id, "qemu"); now != qemu {
		t.Errorf("app's QEMU is process %d, was %d before the upgrade", now, qemu)
	}
	if now := h.pidOf(id, "monitor"); now != monitor && os.Getenv("WARREN_LAST_BINARY") == "" {
		t.Errorf("app's monitor is process %d, was %d before the upgrade of the same protocol", now, monitor)
	}
	beat := h.sh("app", "cat /run/beat")
	h.eventually("app's program writes on", func() bool { now := h.sh("app", "cat /run/beat"); return now != "" && now != beat })
	h.ok("fork", "app", "--name", "child")
	if out := h.sh("child-1", "kill -0 $(cat /run/pid) && hostname"); out != "child-1" {
		t.Errorf("a fork after the upgrade says %q, want its name, with its parent's program", out)
	}
	h.ok("resume", "asleep")
	if out := h.sh("asleep", "kill -0 $(cat /run/pid) && echo alive"); out != "alive" {
		t.Errorf("a machine that slept through the upgrade says %q, want its program alive", out)
	}
	h.ok("suspend", "app")
	h.ok("resume", "app")
	if out := h.sh("app", "kill -0 $(cat /run/pid) && echo alive"); out != "alive" {
		t.Errorf("a machine that the new server suspended says %q, want its program alive", out)
	}
	if r := h.run("audit", "verify"); r.code != 0 || strings.Contains(r.stderr, "broken") {
		t.Errorf("the audit log of both servers does not verify: %s", r)
	}
}
