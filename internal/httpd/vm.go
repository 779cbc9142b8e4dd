// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// shown converts a VM for answers.
func shown(v *vm.VM) api.VM {
	out := api.VM{
		ID: v.ID, Name: v.Name, State: v.State, VMInstanceID: v.InstanceID, CreatedAt: v.CreatedAt, LastNetworkActivity: v.LastActive,
		Persistence: v.Persistence,
		Sizing:      api.Sizing{VCPUCount: v.Size.VCPU, MemSizeMib: v.Size.MemoryMiB, RootfsSizeMib: v.Size.DiskMiB},
		Reason:      v.Reason, Image: v.ImageName, ImageID: v.Image, Network: string(v.Network.Mode), NetworkRules: len(v.Network.Rules), NetworkPolicies: v.Network.Named,
		IdleTimeout: v.IdleTimeout, IdleStops: v.IdleStops, ActivityThreshold: v.ActivityThreshold, TTL: v.TTL, ExpiresAt: v.ExpiresAt, StartedAt: v.StartedAt,
		Accel: v.Accel, Operation: v.Op, Losses: v.Losses, Restored: v.Restored, OneShot: v.OneShot, Workdir: v.Workdir, Labels: v.Labels, Profile: v.Profile,
		OnBoot: v.BootSetting(), GenerationID: v.Generation, HeadID: v.Head, ParentVMID: v.Parent, CaptureEvery: v.CaptureEvery, BuildID: v.Build,
	}
	if v.Accel == vm.TCG {
		out.Warning = vm.EmulatedWarning
	}
	return out
}

func (s *server) list(q *request) error {
	var f engine.Filter
	for _, st := range q.query()["vmState"] {
		if !slices.Contains(vm.States, vm.State(st)) {
			return vm.Errorf(vm.Invalid, "vmState="+st, "no such state").WithHint("states are %v", vm.States)
		}
		f.States = append(f.States, vm.State(st))
	}
	for _, text := range q.query()["label"] {
		l, err := vm.ParseLabelSelector(text)
		if err != nil {
			return err
		}
		f.Labels = append(f.Labels, l)
	}
	f.Search = q.query().Get("search")
	limit, err := q.int("limit", 0)
	if err != nil {
		return err
	}
	offset, err := q.int("offset", 0)
	if err != nil {
		return err
	}
	f.Limit, f.Offset = int(limit), int(offset)
	if f.All, err = q.bool("all"); err != nil {
		return err
	}
	vms, total, n, err := s.Engine.List(q.Context(), q.call, f)
	if err != nil {
		return err
	}
	out := api.VMList{
		VMs: make([]api.VM, len(vms)), TotalCount: total, BuildingCount: n[vm.Building], RunningCount: n[vm.Running],
		StartingCount: n[vm.Starting], SuspendingCount: n[vm.Suspending], SuspendedCount: n[vm.Suspended],
		StoppedCount: n[vm.Stopped], LostCount: n[vm.Lost],
	}
	snapshots, used := s.imageSnapshots(q), s.Meter.UsageNow(vms)
	for i := range vms {
		row := &out.VMs[i]
		*row = shown(&vms[i])
		showUsage(row, &used[i])
		row.SnapshotID = snapshots[vms[i].Image]
	}
	return q.ok(out)
}

// imageSnapshots returns the ids by which API callers name the images. A host whose
// images cannot be listed still lists its VMs.
func (s *server) imageSnapshots(q *request) map[vm.ImageID]vm.SnapshotID {
	out := map[vm.ImageID]vm.SnapshotID{}
	l, err := s.Engine.Images(q.Context(), q.call)
	if err != nil {
		s.Log.Warn("listing images", "request", q.call.Request, "err", err)
	}
	for _, img := range l {
		out[img.ID] = img.Snapshot
	}
	return out
}

// machinePatience is how long a GET waits for a monitor that may hang.
const machinePatience = 2 * time.Second

func (s *server) get(q *request) error {
	ctx, cancel := context.WithTimeout(q.Context(), machinePatience)
	defer cancel()
	i, err := s.Engine.Inspect(ctx, q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(inspected(i))
}

// inspected is shown with the details from machine and image.
func inspected(i engine.Inspection) api.VM {
	out := shown(&i.VM)
	out.CPUTimeSeconds = i.Usage.CPUSeconds
	if i.Image != nil {
		out.SnapshotID = i.Image.Snapshot
	}
	return out
}

func (s *server) inspect(q *request) error {
	i, err := s.Engine.Inspect(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	out := api.Inspection{VM: inspected(i), Machine: i.Machine, DiskBytes: i.DiskBytes, Usage: i.Usage, Image: i.Image, Warnings: i.Warnings}
	if i.MachineErr != nil {
		out.MachineError = i.MachineErr.Error()
	}
	if out.Warnings == nil {
		out.Warnings = []string{}
	}
	if out.Image != nil { // checksums of every file belong in the manifest
		img := *out.Image
		img.Files = []vm.File{}
		out.Image = &img
	}
	return q.ok(out)
}

func (s *server) delete(q *request) error {
	shred, err := q.bool("shred")
	if err != nil {
		return err
	}
	if shred {
		v, out, err := s.Engine.Shred(q.Context(), q.call, q.ref())
		if err != nil {
			return err
		}
		return q.ok(api.DeletedVM{ID: v.ID, Shredded: &out})
	}
	v, err := s.Engine.Delete(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(api.DeletedVM{ID: v.ID})
}

func (s *server) start(q *request) error {
	var in api.StartVM
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	deadline, err := readyTimeout(in.ReadyTimeout)
	if err != nil {
		return err
	}
	r := engine.StartRequest{IdleTimeout: in.IdleTimeout, Deadline: deadline, DiskOnly: in.DiskOnly}
	v, err := s.Engine.Start(q.Context(), q.call, q.ref(), r)
	if err != nil {
		return err
	}
	return q.ok(api.StartedVM{ID: v.ID, Domains: s.domainsOf(v.ID), VM: shown(&v)})
}

func (s *server) stop(q *request) error {
	v, err := s.Engine.Stop(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	out := api.StoppedVM{VMID: v.ID, VMInstanceID: v.InstanceID}
	out.Remains.Erase = "warren rm " + name(v)
	// An ephemeral VM is deleted already.
	if i, err := s.Engine.Inspect(q.Context(), q.call, string(v.ID)); err == nil {
		out.Remains.DiskBytes, out.Remains.LogBytes = i.DiskBytes, i.LogBytes
	}
	return q.ok(out)
}

func name(v vm.VM) string {
	if v.Name != "" {
		return v.Name
	}
	return string(v.ID)
}

func (s *server) kill(q *request) error {
	v, err := s.Engine.Kill(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(idBody{ID: v.ID})
}

type awaited struct {
	ID         vm.ID  `json:"id"`
	ExitStatus string `json:"exitStatus"` // why it no longer runs
}

func (s *server) await(q *request) error {
	ctx, cancel := s.streaming(q)
	defer cancel()
	v, err := s.Engine.Await(ctx, q.call, q.ref())
	if err != nil {
		return err
	}
	status := v.Reason
	if status == "" {
		status = string(v.State)
	}
	return q.ok(awaited{ID: v.ID, ExitStatus: status})
}

func (s *server) optimize(q *request) error {
	v, err := s.Engine.Get(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(map[string]any{"id": v.ID, "message": "nothing to do in this version"})
}

func (s *server) terminals(q *request) error {
	if _, err := s.Engine.Get(q.Context(), q.call, q.ref()); err != nil {
		return err
	}
	return q.ok(map[string]any{"terminals": []any{}})
}

func (s *server) stats(q *request) error {
	st, err := s.Inside.Stats(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(st)
}

func (s *server) state(q *request) error {
	st, err := s.Inside.State(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	return q.ok(st)
}

func (s *server) ports(q *request) error {
	st, err := s.Inside.Stats(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	if st.Ports == nil {
		st.Ports = []vm.ListeningPort{}
	}
	return q.ok(api.Ports{Ports: st.Ports})
}

// waitPort waits until a program in the guest listens on a port.
func (s *server) waitPort(q *request) error {
	port, err := q.port()
	if err != nil {
		return err
	}
	ms, err := q.int("timeoutMs", 0)
	if err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	if ms > 0 {
		limit := time.Duration(ms) * time.Millisecond
		late := vm.Errorf(vm.Timeout, q.ref(), "nothing has accepted connections on port %d within %s", port, limit).
			WithCode("EXEC_TIMED_OUT", "timeoutMs", ms).
			WithHint("`warren state %s` lists what listens, `warren ps %s` the commands, `warren logs` their output; or wait longer", q.ref(), q.ref())
		late.Op = vm.OpAwait
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, late)
		defer stop()
	}
	if err := s.Inside.WaitPort(ctx, q.call, q.ref(), port); err != nil {
		return err
	}
	return q.ok(api.OpenPort{Port: int(port)})
}

func (s *server) renameVM(q *request) error {
	var in api.RenameVM
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	v, err := s.Engine.RenameVM(q.Context(), q.call, q.ref(), in.Name)
	if err != nil {
		return err
	}
	return q.ok(shown(&v))
}

func (s *server) label(q *request) error {
	var in api.LabelVM
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	v, err := s.Engine.Label(q.Context(), q.call, q.ref(), in.Labels)
	if err != nil {
		return err
	}
	return q.ok(shown(&v))
}

// imageSnapshot converts an image to the snapshot from which API callers create.
func (s *server) imageSnapshot(img vm.Image) api.Snapshot {
	return api.Snapshot{
		SnapshotID: img.Snapshot, State: "ready", CreatedAt: img.CreatedAt, Name: img.Name, AccountID: "system",
		SnapshotPersistence: vm.Persistence{Type: vm.Persistent},
		VCPUCount:           vm.DefaultSize.VCPU, MemSizeMib: vm.DefaultSize.MemoryMiB, RootfsSizeMb: vm.DefaultSize.DiskMiB,
	}
}

// console sends the console's log.
func (s *server) console(q *request) error {
	if src := q.query().Get("source"); src != "" && src != "console" {
		return vm.Errorf(vm.Invalid, src, "no such log").WithHint("use source=console; logs of commands are below /processes")
	}
	return s.log(q, func(ctx context.Context, from int64, follow bool) (io.ReadCloser, int64, error) {
		return s.Inside.ConsoleLog(ctx, q.call, q.ref(), from, follow)
	})
}
