// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// sysTree creates a directory like the kernel's for CPUs and memory.
func sysTree(t *testing.T, files map[string]string) devices {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return devices(dir)
}

func (d devices) read(name string) string { return sysLine(filepath.Join(string(d), name)) }

func TestOnlineCPUs(t *testing.T) {
	files := map[string]string{"cpu/cpufreq/x": "", "cpu/cpu0/topology/core_id": "0", "cpu/online": "0-1"}
	for i := 1; i < 12; i++ {
		files[fmt.Sprintf("cpu/cpu%d/online", i)] = "0"
	}
	files["cpu/cpu1/online"] = "1"
	d := sysTree(t, files)
	for _, n := range []int64{4, 12, 2, 1} {
		if err := d.onlineCPUs(n); err != nil {
			t.Fatal(err)
		}
		for i := 1; i < 12; i++ {
			want := "0"
			if int64(i) < n {
				want = "1"
			}
			if got := d.read(fmt.Sprintf("cpu/cpu%d/online", i)); got != want {
				t.Errorf("of %d CPUs, online of %d is %s", n, i, got)
			}
		}
	}
	if err := d.onlineCPUs(13); vm.KindOf(err) != vm.GuestFault {
		t.Errorf("13 of 12 CPUs: %v", err)
	}
	if d.read("cpu/online") != "0-1" {
		t.Error("a file that is no CPU was changed")
	}
}

// TestOnlineCPUStillAdded: a CPU with a directory but no file yet does not count.
func TestOnlineCPUStillAdded(t *testing.T) {
	d := sysTree(t, map[string]string{"cpu/cpu0/topology/core_id": "0", "cpu/cpu1/topology/core_id": "0"})
	if err := d.onlineCPUs(2); vm.KindOf(err) != vm.GuestFault {
		t.Errorf("cpu1 has no file online: %v, want %s", err, vm.GuestFault)
	}
}

func TestOnlineMemory(t *testing.T) {
	d := sysTree(t, map[string]string{
		"memory/block_size_bytes": "8000000", "memory/memory0/state": "online", "memory/memory1/state": "online",
		"memory/memory32/state": "offline", "memory/memory33/state": "offline", "memory/soft_offline_page": "",
	})
	if err := d.onlineMemory(512); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"memory0", "memory1", "memory32", "memory33"} {
		if got := d.read("memory/" + n + "/state"); got != "online" {
			t.Errorf("%s is %s", n, got)
		}
	}
	if err := d.onlineMemory(640); vm.KindOf(err) != vm.GuestFault {
		t.Errorf("640 of 512 MiB: %v", err)
	}
	if err := devices(t.TempDir()).onlineMemory(1); vm.KindOf(err) != vm.Unsupported {
		t.Errorf("a kernel without blocks of memory: %v", err)
	}
}
