//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// TestPowerCut: the power fails when a fork and a suspend have been answered.
// What has reached the block device of a real ext4 has every disk, with what
// the guests had synced, and the memory that the suspend has promised.
func TestPowerCut(t *testing.T) {
	needRoot(t)
	// The image is a file of another file system, which is frozen for the copy: all
	// of the copy is of one moment, as after a power cut.
	around := mountLoop(t, ext4(t, t.TempDir(), "10G"))
	image := ext4(t, around, "8G")
	h := unstartedIn(t, mountLoop(t, image))
	h.serve()
	end := sync.OnceFunc(h.close)
	t.Cleanup(end)
	h.ok("up", "--name", "app")
	h.ok("up", "--name", "asleep", "--persist", "persistent")
	h.sh("app", "echo before >/root/file && sync")
	h.count("asleep")
	since := h.sh("asleep", "cut -d' ' -f22 /proc/$(pgrep -of /run/count)/stat")
	h.ok("suspend", "asleep")
	h.ok("fork", "app", "--name", "child")

	cut := filepath.Join(t.TempDir(), "cut")
	shell(t, "fsfreeze -f "+around+"; cp --sparse=always "+image+" "+cut+"; status=$?; fsfreeze -u "+around+"; exit $status")
	end() // each server would take the other one's machines, which have the same ids, for its own
	after := &host{t: t, binary: nextBoot(t, h.binary), listen: vmtest.FreePort(t), gates: []string{"--ssh", vmtest.FreePort(t), "--preview", vmtest.FreePort(t), "--s3", vmtest.FreePort(t)}, data: filepath.Join(mountLoop(t, cut), filepath.Base(h.data))}
	after.serve()
	t.Cleanup(after.close)
	for _, name := range []string{"app", "child-1"} {
		if v := after.find(name); v.State != string(vm.Stopped) {
			t.Errorf("%s is %s", name, v.State)
		}
		after.ok("start", name)
		if got := after.sh(name, "cat /root/file"); got != "before" {
			t.Errorf("what %s had synced: %q", name, got)
		}
	}
	after.ok("start", "asleep")
	if got := after.sh("asleep", "cut -d' ' -f22 /proc/$(pgrep -of /run/count)/stat"); got != since || got == "" {
		t.Errorf("the program of the VM that slept began at %q, before the cut at %q", got, since)
	}
}

// ext4 makes a file system in a sparse file of a directory.
func ext4(t *testing.T, dir, size string) (image string) {
	t.Helper()
	image = filepath.Join(dir, "image")
	shell(t, "truncate -s "+size+" "+image+" && mkfs.ext4 -q -F -m 0 "+image)
	return image
}

func shell(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("the script %q failed: %v: %s", script, err, out)
	}
}

// mountLoop mounts the file system in a file until the test ends.
func mountLoop(t *testing.T, image string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// nextBoot returns a program that is the binary on a host that has booted
// again: its boot id is another one.
func nextBoot(t *testing.T, binary string) string {
	t.Helper()
	dir := t.TempDir()
	id, path := filepath.Join(dir, "boot_id"), filepath.Join(dir, "warren")
	script := fmt.Sprintf("#!/bin/sh\nexec unshare --mount sh -c 'mount --bind %s /proc/sys/kernel/random/boot_id && exec \"$0\" \"$@\"' %s \"$@\"\n", id, binary)
	if err := os.WriteFile(id, []byte(vm.NewUUID()+"\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHungMachine: QEMU, then the monitor, of a VM are paused. What would have
// to write the VM down is refused within seconds, with what to do; other VMs are
// served meanwhile; and when the process keeps running, so does the VM, with all
// that it had.
func TestHungMachine(t *testing.T) {
	needRoot(t)
	h := newHost(t)
	h.ok("up", "--name", "box")
	h.ok("up", "--name", "other")
	h.count("box")
	for _, what := range []string{"qemu", "monitor"} {
		pid := h.livePid(h.find("box").ID, what)
		if pid == 0 {
			t.Fatalf("no %s", what)
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"suspend", "fork"} {
			r := h.run(verb, "box")
			if r.code == 0 || !strings.Contains(r.stderr, "does not answer") || !strings.Contains(r.stderr, "warren kill") {
				t.Errorf("%s while its %s hangs: %d, %s", verb, what, r.code, r.stderr)
			}
			t.Logf("%s while its %s hangs took %s: %s", verb, what, r.took, r.stderr)
		}
		h.sh("other", "true")
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		h.ok("fork", "box", "--name", "fork-after-"+what)
		h.goesOn("after its "+what+" hung", "box")
	}
}
