//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// mountReflink is mountImage for a file system that shares blocks between files;
// where there is none the test is skipped.
func mountReflink(t *testing.T, kind string, mkfs ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("mounting a %s image needs root", kind)
	}
	if _, err := exec.LookPath(mkfs[0]); err != nil {
		t.Skipf("no %s here: deploy/install-deps.sh --tests installs it", mkfs[0])
	}
	dir, err := mountImage(t, 8<<30, mkfs...)
	if err != nil {
		t.Skipf("this host does not mount %s images: %v", kind, err)
	}
	return dir
}

// TestWorldsReflink keeps the data on file systems where a copy shares the
// blocks of what it was made of: the same forks, with captures made the other way.
func TestWorldsReflink(t *testing.T) {
	for _, fs := range []struct {
		kind string
		mkfs []string
	}{
		{"xfs", []string{"mkfs.xfs", "-q", "-m", "reflink=1"}},
	} {
		t.Run(fs.kind, func(t *testing.T) {
			h := unstartedIn(t, mountReflink(t, fs.kind, fs.mkfs...))
			h.ownImages()
			h.serve()
			t.Cleanup(h.close)
			h.ok("up", "--name", "app")
			h.install("app", "writer.py", "counter.py")
			h.start("app", "writer.py", "test -s /run/committed")
			h.start("app", "counter.py", "curl -sf localhost:3000")
			parent := "app"
			for _, level := range []string{"one", "two"} {
				h.sh(parent, "echo "+level+" >> /dev/shm/path")
				requests := h.number(parent, "curl -s localhost:3000")
				committed := h.number(parent, "cat /run/committed")
				begin := time.Now()
				out := h.fork(parent, 1, level)
				t.Logf("%s: fork in %v, the parent stood still for %.1f ms", level, time.Since(begin), out.PauseMs)
				parent = level + "-1"
				if got := h.number(parent, "curl -s localhost:3000"); got != requests+1 {
					t.Errorf("%s: its server has counted %d requests, %d were made before", parent, got, requests)
				}
				h.wantDatabase(parent, committed)
			}
			h.ok("suspend", parent)
			h.ok("resume", parent)
			if got := h.sh(parent, "cat /dev/shm/path"); got != "one\ntwo" {
				t.Errorf("two deep, after a suspend: %q", got)
			}
			h.wantDatabase(parent, 1)
			if got := h.sh("app", "cat /dev/shm/path"); got != "one" {
				t.Errorf("the first of them: %q", got)
			}
		})
	}
}

// ownImages copies the tests' images into the data directory, in place of a
// link to them: on one file system with what is captured.
func (h *host) ownImages() {
	h.t.Helper()
	own := filepath.Join(h.data, "images")
	linked, err := os.Readlink(own)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.Remove(own); err != nil {
		h.t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-r", "--sparse=always", linked, own).CombinedOutput(); err != nil {
		h.t.Fatalf("copy the linked data directory: %v: %s", err, out)
	}
}
