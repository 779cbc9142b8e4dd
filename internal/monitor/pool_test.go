// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/internal/qemu"
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

// TestAdopt: a paused machine continues as another VM, and a monitor that
// takes it over afterwards knows the new key and network.
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
	capturedKey(ctx, t, c, spec, a.Reset.LinkKey)
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
	capturedKey(ctx, t, again, spec, a.Reset.LinkKey)
}

// capturedKey captures the machine and wants the key of its agent in what is
// written down, for whoever starts on it.
func capturedKey(ctx context.Context, t *testing.T, c *Client, spec vm.MachineSpec, want []byte) {
	t.Helper()
	dir := t.TempDir()
	over := layout.VMDir(spec.Dir).NextOverlay(vm.NewGenerationID())
	if err := os.WriteFile(over, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := c.Capture(ctx, vm.CaptureSpec{Overlay: over, Note: filepath.Join(dir, "captured.json")})
	if err != nil {
		t.Fatal(err)
	}
	var note vm.Captured
	if err := layout.ReadJSON(filepath.Join(dir, "captured.json"), &note); err != nil {
		t.Fatal(err)
	}
	for where, got := range map[string]vm.Manifest{"answer": out.Machine, "note": note.Machine} {
		if !bytes.Equal(got.GuestKey, want) || !got.TrueKey {
			t.Errorf("the capture's %s has key %q (true: %v), the agent holds %q", where, got.GuestKey, got.TrueKey, want)
		}
	}
}

// TestCapturedKey: what a machine is captured with is the key that its agent
// holds, also where it was started on a generation, and after its monitor's death.
func TestCapturedKey(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well")
	_, c := launch(ctx, t, spec)
	capturedKey(ctx, t, c, spec, spec.Reset.LinkKey)
}

// TestOtherKeys: an agent that holds another key than the manifest's is found by
// the others that it may hold.
func TestOtherKeys(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well")
	spec.Generation = &vm.GenerationSource{RAM: "/dev/null", Device: "/dev/null", Fresh: true}
	held := spec.GuestKey // of a fake that comes out of a generation
	spec.GuestKey, spec.OtherKeys = []byte(strings.Repeat("w", link.KeySize)), [][]byte{[]byte(strings.Repeat("x", link.KeySize)), held}
	_, c := launch(ctx, t, spec)
	if _, err := c.Guest().Hello(ctx); err != nil {
		t.Error(err)
	}
}

// TestOlderMonitor: a monitor that speaks an older protocol is replaced, and its
// machine keeps running: it may write down stale keys.
func TestOlderMonitor(t *testing.T) {
	ctx := deadline(t)
	spec, l, c := pooled(ctx, t, "well")
	if _, err := c.Adopt(ctx, adoption()); err != nil {
		t.Fatal(err)
	}
	before, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	id, err := loadIdentity(spec.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	// Protocol 4 had the stale copy.
	if Protocol <= 4 || id.Protocol != Protocol {
		t.Errorf("protocol %d, noted as %d", Protocol, id.Protocol)
	}
	if err := l.retire(ctx, id); err != nil {
		t.Fatal(err)
	}
	old := beOlder(t, spec, before)
	c2, st, err := l.Attach(ctx, spec.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	defer c2.Close()
	if st.QEMUPID != before.QEMUPID || st.Protocol != Protocol || !old() {
		t.Errorf("%+v after %+v; want another monitor on the same QEMU", st, before)
	}
	capturedKey(ctx, t, c2, spec, adoption().Reset.LinkKey)
}

// beOlder is a monitor of before: a process that answers on the socket with the
// older protocol. The result says whether it was ended.
func beOlder(t *testing.T, spec vm.MachineSpec, st vm.MachineStatus) (ended func() bool) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is ended by a signal
		close(gone)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended already
		<-gone
	})
	self, err := qemu.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	id := identity{Ident: self, Spec: layout.VMDir(spec.Dir).Machine(), Protocol: 4, Ready: true}
	if err := id.save(spec.RunDir); err != nil {
		t.Fatal(err)
	}
	path := layout.RunVM(spec.RunDir).Monitor()
	_ = os.Remove(path) // its owner has removed it
	sock, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	st.Protocol, st.MonitorPID = 4, cmd.Process.Pid
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSONBody(w, st) })}
	sock.(*net.UnixListener).SetUnlinkOnClose(false)
	go func() { _ = srv.Serve(sock) }() // until Close
	t.Cleanup(func() { srv.Close() })
	return func() bool { return closed(gone) }
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
