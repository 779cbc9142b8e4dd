// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/agent"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

func testReset() vm.Reset {
	return vm.Reset{
		Time: time.Unix(1_800_000_000, 5), Entropy: bytes.Repeat([]byte{9}, 64), Hostname: "box",
		MachineID: "0123456789abcdef0123456789abcdef", BootID: "01234567-89ab-4def-8123-456789abcdef",
		LinkKey:  bytes.Repeat([]byte{8}, link.KeySize),
		HostKeys: map[string]string{"ssh_host_ed25519_key": "secret\n", "ssh_host_ed25519_key.pub": "public\n"},
	}
}

// etcRig is a rig with an /etc of its own.
func etcRig(t *testing.T, files map[string]string) *rig {
	r := newRig(t)
	r.stop()
	r.cfg.EtcDir = t.TempDir()
	if err := os.Mkdir(r.cfg.EtcDir+"/ssh", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(r.cfg.EtcDir+"/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	return r
}

// Every reset is done, acknowledged by name, and visible where programs look.
func TestReset(t *testing.T) {
	r := etcRig(t, map[string]string{"ssh/sshd_config": "", "hosts": "127.0.0.1 localhost\n127.0.1.1 old old.alias\n::1 localhost\n", "hostname": "old\n"})
	reset := testReset()
	hello, report, err := r.Wake(within(t, 10*time.Second), reset)
	if err != nil {
		t.Fatal(err)
	}
	if hello.Version != "test" || hello.Digest != "d1" || hello.Protocol != agent.Protocol || hello.Kernel == "" || hello.BootID == "" {
		t.Errorf("hello: %+v", hello)
	}
	for _, name := range vm.Resets {
		if report[name] != "ok" {
			t.Errorf("the reset of %s reports %q, want ok", name, report[name])
		}
	}
	if len(report) != len(vm.Resets) {
		t.Errorf("report: %v", slices.Sorted(maps.Keys(report)))
	}
	if !r.sys.clock.Equal(reset.Time) || !bytes.Equal(r.sys.entropy, reset.Entropy) || r.sys.hostname != "box" || r.sys.bootID != reset.BootID {
		t.Errorf("the kernel got %+v", r.sys)
	}
	for name, want := range map[string]string{
		"hostname": "box\n", "machine-id": reset.MachineID + "\n", "hosts": "127.0.0.1 localhost\n127.0.1.1\tbox\n::1 localhost\n",
		"ssh/ssh_host_ed25519_key": "secret\n", "ssh/ssh_host_ed25519_key.pub": "public\n",
	} {
		if b, err := os.ReadFile(r.cfg.EtcDir + "/" + name); err != nil || string(b) != want {
			t.Errorf("%s holds %q (%v), want %q", name, b, err, want)
		}
	}
	if st, err := os.Stat(r.cfg.EtcDir + "/ssh/ssh_host_ed25519_key"); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("host key: %v, %v", st, err)
	}
	if st, err := os.Stat(r.cfg.RunDir + "/agent.key"); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("link key: %v, %v", st, err)
	}
	second := reset
	second.Hostname = "box2"
	if report, err := r.Reset(within(t, 10*time.Second), second); err != nil || report[vm.ResetHostname] != "ok" {
		t.Errorf("a second reset: %v, %v", report, err)
	}
	if b, err := os.ReadFile(r.cfg.EtcDir + "/hosts"); err != nil || strings.Count(string(b), "127.0.1.1") != 1 {
		t.Errorf("hosts: %q, %v", b, err)
	}
}

// A failure is reported by name, even when other resets work.
func TestResetFailures(t *testing.T) {
	r := etcRig(t, nil)
	for name, change := range map[string]func(*vm.Reset){
		vm.ResetClock:     func(r *vm.Reset) { r.Time = time.Time{} },
		vm.ResetRNG:       func(r *vm.Reset) { r.Entropy = r.Entropy[:16] },
		vm.ResetHostname:  func(r *vm.Reset) { r.Hostname = "a\nb" },
		vm.ResetMachineID: func(r *vm.Reset) { r.MachineID = "../x" },
		vm.ResetBootID:    func(r *vm.Reset) { r.BootID = "x" },
		vm.ResetLinkKey:   func(r *vm.Reset) { r.LinkKey = nil },
	} {
		reset := testReset()
		change(&reset)
		report, err := r.Reset(within(t, 10*time.Second), reset)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range vm.Resets {
			if ok := report[x] == "ok"; ok == (x == name) {
				t.Errorf("%s broken: %s reports %q", name, x, report[x])
			}
		}
	}
	reset := testReset()
	reset.HostKeys = map[string]string{"ssh_host_../../x": "y"}
	if err := os.WriteFile(r.cfg.EtcDir+"/ssh/sshd_config", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if report, err := r.Reset(within(t, 10*time.Second), reset); err != nil || report[vm.ResetHostKeys] == "ok" {
		t.Errorf("a reset with a bad name of a key reports %v (%v), want no ok for the host keys", report, err)
	}
	r.sys.fail = errors.New("refused by the kernel")
	if report, err := r.Reset(within(t, 10*time.Second), testReset()); err != nil || report[vm.ResetClock] == "ok" || report[vm.ResetRNG] == "ok" || report[vm.ResetMachineID] != "ok" {
		t.Errorf("a reset that the kernel refuses reports %v (%v), want ok for the machine id but not for clock and RNG", report, err)
	}
}

// After a reset either key opens a session, until the new one has.
func TestRekey(t *testing.T) {
	r := etcRig(t, nil)
	reset := testReset()
	if _, err := r.Reset(within(t, 10*time.Second), reset); err != nil {
		t.Fatal(err)
	}
	r.connect() // with the old one
	if got := r.sh("echo old"); got.stdout != "old\n" {
		t.Errorf("a command over the old link ended with %+v, want old", got)
	}
	old := r.cfg.Key
	r.cfg.Key = reset.LinkKey
	r.connect()
	if got := r.sh("echo new"); got.stdout != "new\n" {
		t.Errorf("a command over the new link ended with %+v, want new", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	c, err := net.FileConn(r.host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if s, err := link.Host(ctx, c, nil, old); err == nil {
		_ = s.Close()
		t.Error("the old key still opens the link")
	}
	// An agent that restarts uses the saved key.
	r.stop()
	key := r.cfg.Key
	r.cfg.Key = nil
	a, err := agent.New(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	_ = a
	r.cfg.Key = key
	r.start()
}
