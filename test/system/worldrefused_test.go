//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// TestWorldRefusedKey: a memory whose agent holds another key than the one that was
// written down is told of in seconds. The disk can be booted without it, and the
// memory is kept for when the key is found.
func TestWorldRefusedKey(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.sh("app", "echo kept >/root/f && echo memory >/run/mark && sync")
	h.ok("suspend", "app")
	manifests, err := filepath.Glob(filepath.Join(h.data, "generations", "*", "manifest.json"))
	if err != nil || len(manifests) != 1 {
		t.Fatalf("the suspended world has the manifests %v (%v), want one", manifests, err)
	}
	var g vm.Manifest
	if err := layout.ReadJSON(manifests[0], &g); err != nil {
		t.Fatal(err)
	}
	right := g.GuestKey
	g.GuestKey = bytes.Repeat([]byte{7}, len(right))
	if err := layout.WriteJSON(manifests[0], g, 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	h.run("start", "app").wants(t, 12, "refuses this server's key")
	if took := time.Since(begin); took > time.Minute { // it was two
		t.Errorf("said after %v", took)
	}
	h.ok("start", "app", "--disk-only")
	if got := h.sh("app", "cat /root/f; cat /run/mark 2>/dev/null || echo booted"); got != "kept\nbooted" {
		t.Errorf("on its disk: %q", got)
	}
	g.GuestKey = right
	if err := layout.WriteJSON(manifests[0], g, 0o600); err != nil {
		t.Fatal(err)
	}
	h.ok("rollback", "app", string(g.ID))
	if got := h.sh("app", "cat /run/mark"); got != "memory" {
		t.Errorf("back in its memory: %q", got)
	}
}
