// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Packed is a VM as a bundle has it.
type Packed struct {
	VM    vm.VM
	Image vm.Image
	Repos []string // ids of repositories into which its files were committed
	// Of a VM that is packed with its machine: a generation with a manifest, the files of
	// its disk from the top down to the image's, and the directory of its memory.
	Generation vm.Generation
	Manifest   vm.Manifest
	Layers     []string
	Dir        layout.GenerationDir
}

// Pack returns what a bundle of a VM needs. With machine it captures a running VM with its
// memory, and a stopped one without; a suspended VM is as it is. The files stay until
// release is called. Only the VM's account may. The receipt is c's. Kinds: those of
// a capture, WrongState.
func (e *Engine) Pack(ctx context.Context, c *vm.Call, ref string, machine bool) (p Packed, release func(), err error) {
	op, err := e.begin(ctx, c, ref, vm.OpBundle)
	if err != nil {
		return p, nil, fail(vm.OpBundle, ref, err)
	}
	op.cancelWith(ctx)
	g, err := e.packOp(op, c, machine)
	p.VM = e.recordOf(op.slot)
	if err = e.finish(op, err); err != nil {
		return p, nil, err
	}
	if p.Image, err = e.cfg.Images.Find(ctx, string(p.VM.Image)); err != nil {
		if g.ID != "" {
			e.unpin(g.ID)
		}
		return p, nil, fail(vm.OpBundle, ref, err)
	}
	for _, g := range e.generations(func(g *vm.Generation) bool { return g.VM == p.VM.ID && g.CommitRepo != "" }) {
		if !slices.Contains(p.Repos, g.CommitRepo) {
			p.Repos = append(p.Repos, g.CommitRepo)
		}
	}
	if g.ID == "" {
		return p, func() {}, nil
	}
	release = func() {
		e.unpin(g.ID)
		e.collectLater()
	}
	if err := e.describe(ctx, &p, g); err != nil {
		release()
		return p, nil, fail(vm.OpBundle, ref, err)
	}
	return p, release, nil
}

// packOp records the packing and returns the generation to be packed, pinned; without
// machine none.
func (e *Engine) packOp(op *operation, c *vm.Call, machine bool) (g vm.Generation, err error) {
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Detail: map[string]any{"machine": machine}}); err != nil || !machine {
		return g, err
	}
	id, kept := e.unchanged(op.before)
	if !kept {
		return e.capture(op.ctx, op, captureOptions{why: vm.WhyBundle, diskOnly: op.before.State == vm.Stopped})
	}
	if !e.pin(id) {
		return g, noGeneration(string(id))
	}
	g, _ = e.generationInfo(id)
	if !g.Whole() {
		return g, nil
	}
	if len(g.VolumesSeen) > 0 || len(g.Folders) > 0 {
		e.unpin(id)
		return vm.Generation{}, vm.Errorf(vm.WrongState, string(op.slot.id), "its memory holds contents of volumes or directories of the host, which a bundle does not take").
			WithHint("start it, unmount them, and pack it again; or stop it: a bundle of a stopped VM has the disk alone")
	}
	plain, err := e.opened(op.ctx, g)
	if err != nil {
		e.unpin(id)
		return vm.Generation{}, err
	}
	return plain, nil
}

// describe fills in what belongs to the generation.
func (e *Engine) describe(ctx context.Context, p *Packed, g vm.Generation) (err error) {
	if !g.Durable {
		if err := e.publish(ctx, g.ID); err != nil {
			return err
		}
	}
	p.Generation, _ = e.generationInfo(g.ID)
	p.Dir = layout.GenerationDir(e.cfg.Dir.Generation(g.ID))
	if p.Manifest, err = e.cfg.Generations.Load(g.ID); err != nil {
		return err
	}
	p.Layers, err = e.cfg.Generations.Layers(g.ID)
	return err
}

// Unpacking is a VM from a bundle. Everything in it may be hostile, except the files that
// Fill makes: their bytes are those that the bundle's signer signed.
type Unpacking struct {
	VM       vm.VM
	Name     string // "" = the VM's own, or another one if that is taken
	Image    vm.Image
	Memory   bool // it has memory and device state
	Manifest vm.Manifest
	Bytes    int64 // that its files take at most
	Repos    []vm.RepoGrant
	// Fill makes the disk above the image's, whose relative name is below, and, with memory,
	// the memory and the device state.
	Fill func(ctx context.Context, dir layout.GenerationDir, below string, memory bool) error
}

// Unpack makes a VM of the caller's account from a bundle: suspended if it has memory that
// this host can continue, else stopped. notes say what differs from the VM that was
// packed. Its id is the old one if that is free. The VM's network policy is the server's
// default, or closed if that is wider than the VM's mode. Kinds: NotFound (the image is not on this server), Corrupt (another image has
// its id), Limit, NoSpace, Exists (the name), Invalid, and those of Fill.
func (e *Engine) Unpack(ctx context.Context, c *vm.Call, u Unpacking) (rec vm.VM, notes []string, err error) {
	defer func() { err = fail(vm.OpBundleOpen, cmp.Or(u.Name, u.VM.Name), err) }()
	rec, img, err := e.planUnpack(ctx, c, u)
	if err != nil {
		return rec, nil, err
	}
	memory := u.Memory
	if memory {
		if why := e.continues(ctx, u, rec); why != "" {
			memory = false
			notes = append(notes, "memory and running processes were not restored, the VM starts from its disk: "+why)
		}
	}
	op, err := e.beginUnpack(&rec, u)
	if err != nil {
		return rec, nil, err
	}
	op.cancelWith(ctx)
	defer func() { err = e.finish(op, err) }()
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: rec.Name, Detail: map[string]any{"from": "bundle", "id": string(u.VM.ID), "memory": memory}}); err != nil {
		return rec, nil, err
	}
	if rec.ID != u.VM.ID {
		notes = append(notes, "the id "+string(u.VM.ID)+" is taken: the VM has the id "+string(rec.ID))
	}
	if rec.Name != u.VM.Name {
		notes = append(notes, "the VM is named "+rec.Name)
	}
	notes = append(notes, "its network is "+string(rec.Network.Mode)+", without rules: `warren net` changes it")
	rec, err = e.unpackOp(op, u, img, memory)
	return rec, notes, err
}

// planUnpack checks what is to be unpacked, and returns the VM's first record.
func (e *Engine) planUnpack(ctx context.Context, c *vm.Call, u Unpacking) (rec vm.VM, img vm.Image, err error) {
	img, err = e.cfg.Images.Find(ctx, string(u.Image.ID))
	if vm.KindOf(err) == vm.NotFound || err == nil && img.ID != u.Image.ID {
		return rec, img, vm.Errorf(vm.NotFound, string(u.Image.ID), "the VM stands on this image, which is not on this server").
			WithHint("pack it with its image, and open it as an admin: `warren bundle create NAME --machine --image`")
	}
	if err != nil {
		return rec, img, err
	}
	if diskOf(img) == "" || diskOf(img) != diskOf(u.Image) {
		return rec, img, vm.Errorf(vm.Corrupt, string(img.ID), "the disk of the image on this server is not the one that the VM stands on")
	}
	name := cmp.Or(u.Name, u.VM.Name)
	if name != "" {
		if err := vm.CheckName(name); err != nil {
			return rec, img, err
		}
	}
	now := e.now()
	rec = vm.VM{
		ID: u.VM.ID, Account: c.Actor.Account, Name: name, State: vm.Starting, Op: vm.OpCreate, InstanceID: vm.NewInstanceID(),
		Image: img.ID, ImageName: img.Name, CreatedAt: now, LastActive: now, Repos: u.Repos,
	}
	if !vm.IsID(string(rec.ID)) {
		return rec, img, vm.Errorf(vm.Invalid, "vm.json", "it has no valid id of a VM")
	}
	r := CreateRequest{
		Size: u.Manifest.Size, Profile: u.VM.Profile, Persistence: &u.VM.Persistence, StopOnIdle: u.VM.IdleStops,
		IdleTimeout: vm.Optional[vm.Seconds]{Set: true, Null: u.VM.IdleTimeout == nil}, Workdir: u.VM.Workdir, Labels: u.VM.Labels, DisplayName: u.VM.DisplayName, Paths: u.VM.Paths,
	}
	if u.VM.IdleTimeout != nil {
		r.IdleTimeout.Value = *u.VM.IdleTimeout
	}
	network := func(rec *vm.VM, r CreateRequest, img vm.Image) error {
		err := e.fillNetwork(c, rec, "", img)
		if err == nil && len(egress.Widens(vm.NetworkPolicy{Mode: u.VM.Network.Mode, Hosts: img.Registries}, rec.Network)) > 0 {
			err = e.fillNetwork(c, rec, vm.NetworkSpec(vm.NetClosed), img)
		}
		return err
	}
	for _, fill := range []func(*vm.VM, CreateRequest, vm.Image) error{
		e.fillSize, fillProfile, network, fillPersistence, fillLimits, fillWorkdir, fillLabels, fillDisplayName, fillPaths,
	} {
		if err := fill(&rec, r, img); err != nil {
			return rec, img, err
		}
	}
	left, err := e.DiskLeft(ctx, rec.Account)
	if err == nil && u.Bytes > left {
		err = vm.Errorf(vm.Limit, "", "the account may store %d MiB more, and this takes up to %d MiB", left>>20, u.Bytes>>20).
			WithHint("delete VMs or snapshots, or ask an admin for more: `warren account quota`")
	}
	return rec, img, err
}

// diskOf is the digest of an image's disk.
func diskOf(img vm.Image) string {
	for _, f := range img.Files {
		if f.Name == "disk.qcow2" {
			return f.SHA256
		}
	}
	return ""
}

// machineType is the form of a machine type: a manifest that another wrote must not put
// options into QEMU's command line.
var machineType = regexp.MustCompile(`^pc-q35-[0-9]{1,2}\.[0-9]{1,2}$`)

// continues says why memory cannot be continued on this host; "" = it can.
func (e *Engine) continues(ctx context.Context, u Unpacking, rec vm.VM) string {
	m := u.Manifest
	switch {
	case !machineType.MatchString(m.Machine), len(m.GuestKey) == 0, len(m.GuestKey) > 64, len(m.Devices) > 64, len(m.Cmdline) > 4096:
		return "its manifest is not one that this version writes"
	case len(m.Plugged.Modules) > 0 || len(m.Plugged.Volumes) > 0 || m.Plugged.CPUs > 0:
		return "processors, memory or volumes were plugged into it while it ran"
	}
	p, err := e.cfg.Host.Platform(ctx)
	if err == nil {
		err = fits(m, p, rec)
	}
	if err != nil {
		return vm.AsError(err).Msg
	}
	return ""
}

// beginUnpack reserves the VM's id and name, or others if they are taken.
func (e *Engine) beginUnpack(rec *vm.VM, u Unpacking) (*operation, error) {
	if _, err := os.Lstat(e.cfg.Dir.VM(rec.ID)); err == nil || e.hasRecord(rec.ID) {
		rec.ID = vm.NewID()
	}
	for n, base := 2, rec.Name; ; n++ {
		op, err := e.beginCreate(*rec, rec.Name != "")
		if vm.KindOf(err) != vm.Exists || u.Name != "" || n > 100 {
			return op, err
		}
		rec.Name = base + "-" + strconv.Itoa(n)
		if vm.CheckName(rec.Name) != nil {
			return nil, err
		}
	}
}

// unpackOp makes the VM, its generation and its disk.
func (e *Engine) unpackOp(op *operation, u Unpacking, img vm.Image, memory bool) (vm.VM, error) {
	ctx, s := op.ctx, op.slot
	if err := e.step(ctx, "unpack:record"); err != nil {
		return s.rec, err
	}
	if err := e.enter(ctx, op); err != nil {
		return s.rec, err
	}
	if err := e.makeDir(ctx, s.id, &op.undo); err != nil {
		return s.rec, err
	}
	rec := e.recordOf(s)
	g, err := e.newGeneration(ctx, vm.Generation{
		ID: vm.NewGenerationID(), Account: rec.Account, VM: rec.ID, VMName: rec.Name, Image: img.ID, Why: vm.WhyBundle,
		State: vm.GenBuilding, Memory: memory, Size: rec.Size, CreatedAt: e.now(), Note: "from a bundle",
	})
	if err != nil {
		return rec, err
	}
	ready := false
	defer func() {
		if !ready {
			if _, err := e.changeGeneration(context.WithoutCancel(ctx), g.ID, func(g *vm.Generation) { g.State = vm.GenFailed }); err != nil {
				e.log.Warn("a generation that was not unpacked keeps its record", "generation", g.ID, "err", err)
			}
		}
		e.unpin(g.ID)
		e.collectLater()
	}()
	if err := e.fillGeneration(ctx, u, g, rec); err != nil {
		return rec, err
	}
	if err := e.step(ctx, "unpack:disk"); err != nil {
		return rec, err
	}
	if _, err := e.update(ctx, s, func(rec *vm.VM) { rec.DiskOn, rec.Head = g.ID, g.ID }); err != nil {
		return rec, err
	}
	if err := e.cfg.Generations.Disk(g.ID, s.id, rec.Size.DiskMiB); err != nil {
		return rec, diskError(e.cfg.Dir.Overlay(s.id), err)
	}
	if err := e.step(ctx, "unpack:commit"); err != nil {
		return rec, err
	}
	rec, err = e.update(ctx, s, func(rec *vm.VM) {
		rec.State, rec.Op, rec.Reason = vm.Stopped, "", "unpacked"
		rec.Exit = vm.MachineExit{Reason: rec.Reason, Time: e.now()}
		if memory {
			rec.State, rec.Generation = vm.Suspended, g.ID
		}
	})
	if err != nil {
		return rec, err
	}
	ready = true
	e.cfg.Journal.EmitVM(rec, "vm.created", map[string]any{"from": "bundle"})
	return rec, nil
}

// fillGeneration makes the files of a generation and completes it.
func (e *Engine) fillGeneration(ctx context.Context, u Unpacking, g vm.Generation, rec vm.VM) error {
	dir := layout.GenerationDir(e.cfg.Dir.Generation(g.ID))
	if err := os.Mkdir(string(dir), 0o700); err != nil {
		return diskError(string(dir), err)
	}
	if err := u.Fill(ctx, dir, "../../images/"+string(rec.Image)+"/disk.qcow2", g.Memory); err != nil {
		return err
	}
	m := vm.Manifest{Format: vm.GenerationFormat, ID: g.ID, Image: rec.Image, CreatedAt: g.CreatedAt, Size: rec.Size, VM: rec.ID}
	if g.Memory {
		from := u.Manifest
		m.Accel, m.CPU, m.Machine, m.QEMU, m.Cmdline, m.Devices = from.Accel, from.CPU, from.Machine, from.QEMU, from.Cmdline, slices.Clone(from.Devices)
		m.Agent, m.GuestKey, m.TrueKey = from.Agent, from.GuestKey, from.TrueKey
		m.OtherKeys = from.OtherKeys[:min(len(from.OtherKeys), maxOtherKeys)]
		m.Plugged.BootVCPU, m.Plugged.BootMemoryMiB = from.Plugged.BootVCPU, from.Plugged.BootMemoryMiB
	}
	m, err := e.cfg.Generations.Publish(ctx, m)
	if err != nil {
		return err
	}
	_, err = e.changeGeneration(ctx, g.ID, func(g *vm.Generation) {
		g.State, g.Durable, g.Synced, g.DataBytes = vm.GenReady, true, true, m.DataBytes
	})
	return err
}
