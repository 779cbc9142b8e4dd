// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Volumes simulates the files of volumes. Its disks remember whether they have a file
// system.
type Volumes struct {
	// OnOpen, if set before the first use, is called at the beginning of each Open.
	OnOpen func(id vm.VolumeID)

	mu sync.Mutex
	// guarded by mu
	files map[vm.VolumeID]*simVolume
}

type simVolume struct {
	key       vm.VolumeKey
	slots     []vm.VolumeSlot
	secrets   map[string]vm.VolumeSlotSpec // by the id of a slot
	sizeMiB   int
	formatted bool
	writers   int
	readers   int
	snapshots []string
}

// NewVolumes returns a simulator without volumes.
func NewVolumes() *Volumes { return &Volumes{files: map[vm.VolumeID]*simVolume{}} }

func (s *Volumes) find(id vm.VolumeID) (*simVolume, error) {
	if v := s.files[id]; v != nil {
		return v, nil
	}
	return nil, vm.Errorf(vm.NotFound, string(id), "no such volume")
}

// Create makes a volume.
func (s *Volumes) Create(_ context.Context, id vm.VolumeID, sizeMiB int, slot vm.VolumeSlotSpec) error {
	s.mu.Lock()
	v := &simVolume{key: vm.VolumeKey("key of " + id), secrets: map[string]vm.VolumeSlotSpec{}, sizeMiB: sizeMiB}
	s.files[id] = v
	s.mu.Unlock()
	_, err := s.AddSlot(id, v.key, slot)
	return err
}

// Remove removes a volume.
func (s *Volumes) Remove(id vm.VolumeID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, id)
	return nil
}

// List returns the ids of all volumes.
func (s *Volumes) List() (out []vm.VolumeID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.files {
		out = append(out, id)
	}
	return out, nil
}

// Open returns the key if the secret opens a slot.
func (s *Volumes) Open(_ context.Context, id vm.VolumeID, secret vm.VolumeSecret, _ bool) (vm.VolumeKey, bool, error) {
	if s.OnOpen != nil {
		s.OnOpen(id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.find(id)
	if err != nil {
		return nil, false, err
	}
	for _, spec := range v.secrets {
		if spec.Passphrase == secret.Passphrase && spec.Recipient == strings.Replace(secret.Identity, "SECRET", "PUBLIC", 1) {
			return slices.Clone(v.key), false, nil
		}
	}
	return nil, false, vm.Errorf(vm.Denied, string(id), "this secret opens none of the volume's slots").WithCode("VOLUME_SECRET_REFUSED")
}

// Slots lists the slots.
func (s *Volumes) Slots(id vm.VolumeID) ([]vm.VolumeSlot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.find(id)
	if err != nil {
		return nil, err
	}
	return slices.Clone(v.slots), nil
}

// AddSlot adds a slot.
func (s *Volumes) AddSlot(id vm.VolumeID, key vm.VolumeKey, spec vm.VolumeSlotSpec) (vm.VolumeSlot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.find(id)
	if err != nil {
		return vm.VolumeSlot{}, err
	}
	if !bytes.Equal(key, v.key) {
		return vm.VolumeSlot{}, vm.Errorf(vm.Internal, string(id), "not the volume's key: %q", []byte(key))
	}
	slot := vm.VolumeSlot{ID: vm.NewSlotID(), Kind: spec.Kind(), Name: spec.Name, CreatedAt: time.Now()}
	v.slots, v.secrets[slot.ID] = append(v.slots, slot), spec
	return slot, nil
}

// RemoveSlot removes a slot.
func (s *Volumes) RemoveSlot(id vm.VolumeID, slot string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.find(id)
	if err != nil {
		return err
	}
	delete(v.secrets, slot)
	v.slots = slices.DeleteFunc(v.slots, func(o vm.VolumeSlot) bool { return o.ID == slot })
	return nil
}

// Rotate changes the key.
func (s *Volumes) Rotate(_ context.Context, id vm.VolumeID, key vm.VolumeKey) (vm.VolumeKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.find(id)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(key, v.key) {
		return nil, vm.Errorf(vm.Internal, string(id), "not the volume's key: %q", []byte(key))
	}
	v.key = append(v.key, " again"...)
	return slices.Clone(v.key), nil
}

// Grow grows a volume.
func (s *Volumes) Grow(_ context.Context, id vm.VolumeID, _ vm.VolumeKey, sizeMiB int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.find(id)
	if err != nil {
		return err
	}
	v.sizeMiB = sizeMiB
	return nil
}

// Snapshot keeps a snapshot.
func (s *Volumes) Snapshot(_ context.Context, id vm.VolumeID, key vm.VolumeKey, snapshot string) error {
	return s.findSnapshot(id, key, func(v *simVolume) error {
		v.snapshots = append(v.snapshots, snapshot)
		return nil
	})
}

// Revert checks that the snapshot exists.
func (s *Volumes) Revert(_ context.Context, id vm.VolumeID, key vm.VolumeKey, snapshot string) error {
	return s.findSnapshot(id, key, func(v *simVolume) error {
		if !slices.Contains(v.snapshots, snapshot) {
			return vm.Errorf(vm.Internal, snapshot, "no such snapshot")
		}
		return nil
	})
}

// DropSnapshot removes a snapshot.
func (s *Volumes) DropSnapshot(_ context.Context, id vm.VolumeID, key vm.VolumeKey, snapshot string) error {
	return s.findSnapshot(id, key, func(v *simVolume) error {
		v.snapshots = slices.DeleteFunc(v.snapshots, func(o string) bool { return o == snapshot })
		return nil
	})
}

func (s *Volumes) findSnapshot(id vm.VolumeID, key vm.VolumeKey, do func(*simVolume) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.find(id)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(key, v.key):
		return vm.Errorf(vm.Internal, string(id), "not the volume's key")
	case v.writers > 0 || v.readers > 0:
		return vm.Errorf(vm.Busy, string(id), "another process uses its disk")
	}
	return do(v)
}

// BackUp does nothing.
func (s *Volumes) BackUp(vm.VolumeID) error { return nil }

// Snapshots lists the snapshots on a volume's disk.
func (s *Volumes) Snapshots(id vm.VolumeID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.files[id]; v != nil {
		return slices.Clone(v.snapshots)
	}
	return nil
}

// Disk returns the path of a volume's disk, which does not exist.
func (s *Volumes) Disk(id vm.VolumeID) string { return "/volumes/" + string(id) }

// Used returns 0.
func (s *Volumes) Used(vm.VolumeID) (int64, error) { return 0, nil }

// plug opens a volume's disk like QEMU: with the right key, and as its locks allow.
func (s *Volumes) plug(v vm.PluggedVolume, key vm.VolumeKey) error {
	if v.Cut {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.find(v.ID)
	if err != nil {
		return err
	}
	switch {
	case !bytes.Equal(key, f.key):
		return vm.Errorf(vm.Corrupt, string(v.ID), "its disk does not open with its key")
	case v.Share: // without locks
		return nil
	case f.writers > 0 || !v.ReadOnly && f.readers > 0:
		return vm.Errorf(vm.Busy, string(v.ID), "another process has its disk open")
	}
	if v.ReadOnly {
		f.readers++
	} else {
		f.writers++
	}
	return nil
}

func (s *Volumes) unplug(v vm.PluggedVolume) {
	if v.Cut || v.Share {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[v.ID]; f != nil && v.ReadOnly {
		f.readers--
	} else if f != nil {
		f.writers--
	}
}

// holds is what a guest finds on a disk; with format it makes a file system.
func (s *Volumes) holds(id vm.VolumeID, format bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[id]
	if f == nil {
		return vm.DiskForeign
	}
	f.formatted = f.formatted || format
	if f.formatted {
		return vm.DiskClean
	}
	return vm.DiskEmpty
}

// PlugVolume attaches a volume's disk to the machine.
func (h *handle) PlugVolume(ctx context.Context, v vm.PluggedVolume, key vm.VolumeKey) error {
	if err := h.w.step(ctx, "plug"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.spec.Plugged.Volumes) == maxVolumes {
		return vm.Errorf(vm.Limit, string(h.spec.ID), "no place").WithCode("VOLUME_LIMIT_EXCEEDED")
	}
	if err := h.w.Volumes.plug(v, key); err != nil {
		return err
	}
	h.spec.Plugged.Volumes = append(slices.Clone(h.spec.Plugged.Volumes), v)
	return nil
}

const maxVolumes = 4

// UnplugVolume detaches a volume's disk.
func (h *handle) UnplugVolume(ctx context.Context, id vm.VolumeID) error {
	if err := h.w.step(ctx, "unplug"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guest.uses(id) {
		return vm.Errorf(vm.GuestFault, string(h.spec.ID), "the guest does not release the disk of %s", id)
	}
	h.dropVolume(id)
	return nil
}

// SnapshotVolume makes a snapshot of a disk to which the machine writes.
func (h *handle) SnapshotVolume(ctx context.Context, id vm.VolumeID, snapshot string) error {
	return h.volumeSnapshot(ctx, id, func(v *simVolume) { v.snapshots = append(v.snapshots, snapshot) })
}

// DropVolumeSnapshot removes one.
func (h *handle) DropVolumeSnapshot(ctx context.Context, id vm.VolumeID, snapshot string) error {
	return h.volumeSnapshot(ctx, id, func(v *simVolume) {
		v.snapshots = slices.DeleteFunc(v.snapshots, func(o string) bool { return o == snapshot })
	})
}

func (h *handle) volumeSnapshot(ctx context.Context, id vm.VolumeID, do func(*simVolume)) error {
	if err := h.w.step(ctx, "volume-snapshot"); err != nil {
		return err
	}
	_, p, ok := h.plugged(id)
	if !ok || p.ReadOnly || p.Cut {
		return vm.Errorf(vm.Internal, string(id), "not a disk that the machine writes")
	}
	h.w.Volumes.mu.Lock()
	defer h.w.Volumes.mu.Unlock()
	v, err := h.w.Volumes.find(id)
	if err == nil {
		do(v)
	}
	return err
}

func (m *machine) dropVolume(id vm.VolumeID) {
	m.spec.Plugged.Volumes = slices.DeleteFunc(slices.Clone(m.spec.Plugged.Volumes), func(v vm.PluggedVolume) bool {
		if v.ID == id {
			m.w.Volumes.unplug(v)
		}
		return v.ID == id
	})
}

// dropVolumes closes the disks of a machine that has ended.
func (m *machine) dropVolumes() {
	for _, v := range m.spec.Plugged.Volumes {
		m.w.Volumes.unplug(v)
	}
}

func (m *machine) plugged(id vm.VolumeID) (at int, v vm.PluggedVolume, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, v := range m.spec.Plugged.Volumes {
		if v.ID == id {
			return i, v, true
		}
	}
	return 0, v, false
}

// mounts holds the volumes that a guest has mounted, by path.
type mounts struct {
	mu sync.Mutex
	// guarded by mu
	at   map[string]vm.VolumeUse
	busy string // a program that uses all of them; "" = none

	scrubs int // of free memory
}

func (g *guest) uses(id vm.VolumeID) bool {
	g.mounts.mu.Lock()
	defer g.mounts.mu.Unlock()
	for _, u := range g.mounts.at {
		if u.ID == id {
			return true
		}
	}
	return false
}

// Disk finds a volume's disk.
func (g *guest) Disk(ctx context.Context, id vm.VolumeID) (device, holds string, err error) {
	if err := g.m.w.step(ctx, "disk"); err != nil {
		return "", "", err
	}
	at, _, ok := g.m.plugged(id)
	if !ok {
		return "", "", vm.Errorf(vm.GuestFault, string(id), "the kernel has not found the disk")
	}
	return fmt.Sprintf("/dev/vd%c", 'b'+at), g.m.w.Volumes.holds(id, false), nil
}

// Mount mounts a volume's disk.
func (g *guest) Mount(ctx context.Context, u vm.VolumeUse) error {
	if err := g.m.w.step(ctx, "mount"); err != nil {
		return err
	}
	_, v, ok := g.m.plugged(u.ID)
	switch {
	case ok && v.Cut:
		return vm.Errorf(vm.GuestFault, string(u.ID), "input/output error")
	case !ok:
		return vm.Errorf(vm.GuestFault, string(u.ID), "the kernel has not found the disk")
	case g.m.w.Volumes.holds(u.ID, u.RW && !v.ReadOnly) == vm.DiskEmpty:
		return vm.Errorf(vm.GuestFault, u.Path, "no file system")
	}
	g.mounts.mu.Lock()
	defer g.mounts.mu.Unlock()
	if g.mounts.at == nil {
		g.mounts.at = map[string]vm.VolumeUse{}
	}
	g.mounts.at[u.Path] = u
	return nil
}

// Unmount removes a mount.
func (g *guest) Unmount(ctx context.Context, path string, force bool) error {
	if err := g.m.w.step(ctx, "unmount"); err != nil {
		return err
	}
	g.mounts.mu.Lock()
	defer g.mounts.mu.Unlock()
	if g.mounts.busy != "" && !force {
		return vm.Errorf(vm.Busy, path, "it is in use by %s", g.mounts.busy).WithCode("VOLUME_BUSY", "processes", []string{g.mounts.busy})
	}
	g.mounts.busy = ""
	delete(g.mounts.at, path)
	return nil
}

// Scrub fails while a volume is mounted, since it would not scrub that volume's data.
func (g *guest) Scrub(ctx context.Context) error {
	if err := g.m.w.step(ctx, "scrub"); err != nil {
		return err
	}
	g.mounts.mu.Lock()
	defer g.mounts.mu.Unlock()
	if len(g.mounts.at) > 0 {
		return vm.Errorf(vm.Internal, string(g.m.spec.ID), "scrubbed with a volume mounted")
	}
	g.mounts.scrubs++
	return nil
}

// Scrubs counts how often a VM's free memory was scrubbed.
func (w *World) Scrubs(id vm.ID) int {
	m := w.find(id)
	if m == nil {
		return 0
	}
	m.guest.mounts.mu.Lock()
	defer m.guest.mounts.mu.Unlock()
	return m.guest.mounts.scrubs
}

// Mounted returns what a VM's guest has mounted, by path.
func (w *World) Mounted(id vm.ID) map[string]vm.VolumeUse {
	out := map[string]vm.VolumeUse{}
	if m := w.find(id); m != nil {
		m.guest.mounts.mu.Lock()
		defer m.guest.mounts.mu.Unlock()
		for p, u := range m.guest.mounts.at {
			out[p] = u
		}
	}
	return out
}

// Occupy makes a program of a guest use its volumes.
func (w *World) Occupy(id vm.ID, program string) {
	if m := w.find(id); m != nil {
		m.guest.mounts.mu.Lock()
		defer m.guest.mounts.mu.Unlock()
		m.guest.mounts.busy = program
	}
}
