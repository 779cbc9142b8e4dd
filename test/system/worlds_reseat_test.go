//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"strings"
	"testing"
	"time"
)

// hoarder writes 220 MiB of memory, and then counts.
const hoarder = `
import os, time
hoard, block = bytearray(220 << 20), os.urandom(1 << 20)
for i in range(220): hoard[i << 20:(i + 1) << 20] = block
n = 0
while True:
    n += 1
    with open("/run/.count", "w") as f: f.write(str(n))
    os.rename("/run/.count", "/run/count")
    time.sleep(0.05)
`

// TestWorldsReseat fills a VM's memory, so that a fork has much to compare, and
// leaves it alone: it gets a new base by itself, its programs, terminals and
// clock continue, and the next fork has little to compare.
func TestWorldsReseat(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.ok("pty", "app", "--session", "sh", "--exec", "bash --norc", "-d")
	h.ok("pty", "send", "app", "sh", "value=kept")
	h.ok("exec", "app", "-d", "--", "python3", "-c", hoarder)
	h.eventually("the program counts", func() bool { return h.run("exec", "app", "--", "test", "-s", "/run/count").code == 0 })
	before := h.fork("app", 1, "big")
	h.ok("rm", "big-1")
	pid, uptime := h.sh("app", "pgrep -f [h]oard"), h.number("app", "cut -d. -f1 /proc/uptime")
	boot := h.sh("app", "cat /proc/sys/kernel/random/boot_id /etc/machine-id")
	quiet := time.Now()
	reseated := false
	for !reseated && time.Since(quiet) < 40*time.Second {
		time.Sleep(500 * time.Millisecond)
		reseated = strings.Contains(h.ok("tree", "app"), "reseat")
	}
	if !reseated {
		t.Fatalf("no new base: %s", h.ok("tree", "app"))
	}
	count := h.number("app", "cat /run/count")
	h.eventually("it goes on counting", func() bool { return h.number("app", "cat /run/count") > count })
	if got := h.sh("app", "pgrep -f [h]oard"); got != pid {
		t.Errorf("its process was %s, is %s", pid, got)
	}
	if got := h.sh("app", "cat /proc/sys/kernel/random/boot_id /etc/machine-id"); got != boot {
		t.Errorf("it is another machine: %s, was %s", got, boot)
	}
	if now := h.number("app", "cut -d. -f1 /proc/uptime"); now < uptime || now > uptime+60 {
		t.Errorf("it is up for %d s, was for %d", now, uptime)
	}
	if got := h.ok("pty", "send", "app", "sh", "echo $value", "--wait", "1"); !strings.Contains(got, "kept") {
		t.Errorf("its terminal says %q", got)
	}
	h.wantClock("app")
	after := h.fork("app", 1, "small")
	t.Logf("the parent stood still for %.1f ms with all it had written, %.1f ms after its new base", before.PauseMs, after.PauseMs)
	if after.PauseMs > before.PauseMs {
		t.Errorf("a new base made the pause longer: %.1f ms, was %.1f", after.PauseMs, before.PauseMs)
	}
	if got := h.number("small-1", "cat /run/count"); got <= count {
		t.Errorf("the copy counts %d, its parent had %d", got, count)
	}
}
