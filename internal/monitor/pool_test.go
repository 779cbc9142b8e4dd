// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// pooled launches a machine that is no VM's yet and pauses it, twice.
func pooled(ctx context.Context, t *testing.T, behaviour string) (vm.MachineSpec, *Launcher, *Client) {
	t.Helper()
	spec := fakeSpec(t, behaviour)
	spec.Pooled = true
	l, c := launch(ctx, t, spec)
	for range 2 {
		if err := c.Pause(ctx); err != nil {
			t.Fatal(err)
		}
		if st, err := c.Status(ctx); err != nil || st.RunState != "paused" {
			t.Fatalf("status %+v, %v", st, err)
		}
	}
	return spec, l, c
}

func adoption() vm.Adoption {
	return vm.Adoption{
		Reset:   vm.Reset{Hostname: "adopted", LinkKey: []byte(strings.Repeat("a", link.KeySize))},
		Network: vm.NetworkPolicy{Mode: vm.NetOpen}, Deadline: 5 * time.Second,
	}
}

// TestAdopt: a paused machine goes on as another VM, and a monitor that takes
// it over afterwards knows the new key and network.
func TestAdopt(t *testing.T) {
	ctx := deadline(t)
	spec, l, c := pooled(ctx, t, "well")
	began := time.Now()
	a := adoption()
	st, err := c.Adopt(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	if !st.Ready || st.RunState != "running" || st.QEMUPID == 0 || st.Resets[vm.ResetRNG] != "ok" || st.StartedAt.Before(began) || st.Timings["ready"] == 0 {
		t.Errorf("status %+v", st)
	}
	if st, err := c.Status(ctx); err != nil || st.RunState != "running" {
		t.Errorf("status %+v, %v", st, err)
	}
	var kept vm.MachineSpec
	if err := layout.ReadJSON(layout.VMDir(spec.Dir).Machine(), &kept); err != nil {
		t.Fatal(err)
	}
	if kept.Pooled || kept.Reset.Hostname != "adopted" || !slices.Equal(kept.Reset.LinkKey, a.Reset.LinkKey) || kept.Network.Mode != vm.NetOpen {
		t.Errorf("the spec on disk: %+v", kept)
	}
	if err := unix.Kill(st.MonitorPID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again, _, err := l.Attach(ctx, spec.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.Guest().Hello(ctx); err != nil {
		t.Errorf("the next monitor and the guest: %v", err)
	}
}

// TestAdoptRefused: a machine that does not acknowledge a reset of its adoption
// is killed before anybody can meet it.
func TestAdoptRefused(t *testing.T) {
	ctx := deadline(t)
	spec, l, c := pooled(ctx, t, "resets-once")
	if _, err := c.Adopt(ctx, adoption()); !errors.Is(err, vm.GuestFault) || !strings.Contains(err.Error(), "rng") {
		t.Errorf("adopt: %v", err)
	}
	if exit, err := c.Wait(ctx); err != nil || exit.Reason != "kill" {
		t.Errorf("the machine's end: %+v, %v", exit, err)
	}
	if err := l.Sweep(ctx, spec.RunDir); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, spec)
}

// TestAdoptOfTheDead: a member whose QEMU or monitor is gone says so.
func TestAdoptOfTheDead(t *testing.T) {
	ctx := deadline(t)
	_, _, c := pooled(ctx, t, "well")
	killMonitor(ctx, t, c)
	for _, try := range []func() error{
		func() error { return c.Pause(ctx) },
		func() error { _, err := c.Adopt(ctx, adoption()); return err },
	} {
		if err := try(); !errors.Is(err, vm.Unavailable) {
			t.Errorf("without its monitor: %v", err)
		}
	}
}
