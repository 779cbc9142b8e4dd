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
	_, err = e.update(ctx, s, func(rec *vm.VM) { rec.DiskOn = id })
	return err
}
