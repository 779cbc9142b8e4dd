//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// smallMiB is the size of the small disk: the reserve that is kept for VMs that
// run, and room for a few generations.
const smallMiB = 2600

// counting continues in memory alone.
const counting = `n=0; while :; do n=$((n+1)); echo $n >> /run/count; sleep 0.1; done`

// captures are the commands that write the VM down.
var captures = [][]string{{"fork", "app", "--name", "try"}, {"snapshot", "create", "app"}, {"suspend", "app"}}

// count starts the program that counts.
func (h *host) count(name string) {
	h.t.Helper()
	h.ok("exec", name, "-d", "--", "sh", "-c", counting)
	h.eventually("it counts", func() bool { return h.run("exec", name, "--", "test", "-s", "/run/count").code == 0 })
}

// goesOn wants the VM's program to continue, and its process to be the same.
func (h *host) goesOn(what, name string) {
	h.t.Helper()
	var from string
	h.eventually(what+": it answers", func() bool {
		r := h.run("exec", name, "--", "tail", "-n", "1", "/run/count")
		from = strings.TrimSpace(r.stdout)
		return r.code == 0 && from != ""
	})
	h.eventually(what+": its program goes on", func() bool { return h.sh(name, "tail -n 1 /run/count") != from })
}

// whole wants nothing that a failed capture began: every generation has a
// manifest, and no VM has a second disk.
func (h *host) whole(what string) {
	h.t.Helper()
	var left []string
	for deadline := time.Now().Add(5 * time.Second); ; <-time.After(50 * time.Millisecond) {
		left = h.halfMade()
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(left) > 0 {
		h.t.Errorf("%s: half-made: %v", what, left)
	}
}

func (h *host) halfMade() (left []string) {
	gens, err := filepath.Glob(filepath.Join(h.data, "generations", "*"))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, dir := range gens {
		// A layer that a live disk lies on has no memory: it is kept for that.
		_, manifest := os.Stat(filepath.Join(dir, "manifest.json"))
		_, ram := os.Stat(filepath.Join(dir, "ram"))
		if manifest != nil && ram == nil {
			left = append(left, dir)
		}
	}
	disks, err := filepath.Glob(filepath.Join(h.data, "vms", "*", "overlay-*.qcow2"))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, d := range disks {
		a, err1 := os.Stat(d)
		b, err2 := os.Stat(filepath.Join(filepath.Dir(d), "overlay.qcow2"))
		if err1 == nil && err2 == nil && !os.SameFile(a, b) {
			left = append(left, d)
		}
	}
	return left
}

// generations lists the directories of generations.
func (h *host) generations() []string {
	names, err := filepath.Glob(filepath.Join(h.data, "generations", "*"))
	if err != nil {
		h.t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// refusedForSpace wants the typed error of a full disk: its status and a hint.
func refusedForSpace(t *testing.T, r result) {
	t.Helper()
	text := strings.ToLower(r.stderr)
	if r.code != 8 || !strings.Contains(text, "disk") && !strings.Contains(text, "space") || !strings.Contains(text, "free") && !strings.Contains(text, "delete") {
		t.Errorf("want the error of a full disk, with what to do: %s", r)
	}
}

// TestFullDisk: without room nothing is begun; the VM runs on, and with room
// everything works.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	h := crashHost(t, smallMiB)
	h.ok("up", "--name", "app")
	h.count("app")
	h.ok("snapshot", "create", "app", "--name", "good", "--persist", "persistent") // a sticky one may go for room
	kept := h.generations()
	h.leave(40)
	for _, verb := range captures {
		refusedForSpace(t, h.run(verb...))
		if v := h.find("app"); v.State != "running" || len(h.list()) != 1 {
			t.Errorf("after %v: %+v", verb, h.list())
		}
	}
	h.whole("no room")
	if got := h.generations(); !slices.Equal(got, kept) {
		t.Errorf("generations %v, they were %v", got, kept)
	}
	h.goesOn("no room", "app")
	h.makeRoom()
	h.works()
}

// TestDiskFillsUp: a disk that fills up at a random moment of a capture: what was
// begun is taken back, the VM runs on, and with room everything works.
func TestDiskFillsUp(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: the moments are random, and some of them still need a minute or a restart of serve; `make soak` runs it")
	}
	h := crashHost(t, smallMiB)
	h.ok("up", "--name", "app")
	h.count("app")
	h.ok("snapshot", "create", "app", "--name", "good")
	failed := 0
	for _, verb := range captures {
		h.makeRoom()
		if verb[0] == "fork" {
			h.leave(1100) // above the reserve
		} else {
			h.leave(500)
		}
		delay := time.Duration(rand.IntN(250)) * time.Millisecond
		what := fmt.Sprintf("%v, the disk full after %v", verb, delay)
		done := make(chan result, 1)
		go func() { done <- h.run(verb...) }()
		<-time.After(delay)
		h.fill()
		r := <-done
		if r.code != 0 {
			failed++
			refusedForSpace(t, r)
			if s := h.find("app").State; s != "running" {
				t.Errorf("%s: it is %s", what, s)
			}
		}
		t.Logf("%s: status %d %s", what, r.code, r.stderr)
		h.makeRoom()
		h.revive()
		h.goesOn(what, "app") // a suspended one wakes
		h.whole(what)
		for _, v := range h.list() {
			if v.Name != "app" {
				h.ok("rm", v.ID)
			}
		}
	}
	t.Logf("%d of %d captures met the full disk", failed, len(captures))
	h.works()
}

// works uses every verb that needs room, where there is some.
func (h *host) works() {
	h.t.Helper()
	h.ok("fork", "app", "--name", "try")
	h.goesOn("the fork", "try-1")
	h.ok("rm", "try-1")
	h.ok("suspend", "app")
	h.goesOn("the suspended one", "app")
	h.ok("rollback", "app", "good")
	h.goesOn("rolled back", "app")
}

// TestGuestMeetsFullDisk: a guest that writes where the host has no room is
// paused until there is some, says so, and has lost nothing.
func TestGuestMeetsFullDisk(t *testing.T) {
	t.Parallel()
	h := crashHost(t, smallMiB)
	h.ok("up", "--name", "app")
	h.count("app")
	h.leave(8) // the guest fills the rest; until then the server has room for its audit record
	h.ok("exec", "app", "-d", "--", "sh", "-c", "yes 0123456789 | head -c 30000000 > /root/big; sync; md5sum < /root/big > /root/sum; sync")
	h.eventually("it is paused and says so", func() bool { return strings.Contains(h.run("inspect", "app").stdout, "it resumes when there is room") })
	for _, verb := range captures {
		refusedForSpace(t, h.run(verb...))
	}
	<-time.After(3 * time.Second) // it is let try meanwhile, for nothing
	if got := h.ok("inspect", "app"); !strings.Contains(got, "running") || !strings.Contains(got, "it resumes when there is room") {
		t.Errorf("inspect: %s", got)
	}
	h.makeRoom()
	h.goesOn("there is room", "app")
	h.eventually("the file is written", func() bool { return h.run("exec", "app", "--", "test", "-s", "/root/sum").code == 0 })
	if got := h.sh("app", "echo 3 > /proc/sys/vm/drop_caches; md5sum < /root/big | cmp - /root/sum && wc -c < /root/big; dmesg | grep -c 'I/O error' || true"); got != "30000000\n0" {
		t.Errorf("the file: %q", got)
	}
}
