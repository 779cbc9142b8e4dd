// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// files lays files, and a "" for a directory, below a directory.
func files(t *testing.T, root string, list map[string]string) {
	t.Helper()
	for name, text := range list {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // as the kernel's are
			t.Fatal(err)
		}
	}
}

// groups is a hierarchy as the kernel shows it to a service: with the files of
// the groups that Divide and Enter will find once they have made them.
func groups(t *testing.T, offered string) (h Hierarchy, own string) {
	t.Helper()
	root := t.TempDir()
	own = filepath.Join(root, "sys/fs/cgroup/system.slice/warren.service")
	files(t, root, map[string]string{"proc/self/cgroup": "0::/system.slice/warren.service\n"})
	files(t, own, map[string]string{
		"cgroup.controllers": offered, "cgroup.procs": "", "cgroup.subtree_control": "",
		"warren.serve/cgroup.procs": "", "warren.serve/cpu.weight": "100",
		"warren.vms/cgroup.subtree_control": "",
		"warren.vms/a/cgroup.procs":         "", "warren.vms/a/cpu.max": "max 100000", "warren.vms/a/memory.max": "max", "warren.vms/a/pids.max": "max",
	})
	if err := os.Mkdir(filepath.Join(own, "warren.vms/ended"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Hierarchy{root: root, may: func(string) bool { return true }}, own
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if data, err := os.ReadFile(path); err != nil || strings.TrimRight(string(data), "\n") != want {
		t.Errorf("%s: %q, %v; want %q", path, data, err, want)
	}
}

func TestCgroups(t *testing.T) {
	h, own := groups(t, "cpuset cpu io memory hugetlb pids\n")
	have, err := h.Divide()
	if err != nil || !slices.Equal(have, []string{"cpu", "memory", "io", "pids"}) {
		t.Fatalf("the controllers are %v (%v), want cpu, memory, io and pids", have, err)
	}
	wantFile(t, own+"/warren.serve/cgroup.procs", strconv.Itoa(os.Getpid()))
	wantFile(t, own+"/warren.serve/cpu.weight", "500")
	wantFile(t, own+"/cgroup.subtree_control", "+cpu +memory +io +pids")
	wantFile(t, own+"/warren.vms/cgroup.subtree_control", "+cpu +memory +io +pids")
	if _, err := os.Stat(own + "/warren.vms/ended"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the group of a machine that has ended stays: %v", err)
	}
	// From then on serve and its monitors are in the group below.
	files(t, h.root, map[string]string{"proc/self/cgroup": "0::/system.slice/warren.service/warren.serve\n"})
	if err := h.Enter("a", 4711, Bounds{CPUs: 3, Memory: 1 << 30, Threads: 200}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"cgroup.procs": "4711", "cpu.max": "300000 100000", "memory.max": "1073741824", "pids.max": "200"} {
		// A file of the kernel's is set by a write; these keep what was longer.
		data, err := os.ReadFile(filepath.Join(own, "warren.vms/a", file))
		if err != nil || !strings.HasPrefix(string(data), want) {
			t.Errorf("%s holds %q (%v), want %q first", file, data, err, want)
		}
	}
	if _, err := h.Divide(); err != nil {
		t.Errorf("the next serve: %v", err)
	}
	if err := os.Mkdir(own+"/warren.vms/b", 0o755); err != nil {
		t.Fatal(err)
	}
	h.Leave("b")
	if _, err := os.Stat(own + "/warren.vms/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a group that was left stays: %v", err)
	}
}

// What is not there, or not ours, is left alone, and nobody is bounded by it.
func TestCgroupsNotOurs(t *testing.T) {
	h, _ := groups(t, "cpuset hugetlb\n")
	if have, err := h.Divide(); err == nil {
		t.Errorf("divided without a controller: %v", have)
	}
	h, own := groups(t, "cpu memory\n")
	h.may = func(string) bool { return false }
	if have, err := h.Divide(); err == nil {
		t.Errorf("divided what was not delegated: %v", have)
	}
	wantFile(t, own+"/cgroup.subtree_control", "")
	wantFile(t, own+"/warren.serve/cgroup.procs", "")
	h, _ = groups(t, "cpu\n")
	files(t, h.root, map[string]string{"proc/self/cgroup": "3:cpu:/x\n"})
	if _, err := h.Divide(); err == nil {
		t.Error("divided version 1")
	}
	if err := h.Enter("a", 1, Bounds{CPUs: 1}); err != nil {
		t.Errorf("version 1: %v", err)
	}
}

// On a host that delegates, under `systemd-run -p Delegate=yes`, the kernel
// bounds what is in the group.
func TestCgroupsReal(t *testing.T) {
	var h Hierarchy
	have, err := h.Divide()
	if err != nil {
		t.Skipf("no control group is delegated here: %v", err)
	}
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Leave("test") })
	t.Cleanup(func() {
		_ = sleep.Process.Kill()
		_ = sleep.Wait()
	})
	if err := h.Enter("test", sleep.Process.Pid, Bounds{CPUs: 2, Memory: 64 << 20, Threads: 7}); err != nil {
		t.Fatal(err)
	}
	dir, err := h.group("test")
	if err != nil || dir == "" {
		t.Fatalf("the process's group is %q (%v), want a directory", dir, err)
	}
	wantFile(t, dir+"/cgroup.procs", strconv.Itoa(sleep.Process.Pid))
	for c, want := range map[string][2]string{"cpu": {"cpu.max", "200000 100000"}, "memory": {"memory.max", "67108864"}, "pids": {"pids.max", "7"}} {
		if slices.Contains(have, c) {
			wantFile(t, filepath.Join(dir, want[0]), want[1])
		}
	}
	if err := h.Enter("test", sleep.Process.Pid, Bounds{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, dir+"/pids.max", "max")
	if _, err := h.Divide(); err != nil {
		t.Errorf("the next serve, while a machine runs: %v", err)
	}
	_ = sleep.Process.Kill()
	_ = sleep.Wait()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if h.Leave("test"); !exists(dir) {
			return
		}
	}
	t.Errorf("%s stays", dir)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
