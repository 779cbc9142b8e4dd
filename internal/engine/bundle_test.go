// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// unpacking is a VM from a bundle, with memory that this host continues, or without.
func unpacking(s *vmtest.Site, name string, memory bool) engine.Unpacking {
	img := vm.Image{ID: "im-0123456789abcdef", Name: "packed", DiskMiB: 1024, Files: []vm.File{{Name: "disk.qcow2", SHA256: "ab"}}}
	if list, err := s.World.Images().List(context.Background()); err == nil && !slices.ContainsFunc(list, func(i vm.Image) bool { return i.ID == img.ID }) {
		s.World.AddImage(img)
	}
	return engine.Unpacking{
		VM: vm.VM{ID: "abcdefghijklmnopqrst", Name: name, Persistence: vm.DefaultPersistence()}, Image: img, Memory: memory,
		Manifest: vm.Manifest{Size: vm.DefaultSize, Machine: "pc-q35-7.2", Accel: vm.TCG, CPU: "Nehalem", QEMU: "7.2.0", GuestKey: []byte("key")},
		Fill: func(_ context.Context, dir layout.GenerationDir, below string, memory bool) error {
			if err := s.World.Images().Overlay(dir.Disk(), below, vm.DefaultSize.DiskMiB); err != nil || !memory {
				return err
			}
			return errors.Join(os.WriteFile(dir.RAM(), []byte("ram"), 0o600), os.WriteFile(dir.Device(), []byte("device"), 0o600))
		},
	}
}

// TestUnpack: a VM from a bundle is suspended with its memory, or stopped without it; taken
// ids and names are replaced and that is said; another image with the id is refused.
func TestUnpack(t *testing.T) {
	s, e, c := site(t)
	first, notes, err := e.Unpack(t.Context(), c, unpacking(s, "box", true))
	if err != nil {
		t.Fatal(err)
	}
	if first.State != vm.Suspended || first.ID != "abcdefghijklmnopqrst" || first.Network.Mode != vm.NetClosed || len(notes) != 1 {
		t.Errorf("it is %s, its id %s, its network %s, and the notes are %q", first.State, first.ID, first.Network.Mode, notes)
	}
	second, notes, err := e.Unpack(t.Context(), c, unpacking(s, "box", false))
	if err != nil {
		t.Fatal(err)
	}
	if second.State != vm.Stopped || second.ID == first.ID || second.Name != "box-2" || len(notes) != 3 {
		t.Errorf("a second one is %s, its id %s, its name %s, and the notes are %q", second.State, second.ID, second.Name, notes)
	}
	u := unpacking(s, "other", true)
	u.Manifest.CPU = "Skylake-Client"
	third, notes, err := e.Unpack(t.Context(), c, u)
	if err != nil || third.State != vm.Stopped || !strings.Contains(strings.Join(notes, " "), "CPU model") {
		t.Errorf("with memory of another CPU it is %s, the notes are %q, %v", third.State, notes, err)
	}
	u = unpacking(s, "box", false)
	u.Name = "box"
	if _, _, err := e.Unpack(t.Context(), c, u); !errors.Is(err, vm.Exists) {
		t.Errorf("a name that was asked for and is taken: %v, want kind %s", err, vm.Exists)
	}
	u = unpacking(s, "far", false)
	u.Image.ID = "im-fedcba9876543210"
	if _, _, err := e.Unpack(t.Context(), c, u); !errors.Is(err, vm.NotFound) {
		t.Errorf("an image that is not here: %v, want kind %s", err, vm.NotFound)
	}
	u = unpacking(s, "far", false)
	u.Image.Files = []vm.File{{Name: "disk.qcow2", SHA256: "cd"}}
	if _, _, err := e.Unpack(t.Context(), c, u); !errors.Is(err, vm.Corrupt) {
		t.Errorf("another image with the id: %v, want kind %s", err, vm.Corrupt)
	}
	consistent(t, s)
}

// TestUnpackFails: a failure or the server's death at any step leaves nothing of the VM.
func TestUnpackFails(t *testing.T) {
	broken := vm.Errorf(vm.NoSpace, "", "the disk is full")
	for _, label := range []string{"create:audit", "unpack:record", "unpack:disk", "unpack:commit"} {
		for _, with := range []error{broken, engine.ErrDied} {
			t.Run(label+" "+with.Error(), func(t *testing.T) {
				s, e, _ := site(t)
				closeEngine(t, e)
				hit := false
				s.Fault = faultAt(label, with, &hit)
				e, c := open(t, s)
				if _, _, err := e.Unpack(t.Context(), c, unpacking(s, "box", true)); !errors.Is(err, vm.KindOf(with)) && !errors.Is(err, engine.ErrDied) || !hit {
					t.Fatalf("it gives %v, reached %v", err, hit)
				}
				closeEngine(t, e)
				s.Fault = nil
				e, c = open(t, s)
				if list, _, _, err := e.List(t.Context(), c, engine.Filter{}); err != nil || len(list) != 0 {
					t.Errorf("%d VMs are left, %v", len(list), err)
				}
				consistent(t, s)
				eventually(t, "no files are left", func() bool {
					ids, err := s.World.Generations(s.Dir).List()
					return err == nil && len(ids) == 0
				})
			})
		}
	}
}

// TestContinues: memory of a bundle is continued only where it fits, and a manifest that
// another wrote puts no option into QEMU's command line.
func TestContinues(t *testing.T) {
	s, e, _ := site(t)
	p, err := s.World.Host().Platform(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	good := vm.Manifest{Machine: "pc-q35-7.2", Accel: p.Accel, CPU: p.CPU, QEMU: p.QEMUVersion, GuestKey: []byte("0123456789abcdef")}
	if why := e.Continues(t.Context(), engine.Unpacking{Manifest: good}); why != "" {
		t.Fatalf("memory of this host is not continued: %s", why)
	}
	for name, c := range map[string]struct {
		change func(*vm.Manifest)
		want   string
	}{
		"an option in the machine type": {func(m *vm.Manifest) { m.Machine = "pc-q35-7.2,kernel-irqchip=off" }, "not one that this version writes"},
		"another machine":               {func(m *vm.Manifest) { m.Machine = "microvm" }, "not one that this version writes"},
		"no key of the agent":           {func(m *vm.Manifest) { m.GuestKey = nil }, "not one that this version writes"},
		"a plugged processor":           {func(m *vm.Manifest) { m.Plugged.CPUs = 1 }, "plugged"},
		"another CPU":                   {func(m *vm.Manifest) { m.CPU = p.CPU + ",+vmx" }, "CPU model"},
		"another accelerator":           {func(m *vm.Manifest) { m.Accel = "other" }, "taken under"},
		"a newer QEMU":                  {func(m *vm.Manifest) { m.QEMU = "99.1" }, "older"},
	} {
		m := good
		c.change(&m)
		if why := e.Continues(t.Context(), engine.Unpacking{Manifest: m}); !strings.Contains(why, c.want) {
			t.Errorf("%s: %q, want a reason with %q", name, why, c.want)
		}
	}
}
