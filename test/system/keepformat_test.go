//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/vmtest"
)

// oldest makes the host's data directory a copy of one that the first Warren
// left, which had accounts, keys, an audit chain, events and VMs of this
// format: a VM "first", stopped (its disk was emptied for the copy, its image
// left out), and an account "other".
func (h *host) oldest() {
	h.t.Helper()
	if err := os.RemoveAll(h.data); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Mkdir(h.data, 0o700); err != nil {
		h.t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-xzf", "testdata/format1.tar.gz", "--no-same-owner", "-C", h.data).CombinedOutput(); err != nil {
		h.t.Fatalf("tar: %v: %s", err, out)
	}
}

// tree is what a directory holds, as one line a file.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %x\n", path, sha256.Sum256(data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestKeepFirstFormat: this program opens what the first one wrote, records,
// chain, keys and VMs, and continues writing it.
func TestKeepFirstFormat(t *testing.T) {
	t.Parallel()
	h := unstarted(t)
	h.oldest()
	h.serve()
	t.Cleanup(h.close)
	if v := h.find("first"); v.State != "stopped" || v.ID != "e4w2y3n4kj0a5dhlzhvi" {
		t.Errorf("the VM of then: %+v", v)
	}
	if out := h.ok("inspect", "first"); !strings.Contains(out, "sticky") {
		t.Errorf("inspect: %s", out)
	}
	if out := h.ok("account", "ls"); !strings.Contains(out, "other") {
		t.Errorf("accounts: %s", out)
	}
	h.ok("on-boot", "first", "resume")
	if out := h.ok("audit", "verify"); !strings.Contains(out, "the chain is intact") {
		t.Errorf("audit: %s", out)
	}
	if out := h.ok("audit", "ls"); !strings.Contains(out, "account-create") || !strings.Contains(out, "on-boot") {
		t.Errorf("the records of then and of now: %s", out)
	}
	// Its image is not here: it says so, and the VM stays what it was.
	if r := h.run("start", "first"); r.code == 0 || !strings.Contains(r.stderr, "image") || h.find("first").State != "stopped" {
		t.Errorf("a start without its image: %d %s", r.code, r.stderr)
	}
	h.killServer()
	h.serve()
	if v := h.find("first"); v.State != "stopped" {
		t.Errorf("after another start: %+v", v)
	}
}

// TestKeepNewerFormat: a directory of a format to come is refused as such, by
// every command that opens one, and not a byte of it is touched.
func TestKeepNewerFormat(t *testing.T) {
	t.Parallel()
	h := unstarted(t)
	h.oldest()
	if err := os.WriteFile(filepath.Join(h.data, "format"), []byte("2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, h.data)
	for _, args := range [][]string{
		h.serveArgs(),
		{"image", "ls"},
		{"config", "show"},
	} {
		r := h.run(args...)
		if r.code != 9 || !strings.Contains(r.stderr, "format 2, this warren knows 1") || !strings.Contains(r.stderr, "hint: ") {
			t.Errorf("%v of a newer format: want status 9, both formats and a hint, got %d %s", args, r.code, r.stderr)
		}
	}
	if after := tree(t, h.data); after != before {
		t.Errorf("it was touched:\n%s\nwas\n%s", after, before)
	}
}

// TestKeepOneServer: a second server of a data directory is refused, also on a
// port of its own, and the first continues.
func TestKeepOneServer(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r := h.run(h.serveArgs("--listen", vmtest.FreePort(t), "--ssh", vmtest.FreePort(t), "--preview", vmtest.FreePort(t), "--s3", vmtest.FreePort(t))...)
	if r.code != 5 && r.code != 6 && r.code != 7 || !strings.Contains(r.stderr, h.data) || !strings.Contains(r.stderr, "hint: ") {
		t.Errorf("a second server: %d %s", r.code, r.stderr)
	}
	h.ok("ls")
	h.ok("account", "create", "still")
}
