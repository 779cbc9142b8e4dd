// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

func (s *server) volumeRoutes() []route {
	return []route{
		{"GET", "/v1/volumes", key, s.volumes, "Managed volumes: all, those of a project, or those that a VM has mounted.", nil, api.VolumeList{}, false, "project vm"},
		{"POST", "/v1/volumes", key, s.createVolume, "Make an encrypted volume, which is locked.", api.NewVolume{}, api.Volume{}, false, ""},
		{"GET", "/v1/volumes/{volume}", key, s.volume, "One volume, with the ways to unlock it.", nil, api.Volume{}, false, "project"},
		{"DELETE", "/v1/volumes/{volume}", key, s.removeVolume, "Erase a volume that no VM has mounted.", nil, okBody{}, false, "project"},
		{"POST", "/v1/volumes/{volume}/unlock", key, s.unlockVolume, "Make a volume ready to be mounted.", api.UnlockVolume{}, api.UnlockedVolume{}, false, "project"},
		{"POST", "/v1/volumes/{volume}/lock", key, s.lockVolume, "Lock a volume: remove its key from memory.", api.LockVolume{}, api.Volume{}, false, "project"},
		{"POST", "/v1/volumes/{volume}/resize", key, s.resizeVolume, "Grow an unlocked volume that no VM has mounted.", api.ResizeVolume{}, api.Volume{}, false, "project"},
		{"POST", "/v1/volumes/{volume}/keys", key, s.addVolumeKey, "Add a way to unlock a volume, which must be unlocked.", vm.VolumeSlotSpec{}, vm.VolumeSlot{}, false, "project"},
		{"POST", "/v1/volumes/{volume}/rotate", key, s.rotateVolume, "Give an unlocked volume that no VM has mounted another key.", nil, okBody{}, false, "project"},
		{"DELETE", "/v1/volumes/{volume}/keys/{slot}", key, s.removeVolumeKey, "Remove a way to unlock a volume.", nil, okBody{}, false, "project"},
		{"POST", "/v1/volumes/{volume}/snapshots", key, s.snapshotVolume, "Take a snapshot of an unlocked volume.", api.NewVolumeSnapshot{}, vm.VolumeSnapshot{}, false, "project"},
		{"DELETE", "/v1/volumes/{volume}/snapshots/{volumesnapshot}", key, s.removeVolumeSnapshot, "Remove a snapshot of a volume.", nil, okBody{}, false, "project"},
		{"POST", "/v1/volumes/{volume}/rollback", key, s.rollbackVolume, "Restore a snapshot of an unlocked volume that no VM has mounted.", api.RollbackVolume{}, api.RolledBackVolume{}, false, "project"},
		{"GET", "/v1/vms/{vm}/mounts", granted, s.mounts, "Volumes and directories of the host that a VM has mounted.", nil, api.MountList{}, false, ""},
		{"POST", "/v1/vms/{vm}/mounts", granted, s.mount, "Mount an unlocked volume, a directory of the host, or objects of a bucket, in a VM; a sleeping VM is woken. An identity may mount a volume if its permission asks for it.", api.NewMount{}, api.Mount{}, false, ""},
		{"DELETE", "/v1/vms/{vm}/mounts", key, s.unmount, "Unmount a volume or a directory of the host: by its path in the guest, its name or its id.", nil, okBody{}, false, "path force"},
	}
}

// volumeRef is the volume in the path.
func (q *request) volumeRef() vault.Ref {
	return vault.Ref{Project: q.query().Get("project"), Volume: q.values["volume"]}
}

func shownVolume(i vault.Info) api.Volume {
	out := api.Volume{
		ID: i.ID, Name: i.Name, Project: i.Project, State: api.VolumeLocked, Sensitive: i.Unlocked || len(i.Mounts) > 0,
		SizeMib: i.SizeMiB, UsedBytes: i.UsedBytes, Formatted: i.Formatted, CreatedAt: i.CreatedAt,
		UnlockedAt: i.UnlockedAt, LocksAt: i.LocksAt, Mounts: []api.Mount{}, Keys: i.Slots, Snapshots: i.Snapshots,
	}
	if i.Unlocked {
		out.State = api.VolumeUnlocked
	}
	for _, m := range i.Mounts {
		out.Mounts = append(out.Mounts, shownMount(engine.Mounted{VolumeMount: m, Volume: i.ID, Name: i.Name, Project: i.Project}, i.VMNames[m.VM]))
	}
	return out
}

func shownMount(m engine.Mounted, name string) api.Mount {
	return api.Mount{
		Volume: m.Volume, Name: m.Name, Project: m.Project, VM: m.VM, VMName: name,
		Path: m.Path, RW: m.RW, Share: m.Share, Cut: m.Cut, Since: m.Since, Host: m.Host,
	}
}

func (s *server) volumes(q *request) error {
	l, err := s.Vault.Volumes(q.Context(), q.call, q.query().Get("project"), q.query().Get("vm"))
	if err != nil {
		return err
	}
	out := api.VolumeList{Volumes: []api.Volume{}}
	for _, i := range l {
		out.Volumes = append(out.Volumes, shownVolume(i))
	}
	return q.ok(out)
}

func (s *server) createVolume(q *request) error {
	var in api.NewVolume
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	i, err := s.Vault.CreateVolume(q.Context(), q.call, vault.VolumeRequest{
		Project: in.Project, Name: in.Name, SizeMiB: in.SizeMib,
		Slot: vm.VolumeSlotSpec{Passphrase: in.Passphrase, Recipient: in.Recipient},
	})
	return q.volumeAnswer(i, err)
}

func (q *request) volumeAnswer(i vault.Info, err error) error {
	if err != nil {
		return err
	}
	return q.ok(shownVolume(i))
}

func (s *server) volume(q *request) error {
	i, err := s.Vault.VolumeOf(q.Context(), q.call, q.volumeRef())
	return q.volumeAnswer(i, err)
}

func (s *server) removeVolume(q *request) error {
	if _, err := s.Vault.RemoveVolume(q.Context(), q.call, q.volumeRef()); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) unlockVolume(q *request) error {
	var in api.UnlockVolume
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	i, recovered, err := s.Vault.UnlockVolume(q.Context(), q.call, q.volumeRef(), vault.UnlockRequest{
		Secret: vm.VolumeSecret{Passphrase: in.Passphrase, Identity: in.Identity}, TTL: in.TTL, Keep: in.KeepUnlocked,
	})
	if err != nil {
		return err
	}
	return q.ok(api.UnlockedVolume{Volume: shownVolume(i), Recovered: recovered})
}

func (s *server) lockVolume(q *request) error {
	var in api.LockVolume
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	i, err := s.Vault.LockVolume(q.Context(), q.call, q.volumeRef(), in.Force)
	return q.volumeAnswer(i, err)
}

func (s *server) resizeVolume(q *request) error {
	var in api.ResizeVolume
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	i, err := s.Vault.ResizeVolume(q.Context(), q.call, q.volumeRef(), in.SizeMib)
	return q.volumeAnswer(i, err)
}

func (s *server) addVolumeKey(q *request) error {
	var in vm.VolumeSlotSpec
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	slot, err := s.Vault.AddVolumeSlot(q.Context(), q.call, q.volumeRef(), in)
	if err != nil {
		return err
	}
	return q.ok(slot)
}

func (s *server) rotateVolume(q *request) error {
	if err := s.Vault.RotateVolume(q.Context(), q.call, q.volumeRef()); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) removeVolumeKey(q *request) error {
	if err := s.Vault.RemoveVolumeSlot(q.Context(), q.call, q.volumeRef(), q.values["slot"]); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) snapshotVolume(q *request) error {
	var in api.NewVolumeSnapshot
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	snap, err := s.Vault.SnapshotVolume(q.Context(), q.call, q.volumeRef(), in.Name)
	if err != nil {
		return err
	}
	return q.ok(snap)
}

func (s *server) removeVolumeSnapshot(q *request) error {
	if err := s.Vault.RemoveVolumeSnapshot(q.Context(), q.call, q.volumeRef(), q.values["volumesnapshot"]); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) rollbackVolume(q *request) error {
	var in api.RollbackVolume
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	i, before, err := s.Vault.RollbackVolume(q.Context(), q.call, q.volumeRef(), in.To)
	if err != nil {
		return err
	}
	return q.ok(api.RolledBackVolume{Volume: shownVolume(i), Before: before})
}

func (s *server) mounts(q *request) error {
	l, err := s.Engine.Mounts(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	out := api.MountList{Mounts: []api.Mount{}}
	for _, m := range l {
		out.Mounts = append(out.Mounts, shownMount(m, ""))
	}
	return q.ok(out)
}

func (s *server) mount(q *request) error {
	var in api.NewMount
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	if in.Host != "" {
		m, err := s.Engine.MountFolder(q.Context(), q.call, q.ref(), engine.FolderRequest{
			Name: in.Volume, Host: in.Host, Path: in.Path, RW: in.RW, Over: in.Over, Fixture: in.Fixture,
		})
		if err != nil {
			return err
		}
		return q.ok(shownMount(m, ""))
	}
	m, err := s.Engine.Mount(q.Context(), q.call, q.ref(), engine.MountRequest{
		Ref:  vault.Ref{Project: in.Project, Volume: in.Volume},
		Path: in.Path, RW: in.RW, Over: in.Over, Share: in.Share,
	})
	if err != nil {
		return err
	}
	return q.ok(shownMount(m, ""))
}

func (s *server) unmount(q *request) error {
	force, err := q.bool("force")
	if err != nil {
		return err
	}
	if err := s.Engine.Unmount(q.Context(), q.call, q.ref(), q.query().Get("path"), force); err != nil {
		return err
	}
	return q.ok(okBody{})
}
