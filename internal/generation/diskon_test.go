// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package generation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// TestDiskOnByFile: which generation a disk lies on is what its name of it leads to,
// through the operator's links, and not how that is spelled.
func TestDiskOnByFile(t *testing.T) {
	root := t.TempDir()
	s := Store{Dir: layout.Dir(filepath.Join(root, "data"))}
	id, other, of := vm.NewGenerationID(), vm.NewGenerationID(), vm.NewID()
	elsewhere := filepath.Join(root, "elsewhere")
	write := func(path string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(to, path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	// VMs, generations and an image are elsewhere, behind links of the operator's.
	link(filepath.Join(elsewhere, "deep", "vms"), s.Dir.VMs())
	link(filepath.Join(elsewhere, "kept"), s.Dir.Generations())
	link(filepath.Join(elsewhere, "im"), s.Dir.Image("im-linked"))
	write(filepath.Join(s.Dir.Image("im-here"), "disk.qcow2"))
	write(filepath.Join(elsewhere, "im", "warm", "k", "disk.qcow2"))
	if err := os.MkdirAll(filepath.Join(elsewhere, "deep", "vms", string(of)), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, g := range []vm.GenerationID{id, other} {
		write(filepath.Join(elsewhere, "kept", string(g), "disk.qcow2"))
	}
	write(filepath.Join(elsewhere, "kept", string(id), "ram"))
	foreign := write(filepath.Join(root, "generations", string(other), "disk.qcow2"))
	link(foreign, filepath.Join(elsewhere, "kept", "sl-link", "disk.qcow2"))
	up := "../../../../data/" // from where the VM's directory really is

	for _, c := range []struct {
		backing string
		want    vm.GenerationID
		kind    vm.Kind
	}{
		{up + "generations/" + string(id) + "/disk.qcow2", id, ""},
		{"../../../kept/" + string(id) + "/disk.qcow2", id, ""},
		{up + "generations/" + string(other) + "/../" + string(id) + "/disk.qcow2", id, ""},
		{up + "generations/sl-gone/disk.qcow2", "sl-gone", ""},
		{up + "images/im-here/disk.qcow2", "", ""},
		{up + "images/im-linked/warm/k/disk.qcow2", "", ""},
		{"../../../../generations/" + string(other) + "/disk.qcow2", "", vm.Corrupt},
		{up + "generations/sl-link/disk.qcow2", "", vm.Corrupt},
		{up + "generations/" + string(id) + "/ram", "", vm.Corrupt},
		{up + "generations/disk.qcow2", "", vm.Corrupt},
		{"../../../../../../../../../../etc/passwd", "", vm.Corrupt},
	} {
		path := s.Dir.Overlay(of)
		os.Remove(path)
		if err := qemu.CreateOverlay(path, c.backing, 1); err != nil {
			t.Fatal(err)
		}
		got, err := s.DiskOn(of)
		if got != c.want || vm.KindOf(err) != c.kind {
			t.Errorf("a disk on %q is said to be on %q (%v), want %q", c.backing, got, err, c.want)
		}
	}
}
