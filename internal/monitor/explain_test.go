// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// TestRefusedAtOnce: an agent that holds another key is known long before the
// start's deadline, and the error says how to continue.
func TestRefusedAtOnce(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "other-key")
	spec.Generation, spec.Deadline = generation(t), time.Hour
	_, _, err := launcher(t).Launch(ctx, spec)
	if e := vm.AsError(err); !errors.Is(err, vm.GuestFault) || !strings.Contains(e.Hint, "--disk-only") {
		t.Errorf("%v, hint %q", err, vm.AsError(err).Hint)
	}
	nothingLeft(t, spec)
}

// TestPatience: a start has its deadline, and on top of it what its QEMU waited for
// a CPU, up to a bound; then it says which of the two it was.
func TestPatience(t *testing.T) {
	const d, look = 20 * time.Millisecond, time.Millisecond
	for name, c := range map[string]struct {
		most   time.Duration
		waited func(took time.Duration) time.Duration
		least  time.Duration
		says   string
	}{
		"idle host":         {3 * d, func(time.Duration) time.Duration { return 0 }, d, "not ready within"},
		"busy host":         {3 * d, func(took time.Duration) time.Duration { return took }, 3 * d, "the host is too busy"},
		"busy for a moment": {100 * d, func(time.Duration) time.Duration { return d }, 2 * d, "not ready within"},
		"a strict deadline": {d, func(took time.Duration) time.Duration { return took }, d, "the host is too busy"},
	} {
		begin := time.Now()
		ctx, cancel := patience(t.Context(), "box", d, c.most, look, func() time.Duration { return c.waited(time.Since(begin)) })
		<-ctx.Done()
		took := time.Since(begin)
		err := explained(ctx, errors.New("canceled"))
		if took < c.least || vm.KindOf(err) != vm.Timeout || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: after %v: %v", name, took, err)
		}
		cancel()
	}
	ctx, cancel := patience(t.Context(), "box", time.Hour, time.Hour, time.Hour, func() time.Duration { return 0 })
	cancel()
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Error(context.Cause(ctx))
	}
}

// TestWaitedForCPU: the kernel says how long a process has waited for a CPU.
func TestWaitedForCPU(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this kernel keeps no schedstat")
	}
	before := waitedForCPU(os.Getpid())
	if now := waitedForCPU(os.Getpid()); before < 0 || now < before {
		t.Errorf("%v, then %v", before, now)
	}
	if d := waitedForCPU(1 << 30); d != 0 {
		t.Errorf("a process that is not there: %v", d)
	}
}
