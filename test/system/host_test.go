//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/vmtest"
)

// The contract's scripts that belong to a later suite than the foundation, by
// the test that runs them.
var contractScripts = map[string]string{
	"worlds": "TestWorldContract",
	"specs":  "TestWorldContract",
	"pty":    "TestTerminalContract",

	"keeping":    "TestKeepContract",
	"identities": "TestTerminalContract",
	"domains":    "TestTerminalContract",
}

// TestContract drives the unmodified npm packages against a real server.
func TestContract(t *testing.T) { contract(t) }

// TestWorldContract: the same packages fork, suspend, snapshot and build specs.
func TestWorldContract(t *testing.T) { contract(t) }

// TestTerminalContract: the same packages over the terminals' WebSocket.
func TestTerminalContract(t *testing.T) { contract(t) }

// TestKeepContract: the older package says how VMs are kept.
func TestKeepContract(t *testing.T) { contract(t) }

// npmInstall installs the npm packages that the contract is tested with.
func npmInstall(t testing.TB, dir string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "node_modules/freestyle-v5")); err == nil {
		return
	}
	install := exec.Command("npm", "ci", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
}

// contract runs the scripts that are the calling test's.
func contract(t *testing.T) {
	t.Helper()
	names := vmtest.FreePort(t)
	t.Setenv("WARREN_RESOLVER", names) // the script of domains answers there
	t.Setenv("WARREN_TEST_DNS", names)
	h := pooledHost(t)
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("../contract")
	if err != nil {
		t.Fatal(err)
	}
	npmInstall(t, dir)
	scripts, err := filepath.Glob(filepath.Join(dir, "*.test.mjs"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no contract scripts: %v", err)
	}
	ran := 0
	for _, script := range scripts {
		name := strings.TrimSuffix(filepath.Base(script), ".test.mjs")
		if owner := cmp.Or(contractScripts[name], "TestContract"); owner != t.Name() {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "node", "--experimental-websocket", "--test", "--test-concurrency=1", script)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "FREESTYLE_API_URL=http://"+h.listen, "FREESTYLE_API_KEY="+strings.TrimSpace(string(key)), "WARREN_REAL=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("the program against Warren fails: %v\n%s", err, out)
			}
		})
	}
	if ran == 0 {
		t.Fatal("no script is this test's")
	}
}

// TestPackages: a guest that is let through to its package registries installs
// what it turns out to need, and reaches nothing else. What was fetched stays:
// the next turn needs no network, nor does a machine that is made of it.
//
// 000-02, 000-21, 001-34, 002-05, 002-11, 002-20, 003-30
func TestPackages(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "net")
	if got := h.sh("net", registry); got != "refused" {
		t.Errorf("before it was approved the registry is %s", got)
	}
	h.ok("net", "set", "net", "packages") // the need is found during the task
	h.sh("net", "apt-get update -qq && apt-get install -y -qq --no-install-recommends jq >/dev/null 2>&1; jq --version")
	if got := h.sh("net", "echo '{\"a\":1}' | jq .a; ldd $(command -v jq) | grep -c 'libjq.*=> /'"); got != "1\n1" {
		t.Errorf("jq, by a library that came with it, says %q", got)
	}
	if r := h.run("exec", "net", "--", "curl", "-sS", "--max-time", "20", "http://example.com/"); r.code == 0 {
		t.Errorf("a host that is no registry was reached: %s", r.stdout)
	}
	// An input, a working tree, an artifact, and the cache of the package manager.
	h.sh("net", "cd /work && cp $(ls /var/lib/apt/lists/*Packages* | head -n 1) input && git init -q tree && echo dirty > tree/f && wc -c < input > tree/report && ls /var/cache/apt/archives/jq_*.deb")
	sum := h.sh("net", "cd /work && sha256sum input tree/f tree/report")
	worker := strings.TrimSpace(h.ok("exec", "-d", "net", "--", "sh", "-c", "echo '{\"n\":7}' | jq .n; sleep 1000"))
	h.eventually("its log shows its output", func() bool { return h.run("logs", "net", worker).stdout == "7\n" })
	h.ok("net", "set", "net", "closed")
	r := h.run("exec", "net", "--", "sh", "-c", "rm -rf /var/lib/apt/lists/*; apt-get update -qq; apt-get install -y -qq tree")
	if r.code == 0 || !strings.Contains(r.stderr, "the network refused") {
		t.Errorf("with the network closed again: %s", r)
	}
	h.ok("snapshot", "create", "net", "--name", "prepared")
	h.ok("down", "net")
	h.ok("start", "net")
	h.ok("up", "prepared", "--name", "twin")
	for _, name := range []string{"net", "twin"} {
		got := h.sh(name, "echo '{\"a\":2}' | jq .a; cd /work && sha256sum input tree/f tree/report")
		if want := "2\n" + sum; got != want {
			t.Errorf("%s, without a network: %q, want %q", name, got, want)
		}
	}
	const anew = "dpkg --purge jq >/dev/null && ! command -v jq && dpkg -i /var/cache/apt/archives/jq_*.deb >/dev/null && echo '{\"a\":3}' | jq .a"
	if got := h.sh("net", anew); got != "3" {
		t.Errorf("installed anew from the cache jq says %q", got)
	}
}

// TestSmallDisk: a file that does not fit is refused, nothing half-written stays.
func TestSmallDisk(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "small", "--disk", "1")
	big := filepath.Join(t.TempDir(), "big")
	f, err := os.Create(big)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(2 << 30); err != nil {
		t.Fatal(err)
	}
	f.Close()
	h.run("cp", big, "small:/work/big").wants(t, 8, "disk has")
	if got := h.sh("small", "ls -A /work"); got != "" {
		t.Errorf("left in /work: %s", got)
	}
	if got := h.sh("small", "echo fine"); got != "fine" {
		t.Errorf("after a copy that did not fit a command puts out %q, want fine", got)
	}
}

// TestFullDataDirectory: no disk for a VM is a typed refusal.
func TestFullDataDirectory(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	h := unstarted(t)
	if err := syscall.Mount("small", h.data, "tmpfs", 0, "size=300m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(h.data, syscall.MNT_DETACH) })
	images, err := filepath.Abs(env("WARREN_TEST_IMAGES", "../../.work/data/images"))
	if err != nil {
		t.Fatal(err)
	}
	h.shareImages(images)
	h.serve()
	t.Cleanup(h.close)
	h.run("up", "--name", "box").wants(t, 8, "disk")
	if n := len(h.list()); n != 0 {
		t.Errorf("%d VMs", n)
	}
}

// TestSilentGuest: a guest that stops answering gives a typed error, and rm
// needs no answer of it.
func TestSilentGuest(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	qemu := h.pidOf(h.find("box").ID, "qemu")
	if err := syscall.Kill(qemu, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r := h.run("exec", "box", "--timeout", "2", "--", "true")
	if r.code != 125 && r.code != 124 || r.took > 60*time.Second {
		t.Errorf("exec in a silent guest: %s after %s", r, r.took)
	}
	h.ok("rm", "box")
}

// TestRequireKVM: where the accelerator is emulation, serve refuses if told so.
func TestRequireKVM(t *testing.T) {
	h := unstarted(t)
	cmd := exec.Command(h.binary, h.serveArgs("--require-kvm")...)
	cmd.Env = h.environ()
	done := make(chan []byte, 1)
	go func() { out, _ := cmd.CombinedOutput(); done <- out }()
	select {
	case out := <-done:
		if cmd.ProcessState.ExitCode() != 9 || !strings.Contains(string(out), "kvm") {
			t.Errorf("status %d: %s", cmd.ProcessState.ExitCode(), out)
		}
	case <-time.After(30 * time.Second):
		// It serves: then the probe guest must have booted under KVM.
		if h.run("doctor", "--json").stdout == "" || !strings.Contains(h.ok("doctor"), "kvm") {
			t.Error("serve --require-kvm serves without KVM")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	}
}

// TestRefusals: what the server cannot do it says, with a status of the table.
func TestRefusals(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	second := exec.Command(h.binary, h.serveArgs()...)
	second.Env = h.environ()
	out, err := second.CombinedOutput()
	if err == nil {
		t.Errorf("two servers on one data directory:\n%s", out)
	}
	other := unstarted(t)
	taken := exec.Command(h.binary, append([]string{"serve", "--listen", h.listen}, other.gates...)...)
	taken.Env = other.environ()
	if out, err := taken.CombinedOutput(); err == nil || !strings.Contains(string(out), h.listen) {
		t.Errorf("a taken port: %v\n%s", err, out)
	}
	h.run("up", "--mem", "524288").wants(t, 8, "memory")
	noQEMU := exec.Command(h.binary, "doctor", "--json")
	noQEMU.Env = append(h.environ(), "PATH=/nonexistent")
	report, _ := noQEMU.Output()
	if !strings.Contains(string(report), "qemu") {
		t.Errorf("doctor without QEMU: %s", report)
	}
}

// TestAudit: each action leaves a record, and the chain holds.
//
// 001-09
func TestAudit(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	h.sh("box", "true")
	h.ok("rm", "box")
	var records []struct {
		Op      string `json:"op"`
		Outcome string `json:"outcome"`
	}
	if err := json.Unmarshal([]byte(h.ok("audit", "ls", "--json")), &records); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, r := range records {
		seen[r.Op] = r.Outcome
	}
	for _, op := range []string{"create", "exec", "delete"} {
		if seen[op] != "ok" {
			t.Errorf("%s: outcome %q", op, seen[op])
		}
	}
	h.ok("audit", "verify")
}
