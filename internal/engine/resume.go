// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// startOn starts the VM of op on a generation, with a new disk above the generation's. If
// it fails, the VM is in the state that back writes.
func (e *Engine) startOn(op *operation, g vm.Generation, limit time.Duration, prepare func(*vm.VM) error, back func(context.Context) error) (vm.VM, error) {
	outer, _ := e.patience(limit)
	ctx, stop := context.WithTimeoutCause(op.ctx, outer, startTimeout(op.slot.id, outer))
	defer stop()
	if err := e.step(ctx, "start:record"); err != nil {
		return vm.VM{}, err
	}
	probe := op.before
	if err := prepare(&probe); err != nil {
		return vm.VM{}, err
	}
	rec, err := e.update(ctx, op.slot, func(rec *vm.VM) {
		rec.State, rec.Op, rec.Reason = vm.Starting, op.verb, ""
		rec.InstanceID, rec.Machine = vm.NewInstanceID(), vm.MachineRef{}
		rec.IdleTimeout, rec.IdleStops = probe.IdleTimeout, probe.IdleStops
	})
	if err != nil {
		return vm.VM{}, err
	}
	if err := op.undo.add(ctx, "record", back); err != nil {
		return vm.VM{}, err
	}
	e.cfg.Journal.EmitVM(rec, "vm.starting", nil)
	m, st, err := e.launchOn(ctx, op, rec, g, limit)
	if err != nil {
		return vm.VM{}, cause(ctx, err)
	}
	if err := e.step(ctx, "start:commit"); err != nil {
		return vm.VM{}, err
	}
	rec, err = e.nowRunning(ctx, op.slot, st, func(rec *vm.VM) { e.fillStarted(rec, g, op.verb) })
	if err != nil {
		return vm.VM{}, cause(ctx, err)
	}
	// From here on the VM runs, even if the request or the server ends.
	if err := e.step(context.WithoutCancel(ctx), "start:done"); err != nil {
		return vm.VM{}, err
	}
	e.watch(op.slot, m)
	e.cfg.Journal.EmitVM(rec, "vm.running", timings(st))
	return rec, nil
}

// fillStarted records what a start on a generation restored and lost.
func (e *Engine) fillStarted(rec *vm.VM, g vm.Generation, verb vm.Op) {
	rec.Cut = e.cutFrom(*rec, g)
	rec.Generation, rec.Head, rec.DiskOn = g.ID, g.ID, g.ID
	rec.Booted = true
	rec.Size, rec.VolumesSeen = g.Size, g.VolumesSeen
	rec.Restored = []string{
		fmt.Sprintf("memory, processes, terminals and ports as of %s", g.CreatedAt.Format(time.RFC3339)),
		"the disk of the same instant",
	}
	rec.Losses = []string{"connections to the outside that were open then"}
	if verb == vm.OpRollback {
		rec.Losses = append(rec.Losses, "what was done after that instant")
	}
	for _, v := range rec.Cut {
		rec.Losses = append(rec.Losses, fmt.Sprintf("the volume %s: accesses to %s fail", v.Name, v.Path))
	}
}

// launchOn starts a machine on a generation.
func (e *Engine) launchOn(ctx context.Context, op *operation, rec vm.VM, g vm.Generation, limit time.Duration) (Machine, vm.MachineStatus, error) {
	none := vm.MachineStatus{}
	if err := e.step(ctx, "start:disk"); err != nil {
		return nil, none, err
	}
	if err := e.freshDisk(ctx, op.slot, g); err != nil {
		return nil, none, err
	}
	spec, err := e.generationSpec(ctx, rec, g)
	if err != nil {
		return nil, none, err
	}
	_, spec.Patient = e.patience(limit)
	spec.Deadline, spec.Spare = limit, op.verb == vm.OpStart
	if err := e.step(ctx, "start:launch"); err != nil {
		return nil, none, err
	}
	m, st, err := e.launch(ctx, spec, &op.undo)
	return m, st, notContinued(rec, g, err)
}

// notContinued returns the error for memory that is damaged, and how to continue without
// it.
func notContinued(rec vm.VM, g vm.Generation, err error) error {
	if k := vm.KindOf(err); k != vm.Corrupt && k != vm.NotFound {
		return err
	}
	return vm.Errorf(vm.Corrupt, string(g.ID), "its memory cannot be resumed: %w", err).
		WithHint("its disk is intact: `warren start %s --disk-only` boots it, `warren rollback %s` goes back further", label(rec), label(rec))
}

// freshDisk replaces the VM's disk by a new one above the generation's. It writes the
// record first, because that keeps the layer below.
func (e *Engine) freshDisk(ctx context.Context, s *slot, g vm.Generation) error {
	if _, err := e.update(ctx, s, func(rec *vm.VM) { rec.DiskOn = g.ID }); err != nil {
		return err
	}
	if err := e.cfg.Generations.Disk(g.ID, s.id, g.Size.DiskMiB); err != nil {
		return diskError(e.cfg.Dir.Overlay(s.id), err)
	}
	return nil
}

// generationSpec returns the machine that continues a generation as rec.
func (e *Engine) generationSpec(ctx context.Context, rec vm.VM, g vm.Generation) (vm.MachineSpec, error) {
	if !g.Whole() {
		return vm.MachineSpec{}, vm.Errorf(vm.WrongState, string(g.ID), "the generation has no memory to continue from").
			WithHint("start from its disk: `warren start %s --disk-only`", label(rec))
	}
	if err := e.ownLayers(rec.Account, g.ID); err != nil {
		return vm.MachineSpec{}, err
	}
	m, fresh, err := e.loadManifest(g)
	if err != nil {
		return vm.MachineSpec{}, err
	}
	img, err := e.cfg.Images.Find(ctx, string(rec.Image))
	if err != nil {
		return vm.MachineSpec{}, err
	}
	rec.Size = m.Size
	spec, err := e.machineSpec(ctx, rec, img)
	if err != nil {
		return spec, err
	}
	p, err := e.cfg.Host.Platform(ctx)
	if err != nil {
		return spec, err
	}
	if err := fits(m, p, rec); err != nil {
		return spec, err
	}
	src := e.cfg.Generations.Source(g.ID)
	src.Fresh, src.Secret = fresh, len(g.VolumesSeen) > 0
	spec.Generation, spec.GuestKey, spec.OtherKeys = &src, m.GuestKey, m.OtherKeys
	spec.Plugged = m.Plugged
	if err := e.fillVolumes(&spec, rec, g); err != nil {
		return spec, err
	}
	e.fillFolders(&spec, rec, g)
	for _, module := range m.Plugged.Modules {
		src.Modules = append(src.Modules, layout.GenerationDir(e.cfg.Dir.Generation(g.ID)).Module(module.ID))
	}
	spec.Accel, spec.CPU, spec.Machine, spec.QuietNIC = m.Accel, m.CPU, m.Machine, m.QuietNIC()
	if m.Cmdline != "" {
		spec.Boot.Cmdline = m.Cmdline
	}
	return spec, nil
}

// loadManifest reads a generation's manifest. If it is not published yet, this server has
// just made it.
func (e *Engine) loadManifest(g vm.Generation) (m vm.Manifest, fresh bool, err error) {
	m, err = e.cfg.Generations.Load(g.ID)
	if vm.KindOf(err) == vm.NotFound && !g.Durable {
		m, err = e.manifest(g)
		return m, true, err
	}
	if err != nil && vm.KindOf(err) == vm.NotFound {
		err = vm.Errorf(vm.Corrupt, string(g.ID), "its manifest is gone: %w", err)
	}
	return m, false, err
}

// fits refuses to continue a generation on a host where its memory may not work: another
// accelerator or CPU model, or an older QEMU.
func fits(m vm.Manifest, p Platform, rec vm.VM) error {
	refuse := func(format string, args ...any) error {
		return vm.Errorf(vm.Unsupported, string(m.ID), format, args...).
			WithHint("start from its disk alone, without its memory: `warren start %s --disk-only`", label(rec))
	}
	switch {
	case m.Accel != p.Accel:
		return refuse("its memory was taken under %s, this host has %s", m.Accel, p.Accel)
	case m.CPU != p.CPU:
		return refuse("its memory was taken with CPU model %s, this host has %s", m.CPU, p.CPU)
	case olderVersion(p.QEMUVersion, m.QEMU):
		return refuse("its memory was written by QEMU %s, this host has the older %s", m.QEMU, p.QEMUVersion)
	}
	return nil
}

// olderVersion compares the first two numbers of dotted versions.
func olderVersion(have, want string) bool {
	return slices.Compare(numbers(have), numbers(want)) < 0
}

func numbers(version string) []int {
	var out []int
	for _, part := range strings.SplitN(version, ".", 3) {
		n, err := strconv.Atoi(part)
		if err != nil || len(out) == 2 {
			break
		}
		out = append(out, n)
	}
	return out
}

// resume starts a suspended VM with its memory.
func (e *Engine) resume(op *operation, limit time.Duration, prepare func(*vm.VM) error) (vm.VM, error) {
	s, before := op.slot, op.before
	g, ok := e.generationInfo(before.Generation)
	if !ok || !e.pin(g.ID) {
		return vm.VM{}, vm.Errorf(vm.Corrupt, string(before.Generation), "the memory of the VM is gone").
			WithHint("start from its disk alone: `warren start %s --disk-only`", label(before))
	}
	defer e.unpin(g.ID)
	if err := e.unlockedFor(before, g); err != nil { // before any memory is decrypted
		return vm.VM{}, err
	}
	g, err := e.opened(op.ctx, g)
	if err != nil {
		return vm.VM{}, notContinued(before, g, err)
	}
	return e.startOn(op, g, limit, prepare, func(ctx context.Context) error {
		rec, err := e.update(ctx, s, func(rec *vm.VM) {
			rec.State, rec.Op, rec.Reason, rec.Generation = vm.Suspended, "", before.Reason, g.ID
			rec.Machine, rec.Exit = vm.MachineRef{}, before.Exit
		})
		if err == nil {
			e.cfg.Journal.EmitVM(rec, "vm.suspended", map[string]any{"reason": "start-failed"})
		}
		return err
	})
}

// leaveMemory turns a suspended VM into a stopped one, with the disk of the same instant.
// The memory, which may be damaged, is kept for a rollback.
func (e *Engine) leaveMemory(op *operation) error {
	s := op.slot
	g, ok := e.generationInfo(op.before.Generation)
	if !ok {
		return noGeneration(string(op.before.Generation))
	}
	if g.Why == vm.WhySuspend || g.Why == vm.WhyReseat { // others are kept for their own reason
		if _, err := e.changeGeneration(op.ctx, g.ID, func(g *vm.Generation) { g.Why = vm.WhyBeforeBoot }); err != nil {
			return err
		}
	}
	if err := e.freshDisk(op.ctx, s, g); err != nil {
		return err
	}
	_, err := e.nowStopped(op.ctx, s, "memory-left", vm.MachineExit{Reason: "memory-left", Time: e.now()})
	return err
}
