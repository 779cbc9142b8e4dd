// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func specs() map[string]vm.MachineSpec {
	cold := vm.MachineSpec{
		Format: 1, ID: "aaaaaaaaaaaaaaaaaaaa", Dir: "/d/vms/a", RunDir: "/r/a", QEMU: "/usr/bin/qemu-system-x86_64",
		Accel: vm.TCG, CPU: "Nehalem", Machine: "pc-q35-7.2", Size: vm.DefaultSize, Disk: "/d/vms/a, b/overlay.qcow2",
		Boot:     vm.BootSource{Kernel: "/d/k", Initramfs: "/d/i", Cmdline: "console=ttyS0 quiet"},
		GuestKey: []byte{1, 2, 0xab},
	}
	warm := cold
	warm.Generation = &vm.GenerationSource{RAM: "/d/images/i/warm/k/ram", Device: "/d/images/i/warm/k/device"}
	kvm := cold
	kvm.Accel, kvm.CPU, kvm.Size.VCPU = vm.KVM, "Skylake-Client", 4
	grown := warm
	grown.Size = vm.Size{VCPU: 2, MemoryMiB: 2048, DiskMiB: 20 << 10}
	grown.Plugged = vm.Plugged{BootVCPU: 1, BootMemoryMiB: 512, CPUs: 3, Modules: []vm.MemoryModule{{ID: "dimm0", MiB: 512}, {ID: "dimm1", MiB: 1024}}}
	grown.Generation = &vm.GenerationSource{RAM: "/g/ram", Device: "/g/device", Modules: []string{"/g/ram-dimm0", "/g/ram-dimm1"}}
	volumes := warm
	volumes.Plugged.Volumes = []vm.PluggedVolume{
		{ID: "vol-aaaaaaaaaaaaaaaa", File: "/d/volumes/a, b/disk.qcow2", Port: 2},
		{ID: "vol-cccccccccccccccc", SizeMiB: 64, Port: 3, Cut: true},
		{ID: "vol-bbbbbbbbbbbbbbbb", File: "/d/volumes/b/disk.qcow2", Port: 1, ReadOnly: true, Share: true},
	}
	volumes.VolumeKeys = map[vm.VolumeID]vm.VolumeKey{"vol-aaaaaaaaaaaaaaaa": vm.VolumeKey("SECRET"), "vol-bbbbbbbbbbbbbbbb": vm.VolumeKey("SECRET")}
	probe := cold
	probe.Disk = ""
	return map[string]vm.MachineSpec{"cold": cold, "warm": warm, "kvm": kvm, "diskless": probe, "grown": grown, "volumes": volumes}
}

func TestArgsGolden(t *testing.T) {
	for name, s := range specs() {
		got := strings.ReplaceAll(strings.Join(Args(s), "\n"), "\n-", "\n\n-") + "\n"
		path := filepath.Join("testdata", name+".args")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: arguments changed (go test -update rewrites the file; a change of devices makes kept generations unusable):\n%s", name, got)
		}
	}
}

// What must never, and what must always, be on a command line.
func TestArgsRules(t *testing.T) {
	for name, s := range specs() {
		line := strings.Join(Args(s), " ")
		// These punch holes into the memory file under every sibling.
		for _, bad := range []string{"balloon", "free-page", "virtio-mem", "share=on", `"share":true`, "-cpu host", "exec:", "SECRET", "0102ab"} {
			if strings.Contains(line, bad) {
				t.Errorf("%s: has %s", name, bad)
			}
		}
		for _, must := range []string{
			"-nodefaults", "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
			"-global migration.send-configuration=off", `"share":false`, "pcie-root-port", "reboot=shutdown",
		} {
			if !strings.Contains(line, must) {
				t.Errorf("%s: lacks %s", name, must)
			}
		}
		if got := strings.Contains(line, "tb-size=64"); got != (s.Accel == vm.TCG) {
			t.Errorf("%s: tb-size=64 is %v", name, got)
		}
	}
}

// A machine with more memory has a larger cache of translated code.
func TestCodeCache(t *testing.T) {
	s := specs()["cold"]
	for mib, want := range map[int]string{512: "tb-size=64", 1024: "tb-size=256", 4096: "tb-size=256"} {
		if s.Size.MemoryMiB = mib; !slices.Contains(Devices(s), "tcg,thread=multi,"+want) {
			t.Errorf("a machine of %d MiB lacks %s: %q", mib, want, Devices(s))
		}
	}
}

// The guest may not see whether its machine was booted or restored.
func TestDevicesDontDependOnTheStart(t *testing.T) {
	s := specs()
	if !slices.Equal(Devices(s["cold"]), Devices(s["warm"])) {
		t.Error("a generation would be started on other devices than it was captured on")
	}
	if a, b := Args(s["warm"]), Args(s["warm"]); !slices.Equal(a, b) {
		t.Error("not a pure function")
	}
}
