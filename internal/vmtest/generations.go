// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/generation"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// memory holds what a captured guest was running.
type memory struct {
	procs  []vm.Process
	keys   [][]byte // that its agent accepts
	mounts map[string]vm.VolumeUse
}

// accepts returns the first of the keys that the agent accepts, or nil.
func (m *memory) accepts(keys [][]byte) []byte {
	for _, key := range keys {
		if slices.ContainsFunc(m.keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			return key
		}
	}
	return nil
}

// OlderMonitors makes machines behave as with older monitors, or stops that. Those kept a
// stale copy of the link key of a machine of the pool and saved it.
func (w *World) OlderMonitors(on bool) { w.older.Store(on) }

// Generations returns the simulator of generations: real files with simulated
// disks and memories behind them.
func (w *World) Generations(dir layout.Dir) engine.Generations {
	return generations{Store: generation.Store{Dir: dir}, w: w}
}

type generations struct {
	generation.Store
	w *World
}

func (g generations) names(id vm.GenerationID, of vm.ID) (disk, next, overlay string) {
	return layout.GenerationDir(g.Dir.Generation(id)).Disk(), layout.VMDir(g.Dir.VM(of)).NextOverlay(id), g.Dir.Overlay(of)
}

func (g generations) Begin(id vm.GenerationID, of vm.ID, sizeMiB int) error {
	if err := g.w.fault("begin"); err != nil {
		return err
	}
	disk, next, overlay := g.names(id, of)
	if err := errors.Join(os.Mkdir(filepath.Dir(disk), 0o700), os.Link(overlay, disk), os.WriteFile(next, []byte(backingOf(next, disk)), 0o600)); err != nil {
		return err
	}
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.w.disks[disk] = g.w.disks[overlay]
	return nil
}

func backingOf(path, disk string) string {
	rel, err := filepath.Rel(filepath.Dir(path), disk)
	if err != nil {
		return err.Error()
	}
	return rel
}

func (g generations) Advance(id vm.GenerationID, of vm.ID) error {
	if err := g.w.fault("advance"); err != nil {
		return err
	}
	disk, next, overlay := g.names(id, of)
	if err := g.Store.Advance(id, of); err != nil {
		return err
	}
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	if g.w.disks[next] == nil {
		g.w.disks[next] = g.w.disks[disk].clone()
	}
	g.w.disks[overlay] = g.w.disks[next]
	delete(g.w.disks, next)
	return nil
}

func (g generations) Disk(id vm.GenerationID, of vm.ID, _ int) error {
	if err := g.w.fault("disk"); err != nil {
		return err
	}
	disk, _, overlay := g.names(id, of)
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	if g.w.disks[disk] == nil {
		return vm.Errorf(vm.Corrupt, disk, "no such disk")
	}
	g.w.disks[overlay] = g.w.disks[disk].clone()
	return os.WriteFile(overlay, []byte(backingOf(overlay, disk)), 0o600)
}

// GrowDisk only checks that the disk exists: simulated disks have no size.
func (g generations) GrowDisk(of vm.ID, _ int) error {
	if err := g.w.fault("grow-disk"); err != nil {
		return err
	}
	_, err := os.Stat(g.Dir.Overlay(of))
	return err
}

func (g generations) Publish(ctx context.Context, m vm.Manifest) (vm.Manifest, error) {
	if err := g.w.step(ctx, "publish"); err != nil {
		return m, err
	}
	return g.Store.Publish(ctx, m)
}

func (g generations) Alias(from vm.GenerationID, m vm.Manifest) error {
	if err := g.Store.Alias(from, m); err != nil {
		return err
	}
	src, dst := layout.GenerationDir(g.Dir.Generation(from)), layout.GenerationDir(g.Dir.Generation(m.ID))
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.w.disks[dst.Disk()] = g.w.disks[src.Disk()]
	if m.RAM.Name != "" {
		g.w.memories[dst.RAM()] = g.w.memories[src.RAM()]
	}
	return nil
}

func (g generations) DiskOn(of vm.ID) (vm.GenerationID, error) {
	if err := g.w.fault("disk-on"); err != nil {
		return "", err
	}
	return g.baseOf(g.Dir.Overlay(of))
}

func (g generations) Below(id vm.GenerationID) (vm.GenerationID, error) {
	return g.baseOf(layout.GenerationDir(g.Dir.Generation(id)).Disk())
}

func (g generations) baseOf(path string) (vm.GenerationID, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(string(text))
	if filepath.Base(filepath.Dir(dir)) != filepath.Base(g.Dir.Generations()) {
		return "", nil
	}
	return vm.GenerationID(filepath.Base(dir)), nil
}

func (g generations) Layers(id vm.GenerationID) ([]string, error) {
	return g.files(layout.GenerationDir(g.Dir.Generation(id)).Disk())
}

func (g generations) LayersOf(of vm.ID) ([]string, error) { return g.files(g.Dir.Overlay(of)) }

// files are the disk, the disks of generations below it, and one of the image.
func (g generations) files(path string) ([]string, error) {
	list := []string{path}
	for {
		below, err := g.baseOf(path)
		if err != nil {
			return nil, err
		}
		if below == "" {
			return append(list, imageDisk), nil
		}
		path = layout.GenerationDir(g.Dir.Generation(below)).Disk()
		list = append(list, path)
	}
}

func (g generations) SealKey() ([]byte, error) { return []byte("key"), nil }

func (g generations) Seal(ctx context.Context, id vm.GenerationID, _ []byte) (int64, error) {
	if err := g.w.step(ctx, "seal"); err != nil {
		return 0, err
	}
	dir := layout.GenerationDir(g.Dir.Generation(id))
	return 1, errors.Join(os.Rename(dir.RAM(), dir.SealedRAM()), os.Rename(dir.Device(), dir.SealedDevice()))
}

func (g generations) Open(_ context.Context, id vm.GenerationID, wrapped []byte) error {
	if string(wrapped) != "key" {
		return vm.Errorf(vm.Corrupt, string(id), "not the key")
	}
	dir := layout.GenerationDir(g.Dir.Generation(id))
	if _, err := os.Stat(dir.RAM()); err == nil {
		return nil
	}
	return errors.Join(os.Rename(dir.SealedRAM(), dir.RAM()), os.Rename(dir.SealedDevice(), dir.Device()))
}

func (g generations) DropSealed(context.Context, vm.GenerationID) (int64, error) { return 2, nil }

// clone returns a copy of the disk.
func (d *disk) clone() *disk {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := newDisk(d.capacity)
	for p, n := range d.nodes {
		c := *n
		out.nodes[p] = &c
	}
	out.users = maps.Clone(d.users)
	for name, u := range d.units {
		c := *u
		out.units[name] = &c
	}
	return out
}

// Capture saves the state of the simulated machine in small files.
func (h *handle) Capture(ctx context.Context, s vm.CaptureSpec) (vm.Captured, error) {
	if err := h.w.step(ctx, "capture"); err != nil {
		return vm.Captured{}, err
	}
	if !h.alive() {
		return vm.Captured{}, vm.Errorf(vm.Unavailable, string(h.spec.ID), "the VM's monitor does not answer")
	}
	out := vm.Captured{Pause: time.Millisecond, Synced: s.Sync || s.RAM == ""}
	h.mu.Lock()
	if _, err := os.Stat(h.active); err != nil && s.Overlay != "" {
		h.mu.Unlock()
		return vm.Captured{}, vm.Errorf(vm.Internal, h.active, "qemu opens its disk by the name that it knows, and cannot: %w", err)
	}
	size, plugged, key := h.spec.Size, h.spec.Plugged, h.keys[0]
	if h.w.older.Load() {
		key = h.spec.Reset.LinkKey
	}
	h.mu.Unlock()
	out.Machine = vm.Manifest{
		Format: 1, Size: size, Plugged: plugged, Accel: h.spec.Accel, CPU: h.spec.CPU, Machine: h.spec.Machine, QEMU: "7.2.0", GuestKey: key, TrueKey: !h.w.older.Load(),
	}
	if s.RAM != "" {
		if err := errors.Join(os.WriteFile(s.RAM, []byte("memory"), 0o600), os.WriteFile(s.Device, []byte("device"), 0o600)); err != nil {
			return out, err
		}
		for _, m := range plugged.Modules {
			if err := os.WriteFile(layout.GenerationDir(filepath.Dir(s.RAM)).Module(m.ID), []byte(m.ID), 0o600); err != nil {
				return out, err
			}
		}
	}
	frozen := filepath.Join(filepath.Dir(s.Note), "disk.qcow2")
	h.w.mu.Lock()
	h.w.memories[s.RAM] = h.guest.remember()
	still := h.guest.disk.clone()
	for name, d := range h.w.disks { // every name of the file refers to it
		if d == h.guest.disk {
			h.w.disks[name] = still
		}
	}
	h.w.disks[frozen] = still
	h.w.disks[s.Overlay] = h.guest.disk
	out.PrivatePages = h.w.private
	h.w.mu.Unlock()
	h.mu.Lock()
	h.active, h.held = s.Overlay, s.Hold
	h.mu.Unlock()
	if err := h.w.step(ctx, "captured"); err != nil {
		return out, err
	}
	return out, layout.WriteJSON(s.Note, out, 0o600)
}

// Resume resumes the machine.
func (h *handle) Resume(ctx context.Context) error {
	if err := h.w.step(ctx, "resume"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = false
	return nil
}

// Reseat resumes the machine on the captured generation.
func (h *handle) Reseat(ctx context.Context, g vm.GenerationSource) error {
	if err := h.w.step(ctx, "reseat"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.held {
		return vm.Errorf(vm.WrongState, string(h.spec.ID), "the machine is not paused by a capture")
	}
	h.spec.Generation, h.held = &g, false
	return nil
}

// Flatten puts the disk directly above its image; with part, above the fourth layer over
// the image.
func (h *handle) Flatten(ctx context.Context, base string, part bool) error {
	if err := h.w.step(ctx, "flatten"); err != nil {
		return err
	}
	overlay := layout.VMDir(h.spec.Dir).Overlay()
	on := filepath.Join(base, "image", "warm", "key", "disk.qcow2")
	if part {
		chain, err := layersOf(overlay)
		if err != nil || len(chain) <= 4 {
			return err
		}
		on = chain[len(chain)-4]
	}
	return os.WriteFile(overlay, []byte(backingOf(overlay, on)), 0o600)
}

// layersOf lists the generations below a simulated disk.
func layersOf(disk string) (list []string, err error) {
	for {
		text, err := os.ReadFile(disk)
		if err != nil {
			return list, err
		}
		disk = filepath.Join(filepath.Dir(disk), string(text))
		if filepath.Base(filepath.Dir(filepath.Dir(disk))) != filepath.Base(layout.Dir("").Generations()) {
			return list, nil
		}
		list = append(list, disk)
	}
}

// Disk returns the file to which the machine writes.
func (h *handle) Disk(ctx context.Context) (string, error) {
	if err := h.w.step(ctx, "disk-name"); err != nil {
		return "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.active, nil
}

// Writes returns the file to which a VM's machine writes; "" = it has no machine.
func (w *World) Writes(id vm.ID) string {
	m := w.find(id)
	if m == nil {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.active
}

// Held reports whether a VM's machine is paused after a capture.
func (w *World) Held(id vm.ID) bool {
	m := w.find(id)
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// Stand pauses a VM's machine without the engine's knowledge.
func (w *World) Stand(id vm.ID) {
	if m := w.find(id); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.held = true
	}
}

// remember returns the running commands.
func (g *guest) remember() *memory {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.m.mu.Lock()
	m := &memory{keys: slices.Clone(g.m.keys)}
	g.m.mu.Unlock()
	for _, p := range g.procs {
		p.mu.Lock()
		if p.info.EndedAt == nil {
			m.procs = append(m.procs, p.info)
		}
		p.mu.Unlock()
	}
	g.mounts.mu.Lock()
	defer g.mounts.mu.Unlock()
	m.mounts = maps.Clone(g.mounts.at)
	return m
}

// recall starts the commands in the memory again, with the same ids.
func (g *guest) recall(m *memory) error {
	g.mounts.mu.Lock()
	g.mounts.at = maps.Clone(m.mounts)
	g.mounts.mu.Unlock()
	for _, info := range m.procs {
		p, err := g.spawn(context.Background(), vm.ExecSpec{Argv: info.Argv, Cwd: info.Cwd}, true)
		if err != nil {
			return err
		}
		g.mu.Lock()
		delete(g.procs, p.info.ID)
		p.mu.Lock()
		p.info.ID, p.info.PID, p.info.StartedAt = info.ID, info.PID, info.StartedAt
		p.mu.Unlock()
		g.procs[info.ID] = p
		g.mu.Unlock()
	}
	return nil
}
