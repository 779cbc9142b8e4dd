// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package generation keeps the files of generations: a frozen disk layer and, of a
// running machine, its memory and device state, with a manifest that makes them
// complete. It also gives a VM its disk above such a layer. It keeps no records and
// decides nothing: the engine knows which generation is needed, and for how long.
// Only the wiring and the engine, through its port, call it.
package generation

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// Store holds the generations of one data directory. Its methods may be called at
// once for different generations.
type Store struct{ Dir layout.Dir }

func (s Store) dir(id vm.GenerationID) layout.GenerationDir {
	return layout.GenerationDir(s.Dir.Generation(id))
}

// Begin makes the directory of a generation. The generation's disk is the VM's
// current one, under a second name. Begin also makes the VM's next disk, empty,
// above it. The VM writes to the current disk until its machine has moved to the
// next one. sizeMiB is the disk's virtual size. Both disks survive a power cut:
// from the move on, the guest's synced writes are in the next disk, above the
// current one.
func (s Store) Begin(id vm.GenerationID, of vm.ID, sizeMiB int) (err error) {
	dir := s.dir(id)
	if err := os.Mkdir(string(dir), 0o700); err != nil {
		return fileError(string(dir), err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Remove(id))
		}
	}()
	if err := os.Link(s.Dir.Overlay(of), dir.Disk()); err != nil {
		return fileError(dir.Disk(), err)
	}
	next := layout.VMDir(s.Dir.VM(of)).NextOverlay(id)
	if err := s.overlay(id, next, sizeMiB); err != nil {
		return err
	}
	return errors.Join(layout.SyncNew(dir.Disk()), layout.SyncDir(filepath.Dir(next)))
}

// overlay makes an empty disk above a generation's.
func (s Store) overlay(id vm.GenerationID, path string, sizeMiB int) error {
	backing, err := filepath.Rel(filepath.Dir(path), s.dir(id).Disk())
	if err != nil {
		return vm.Errorf(vm.Internal, path, "no relative path to its generation: %w", err)
	}
	return qemu.CreateOverlay(path, backing, sizeMiB)
}

// Advance makes the VM's next disk its disk. The name by which the machine knows it
// stays: QEMU opens the disk once more by that name, read-only, when it is frozen
// later. It may be called again.
func (s Store) Advance(id vm.GenerationID, of vm.ID) error {
	dir := layout.VMDir(s.Dir.VM(of))
	if err := replace(dir.NextOverlay(id), dir.Overlay()); err != nil {
		return err
	}
	if err := s.forgetNames(of, dir.NextOverlay(id)); err != nil {
		return err
	}
	return layout.SyncDir(string(dir))
}

// replace renames a file and replaces the one that has that name.
func replace(path, name string) error {
	if same(path, name) {
		return nil
	}
	tmp := name + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(tmp, err)
	}
	if err := os.Link(path, tmp); err != nil {
		return fileError(path, err)
	}
	return fileError(name, os.Rename(tmp, name))
}

func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// forgetNames removes the names of a VM's former disks, except one.
func (s Store) forgetNames(of vm.ID, but string) error {
	names, err := filepath.Glob(layout.VMDir(s.Dir.VM(of)).NextOverlay("*"))
	if err != nil {
		return vm.Errorf(vm.Internal, string(of), "%w", err)
	}
	for _, path := range names {
		if path == but {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fileError(path, err)
		}
	}
	return nil
}

// Abandon undoes Begin for a VM whose machine has not moved.
func (s Store) Abandon(id vm.GenerationID, of vm.ID) error {
	next := layout.VMDir(s.Dir.VM(of)).NextOverlay(id)
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(next, err)
	}
	return s.Remove(id)
}

// Pending lists the generations for which a VM has a next disk that was not
// made its disk. A VM without a directory has none.
func (s Store) Pending(of vm.ID) ([]vm.GenerationID, error) {
	dir := s.Dir.VM(of)
	entries, err := os.ReadDir(dir) // not by a pattern: a pattern ignores directories that cannot be read
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fileError(dir, err)
	}
	pattern := filepath.Base(layout.VMDir(dir).NextOverlay("*"))
	var ids []vm.GenerationID
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if ok, _ := filepath.Match(pattern, entry.Name()); ok && !same(path, s.Dir.Overlay(of)) {
			ids = append(ids, idOf(path))
		}
	}
	return ids, nil
}

// idOf returns the generation in a name that NextOverlay made.
func idOf(path string) vm.GenerationID {
	name := filepath.Base(path)
	name = name[:len(name)-len(filepath.Ext(name))]
	return vm.GenerationID(name[len("overlay-"):])
}

// Disk gives a VM a new, empty disk above a generation's, in place of the one it
// may have. Disk and the name of the VM's directory are durable when Disk returns.
func (s Store) Disk(id vm.GenerationID, of vm.ID, sizeMiB int) error {
	path := s.Dir.Overlay(of)
	tmp := path + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(tmp, err)
	}
	if err := s.overlay(id, tmp, sizeMiB); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return fileError(path, err)
	}
	if err := s.forgetNames(of, ""); err != nil {
		return err
	}
	return layout.SyncNew(path)
}

// GrowDisk makes the disk of a VM without a machine at least that large.
func (s Store) GrowDisk(of vm.ID, sizeMiB int) error {
	return qemu.GrowOverlay(s.Dir.Overlay(of), sizeMiB)
}

// DiskOn returns the generation below a VM's disk, read from the disk itself; "" =
// an image.
func (s Store) DiskOn(of vm.ID) (vm.GenerationID, error) { return s.baseOf(s.Dir.Overlay(of)) }

// Below is DiskOn for the disk of a generation.
func (s Store) Below(id vm.GenerationID) (vm.GenerationID, error) { return s.baseOf(s.dir(id).Disk()) }

// baseOf reads the backing file of a disk. QEMU wrote its name, and the guest may
// have taken over QEMU: only the file that it leads to counts. Kind Corrupt if that
// is neither a generation's nor an image's.
func (s Store) baseOf(path string) (vm.GenerationID, error) {
	backing, err := qemu.BackingName(path)
	if err != nil || backing == "" {
		return "", err
	}
	file := below(path, backing)
	if id, ok := s.generationOf(file); ok {
		return id, nil
	} else if id == "" && s.ofImage(file) {
		return "", nil
	}
	return "", tampered(path)
}

// ofImage reports whether a file, named without links, is in the images. The
// operator may have moved all images, or some, elsewhere.
func (s Store) ofImage(file string) bool {
	entries, err := os.ReadDir(s.Dir.Images())
	if err != nil {
		entries = nil
	}
	places := []string{resolved(s.Dir.Images())}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			places = append(places, resolved(filepath.Join(s.Dir.Images(), e.Name())))
		}
	}
	return slices.ContainsFunc(places, func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
}

// resolved is a path without links, for the part of it that exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}

// Captured returns the file that marks a capture as complete. Kind NotFound if it
// was not completed.
func (s Store) Captured(id vm.GenerationID) (out vm.Captured, err error) {
	return out, layout.ReadJSON(s.dir(id).Captured(), &out)
}

// Publish completes a generation: it makes its files durable and writes sums and
// manifest. It reads all the data.
func (s Store) Publish(ctx context.Context, g vm.Manifest) (vm.Manifest, error) {
	dir := s.dir(g.ID)
	g.DataBytes = 0
	for _, f := range []struct {
		path   string
		to     *vm.File
		memory bool
	}{{dir.Disk(), &g.Disk, false}, {dir.RAM(), &g.RAM, true}, {dir.Device(), &g.Device, true}} {
		if err := layout.SyncFile(f.path); err != nil {
			if f.memory && vm.KindOf(err) == vm.NotFound {
				continue
			}
			return g, err
		}
		n, err := qemu.DataBytes(f.path)
		if err != nil {
			return g, err
		}
		g.DataBytes += n
		if !f.memory {
			*f.to = vm.File{Name: filepath.Base(f.path)} // QEMU may open a layer for writing: each start checks only memory
			continue
		}
		if *f.to, err = qemu.Sum(ctx, f.path); err != nil {
			return g, err
		}
	}
	if err := s.sumModules(ctx, &g); err != nil {
		return g, err
	}
	if err := layout.WriteJSON(dir.Manifest(), g, 0o600); err != nil {
		return g, err
	}
	return g, layout.SyncDir(s.Dir.Generations())
}

// sumModules makes the memory of a machine's modules durable and records its sums.
func (s Store) sumModules(ctx context.Context, g *vm.Manifest) error {
	g.Modules = nil
	for _, m := range g.Plugged.Modules {
		path := s.dir(g.ID).Module(m.ID)
		if err := layout.SyncFile(path); err != nil {
			return err
		}
		n, err := qemu.DataBytes(path)
		if err != nil {
			return err
		}
		sum, err := qemu.Sum(ctx, path)
		if err != nil {
			return err
		}
		g.DataBytes += n
		g.Modules = append(g.Modules, sum)
	}
	return nil
}

// modules are the files of the memory modules that a generation has, plain or
// sealed.
func (s Store) modules(id vm.GenerationID) ([]string, error) {
	pattern := s.dir(id).Module("*")
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, pattern, "%w", err)
	}
	return found, nil
}

// Load reads a manifest. Kinds: NotFound when the generation is not complete,
// Corrupt.
func (s Store) Load(id vm.GenerationID) (g vm.Manifest, err error) {
	if err := layout.ReadJSON(s.dir(id).Manifest(), &g); err != nil {
		return g, err
	}
	if g.Format > vm.GenerationFormat {
		return g, vm.Errorf(vm.Unsupported, string(id), "was captured by a newer warren (manifest format %d, this one knows %d)", g.Format, vm.GenerationFormat).
			WithHint("use the warren that made it, or a newer one")
	}
	if g.ID != id {
		return g, vm.Errorf(vm.Corrupt, string(id), "its manifest is of %s", g.ID)
	}
	return g, nil
}

// Rewrite replaces the manifest of a complete generation, durably.
func (s Store) Rewrite(g vm.Manifest) error {
	return layout.WriteJSON(s.dir(g.ID).Manifest(), g, 0o600)
}

// Source names the files of a generation for a start.
func (s Store) Source(id vm.GenerationID) vm.GenerationSource {
	return vm.GenerationSource{RAM: s.dir(id).RAM(), Device: s.dir(id).Device()}
}

// Alias makes a second generation of the same files, which take no more space. It
// has the memory only if g names its file.
func (s Store) Alias(from vm.GenerationID, g vm.Manifest) error {
	src, dst := s.dir(from), s.dir(g.ID)
	if err := os.Mkdir(string(dst), 0o700); err != nil {
		return fileError(string(dst), err)
	}
	files := [][2]string{{src.Disk(), dst.Disk()}}
	if g.RAM.Name != "" {
		files = append(files, [2]string{src.RAM(), dst.RAM()}, [2]string{src.Device(), dst.Device()})
	}
	for _, m := range g.Plugged.Modules {
		files = append(files, [2]string{src.Module(m.ID), dst.Module(m.ID)})
	}
	for _, f := range files {
		if err := os.Link(f[0], f[1]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fileError(f[1], err), s.Remove(g.ID))
		}
	}
	if err := layout.WriteJSON(dst.Manifest(), g, 0o600); err != nil {
		return errors.Join(err, s.Remove(g.ID))
	}
	return layout.SyncDir(s.Dir.Generations())
}

// Present reports which of a generation's files exist.
func (s Store) Present(id vm.GenerationID) (disk, memory bool) {
	dir := s.dir(id)
	_, noDisk := os.Stat(dir.Disk())
	_, noRAM := os.Stat(dir.RAM())
	_, noDevice := os.Stat(dir.Device())
	return noDisk == nil, noRAM == nil && noDevice == nil
}

// DropMemory removes memory and device state; the disk layer stays for disks above
// it.
func (s Store) DropMemory(id vm.GenerationID) error {
	dir := s.dir(id)
	modules, err := s.modules(id)
	if err != nil {
		return err
	}
	for _, path := range append(modules, dir.Manifest(), dir.RAM(), dir.Device(), dir.SealedRAM(), dir.SealedDevice(), dir.Captured()) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fileError(path, err)
		}
	}
	return nil
}

// Remove removes a generation; an absent one is no error.
func (s Store) Remove(id vm.GenerationID) error {
	return fileError(s.Dir.Generation(id), os.RemoveAll(s.Dir.Generation(id)))
}

// List names the generations that have a directory.
func (s Store) List() ([]vm.GenerationID, error) {
	entries, err := os.ReadDir(s.Dir.Generations())
	if err != nil {
		return nil, fileError(s.Dir.Generations(), err)
	}
	var ids []vm.GenerationID
	for _, e := range entries {
		ids = append(ids, vm.GenerationID(e.Name()))
	}
	return ids, nil
}

// fileError gives an operating system's error its kind, as package layout does.
func fileError(path string, err error) error { return layout.Error(path, err) }
