//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"strings"
	"testing"
)

// TestPooledWorld: a VM that comes from the warm pool, which is the default,
// is forked, suspended, resumed, rolled back, put to sleep and woken like any
// other, also by a new monitor.
func TestPooledWorld(t *testing.T) {
	h := newHost(t)
	h.poolReady()
	h.ok("up", "--name", "one")
	if p := h.pool(); p.Hits != 1 {
		t.Fatalf("the VM does not come from the pool: %+v", p)
	}
	h.sh("one", "echo kept >/run/mark")
	same := func(name string) {
		t.Helper()
		if got := h.sh(name, "cat /run/mark"); got != "kept" {
			t.Errorf("%s: /run/mark says %q", name, got)
		}
	}
	h.ok("fork", "one", "--name", "try")
	same("try-1")
	h.ok("rm", "try-1")
	h.ok("snapshot", "create", "one", "--name", "then")
	h.sh("one", "echo lost >/run/mark")
	h.ok("rollback", "one", "then")
	same("one")
	h.ok("suspend", "one")
	h.ok("start", "one")
	same("one")
	h.poolReady()
	h.ok("up", "--name", "two", "--idle", "1s")
	if p := h.pool(); p.Hits != 2 {
		t.Errorf("the VM does not come from the pool: %+v", p)
	}
	h.sh("two", "echo kept >/run/mark")
	h.falls("two")
	same("two") // which wakes it
	if log := h.log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("the server logged an error:\n%s", log)
	}
}
