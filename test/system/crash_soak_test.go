//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestSoak kills random processes at random moments of random commands for
// WARREN_SOAK minutes; without that it is skipped. Run it as `make soak`.
func TestSoak(t *testing.T) {
	text := os.Getenv("WARREN_SOAK")
	if text == "" {
		t.Skip("WARREN_SOAK is not set: `make soak` sets it to the minutes that it takes")
	}
	minutes, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("WARREN_SOAK=%s: %v", text, err)
	}
	h := crashHost(t, 0)
	h.withLedger("app")
	rounds := map[string]int{}
	for until := time.Now().Add(time.Duration(minutes * float64(time.Minute))); time.Now().Before(until) && !t.Failed(); {
		verb := []string{"fork", "suspend", "snapshot", "resume", "rollback", "flatten"}[rand.IntN(6)]
		h.soakRound(verb, victims[rand.IntN(len(victims))], time.Duration(rand.IntN(800))*time.Millisecond)
		rounds[verb]++
		h.tidy()
		h.whole(verb)
	}
	t.Logf("rounds: %v", rounds)
}

func (h *host) soakRound(verb, who string, delay time.Duration) {
	h.t.Helper()
	switch verb {
	case "resume":
		h.killedResume(who, delay)
	case "rollback":
		h.killedRollback(who, 2*delay)
	case "flatten":
		h.sh("app", "test -s /root/sum || { head -c 60000000 /dev/urandom > /root/big; md5sum /root/big > /root/sum; sync; }")
		h.killedFlatten(who)
	default:
		h.killedCapture(verb, who, delay/4, who == "qemu")
	}
}

// killedCapture kills in a command that writes the VM down; mayLose says whether
// its memory may be lost by that.
func (h *host) killedCapture(verb, who string, delay time.Duration, mayLose bool) {
	h.t.Helper()
	args := []string{verb, "app"}
	if verb == "snapshot" {
		args = []string{"snapshot", "create", "app"}
	}
	n := h.acknowledged("app")
	r := h.killedIn(who, delay, args...)
	what := fmt.Sprintf("%s killed %v into %s", who, delay, verb)
	kept := h.back(what, n, mayLose)
	h.t.Logf("%s: status %d, memory kept: %v", what, r.code, kept)
}

// tidy removes what a round made, so that the disk does not fill up.
func (h *host) tidy() {
	h.t.Helper()
	for _, v := range h.list() {
		if v.Name != "app" {
			h.ok("rm", v.ID)
		}
	}
	for _, id := range h.snapshots() {
		h.ok("snapshot", "rm", id)
	}
}

// snapshots lists the ids of snapshots that VMs made.
func (h *host) snapshots() (ids []string) {
	h.t.Helper()
	var all []struct {
		ID string `json:"snapshotId"`
		VM string `json:"sourceVmId"`
	}
	if err := json.Unmarshal([]byte(h.ok("snapshot", "ls", "--json")), &all); err != nil {
		h.t.Fatal(err)
	}
	for _, s := range all {
		if s.VM != "" {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
