//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"os"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// TestIdleSoak leaves a VM of the pool alone for the five minutes of the default
// and wakes it. Other tests shorten them with --idle. Run it as `make soak`.
func TestIdleSoak(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: this takes the five minutes of the default; `make soak` sets it")
	}
	h := pooledHost(t)
	h.ok("up", "--name", "box")
	if p := h.pool(); p.Hits != 1 {
		t.Fatalf("the VM does not come from the pool: %+v", p)
	}
	h.sh("box", "echo kept >/run/mark")
	used := time.Now()
	var i vm.Idle
	for i = h.idle("box"); i.State != vm.Suspended; i = h.idle("box") {
		if time.Since(used) > 8*time.Minute {
			t.Fatalf("it does not fall asleep: %+v", i)
		}
		<-time.After(time.Second)
	}
	if slept := i.Asleep.Sub(i.LastActivity); slept < 5*time.Minute {
		t.Errorf("asleep after %v", slept)
	}
	if got := h.sh("box", "cat /run/mark"); got != "kept" {
		t.Errorf("after its sleep: %q", got)
	}
}
