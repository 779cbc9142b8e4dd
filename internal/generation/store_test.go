// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package generation

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// home is a data directory with one VM, whose disk lies on an image's.
func home(t *testing.T) (Store, vm.ID) {
	t.Helper()
	dir, err := layout.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	s, of := Store{Dir: dir}, vm.NewID()
	if err := os.MkdirAll(dir.VM(of), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := qemu.CreateOverlay(dir.Overlay(of), "../../images/i/warm/k/disk.qcow2", 64); err != nil {
		t.Fatal(err)
	}
	return s, of
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s Store) next(id vm.GenerationID, of vm.ID) string {
	return layout.VMDir(s.Dir.VM(of)).NextOverlay(id)
}

// wantFiles wants each path to be there, or not.
func wantFiles(t *testing.T, there bool, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(path); (err == nil) != there || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want it there: %v", path, err, there)
		}
	}
}

func wantPending(t *testing.T, s Store, of vm.ID, want ...vm.GenerationID) {
	t.Helper()
	if got, err := s.Pending(of); err != nil || !slices.Equal(got, want) {
		t.Errorf("pending %v, %v; want %v", got, err, want)
	}
}

func wantOn(t *testing.T, got vm.GenerationID, err error, want vm.GenerationID) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("lies on %q, %v; want %q", got, err, want)
	}
}

// TestNextDisk goes through what a capture does with a VM's disk: begun, taken
// back, begun and completed, twice; and a fresh disk in the end.
func TestNextDisk(t *testing.T) {
	s, of := home(t)
	a, b := vm.NewGenerationID(), vm.NewGenerationID()
	wantPending(t, s, of)
	must(t, s.Begin(a, of, 64))
	wantPending(t, s, of, a)
	if !same(s.dir(a).Disk(), s.Dir.Overlay(of)) {
		t.Error("the frozen disk is not the VM's")
	}
	if err := s.Begin(a, of, 64); vm.KindOf(err) != vm.Exists {
		t.Errorf("begun twice: %v", err)
	}
	wantFiles(t, true, s.dir(a).Disk(), s.next(a, of))
	must(t, s.Abandon(a, of))
	must(t, s.Abandon(a, of))
	wantPending(t, s, of)
	wantFiles(t, false, string(s.dir(a)), s.next(a, of))
	wantFiles(t, true, s.Dir.Overlay(of))

	must(t, s.Begin(a, of, 64))
	must(t, s.Advance(a, of))
	must(t, s.Advance(a, of))
	wantPending(t, s, of)
	wantFiles(t, true, s.next(a, of)) // its machine knows it by that name
	if !same(s.next(a, of), s.Dir.Overlay(of)) || same(s.dir(a).Disk(), s.Dir.Overlay(of)) {
		t.Error("the next disk is not the disk")
	}
	on, err := s.DiskOn(of)
	wantOn(t, on, err, a)
	must(t, s.Begin(b, of, 64))
	wantPending(t, s, of, b)
	must(t, s.Advance(b, of))
	wantFiles(t, false, s.next(a, of), s.Dir.Overlay(of)+".tmp")
	on, err = s.Below(b)
	wantOn(t, on, err, a)
	on, err = s.Below(a)
	wantOn(t, on, err, "")

	must(t, os.WriteFile(s.Dir.Overlay(of)+".tmp", []byte("left by a death"), 0o600))
	must(t, s.Disk(a, of, 64))
	wantFiles(t, false, s.next(b, of), s.Dir.Overlay(of)+".tmp")
	on, err = s.DiskOn(of)
	wantOn(t, on, err, a)
	ids, err := s.List()
	slices.Sort(ids)
	if want := []vm.GenerationID{min(a, b), max(a, b)}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("the generations are %v (%v), want %v", ids, err, want)
	}
	must(t, s.Remove(b))
	must(t, s.Remove(b))
	wantFiles(t, false, string(s.dir(b)))
}

// TestBeginWithoutADisk leaves nothing; a VM whose directory cannot be read is
// not taken for one that has nothing pending.
func TestBeginWithoutADisk(t *testing.T) {
	s, of := home(t)
	id := vm.NewGenerationID()
	must(t, os.Remove(s.Dir.Overlay(of)))
	if err := s.Begin(id, of, 64); vm.KindOf(err) != vm.NotFound {
		t.Errorf("begin without a disk: %v, want not-found", err)
	}
	wantFiles(t, false, string(s.dir(id)), s.next(id, of))
	if err := s.Advance(id, of); err == nil {
		t.Error("advanced to nothing")
	}
	wantPending(t, s, vm.NewID())
	must(t, os.RemoveAll(s.Dir.VM(of)))
	must(t, os.Symlink(filepath.Base(s.Dir.VM(of)), s.Dir.VM(of))) // to itself
	if got, err := s.Pending(of); err == nil {
		t.Errorf("pending in what cannot be read: %v", got)
	}
}

// TestPublish completes a generation with memory and a module, without memory,
// and not one that lacks what it should have.
func TestPublish(t *testing.T) {
	s, of := home(t)
	id := vm.NewGenerationID()
	must(t, s.Begin(id, of, 64))
	if _, err := s.Captured(id); vm.KindOf(err) != vm.NotFound {
		t.Errorf("captured: %v", err)
	}
	must(t, layout.WriteJSON(s.dir(id).Captured(), vm.Captured{RAMBytes: 7}, 0o600))
	if out, err := s.Captured(id); err != nil || out.RAMBytes != 7 {
		t.Errorf("captured: %+v, %v", out, err)
	}
	if disk, memory := s.Present(id); !disk || memory {
		t.Error("present", disk, memory)
	}
	g, err := s.Publish(t.Context(), vm.Manifest{Format: 1, ID: id})
	disk, derr := qemu.DataBytes(s.dir(id).Disk())
	if err != nil || derr != nil || g.DataBytes != disk || g.RAM.Name != "" || g.Disk.Name != "disk.qcow2" {
		t.Errorf("without memory: %+v, %v", g, err)
	}

	must(t, os.WriteFile(s.dir(id).RAM(), make([]byte, 8192), 0o600))
	must(t, os.WriteFile(s.dir(id).Device(), []byte("device"), 0o600))
	g = vm.Manifest{Format: 1, ID: id}
	g.Plugged.Modules = []vm.MemoryModule{{ID: "dimm0", MiB: 1}}
	if _, err := s.Publish(t.Context(), g); vm.KindOf(err) != vm.NotFound {
		t.Errorf("without its module: %v", err)
	}
	must(t, os.WriteFile(s.dir(id).Module("dimm0"), []byte("module"), 0o600))
	g, err = s.Publish(t.Context(), g)
	must(t, err)
	var want int64
	for _, path := range []string{s.dir(id).Disk(), s.dir(id).RAM(), s.dir(id).Device(), s.dir(id).Module("dimm0")} {
		n, err := qemu.DataBytes(path)
		must(t, err)
		want += n
	}
	if g.DataBytes != want || g.RAM.Name != "ram" || g.Device.Name == "" || len(g.Modules) != 1 {
		t.Errorf("%+v, want %d bytes", g, want)
	}
	if loaded, err := s.Load(id); err != nil || loaded.DataBytes != want || loaded.RAM.Name != g.RAM.Name {
		t.Errorf("loaded %+v, %v", loaded, err)
	}
	if disk, memory := s.Present(id); !disk || !memory {
		t.Error("present", disk, memory)
	}

	other := vm.NewGenerationID()
	copied := g
	copied.ID = other
	must(t, s.Alias(id, copied))
	if err := s.Alias(id, copied); vm.KindOf(err) != vm.Exists {
		t.Errorf("twice: %v", err)
	}
	for _, pair := range [][2]string{{s.dir(id).RAM(), s.dir(other).RAM()}, {s.dir(id).Disk(), s.dir(other).Disk()}, {s.dir(id).Module("dimm0"), s.dir(other).Module("dimm0")}} {
		if !same(pair[0], pair[1]) {
			t.Errorf("%s is a copy", pair[1])
		}
	}
	must(t, layout.WriteJSON(s.dir(other).Manifest(), g, 0o600))
	if _, err := s.Load(other); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("another one's manifest: %v", err)
	}

	must(t, s.DropMemory(id))
	must(t, s.DropMemory(id))
	wantFiles(t, false, s.dir(id).RAM(), s.dir(id).Device(), s.dir(id).Manifest(), s.dir(id).Captured(), s.dir(id).Module("dimm0"))
	wantFiles(t, true, s.dir(id).Disk(), s.dir(other).RAM())
}
