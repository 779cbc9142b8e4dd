// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/changes"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

func (s *server) forkRoutes() []route {
	return []route{
		{"POST", "/v1/vms/{vm}/suspend", key, s.suspend, "Save memory and disk and end the machine; start resumes the same processes.", api.SuspendVM{}, api.SuspendedVM{}, false, ""},
		{"POST", "/v1/drain", admin, s.drain, "Suspend every running VM before the host shuts down; from then on no VM starts.", nil, api.DrainedVMs{}, false, ""},
		{"DELETE", "/v1/drain", admin, s.undrain, "End a drain: VMs may start again.", nil, api.Undrained{}, false, ""},
		{"PUT", "/v1/vms/{vm}/on-boot", key, s.setOnBoot, "Set whether the VM resumes after the host has restarted.", api.SetOnBoot{}, api.VM{}, false, ""},
		{"POST", "/v1/vms/{vm}/fork", key, s.fork, "Make running copies, all or none; the parent keeps running.", api.ForkVM{}, api.ForkedVM{}, false, ""},
		{"POST", "/v1/vms/{vm}/snapshot", granted, s.takeSnapshot, "Capture a snapshot; the VM keeps running. An identity needs a permission that asks for it.", api.TakeSnapshot{}, api.TakenSnapshot{}, false, ""},
		{"POST", "/v1/vms/{vm}/rollback", key, s.rollback, "Restore a generation of the VM.", api.RollbackVM{}, api.RolledBackVM{}, false, ""},
		{"POST", "/v1/vms/{vm}/resize", key, s.resize, "Change the size: while the VM runs if the guest supports it, else by a stop and a start.", api.Sizes{}, api.ResizedVM{}, false, ""},
		{"GET", "/v1/vms/{vm}/lineage", key, s.lineage, "The ancestors and descendants of the VM.", nil, api.Lineage{}, false, ""},
		{"GET", "/v1/lineage", key, s.lineage, "Every VM and generation of the account.", nil, api.Lineage{}, false, ""},
		{"POST", "/v1/vms/{vm}/keep", key, s.keepOver, "Take another VM's name and place.", api.KeepVM{}, api.KeptVM{}, false, ""},
		{"PUT", "/v1/vms/{vm}/schedule", key, s.schedule, "Set the interval of automatic generations.", api.Schedule{}, api.VM{}, false, ""},
	}
}

func (s *server) suspend(q *request) error {
	var in api.SuspendVM
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	v, err := s.Engine.Suspend(q.Context(), q.call, q.ref(), engine.SuspendRequest{Cold: in.Cold})
	if err != nil {
		return err
	}
	return q.ok(api.SuspendedVM{
		ID: v.ID, VMInstanceID: v.InstanceID, SnapshotLayerID: v.VM.Generation, MemoryBytes: v.MemoryBytes,
		Remains: api.Remains{DiskBytes: v.DiskBytes, LogBytes: v.LogBytes},
	})
}

func (s *server) drain(q *request) error {
	if err := q.decode(&struct{}{}, maxBody); err != nil { // without reading, a disconnect goes unnoticed
		return err
	}
	list, err := s.Engine.Drain(q.Context(), q.call)
	if err != nil {
		return err
	}
	out := api.DrainedVMs{VMs: make([]api.DrainedVM, len(list))}
	for i, d := range list {
		out.VMs[i] = api.DrainedVM{ID: d.VM.ID, Name: d.VM.Name, State: string(d.VM.State), ResumesOnBoot: d.VM.ResumesOnBoot()}
		if d.Err != nil {
			out.VMs[i].Error = vm.AsError(d.Err).Error()
		}
	}
	return q.ok(out)
}

func (s *server) undrain(q *request) error {
	n, err := s.Engine.Undrain(q.Context(), q.call)
	if err != nil {
		return err
	}
	return q.ok(api.Undrained{Resumed: n})
}

func (s *server) setOnBoot(q *request) error {
	var in api.SetOnBoot
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	v, err := s.Engine.SetOnBoot(q.Context(), q.call, q.ref(), in.OnBoot)
	if err != nil {
		return err
	}
	return q.ok(shown(&v))
}

func (s *server) fork(q *request) error {
	var in api.ForkVM
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	r := engine.ForkRequest{Prefix: in.Name, Persistence: in.Persistence, IdleTimeout: in.IdleTimeout, TTL: in.TTL, Volumes: in.Volumes, Folders: in.Folders, Labels: in.Labels, Network: in.Network}
	if in.Count != nil {
		if r.Count = *in.Count; r.Count == 0 {
			r.Count = -1 // an explicit 0 is refused, unlike an absent count
		}
	}
	f, err := s.Engine.Fork(q.Context(), q.call, q.ref(), r)
	if err != nil {
		return err
	}
	out := api.ForkedVM{
		VMID: f.Parent.ID, Forks: make([]api.Fork, 0, len(f.Children)), GenerationID: f.Generation.ID,
		PauseMs: float64(f.Pause.Microseconds()) / 1000, Durable: f.Generation.Durable, Caveats: f.Caveats, First: f.First,
	}
	for _, c := range f.Children {
		out.Forks = append(out.Forks, api.Fork{
			ID: c.ID, Domains: s.domainsOf(c.ID), Name: c.Name,
			Persistence: c.Persistence, IdleTimeout: c.IdleTimeout, ExpiresAt: c.ExpiresAt,
		})
	}
	return q.ok(out)
}

func (s *server) takeSnapshot(q *request) error {
	var in api.TakeSnapshot
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	g, err := s.Engine.Snapshot(q.Context(), q.call, q.ref(), engine.SnapshotRequest{Name: in.Name, Persistence: in.Persistence, DiskOnly: in.DiskOnly, Volumes: in.Volumes})
	if err != nil {
		return err
	}
	return q.ok(api.TakenSnapshot{SnapshotID: g.Snapshot, SourceVMID: g.VM, SourceVMInstanceID: g.Instance, Snapshot: shownSnapshot(g.Generation)})
}

// shownSnapshot converts a generation to the contract's snapshot.
func shownSnapshot(g vm.Generation) api.Snapshot {
	return api.Snapshot{
		SnapshotID: g.Snapshot, State: string(g.State), CreatedAt: g.CreatedAt, Name: g.Name, AccountID: string(g.Account),
		Failed: g.State == vm.GenFailed, Lost: g.State == vm.GenLost, Deleted: g.Deleted, FailureReason: g.Failure,
		SnapshotPersistence: g.Persistence, SourceVMID: g.VM, BuildID: g.Build,
		VCPUCount: g.Size.VCPU, MemSizeMib: g.Size.MemoryMiB, RootfsSizeMb: g.Size.DiskMiB,
		GenerationID: g.ID, Parent: g.Parent, Why: g.Why, Memory: g.Memory, DataBytes: g.DataBytes, PauseMs: g.PauseMs, SourceVMName: g.VMName,
		MayContain: g.MayContain(), VolumesSeen: g.VolumesSeen,
	}
}

// snapshots lists the snapshots of the images and of the account.
func (s *server) snapshots(q *request) error {
	show := map[string]bool{"includeDeleted": false, "includeFailed": true, "includeBuilding": true, "includeCancelled": false, "includeLost": false}
	for name, def := range show {
		if q.query().Get(name) == "" {
			show[name] = def
			continue
		}
		b, err := q.bool(name)
		if err != nil {
			return err
		}
		show[name] = b
	}
	images, err := s.Engine.Images(q.Context(), q.call)
	if err != nil {
		return err
	}
	out := api.SnapshotList{Snapshots: []api.Snapshot{}}
	for _, img := range images {
		out.Snapshots = append(out.Snapshots, s.imageSnapshot(img))
	}
	gens, err := s.Engine.Snapshots(q.Context(), q.call, true)
	if err != nil {
		return err
	}
	for _, g := range gens {
		hidden := g.Deleted && !show["includeDeleted"] || g.State == vm.GenFailed && !show["includeFailed"] ||
			g.State == vm.GenBuilding && !show["includeBuilding"] || g.State == vm.GenLost && !show["includeLost"]
		if g.Snapshot != "" && !hidden {
			out.Snapshots = append(out.Snapshots, shownSnapshot(g))
		}
	}
	out.TotalCount = len(out.Snapshots)
	for _, sn := range out.Snapshots {
		switch {
		case sn.Deleted:
			out.DeletedCount++
		case sn.State == string(vm.GenReady):
			out.ReadyCount++
		case sn.State == string(vm.GenBuilding):
			out.BuildingCount++
		case sn.Failed:
			out.FailedCount++
		case sn.Lost:
			out.LostCount++
		}
	}
	return q.ok(out)
}

// ofImage returns the image whose own snapshot the path names, if it is one.
func (s *server) ofImage(q *request) (vm.Image, bool) {
	id := q.values["snapshot"]
	if !strings.HasPrefix(id, "sc-") {
		return vm.Image{}, false
	}
	img, err := s.Engine.FindImage(q.Context(), q.call, id)
	return img, err == nil
}

func (s *server) snapshot(q *request) error {
	if img, ok := s.ofImage(q); ok {
		return q.ok(s.imageSnapshot(img))
	}
	g, err := s.Engine.FindSnapshot(q.Context(), q.call, q.values["snapshot"])
	if err != nil {
		return err
	}
	return q.ok(shownSnapshot(g))
}

// ownSnapshot refuses changes of an image's snapshot.
func (s *server) ownSnapshot(q *request) (string, error) {
	if img, ok := s.ofImage(q); ok {
		return "", vm.Errorf(vm.WrongState, string(img.Snapshot), "it belongs to the image %s", img.Name).
			WithCode("SNAPSHOT_IS_ACCOUNT_DEFAULT", "snapshotId", string(img.Snapshot)).
			WithHint("the operator removes images: `warren image rm`")
	}
	return q.values["snapshot"], nil
}

func (s *server) deleteSnapshot(q *request) error {
	ref, err := s.ownSnapshot(q)
	if err != nil {
		return err
	}
	g, err := s.Engine.RemoveSnapshot(q.Context(), q.call, ref)
	if err != nil {
		return err
	}
	return q.ok(api.ChangedSnapshot{SnapshotID: g.Snapshot})
}

func (s *server) renameSnapshot(q *request) error {
	ref, err := s.ownSnapshot(q)
	if err != nil {
		return err
	}
	var in api.NameSnapshot
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	g, err := s.Engine.RenameSnapshot(q.Context(), q.call, ref, in.Name)
	if err != nil {
		return err
	}
	return q.ok(api.ChangedSnapshot{SnapshotID: g.Snapshot, Name: g.Name})
}

// shownGeneration removes from a generation what is only for the record: the server's id, and
// the variables of a template, which may be secrets.
func shownGeneration(g vm.Generation) vm.Generation {
	g.Host, g.Template = "", nil
	return g
}

func (s *server) rollback(q *request) error {
	var in api.RollbackVM
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	r, err := s.Engine.Rollback(q.Context(), q.call, q.ref(), engine.RollbackRequest{To: in.To, Volumes: in.Volumes})
	if err != nil {
		return err
	}
	return q.ok(api.RolledBackVM{ID: r.VM.ID, VM: shown(&r.VM), To: shownGeneration(r.To), Before: shownGeneration(r.Before), NotUndone: r.NotUndone})
}

func (s *server) resize(q *request) error {
	var in api.Sizes
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	r, err := s.Engine.Resize(q.Context(), q.call, q.ref(), engine.ResizeRequest{Size: sizeOf(in)})
	if err != nil {
		return err
	}
	out := api.ResizedVM{How: r.How, Why: r.Why, Sizing: shown(&r.VM).Sizing}
	if len(r.Why) > 0 {
		out.Losses = r.VM.Losses
	}
	return q.ok(out)
}

// sizeOf converts a size to MiB. Values that are far too large stay too large.
func sizeOf(in api.Sizes) vm.Size {
	const most = 1 << 30
	mib := in.MemSizeMib
	if mib == 0 {
		mib = min(in.MemSizeGb, most) << 10
	}
	return vm.Size{VCPU: in.VCPUCount, MemoryMiB: mib, DiskMiB: min(in.RootfsSizeGb, most) << 10}
}

func (s *server) lineage(q *request) error {
	l, err := s.Engine.Lineage(q.Context(), q.call, q.values["vm"])
	if err != nil {
		return err
	}
	out := api.Lineage{VMs: make([]api.VM, 0, len(l.VMs)), Generations: make([]vm.Generation, 0, len(l.Generations))}
	for _, g := range l.Generations {
		out.Generations = append(out.Generations, shownGeneration(g))
	}
	for _, v := range l.VMs {
		out.VMs = append(out.VMs, shown(&v))
	}
	return q.ok(out)
}

func (s *server) keepOver(q *request) error {
	var in api.KeepVM
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	k, err := s.Changes.KeepOver(q.Context(), q.call, q.ref(), changes.KeepRequest{Over: in.Over, Remove: in.Remove, RemoveOthers: in.RemoveOthers})
	if err != nil {
		return err
	}
	out := api.KeptVM{VM: shown(&k.VM), Over: shown(&k.Over)}
	for _, v := range k.Removed {
		out.Removed = append(out.Removed, v.ID)
	}
	return q.ok(out)
}

func (s *server) schedule(q *request) error {
	var in api.Schedule
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	v, err := s.Engine.SetSchedule(q.Context(), q.call, q.ref(), in.CaptureEvery)
	if err != nil {
		return err
	}
	return q.ok(shown(&v))
}
