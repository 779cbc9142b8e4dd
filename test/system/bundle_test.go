//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBundle: a VM is packed on one server with its machine, the repository that it uses
// and the object that it published, and opened on another. There it continues its program
// with its files, may use the repository, and an S3 client reads the object and the
// receipts. The bundle says what it contains.
//
// 001-23
func TestBundle(t *testing.T) {
	a, b := newHost(t), newHost(t)
	commit := a.pushed("code")
	a.ok("up", "--name", "box")
	a.sh("box", "echo kept > /root/kept")
	a.count("box")
	a.ok("repo", "grant", "code", "--vm", "box", "--write")
	a.ok("bucket", "create", "reports")
	a.ok("publish", "box:/root/kept", "s3://reports/2026/kept.txt")
	path := filepath.Join(t.TempDir(), "box.tar.zst")
	a.ok("bundle", "create", "box", "--machine", "-o", path)
	if got := a.find("box").State; got != "running" {
		t.Errorf("the VM is %s after it was packed", got)
	}
	var info struct {
		Memory   bool
		Receipts int
		Objects  []struct{ Bucket, Key string }
		Entries  []struct{ Path, SHA256 string }
	}
	if err := json.Unmarshal([]byte(b.ok("bundle", "inspect", path, "--json")), &info); err != nil {
		t.Fatal(err)
	}
	if !info.Memory || info.Receipts == 0 || len(info.Objects) != 1 || info.Objects[0].Key != "2026/kept.txt" || len(info.Entries) < 6 {
		t.Errorf("the bundle is described as %+v", info)
	}
	if r := b.run("bundle", "open", path); r.code != exitDenied || !strings.Contains(r.stderr, "--trust") {
		t.Errorf("a bundle of an unknown server is opened: %v", r)
	}
	signer := strings.TrimSpace(a.ok("bundle", "signer"))
	if out := b.ok("bundle", "open", path, "--trust", signer); !strings.Contains(out, "bucket bundle-box: 1 object,") {
		t.Errorf("bundle open does not say where the object is: %s", out)
	}
	c := b.client(t)
	if got := c.gets("bundle-box", "reports/2026/kept.txt", ""); got != "kept\n" {
		t.Errorf("an S3 client reads %q from the object that was published", got)
	}
	if got := c.gets("bundle-box", "receipts.json", ""); !strings.Contains(got, `"publish"`) {
		t.Errorf("the receipts do not tell of the publish: %s", got)
	}
	if got := b.ok("audit", "ls"); strings.Contains(got, "publish") {
		t.Errorf("the audit chain tells of the publish on the other server: %s", got)
	}
	if got := b.find("box").State; got != "suspended" {
		t.Errorf("the opened VM is %s, want suspended", got)
	}
	b.goesOn("the opened VM", "box")
	if got := b.sh("box", "cat /root/kept"); got != "kept" {
		t.Errorf("the opened VM has the file %q", got)
	}
	if log := b.ok("repo", "log", "code"); !strings.Contains(log, commit[:12]) {
		t.Errorf("the repository's log lacks the commit:\n%s", log)
	}
	b.sh("box", "git clone -q https://git.warren.internal/code /root/code && cat /root/code/kept.txt")

	b.ok("bundle", "open", path, "--trust", signer, "--name", "again")
	if b.find("again").ID == b.find("box").ID {
		t.Error("two VMs have one id")
	}
	b.bundleRefused(path, signer)
}

// bundleRefused: a bundle with a flipped bit, or without its end, makes nothing.
func (h *host) bundleRefused(path, signer string) {
	h.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	before := h.ok("ls", "-q") + h.ok("repo", "ls", "-q") + h.ok("bucket", "ls", "--json")
	flipped := slices.Clone(data)
	flipped[len(data)/3] ^= 0x40
	for what, data := range map[string][]byte{"a flipped bit": flipped, "the end cut off": data[:len(data)-1000]} {
		bad := filepath.Join(h.t.TempDir(), "bad.tar.zst")
		if err := os.WriteFile(bad, data, 0o600); err != nil {
			h.t.Fatal(err)
		}
		if r := h.run("bundle", "open", bad, "--trust", signer); r.code != exitCorrupt {
			h.t.Errorf("a bundle with %s is opened, or refused in another way: %v", what, r)
		}
	}
	if after := h.ok("ls", "-q") + h.ok("repo", "ls", "-q") + h.ok("bucket", "ls", "--json"); after != before {
		h.t.Errorf("refused bundles left\n%s\nbefore there was\n%s", after, before)
	}
	if left, err := filepath.Glob(filepath.Join(h.data, "generations", ".tmp-*")); err != nil || len(left) > 0 {
		h.t.Errorf("refused bundles left %v, %v", left, err)
	}
}

// TestBundleImage: a bundle with the image opens on a server that has no image at all, for
// an admin only, and the VM continues its program there.
//
// 001-23
func TestBundleImage(t *testing.T) {
	a, b := newHost(t), newS3Host(t).host
	a.ok("up", "--name", "box")
	a.count("box")
	with, without := filepath.Join(t.TempDir(), "with.tar.zst"), filepath.Join(t.TempDir(), "without.tar.zst")
	a.ok("bundle", "create", "box", "--machine", "-o", without)
	a.ok("bundle", "create", "box", "--machine", "--image", "-o", with)
	signer := strings.TrimSpace(a.ok("bundle", "signer"))
	if r := b.run("bundle", "open", without, "--trust", signer); r.code == 0 || !strings.Contains(r.stderr, "--image") {
		t.Errorf("a bundle without its image, on a server without it: %v", r)
	}
	out := b.ok("account", "create", "guest", "--json")
	var account struct{ Secret string }
	if err := json.Unmarshal([]byte(out), &account); err != nil || account.Secret == "" {
		t.Fatalf("account create says %s", out)
	}
	open := exec.Command(b.binary, "bundle", "open", with, "--trust", signer)
	open.Env = append(os.Environ(), "WARREN_API_URL=http://"+b.listen, "WARREN_API_KEY="+account.Secret)
	if said, err := open.CombinedOutput(); err == nil || !strings.Contains(string(said), "only an admin may add an image") {
		t.Errorf("another account adds an image: %v\n%s", err, said)
	}
	if got := b.ok("bucket", "ls", "--json") + b.ok("ls", "-q"); strings.TrimSpace(got) != "[]" {
		t.Errorf("refused bundles left %s", got)
	}
	b.ok("bundle", "open", with, "--trust", signer)
	b.goesOn("the VM with its own image", "box")
}

// TestBaseline: a snapshot and a stored artifact give back a known baseline, its program
// where it was and its inputs to the byte, in less time than the VM takes to boot.
//
// 001-47
func TestBaseline(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "made")
	h.count("made")
	h.sh("made", "mkdir -p /work; head -c 8M /dev/urandom > /work/model; echo tools > /root/tools")
	sum := h.sh("made", "sha256sum < /work/model")
	h.ok("bucket", "create", "baseline")
	h.ok("publish", "made:/work/model", "s3://baseline/model")
	h.sh("made", "rm /work/model")
	h.ok("snapshot", "create", "made", "--name", "baseline")
	counted := h.sh("made", "tail -n 1 /run/count")
	h.ok("rm", "-q", "made")

	start := time.Now()
	h.ok("up", "baseline", "--name", "again")
	h.ok("fetch", "s3://baseline/model", "again:/work/")
	restored := time.Since(start)
	if got := h.sh("again", "sha256sum < /work/model; cat /root/tools"); got != sum+"\ntools" {
		t.Errorf("the baseline has other inputs: %q, want %q and tools", got, sum)
	}
	h.goesOn("the baseline", "again")
	if got := h.sh("again", "grep -cx '"+counted+"' /run/count"); got != "1" {
		t.Errorf("the program of the baseline began anew: the number %s, to which it had counted, is there %s times", counted, got)
	}
	h.ok("stop", "again")
	start = time.Now()
	h.ok("start", "again")
	booted := time.Since(start)
	t.Logf("restored in %v, booted in %v", restored, booted)
	if restored > booted {
		t.Errorf("the baseline took %v, longer than a boot of the VM: %v", restored, booted)
	}
}
