// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Volume is a handle of one managed volume. Its record is in the table.
type Volume struct {
	vault *Vault
	first vm.Volume  // the record when the handle was made
	work  sync.Mutex // see Reserve

	// guarded by Vault.mu
	key      vm.VolumeKey     // nil = locked
	since    time.Time        // when it was unlocked
	until    time.Time        // when it is locked again; zero = no limit
	keep     bool             // stay unlocked when its last VM ends
	relocked chan struct{}    // closed when it is locked or unlocked again
	ended    []vm.VolumeMount // ended mounts that the record may still have, until the store answers
}

// Ref names a volume: an id, or a name in a project ("" = default).
type Ref struct {
	Project string
	Volume  string
}

// Info is a volume with its current state.
type Info struct {
	vm.Volume
	Unlocked   bool
	UnlockedAt time.Time
	LocksAt    time.Time       // zero = no limit
	UsedBytes  int64           // of the host's disk
	Slots      []vm.VolumeSlot // set by VolumeOf only
	VMNames    map[vm.ID]string
}

// of returns the single handle of a volume.
func (vt *Vault) of(rec vm.Volume) *Volume {
	vt.mu.Lock()
	defer vt.mu.Unlock()
	if v := vt.known[rec.ID]; v != nil {
		return v
	}
	v := &Volume{vault: vt, first: rec}
	if !v.Gone() { // do not keep a volume that was removed meanwhile
		vt.known[rec.ID] = v
	}
	return v
}

func (vt *Vault) handles(recs []vm.Volume) []*Volume {
	out := make([]*Volume, 0, len(recs))
	for _, rec := range recs {
		out = append(out, vt.of(rec))
	}
	return out
}

// AllVolumes returns every volume, of all accounts.
func (vt *Vault) AllVolumes() []*Volume { return vt.handles(vt.table.All()) }

// VolumesIn returns the volumes that a VM has mounted.
func (vt *Vault) VolumesIn(id vm.ID) []*Volume {
	return slices.DeleteFunc(vt.handles(vt.table.By(byVM, string(id))), func(v *Volume) bool {
		_, has := v.Record().MountOf(id)
		return !has
	})
}

// VolumeRecords returns the record of every volume, of all accounts.
func (vt *Vault) VolumeRecords() []vm.Volume { return vt.table.All() }

// VolumeByID returns a volume of any account, or nil.
func (vt *Vault) VolumeByID(id vm.VolumeID) *Volume {
	rec, ok := vt.table.Get(id)
	if !ok {
		return nil
	}
	return vt.of(rec)
}

// FindVolume finds a volume of the caller's account. Kinds: NotFound, Invalid, and
// Denied for an identity.
func (vt *Vault) FindVolume(c *vm.Call, ref Ref) (*Volume, error) {
	project, err := checkProject(ref.Project)
	if err == nil {
		err = c.Actor.OwnerOnly("")
	}
	if err != nil {
		return nil, err
	}
	if rec, ok := vt.table.Get(vm.VolumeID(ref.Volume)); ok && rec.Account == c.Actor.Account {
		return vt.of(rec), nil
	}
	for _, rec := range vt.table.By(byName, nameKey(c.Actor.Account, project, ref.Volume)) {
		return vt.of(rec), nil
	}
	return nil, NoVolume(project, ref.Volume)
}

// NoVolume is the error for a volume that does not exist.
func NoVolume(project, name string) error {
	return vm.Errorf(vm.NotFound, name, "the project %s has no such volume", project).
		WithCode("VOLUME_NOT_FOUND", "volume", name, "project", project).WithHint("`warren volume ls` lists them all")
}

// NotThere is the error for a volume that no longer exists.
func (v *Volume) NotThere() error { return NoVolume(v.first.Project, v.first.Name) }

// ID is the volume's id.
func (v *Volume) ID() vm.VolumeID { return v.first.ID }

// Disk is the path of the volume's disk.
func (v *Volume) Disk() string { return v.vault.files.Disk(v.first.ID) }

// Reserve keeps others from unlocking, locking, mounting, unmounting, changing or
// removing the volume until Release. It blocks while somebody else has the volume
// reserved, which can take minutes. Reading and EndMount need no reservation.
func (v *Volume) Reserve() { v.work.Lock() }

// Release ends a reservation.
func (v *Volume) Release() { v.work.Unlock() }

// Record returns the volume's record or, for a removed volume, its record when the handle
// was made.
func (v *Volume) Record() vm.Volume {
	v.vault.mu.Lock()
	defer v.vault.mu.Unlock()
	return v.recordLocked()
}

func (v *Volume) recordLocked() vm.Volume {
	rec, ok := v.vault.table.Get(v.first.ID)
	if !ok {
		return v.first
	}
	if len(v.ended) > 0 {
		rec.Mounts = without(rec.Mounts, v.ended)
	}
	return rec
}

// Gone reports whether the volume has been removed.
func (v *Volume) Gone() bool {
	_, there := v.vault.table.Get(v.first.ID)
	return !there
}

// Info returns the current state of the volume without its slots. It reads the disk, and
// asks the engine for the names of VMs.
func (v *Volume) Info() Info {
	used, err := v.vault.files.Used(v.first.ID)
	if err != nil {
		used = 0 // its files are gone: unlocking it reports that
	}
	info := Info{Volume: v.Record(), UsedBytes: used, VMNames: map[vm.ID]string{}}
	for _, m := range info.Mounts {
		if name := v.vault.vms.Name(m.VM); name != "" {
			info.VMNames[m.VM] = name
		}
	}
	v.vault.mu.Lock()
	defer v.vault.mu.Unlock()
	info.Unlocked, info.UnlockedAt, info.LocksAt = v.key != nil, v.since, v.until
	return info
}

// update changes the volume's record durably, and removes ended mounts from it. change
// gets its own copies of mounts and snapshots, and may be called more than once.
func (v *Volume) update(ctx context.Context, change func(*vm.Volume)) (vm.Volume, error) {
	if err := v.vault.vms.Alive(); err != nil {
		return vm.Volume{}, err
	}
	return v.vault.table.Change(ctx, v.first.ID, func(rec *vm.Volume) error {
		v.vault.mu.Lock()
		ended := v.ended
		v.vault.mu.Unlock()
		rec.Mounts, rec.Snapshots = without(rec.Mounts, ended), slices.Clone(rec.Snapshots)
		change(rec)
		return nil
	})
}

// notMounted fails if a VM has the volume mounted. The caller has reserved the volume.
func (v *Volume) notMounted(hint string) error {
	if v.Gone() {
		return v.NotThere()
	}
	rec := v.Record()
	if len(rec.Mounts) == 0 {
		return nil
	}
	return v.inUse(rec, rec.Mounts[0]).WithHint("%s", hint)
}

// inUse returns the error for an action that is impossible while a VM has the volume
// mounted.
func (v *Volume) inUse(rec vm.Volume, m vm.VolumeMount) *vm.Error {
	name := cmp.Or(v.vault.vms.Name(m.VM), string(m.VM))
	return vm.Errorf(vm.Busy, rec.Name, "the volume is mounted in %s at %s", name, m.Path).
		WithCode("VOLUME_IN_USE", "volume", string(rec.ID), "vmId", string(m.VM), "path", m.Path)
}

// record writes the audit record of an action on a volume. The caller calls end
// with the outcome.
func (vt *Vault) record(ctx context.Context, c *vm.Call, op vm.Op, rec vm.Volume, detail map[string]any) (end func(error, map[string]any), err error) {
	if detail == nil {
		detail = map[string]any{}
	}
	detail["volume"] = string(rec.ID)
	return vt.journal.Record(ctx, c, vm.AuditEntry{Op: op, Subject: rec.Project + "/" + rec.Name, Detail: detail})
}

// Emit stores an event about the volume. data["vm"], a vm.ID, makes it an event of
// that VM, too.
func (v *Volume) Emit(kind string, data map[string]any) {
	if data == nil {
		data = map[string]any{}
	}
	data["volume"], data["name"], data["project"] = string(v.first.ID), v.first.Name, v.first.Project
	id, _ := data["vm"].(vm.ID)
	delete(data, "vm")
	v.vault.journal.Emit(vm.Event{Type: kind, VM: id, Account: v.first.Account, Data: data})
}
