// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// TestIdlePage: the page for each case; no reason in it moves the cursor.
func TestIdlePage(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	timeout := vm.Seconds(5 * time.Minute)
	hold := vm.Hold{ID: "hd-0123456789abcdef", Reason: "a\x1b[2Jb", Until: now.Add(30 * time.Minute)}
	for want, i := range map[string]vm.Idle{
		`box  running, idle for 100s
  last      exec, 100s ago
  sleeps    in 3m, unless it is used (suspend)`: {
			State: vm.Running, LastKind: vm.ActivityExec, LastActivity: now.Add(-100 * time.Second), IdleSince: now.Add(-100 * time.Second),
			SleepsAt: now.Add(200 * time.Second), IdleTimeout: &timeout, OnIdle: vm.OpSuspend,
		},
		`box  running, kept awake
  last      files, 1s ago
  awake     2 commands in progress
  held      for another 30m  hd-0123456789abcdef  "a\x1b[2Jb"
  sleeps    5m after the last of these has ended (stop)`: {
			State: vm.Running, LastKind: vm.ActivityFiles, LastActivity: now.Add(-time.Second), IdleTimeout: &timeout, OnIdle: vm.OpStop,
			Awake: []vm.Keeper{{Kind: vm.ActivityExec, Count: 2, Why: "2 commands in progress"}, {Kind: vm.ActivityHold, Hold: hold.ID, Why: "held"}},
			Holds: []vm.Hold{hold},
		},
		`box  running, idle for 5m
  last      ssh, 5m ago
  never     it is not suspended automatically: its idle timeout is null`: {
			State: vm.Running, LastKind: vm.ActivitySSH, LastActivity: now.Add(-5 * time.Minute), IdleSince: now.Add(-5 * time.Minute), Never: "its idle timeout is null",
		},
		`box  suspended for 3h (idle)
  last      pty, 3h ago
  wakes     on use: exec, cp, pty, ssh, a connection, or warren start box`: {
			State: vm.Suspended, LastKind: vm.ActivityPTY, LastActivity: now.Add(-3*time.Hour - 5*time.Minute), AsleepFor: "idle", Asleep: now.Add(-3 * time.Hour), IdleTimeout: &timeout,
		},
	} {
		if got := strings.Join(idleLines("box", i, now), "\n"); got != want {
			t.Errorf("the page of idle is\n%s\nwant\n%s", got, want)
		}
	}
}

// TestIdleAndHold: the commands against a server.
func TestIdleAndHold(t *testing.T) {
	f := newFake(t)
	f.on("GET /v1/vms/box/idle", vm.Idle{VM: "x", State: vm.Running, Never: "its idle timeout is null"})
	h := vm.Hold{ID: "hd-0123456789abcdef", Reason: "build", CreatedAt: time.Now(), Until: time.Now().Add(time.Hour)}
	f.on("GET /v1/vms/box/holds", api.HoldList{Holds: []vm.Hold{h}})
	f.on("DELETE /v1/vms/box/holds/hd-0123456789abcdef", struct{}{})
	var got api.NewHold
	f.mux.HandleFunc("POST /v1/vms/box/holds", func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(h)
	})
	run(t, f, Local{}, "", "idle", "box").wants(t, 0, "")
	if r := run(t, f, Local{}, "", "idle", "box"); !strings.Contains(r.out, "never     it is not suspended automatically") {
		t.Errorf("idle box does not say that it is never suspended:\n%s", r.out)
	}
	if r := run(t, f, Local{}, "", "idle", "box", "--json"); !strings.Contains(r.out, `"idleTimeoutSeconds": null`) {
		t.Errorf("idle --json has no null timeout:\n%s", r.out)
	}
	if r := run(t, f, Local{}, "", "hold", "box", "--for", "90m", "--reason", "build"); !strings.Contains(r.out, "keeps box awake for 60m\n") || !strings.Contains(r.out, "warren hold release box hd-0123456789abcdef") {
		t.Errorf("hold does not print the end of the hold and how to release it:\n%s%s", r.out, r.stderr)
	}
	if got.For == nil || *got.For != vm.Seconds(90*time.Minute) || got.Reason != "build" {
		t.Errorf("sent %+v", got)
	}
	if r := run(t, f, Local{}, "", "hold", "ls", "box"); !strings.Contains(r.out, "hd-0123456789abcdef") || !strings.Contains(r.out, "build") {
		t.Errorf("hold ls lacks the hold:\n%s%s", r.out, r.stderr)
	}
	if r := run(t, f, Local{}, "", "hold", "release", "box", "hd-0123456789abcdef"); r.out != "hd-0123456789abcdef is released\n" {
		t.Errorf("hold release does not confirm:\n%s%s", r.out, r.stderr)
	}
	run(t, f, Local{}, "", "hold", "box", "--for", "8d").wants(t, 2, "1s to 7d")
	run(t, f, Local{}, "", "hold", "box", "--for", "x").wants(t, 2, "not a time")
	run(t, f, Local{}, "", "hold").wants(t, 2, "which VM?")
	run(t, f, Local{}, "", "hold", "release", "box").wants(t, 2, "which hold")
}
