// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// keepsMemory reports whether a VM of the plan continues the snapshot's memory: the
// snapshot has memory, and the requested size is its own.
func (p *createPlan) keepsMemory() bool {
	return p.from != nil && p.from.Whole() && p.rec.Size == p.from.Size
}

// buildFrom is buildMachine for a VM that is made from a snapshot.
func (e *Engine) buildFrom(ctx context.Context, op *operation, p *createPlan, g vm.Generation) (m Machine, st vm.MachineStatus, err error) {
	if !e.pin(g.ID) {
		return nil, st, noGeneration(string(g.ID))
	}
	defer e.unpin(g.ID)
	if g, err = e.opened(ctx, g); err != nil {
		return nil, st, err
	}
	s, u := op.slot, &op.undo
	if err := e.makeDir(ctx, s.id, u); err != nil {
		return nil, st, err
	}
	// The record first: it keeps the layer below the disk.
	if _, err := e.update(ctx, s, func(rec *vm.VM) { rec.DiskOn, rec.Head = g.ID, g.ID }); err != nil {
		return nil, st, err
	}
	if err := e.cfg.Generations.Disk(g.ID, s.id, p.rec.Size.DiskMiB); err != nil {
		return nil, st, diskError(e.cfg.Dir.Overlay(s.id), err)
	}
	spec, err := e.specFrom(ctx, p, g)
	if err != nil {
		return nil, st, err
	}
	return e.launch(ctx, spec, u)
}

// specFrom returns the machine that continues the snapshot's memory or boots its disk.
func (e *Engine) specFrom(ctx context.Context, p *createPlan, g vm.Generation) (spec vm.MachineSpec, err error) {
	if p.keepsMemory() {
		spec, err = e.generationSpec(ctx, p.rec, g)
	} else {
		spec, err = e.coldSpec(ctx, p.rec, p.image)
	}
	if err != nil {
		return spec, err
	}
	spec.Deadline = p.deadline
	spec.Reset.HostKeys, err = hostKeys()
	return spec, err
}

// started records what a VM of the plan was started from.
func (p *createPlan) started(e *Engine, rec *vm.VM) {
	switch {
	case p.keepsMemory():
		e.fillStarted(rec, *p.from, vm.OpCreate)
	case p.from != nil:
		rec.Booted = true
		rec.Restored = []string{"the disk of the snapshot"}
		rec.Losses = []string{"memory and running processes: the VM was booted on the snapshot's disk"}
	}
	if p.from != nil && p.from.Key == "" { // a layer's VM is temporary, and no parent
		rec.Parent = p.from.VM
	}
}
