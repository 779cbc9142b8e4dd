// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	// maxLayers is how deep a disk may lie before its layers are merged.
	maxLayers = 8
	// flattenAfter is how long a VM must have been left alone before.
	flattenAfter = 5 * time.Second
)

// depthLocked counts the generations below a VM's disk.
func (e *Engine) depthLocked(rec vm.VM) (n int) {
	for id := rec.DiskOn; id != ""; n++ {
		g := e.gens[id]
		if g == nil {
			break
		}
		id = g.info.DiskOn
	}
	return n
}

// flatten copies the layers below a running VM's disk into it, so that depth
// costs nothing later. It gives way to anything else that is asked of the VM.
func (e *Engine) flatten(op *operation) error {
	op.yields.Store(true)
	r := e.runOf(op.slot)
	if r == nil {
		return nil
	}
	if err := e.settleDisk(op.ctx, op.slot); err != nil {
		return err
	}
	if err := r.machine.Flatten(op.ctx, e.cfg.Dir.Images()); err != nil {
		return err
	}
	err := e.noteLayer(context.WithoutCancel(op.ctx), op.slot)
	e.collectLater()
	return err
}

// noteLayer makes the record say what the VM's disk lies on, as the disk itself
// has it.
func (e *Engine) noteLayer(ctx context.Context, s *slot) error {
	id, err := e.cfg.Generations.DiskOn(s.id)
	if err != nil || id == e.snapshot(s).DiskOn {
		return err
	}
	if err := e.ownLayer(s.account, id); err != nil {
		return err
	}
	_, err = e.update(ctx, s, func(rec *vm.VM) { rec.DiskOn = id })
	return err
}

// ownLayer wants a generation that a disk says it lies on to be the account's.
// The header that says so is written by the VM's QEMU, which a guest may have
// taken over.
func (e *Engine) ownLayer(account vm.AccountID, id vm.GenerationID) error {
	if id == "" {
		return nil
	}
	if g, ok := e.generationInfo(id); !ok || g.Account != account {
		return vm.Errorf(vm.Corrupt, string(id), "a disk says that it lies on this generation, which is not its own").
			WithHint("the disk was tampered with; go back to a generation from before: `warren tree`, `warren rollback`")
	}
	return nil
}

// ownLayers is ownLayer for a generation and all below it.
func (e *Engine) ownLayers(account vm.AccountID, id vm.GenerationID) (err error) {
	for n := 0; err == nil && id != "" && n < maxChain; n++ {
		if err = e.ownLayer(account, id); err == nil {
			id, err = e.cfg.Generations.Below(id)
		}
	}
	return err
}

// maxChain bounds how far a chain of disks is followed; flatten keeps them far
// shorter.
const maxChain = 1000
