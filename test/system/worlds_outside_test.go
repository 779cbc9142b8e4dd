//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// mirror returns the host name of this machine's first apt source: a public
// server that the guest can keep a connection to.
func mirror(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("/etc/apt/sources.list*")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("/etc/apt/sources.list.d/*")
	if err != nil {
		t.Fatal(err)
	}
	uri := regexp.MustCompile(`(?m)^[^#\n]*\bhttps?://([a-z0-9.-]+)`)
	for _, name := range append(files, more...) {
		if data, err := os.ReadFile(name); err == nil {
			if m := uri.FindSubmatch(data); m != nil {
				return string(m[1])
			}
		}
	}
	t.Skip("this host has no apt source to connect to")
	return ""
}

// TestWorldsOutside forks a VM that has a connection open to a public server:
// the parent keeps it; a copy, to which it does not belong, gets an error, not
// silence, and connects again.
func TestWorldsOutside(t *testing.T) {
	outside := mirror(t)
	c, err := net.DialTimeout("tcp", outside+":80", 5*time.Second)
	if err != nil {
		t.Skipf("this host reaches no public server: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	h := newHost(t)
	if r := h.run("up", "--name", "app", "--net", "open"); r.code != 0 {
		t.Fatalf("the VM was not made: %s", r)
	}
	if r := h.run("exec", "app", "--", "curl", "-sI", "-m", "10", "-o", "/dev/null", "http://"+outside); r.code != 0 {
		t.Skipf("the guest reaches no public server here: curl says %d; a policy of this host refuses its addresses: %s", r.code, h.ok("net", "connections", "app"))
	}
	h.install("app", "outside.py")
	h.start("app", "outside.py "+outside+" 80", "grep -q connected /run/outside")
	out := h.fork("app", 1, "try")
	if !strings.Contains(strings.Join(out.Caveats, "\n"), "open connections to the outside") {
		t.Errorf("the answer does not say what becomes of open connections: %q", out.Caveats)
	}
	h.eventually("the copy's connection ends with an error, and it has a new one", func() bool {
		said := h.sh("try-1", "cat /run/outside")
		return strings.HasPrefix(said, "connected\nlost ") && strings.HasSuffix(said, "\nconnected")
	})
	t.Logf("the copy: %q", h.sh("try-1", "cat /run/outside"))
	if got := h.sh("app", "cat /run/outside"); got != "connected" {
		t.Errorf("the parent: %q", got)
	}
}
