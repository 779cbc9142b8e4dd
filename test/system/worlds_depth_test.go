//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWorldsDeep forks a VM again and again while it writes memory and disk,
// then a copy of a copy of a copy: no generation mixes two instants, and the
// depth costs the data nothing.
//
// 000-23, 002-09
func TestWorldsDeep(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.install("app", "writer.py", "counter.py")
	h.start("app", "writer.py", "test -s /run/committed")
	h.start("app", "counter.py", "curl -sf localhost:3000")
	// Pages that are written all the time.
	h.ok("exec", "app", "-d", "--", "python3", "-c", dirtier)
	for i := range 3 {
		committed := h.number("app", "cat /run/committed")
		child := fmt.Sprintf("t%d", i)
		out := h.fork("app", 1, child)
		t.Logf("fork %d: the parent stood still for %.1f ms", i, out.PauseMs)
		child += "-1"
		h.wantDatabase(child, committed)
		h.sh(child, "rm -rf /root/w.db /usr/lib/python3*; sync")
		h.ok("rm", child)
	}
	h.wantDatabase("app", h.number("app", "cat /run/committed"))
	h.wantClock("app") // three pauses later

	// Three levels, each with a word of its own in memory and on disk.
	h.sh("app", "pkill -f [d]irtier; pkill -f [w]riter.py; echo")
	parent, want := "app", ""
	for level := 1; level <= 3; level++ {
		word := "level" + strconv.Itoa(level)
		h.sh(parent, "echo "+word+" >> /root/path; echo "+word+" >> /dev/shm/path")
		want += word + "\n"
		child := "deep" + strconv.Itoa(level)
		h.fork(parent, 1, child)
		if level > 1 { // what a copy was made of may go
			h.ok("rm", parent)
		}
		parent = child + "-1"
	}
	if got := h.sh(parent, "cat /root/path /dev/shm/path; curl -sf localhost:3000 >/dev/null && echo serves"); got != want+want+"serves" {
		t.Errorf("three deep: %q", got)
	}
	if got := h.sh("app", "cat /root/path /dev/shm/path"); got != "level1\nlevel1" {
		t.Errorf("the first of them sees what its copies wrote: %q", got)
	}
	if tree := h.ok("tree", parent); strings.Count(tree, "fork of") < 3 || !strings.Contains(tree, "VM "+parent+" (running)") {
		t.Errorf("the tree does not show three forks:\n%s", tree)
	}
}

// dirtier writes 32 MiB of memory over and over.
const dirtier = "import time # dirtier\nb = bytearray(32 << 20); n = 0\nwhile True:\n" +
	" n += 1\n for i in range(0, len(b), 4096): b[i] = n & 255\n time.sleep(0.02)"

// wantDatabase wants writer.py's database whole in a VM, and still written to.
func (h *host) wantDatabase(name string, committed int) {
	t := h.t
	t.Helper()
	got := h.sh(name, "python3 - <<'E'\n"+checkDatabase+"\nE")
	var most, count, said int
	var verdict string
	if _, err := fmt.Sscan(got, &verdict, &most, &count, &said); err != nil || verdict != "ok" || most != count || most < said || said < committed {
		t.Errorf("%s: the database is %q (integrity, last row, rows, committed), %d were committed before the fork", name, got, committed)
	}
	h.eventually(name+": rows are still committed", func() bool { return h.number(name, "cat /run/committed") > most })
}

// TestWorldsMany makes sixteen copies at once, of which each answers and is a
// machine of its own.
//
// 002-30
func TestWorldsMany(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.install("app", "counter.py")
	h.start("app", "counter.py", "curl -sf localhost:3000")
	requests := h.number("app", "curl -s localhost:3000")
	begin := time.Now()
	out := h.fork("app", 16, "many")
	t.Logf("fork of 16: %v, the parent stood still for %.1f ms", time.Since(begin), out.PauseMs)
	names := []string{"app"}
	for i, f := range out.Forks {
		if f.Name != "many-"+strconv.Itoa(i+1) {
			t.Errorf("copy %d is called %s", i+1, f.Name)
		}
		names = append(names, f.Name)
	}
	var mu sync.Mutex
	values := map[string]map[string]string{"host name": {}, "machine-id": {}, "boot identity": {}, "link key": {}, "UUID": {}}
	each(names, func(n string) {
		r := h.run("exec", n, "--", "sh", "-c", "curl -s localhost:3000; echo; hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id /run/warren/agent.key; echo; cat /proc/sys/kernel/random/uuid")
		f := strings.Fields(r.stdout)
		mu.Lock()
		defer mu.Unlock()
		if r.code != 0 || len(f) != 6 || f[0] != strconv.Itoa(requests+1) || f[1] != n {
			t.Errorf("%s does not answer as it should: %s", n, r)
			return
		}
		for i, what := range []string{"host name", "machine-id", "boot identity", "link key", "UUID"} {
			values[what][n] = f[i+1]
		}
	})
	for what, v := range values {
		distinct(t, what, v)
	}
}
