//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestMovedDataDirectory: nothing on disk names its own place. What was
// suspended continues, and is forked and rolled back, where it was moved to.
func TestMovedDataDirectory(t *testing.T) {
	t.Parallel()
	h := crashHost(t, 0)
	h.ok("up", "--name", "app")
	h.count("app")
	h.sh("app", "echo early > /root/f")
	h.ok("snapshot", "create", "app", "--name", "early")
	h.sh("app", "echo late > /root/f")
	h.ok("fork", "app", "--name", "kid")
	h.ok("suspend", "app")
	h.ok("suspend", "kid-1")
	h.stopServer()
	elsewhere := h.data + "-moved"
	if err := os.Rename(h.data, elsewhere); err != nil {
		t.Fatal(err)
	}
	h.data = elsewhere
	h.serve()
	h.ok("resume", "app")
	h.goesOn("resumed", "app")
	h.ok("resume", "kid-1")
	h.goesOn("the fork, resumed", "kid-1")
	h.ok("rm", "kid-1")
	h.ok("fork", "app", "--name", "new")
	h.goesOn("forked", "new-1")
	if got := h.sh("new-1", "cat /root/f"); got != "late" {
		t.Errorf("the fork's file: %q", got)
	}
	h.ok("rm", "new-1")
	h.ok("rollback", "app", "early")
	h.goesOn("rolled back", "app")
	if got := h.sh("app", "cat /root/f"); got != "early" {
		t.Errorf("after the rollback: %q", got)
	}
}

// TestArguments: what would break the memory of generations is never given to
// QEMU: nothing may take pages from a guest or share them, and the machine type
// has a version.
func TestArguments(t *testing.T) {
	t.Parallel()
	h := crashHost(t, 0)
	h.ok("up", "--name", "app")
	h.ok("fork", "app", "--name", "kid") // one that was booted or restored, and one of a generation
	for _, name := range []string{"app", "kid-1"} {
		pid := h.pidOf(h.find(name).ID, "qemu")
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		argv := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
		checkArguments(t, name, argv)
	}
}

func checkArguments(t *testing.T, name string, argv []string) {
	t.Helper()
	all := strings.Join(argv, " ")
	for _, bad := range []string{"balloon", "free-page-reporting", "free-page-hint", "virtio-mem", "virtio-pmem", `"share":true`, "share=on", `"merge":true`} {
		if strings.Contains(all, bad) {
			t.Errorf("%s: QEMU was given %s: %s", name, bad, all)
		}
	}
	if !strings.Contains(all, `"share":false`) {
		t.Errorf("%s: its memory may be shared: %s", name, all)
	}
	for i, a := range argv {
		if a != "-M" && a != "-machine" {
			continue
		}
		kind, _, _ := strings.Cut(argv[i+1], ",")
		version, q35 := strings.CutPrefix(kind, "pc-q35-")
		before, after, dotted := strings.Cut(version, ".")
		major, err1 := strconv.Atoi(before)
		minor, err2 := strconv.Atoi(after)
		if !q35 || !dotted || err1 != nil || err2 != nil || major < 7 || major == 7 && minor < 2 {
			t.Errorf("%s: the machine type is %q", name, kind)
		}
		return
	}
	t.Errorf("%s: no machine type: %s", name, all)
}
