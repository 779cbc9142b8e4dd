// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// VolumeRequest asks for a volume.
type VolumeRequest struct {
	Project string // "" = default
	Name    string
	SizeMiB int // 0 = vm.DefaultVolumeMiB
	Slot    vm.VolumeSlotSpec
}

// CreateVolume makes a volume, which is locked and has no file system yet.
func (vt *Vault) CreateVolume(ctx context.Context, c *vm.Call, r VolumeRequest) (info Info, err error) {
	defer func() { err = vt.fail(vm.OpVolumeCreate, r.Name, err) }()
	if err := c.Actor.OwnerOnly(""); err != nil {
		return info, err
	}
	rec, err := vt.plan(c, r)
	if err != nil {
		return info, err
	}
	end, err := vt.record(ctx, c, vm.OpVolumeCreate, rec, map[string]any{"sizeMib": rec.SizeMiB, "slot": r.Slot.Kind()})
	if err != nil {
		return info, err
	}
	defer func() { end(err, nil) }()
	free, err := vt.claim(rec)
	if err != nil {
		return info, err
	}
	defer free()
	if err := vt.build(ctx, rec, r.Slot); err != nil {
		return info, err
	}
	v := vt.of(rec)
	v.Emit("volume.created", nil)
	return v.Info(), nil
}

func (vt *Vault) plan(c *vm.Call, r VolumeRequest) (vm.Volume, error) {
	if err := vm.CheckName(r.Name); err != nil {
		return vm.Volume{}, vm.AsError(err).WithCode("VOLUME_NAME_INVALID", "name", r.Name)
	}
	project, err := checkProject(r.Project)
	if err != nil {
		return vm.Volume{}, err
	}
	size := cmp.Or(r.SizeMiB, vm.DefaultVolumeMiB)
	if err := checkSize(size); err != nil {
		return vm.Volume{}, err
	}
	return vm.Volume{ID: vm.NewVolumeID(), Account: c.Actor.Account, Project: project, Name: r.Name, SizeMiB: size, CreatedAt: vt.now()}, nil
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

func checkSize(mib int) error {
	if mib >= vm.MinVolumeMiB && mib <= vm.MaxVolumeMiB {
		return nil
	}
	return vm.Errorf(vm.Invalid, "size", "%d MiB are out of range", mib).
		WithCode("VOLUME_SIZE_INVALID", "got", mib, "min", vm.MinVolumeMiB, "max", vm.MaxVolumeMiB).
		WithHint("use %d to %d MiB", vm.MinVolumeMiB, vm.MaxVolumeMiB)
}

// claim reserves the name of a new volume until free is called. By then the name has a
// record, or is unused.
func (vt *Vault) claim(rec vm.Volume) (free func(), err error) {
	name := nameKey(rec.Account, rec.Project, rec.Name)
	vt.mu.Lock()
	defer vt.mu.Unlock()
	if vt.closed {
		return nil, errClosed
	}
	if vt.claimed[name] || len(vt.table.By(byName, name)) > 0 {
		return nil, vm.Errorf(vm.Exists, rec.Name, "the project %s has a volume of this name", rec.Project).
			WithCode("VOLUME_EXISTS", "name", rec.Name, "project", rec.Project).
			WithHint("choose another name, or another project with --project")
	}
	vt.claimed[name] = true
	return func() {
		vt.mu.Lock()
		defer vt.mu.Unlock()
		delete(vt.claimed, name)
	}, nil
}

// build makes the files and then the record. The next server removes files without a
// record.
func (vt *Vault) build(ctx context.Context, rec vm.Volume, slot vm.VolumeSlotSpec) error {
	if err := vt.vms.DiskSpace(ctx); err != nil {
		return err
	}
	if err := vt.files.Create(ctx, rec.ID, rec.SizeMiB, slot); err != nil {
		return err
	}
	if err := vt.table.Create(ctx, rec); err != nil {
		return errors.Join(err, vt.files.Remove(rec.ID))
	}
	return nil
}

// Volumes lists volumes by project and name: of one project, or of all if project is "".
// With a VM it lists only the volumes that this VM has mounted.
func (vt *Vault) Volumes(_ context.Context, c *vm.Call, project, ofVM string) ([]Info, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, vt.fail(vm.OpList, ofVM, err)
	}
	all := vt.AllVolumes
	if ofVM != "" {
		id, err := vt.vms.Find(c, ofVM)
		if err != nil {
			return nil, vt.fail(vm.OpList, ofVM, err)
		}
		all = func() []*Volume { return vt.VolumesIn(id) }
	}
	var list []Info
	for _, v := range all() {
		if v.first.Account == c.Actor.Account && (project == "" || v.first.Project == project) {
			list = append(list, v.Info())
		}
	}
	slices.SortFunc(list, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// VolumeOf returns one volume with its slots.
func (vt *Vault) VolumeOf(_ context.Context, c *vm.Call, ref Ref) (Info, error) {
	v, err := vt.FindVolume(c, ref)
	if err != nil {
		return Info{}, vt.fail(vm.OpGet, ref.Volume, err)
	}
	info := v.Info()
	info.Slots, err = vt.files.Slots(v.ID())
	return info, vt.fail(vm.OpGet, ref.Volume, err)
}

// RemoveVolume erases a volume that no VM has mounted.
func (vt *Vault) RemoveVolume(ctx context.Context, c *vm.Call, ref Ref) (info Info, err error) {
	defer func() { err = vt.fail(vm.OpVolumeRemove, ref.Volume, err) }()
	v, err := vt.FindVolume(c, ref)
	if err != nil {
		return info, err
	}
	v.Reserve()
	defer v.Release()
	if err := v.notMounted("unmount it first, or stop the VM"); err != nil {
		return info, err
	}
	info = v.Info()
	end, err := vt.record(ctx, c, vm.OpVolumeRemove, info.Volume, nil)
	if err != nil {
		return info, err
	}
	defer func() { end(err, nil) }()
	v.forgetKey()
	if err := vt.files.Remove(v.ID()); err != nil {
		return info, err
	}
	if err := vt.table.Drop(ctx, v.ID()); err != nil {
		return info, err
	}
	vt.forget(v.ID())
	v.Emit("volume.removed", nil)
	return info, nil
}

// ResizeVolume grows a volume that is unlocked and not mounted. Its file system grows at
// the next writable mount.
func (vt *Vault) ResizeVolume(ctx context.Context, c *vm.Call, ref Ref, sizeMiB int) (info Info, err error) {
	defer func() { err = vt.fail(vm.OpVolumeResize, ref.Volume, err) }()
	v, err := vt.FindVolume(c, ref)
	if err != nil {
		return info, err
	}
	v.Reserve()
	defer v.Release()
	if err := v.notMounted("unmount it first"); err != nil {
		return info, err
	}
	rec := v.Record()
	if err := checkSize(sizeMiB); err != nil {
		return info, err
	}
	if sizeMiB < rec.SizeMiB {
		return info, vm.Errorf(vm.Invalid, rec.Name, "the volume has %d MiB and cannot shrink to %d", rec.SizeMiB, sizeMiB).
			WithCode("VOLUME_SIZE_INVALID", "got", sizeMiB, "min", rec.SizeMiB).WithHint("make a smaller volume and copy your files into it")
	}
	key, err := v.Key()
	if err != nil {
		return info, err
	}
	defer clear(key)
	end, err := vt.record(ctx, c, vm.OpVolumeResize, rec, map[string]any{"from": rec.SizeMiB, "to": sizeMiB})
	if err != nil {
		return info, err
	}
	defer func() { end(err, nil) }()
	if sizeMiB > rec.SizeMiB {
		if err := vt.files.Grow(ctx, v.ID(), key, sizeMiB); err != nil {
			return info, err
		}
		if _, err := v.update(ctx, func(r *vm.Volume) { r.SizeMiB, r.Grown = sizeMiB, r.Formatted }); err != nil {
			return info, err
		}
	}
	v.Emit("volume.resized", map[string]any{"sizeMib": sizeMiB})
	return v.Info(), nil
}

// RemainingVolumes lists the volumes of an account that a VM has mounted, and those in
// had that still exist.
func (vt *Vault) RemainingVolumes(account vm.AccountID, id vm.ID, had []vm.VolumeID) []vm.RemainingVolume {
	list := []vm.RemainingVolume{}
	for _, v := range vt.AllVolumes() {
		rec := v.Record()
		m, has := rec.MountOf(id)
		if rec.Account != account || !has && !slices.Contains(had, rec.ID) {
			continue
		}
		info := v.Info()
		out := vm.RemainingVolume{ID: rec.ID, Name: rec.Name, Project: rec.Project, Path: m.Path, Unlocked: info.Unlocked, Bytes: info.UsedBytes}
		for _, m := range info.Mounts {
			if m.VM != id {
				out.UsedBy = append(out.UsedBy, cmp.Or(info.VMNames[m.VM], string(m.VM)))
			}
		}
		list = append(list, out)
	}
	slices.SortFunc(list, func(a, b vm.RemainingVolume) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Name, b.Name))
	})
	return list
}
