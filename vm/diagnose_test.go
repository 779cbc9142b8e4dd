// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"testing"
	"time"
)

// TestTopRate: shares of the CPU between two samples; a reused pid is another
// process, and a restarted guest has no shares.
func TestTopRate(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := func(pid int, cpu float64, since time.Time) TopProcess {
		return TopProcess{GuestProcess: GuestProcess{SystemProcess: SystemProcess{PID: pid, CPUSeconds: cpu}, StartedAt: since}}
	}
	before := Top{Live: true, UptimeSeconds: 100, CPUSeconds: 50, VCPU: 2, Processes: []TopProcess{p(1, 5, at), p(2, 9, at), p(3, 7, at)}}
	now := Top{Live: true, UptimeSeconds: 102, CPUSeconds: 52, VCPU: 2, Processes: []TopProcess{p(1, 5, at), p(2, 1, at.Add(time.Minute)), p(3, 8.5, at.Add(10*time.Millisecond))}}
	now.Rate(before)
	if now.CPUPercent == nil {
		t.Fatal("the CPU has no share")
	}
	if *now.CPUPercent != 50 {
		t.Errorf("the CPU's share is %v, want 50", *now.CPUPercent)
	}
	for i, want := range []struct {
		pid     int
		percent float64
	}{{3, 75}, {2, 50}, {1, 0}} {
		if got := now.Processes[i]; got.PID != want.pid || got.CPUPercent != want.percent {
			t.Errorf("%d: process %d with %v, want %+v", i, got.PID, got.CPUPercent, want)
		}
	}
	for _, b := range []Top{{}, {Live: true, UptimeSeconds: 500}} {
		fresh := Top{Live: true, UptimeSeconds: 102}
		if fresh.Rate(b); fresh.CPUPercent != nil {
			t.Errorf("a share since %+v", b)
		}
	}
}
