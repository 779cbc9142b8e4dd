// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/vm"
)

// volume is the engine's view of one managed volume.
type volume struct {
	id      vm.VolumeID
	account vm.AccountID
	work    sync.Mutex // held while it is unlocked, locked, mounted, grown or removed
	write   sync.Mutex // held while its record is written; before Engine.mu

	// guarded by Engine.mu
	rec      vm.Volume
	key      vm.VolumeKey // nil = locked
	since    time.Time    // of the unlocking
	until    time.Time    // when it is locked again; zero = not by time
	keep     bool         // stays unlocked when its last VM ends
	relocked chan struct{}
	gone     bool
}

// VolumeRef names a volume: an id, or a name in a project ("" = default).
type VolumeRef struct {
	Project string
	Volume  string
}

// VolumeRequest asks for a volume.
type VolumeRequest struct {
	Project string // "" = default
	Name    string
	SizeMiB int // 0 = vm.DefaultVolumeMiB
	Slot    vm.VolumeSlotSpec
}

// VolumeInfo is a volume with what is known of it now.
type VolumeInfo struct {
	vm.Volume
	Unlocked   bool
	UnlockedAt time.Time
	LocksAt    time.Time       // zero = not by time
	UsedBytes  int64           // of the host's disk
	Slots      []vm.VolumeSlot // only of VolumeOf
	VMNames    map[vm.ID]string
}

// CreateVolume makes a volume, which is locked and has no file system yet.
func (e *Engine) CreateVolume(ctx context.Context, c *vm.Call, r VolumeRequest) (info VolumeInfo, err error) {
	defer func() { err = fail(vm.OpVolumeCreate, r.Name, err) }()
	rec, err := planVolume(c, r, e.now())
	if err != nil {
		return info, err
	}
	rcpt, err := e.recordVolume(ctx, c, vm.OpVolumeCreate, rec, map[string]any{"sizeMib": rec.SizeMiB, "slot": r.Slot.Kind()})
	if err != nil {
		return info, err
	}
	defer func() { rcpt.End(err, nil) }()
	v := &volume{id: rec.ID, account: rec.Account, rec: rec}
	v.work.Lock()
	defer v.work.Unlock()
	if err := e.claimVolume(v); err != nil {
		return info, err
	}
	if err := e.makeVolume(ctx, v, r.Slot); err != nil {
		e.mu.Lock()
		delete(e.vols, v.id)
		v.gone = true
		e.mu.Unlock()
		return info, err
	}
	e.emitVolume(v, "volume.created", nil)
	return e.volumeInfo(v), nil
}

func planVolume(c *vm.Call, r VolumeRequest, now time.Time) (vm.Volume, error) {
	if err := vm.CheckName(r.Name); err != nil {
		return vm.Volume{}, vm.AsError(err).WithCode("VOLUME_NAME_INVALID", "name", r.Name)
	}
	project, err := checkProject(r.Project)
	if err != nil {
		return vm.Volume{}, err
	}
	size := cmp.Or(r.SizeMiB, vm.DefaultVolumeMiB)
	if err := checkVolumeSize(size); err != nil {
		return vm.Volume{}, err
	}
	return vm.Volume{ID: vm.NewVolumeID(), Account: c.Actor.Account, Project: project, Name: r.Name, SizeMiB: size, CreatedAt: now}, nil
}

func checkProject(p string) (string, error) {
	if p == "" {
		return vm.DefaultProject, nil
	}
	if err := vm.CheckName(p); err != nil {
		return "", vm.Errorf(vm.Invalid, p, "not a name for a project").WithCode("VOLUME_NAME_INVALID", "project", p).
			WithHint("use a-z, 0-9 and -, beginning with a letter")
	}
	return p, nil
}

func checkVolumeSize(mib int) error {
	if mib >= vm.MinVolumeMiB && mib <= vm.MaxVolumeMiB {
		return nil
	}
	return vm.Errorf(vm.Invalid, "size", "%d MiB are out of range", mib).
		WithCode("VOLUME_SIZE_INVALID", "got", mib, "min", vm.MinVolumeMiB, "max", vm.MaxVolumeMiB).
		WithHint("use %d to %d MiB", vm.MinVolumeMiB, vm.MaxVolumeMiB)
}

// claimVolume takes the name of a new volume.
func (e *Engine) claimVolume(v *volume) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed
	}
	for _, o := range e.vols {
		if o.account == v.account && o.rec.Project == v.rec.Project && o.rec.Name == v.rec.Name {
			return vm.Errorf(vm.Exists, v.rec.Name, "the project %s has a volume of this name", v.rec.Project).
				WithCode("VOLUME_EXISTS", "name", v.rec.Name, "project", v.rec.Project).
				WithHint("choose another name, or another project with --project")
		}
	}
	e.vols[v.id] = v
	return nil
}

// makeVolume makes the files and then the record: files without a record are
// removed by the next server.
func (e *Engine) makeVolume(ctx context.Context, v *volume, slot vm.VolumeSlotSpec) error {
	have, err := e.cfg.Host.Capacity(ctx)
	if err != nil {
		return err
	}
	if have.DiskFree < e.cfg.Settings.DiskReserve {
		return vm.Errorf(vm.NoSpace, "", "%d MiB of disk are free, %d MiB are kept in reserve", have.DiskFree>>20, e.cfg.Settings.DiskReserve>>20).
			WithCode("NO_LOCAL_STORAGE_CAPACITY").WithHint("delete VMs or volumes: `warren storage` says what each VM frees, `warren volume ls` lists volumes")
	}
	if err := e.cfg.Volumes.Create(ctx, v.id, v.rec.SizeMiB, slot); err != nil {
		return err
	}
	wctx, stop := durable(ctx)
	defer stop()
	rev, err := e.cfg.Records.Volumes.Create(wctx, v.rec)
	if err != nil {
		if !decided(err) { // it may be there all the same
			undo, stop := durable(ctx)
			defer stop()
			err = joinUndo(err, gone(e.cfg.Records.Volumes.Delete(undo, v.rec)))
		}
		return joinUndo(err, e.cfg.Volumes.Remove(v.id))
	}
	e.mu.Lock()
	v.rec.Revision = rev
	e.mu.Unlock()
	return nil
}

// Volumes lists volumes by project and name: of one project, or of all when it
// is "". With a VM, only those that it has mounted.
func (e *Engine) Volumes(_ context.Context, c *vm.Call, project, ofVM string) ([]VolumeInfo, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, fail(vm.OpList, ofVM, err)
	}
	var id vm.ID
	if ofVM != "" {
		s, err := e.lookup(c, ofVM)
		if err != nil {
			return nil, fail(vm.OpList, ofVM, err)
		}
		id = s.id
	}
	var list []VolumeInfo
	for _, v := range e.allVolumes() {
		info := e.volumeInfo(v)
		_, mounted := info.MountOf(id)
		if v.account != c.Actor.Account || project != "" && info.Project != project || ofVM != "" && !mounted {
			continue
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b VolumeInfo) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

func (e *Engine) allVolumes() []*volume {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]*volume, 0, len(e.vols))
	for _, v := range e.vols {
		list = append(list, v)
	}
	return list
}

// VolumeOf returns one volume with its slots.
func (e *Engine) VolumeOf(_ context.Context, c *vm.Call, ref VolumeRef) (VolumeInfo, error) {
	v, err := e.findVolume(c, ref)
	if err != nil {
		return VolumeInfo{}, fail(vm.OpGet, ref.Volume, err)
	}
	info := e.volumeInfo(v)
	if info.Slots, err = e.cfg.Volumes.Slots(v.id); err != nil {
		return info, fail(vm.OpGet, ref.Volume, err)
	}
	return info, nil
}

// findVolume finds a volume of the caller's account.
func (e *Engine) findVolume(c *vm.Call, ref VolumeRef) (*volume, error) {
	project, err := checkProject(ref.Project)
	if err == nil {
		err = c.Actor.OwnerOnly("")
	}
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if v := e.vols[vm.VolumeID(ref.Volume)]; v != nil && v.account == c.Actor.Account {
		return v, nil
	}
	for _, v := range e.vols {
		if v.account == c.Actor.Account && v.rec.Project == project && v.rec.Name == ref.Volume {
			return v, nil
		}
	}
	return nil, noVolume(project, ref.Volume)
}

func noVolume(project, name string) error {
	return vm.Errorf(vm.NotFound, name, "the project %s has no such volume", project).
		WithCode("VOLUME_NOT_FOUND", "volume", name, "project", project).WithHint("`warren volume ls` lists them all")
}

// volumeInfo is the volume as it is now, without its slots.
func (e *Engine) volumeInfo(v *volume) VolumeInfo {
	used, err := e.cfg.Volumes.Used(v.id)
	if err != nil {
		used = 0 // its files are gone; who unlocks it is told
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	info := VolumeInfo{Volume: v.rec, Unlocked: v.key != nil, UnlockedAt: v.since, LocksAt: v.until, UsedBytes: used, VMNames: map[vm.ID]string{}}
	info.Mounts = slices.Clone(v.rec.Mounts)
	for _, m := range info.Mounts {
		if s := e.vms[m.VM]; s != nil {
			info.VMNames[m.VM] = label(s.rec)
		}
	}
	return info
}

func (e *Engine) volumeRecord(v *volume) vm.Volume {
	e.mu.Lock()
	defer e.mu.Unlock()
	rec := v.rec
	rec.Mounts = slices.Clone(rec.Mounts)
	return rec
}

// updateVolume changes the record of a volume durably, and then in memory.
func (e *Engine) updateVolume(ctx context.Context, v *volume, change func(*vm.Volume)) (vm.Volume, error) {
	if e.dead.Load() {
		return vm.Volume{}, ErrDied
	}
	v.write.Lock()
	defer v.write.Unlock()
	rec := e.volumeRecord(v)
	change(&rec)
	ctx, stop := durable(ctx)
	defer stop()
	rev, err := e.cfg.Records.Volumes.Update(ctx, rec)
	if err != nil {
		return vm.Volume{}, err
	}
	rec.Revision = rev
	e.mu.Lock()
	defer e.mu.Unlock()
	v.rec = rec
	return rec, nil
}

// RemoveVolume erases a volume that no VM has mounted.
func (e *Engine) RemoveVolume(ctx context.Context, c *vm.Call, ref VolumeRef) (info VolumeInfo, err error) {
	defer func() { err = fail(vm.OpVolumeRemove, ref.Volume, err) }()
	v, err := e.findVolume(c, ref)
	if err != nil {
		return info, err
	}
	v.work.Lock()
	defer v.work.Unlock()
	if err := e.notMounted(v, "unmount it first, or stop the VM"); err != nil {
		return info, err
	}
	info = e.volumeInfo(v)
	rcpt, err := e.recordVolume(ctx, c, vm.OpVolumeRemove, info.Volume, nil)
	if err != nil {
		return info, err
	}
	defer func() { rcpt.End(err, nil) }()
	e.sealVolume(v)
	if err := e.cfg.Volumes.Remove(v.id); err != nil {
		return info, err
	}
	wctx, stop := durable(ctx)
	defer stop()
	if err := e.cfg.Records.Volumes.Delete(wctx, info.Volume); err != nil && vm.KindOf(err) != vm.NotFound {
		return info, err
	}
	e.mu.Lock()
	delete(e.vols, v.id)
	v.gone = true
	e.mu.Unlock()
	e.emitVolume(v, "volume.removed", nil)
	return info, nil
}

// notMounted refuses what needs a volume that no VM has. The caller holds work.
func (e *Engine) notMounted(v *volume, hint string) error {
	info := e.volumeInfo(v)
	if v.isGone(e) {
		return noVolume(info.Project, info.Name)
	}
	if len(info.Mounts) == 0 {
		return nil
	}
	m := info.Mounts[0]
	return mounted(info.Volume, m, cmp.Or(info.VMNames[m.VM], string(m.VM))).WithHint("%s", hint)
}

// mounted refuses what cannot be while a VM has a volume.
func mounted(rec vm.Volume, m vm.VolumeMount, name string) *vm.Error {
	return vm.Errorf(vm.Busy, rec.Name, "it is mounted in %s at %s", name, m.Path).
		WithCode("VOLUME_IN_USE", "volume", string(rec.ID), "vmId", string(m.VM), "path", m.Path)
}

func (v *volume) isGone(e *Engine) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return v.gone
}

// ResizeVolume makes a volume that is unlocked and not mounted larger. Its file
// system follows at the next mount that may write.
func (e *Engine) ResizeVolume(ctx context.Context, c *vm.Call, ref VolumeRef, sizeMiB int) (info VolumeInfo, err error) {
	defer func() { err = fail(vm.OpVolumeResize, ref.Volume, err) }()
	v, err := e.findVolume(c, ref)
	if err != nil {
		return info, err
	}
	v.work.Lock()
	defer v.work.Unlock()
	if err := e.notMounted(v, "unmount it first"); err != nil {
		return info, err
	}
	rec := e.volumeRecord(v)
	if err := checkVolumeSize(sizeMiB); err != nil {
		return info, err
	}
	if sizeMiB < rec.SizeMiB {
		return info, vm.Errorf(vm.Invalid, rec.Name, "it has %d MiB and cannot shrink to %d", rec.SizeMiB, sizeMiB).
			WithCode("VOLUME_SIZE_INVALID", "got", sizeMiB, "min", rec.SizeMiB).WithHint("make a smaller volume and copy what you need into it")
	}
	key, err := e.volumeKey(v)
	if err != nil {
		return info, err
	}
	defer clear(key)
	rcpt, err := e.recordVolume(ctx, c, vm.OpVolumeResize, rec, map[string]any{"from": rec.SizeMiB, "to": sizeMiB})
	if err != nil {
		return info, err
	}
	defer func() { rcpt.End(err, nil) }()
	if sizeMiB > rec.SizeMiB {
		if err := e.cfg.Volumes.Grow(ctx, v.id, key, sizeMiB); err != nil {
			return info, err
		}
		if _, err := e.updateVolume(ctx, v, func(r *vm.Volume) { r.SizeMiB, r.Grown = sizeMiB, r.Formatted }); err != nil {
			return info, err
		}
	}
	e.emitVolume(v, "volume.resized", map[string]any{"sizeMib": sizeMiB})
	return e.volumeInfo(v), nil
}

// recordVolume writes the audit record of an action on a volume.
func (e *Engine) recordVolume(ctx context.Context, c *vm.Call, op vm.Op, rec vm.Volume, detail map[string]any) (*journal.Receipt, error) {
	if detail == nil {
		detail = map[string]any{}
	}
	detail["volume"] = string(rec.ID)
	return e.record(ctx, c, vm.AuditEntry{Op: op, Subject: rec.Project + "/" + rec.Name, Detail: detail})
}

func (e *Engine) emitVolume(v *volume, kind string, data map[string]any) {
	rec := e.volumeRecord(v)
	if data == nil {
		data = map[string]any{}
	}
	data["volume"], data["name"], data["project"] = string(rec.ID), rec.Name, rec.Project
	id, _ := data["vm"].(vm.ID)
	delete(data, "vm")
	e.cfg.Journal.Emit(vm.Event{Type: kind, VM: id, Account: rec.Account, Data: data})
}
