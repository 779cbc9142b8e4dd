// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"net"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// wakeByLink has the agent do a reset before any session, as the monitor of a restored
// machine does, and connects again.
func (r *rig) wakeByLink(reset vm.Reset) (vm.AgentHello, vm.ResetReport) {
	r.t.Helper()
	_ = r.session.Close() // both would share one socket
	c, err := net.FileConn(r.host)
	if err != nil {
		r.t.Fatal(err)
	}
	w := link.NewWaking(func() []byte { return link.EncodeReset(reset) })
	if err := link.Wake(r.t.Context(), c, w, 10*time.Second, r.cfg.Key); err != nil {
		r.t.Fatal(err)
	}
	hello, report, err := guest.ReadWake(w.Answer())
	if err != nil {
		r.t.Fatal(err)
	}
	c.Close()
	r.connect()
	return hello, report
}

// A restored guest does every reset and resumes its programs before a session exists.
func TestWakeByLink(t *testing.T) {
	r, g := freezeRig(t, "a.slice")
	r.stop()
	r.cfg.EtcDir = t.TempDir()
	r.start()
	r.mustFreeze(false)
	reset := testReset()
	hello, report := r.wakeByLink(reset)
	if hello.BootID != reset.BootID {
		t.Errorf("boot id %q", hello.BootID)
	}
	if hello.Version != "test" {
		t.Errorf("version %q", hello.Version)
	}
	for _, name := range vm.Resets {
		if report[name] != "ok" {
			t.Errorf("the reset of %s reports %q, want ok", name, report[name])
		}
	}
	if got := g.frozen(); got != "" {
		t.Errorf("frozen: %s", got)
	}
}

// If a reset fails, the guest's programs stay frozen; the host destroys it.
func TestWakeByLinkFails(t *testing.T) {
	r, g := freezeRig(t, "a.slice")
	r.mustFreeze(false)
	reset := testReset()
	reset.MachineID = "not one"
	if _, report := r.wakeByLink(reset); report[vm.ResetMachineID] == "ok" {
		t.Error("it says that its machine id is reset")
	}
	if got := g.frozen(); got != "a.slice" {
		t.Errorf("frozen: %s", got)
	}
}

// The host wakes the guest with the key of the last reset, with which no session was
// opened yet; the next session opens with it.
func TestWakeByLinkKeepsKey(t *testing.T) {
	r := etcRig(t, nil)
	reset := testReset()
	if _, err := r.Reset(within(t, 10*time.Second), reset); err != nil {
		t.Fatal(err)
	}
	r.cfg.Key = reset.LinkKey
	reset.LinkKey = append([]byte{1}, reset.LinkKey[1:]...)
	r.wakeByLink(reset) // connects with the key it was woken with
	if got := r.sh("echo on"); got.stdout != "on\n" {
		t.Errorf("a command over the link after the wake ended with %+v, want on", got)
	}
}
