// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestEvidence: a command leaves its record with exit status, duration and digests of its
// output; a connection leaves one; a receipt is checked without the server, also after the
// VM was removed; a flipped byte and a cut tail are found.
//
// 001-09, 003-34, 003-44
func TestEvidence(t *testing.T) {
	t.Parallel()
	anchors := filepath.Join(t.TempDir(), "anchors.jsonl")
	h := newHost(t, "--audit-anchor", "file:"+anchors)
	h.ok("up", "--name", "box")
	id := h.find("box").ID
	if r := h.run("exec", "box", "--", "sh", "-c", "echo out; exit 3"); r.code != 3 {
		t.Fatalf("want status 3, got %s", r)
	}
	var list []vm.AuditRecord
	decode := func(text string, into any) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	h.eventually("the command's record has an outcome", func() bool {
		decode(h.ok("audit", "ls", "--json", "--vm", "box", "--verb", "exec"), &list)
		return len(list) == 1 && list[0].Outcome == "ok"
	})
	rec := list[0]
	for name, want := range map[string]any{"exitCode": 3.0, "user": "root", "stdoutSha256": sumOf("out\n"), "stderrSha256": sumOf("")} {
		if rec.Detail[name] != want {
			t.Errorf("%s in the record of the command is %v, want %v", name, rec.Detail[name], want)
		}
	}
	if ms, ok := rec.Detail["durationMs"].(float64); !ok || ms <= 0 {
		t.Errorf("the duration of the command is %v, want some", rec.Detail["durationMs"])
	}
	if rec.Network == "" || rec.Request == "" || rec.Actor.Key == "" {
		t.Errorf("the record of the command is %+v, want the digest of the policy, the request and the key", rec)
	}

	h.run("exec", "box", "--", "sh", "-c", "getent hosts example.com; true")
	h.eventually("the refused lookup has a record", func() bool {
		decode(h.ok("audit", "ls", "--json", "--vm", "box", "--verb", "connection"), &list)
		return len(list) > 0 && list[0].Outcome == "denied" && list[0].Actor.VM == vm.ID(id)
	})
	out := filepath.Join(t.TempDir(), "out")
	h.sh("box", "echo result > /work/result")
	h.ok("cp", "box:/work/result", out)
	h.ok("rm", "box")

	dir := t.TempDir()
	receipt := filepath.Join(dir, "box.json")
	h.ok("receipt", id, "-o", receipt)
	var report vm.AuditReport
	decode(h.ok("audit", "verify", "--json", "--anchors", anchors), &report)
	if !report.OK || report.Anchors == 0 || report.Signed == 0 {
		t.Errorf("the log verifies as %+v, want ok with anchors", report)
	}
	away := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), h.binary, args...)
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir}
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	if text, err := away("receipt", "verify", "box.json", "--key", report.Key); err != nil || !strings.Contains(text, sumOf("result\n")) {
		t.Errorf("the receipt verifies away from the server as %s (%v), want the digest of what was copied out", text, err)
	}
	flipAt(t, receipt, 2000)
	if text, err := away("receipt", "verify", "box.json"); err == nil {
		t.Errorf("the receipt with a flipped byte verifies: %s", text)
	}

	h.stopServer()
	copied := filepath.Join(dir, "audit")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(h.data, "audit"))); err != nil {
		t.Fatal(err)
	}
	if text, err := away("audit", "verify", "--dir", "audit", "--key", report.Key); err != nil {
		t.Errorf("a copy of the log verifies as %s (%v), want whole", text, err)
	}
	log := filepath.Join(copied, "000000.jsonl")
	whole, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	flipAt(t, log, len(whole)/2)
	if text, err := away("audit", "verify", "--dir", "audit"); err == nil || !strings.Contains(text, "was changed") {
		t.Errorf("the log with a flipped byte verifies as %s, want a changed record", text)
	}
	// The tail is cut with its signatures: only what is outside shows it.
	lines := strings.SplitAfter(string(whole), "\n")
	if err := os.WriteFile(log, []byte(strings.Join(lines[:3], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, "anchors.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := away("audit", "verify", "--dir", "audit", "--anchors", anchors); err == nil || !strings.Contains(text, "the tail is cut") {
		t.Errorf("the log with a cut tail verifies as %s, want a cut tail", text)
	}
	h.serve("--audit-anchor", "file:"+anchors) // its own log is whole
}

// flipAt flips one bit of a file.
func flipAt(t *testing.T, name string, at int) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 1
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// sumOf is the SHA-256 of a text, in hex.
func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
