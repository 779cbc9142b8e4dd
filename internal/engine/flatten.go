// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	// maxLayers is the depth of a disk above which its layers are merged, once the VM has
	// been unused for flattenAfter.
	maxLayers    = 8
	flattenAfter = 5 * time.Second
	// busyLayers is the depth above which the upper layers are merged even while the VM
	// is used, unless another operation needs it.
	busyLayers = 16
	// deepLayers is the depth above which a capture first merges the layers, for at most
	// shortenWait.
	deepLayers  = 24
	shortenWait = 2 * time.Minute
	// mostLayers is the greatest depth of a disk. To find the lowest layer, QEMU
	// concatenates the relative names of all layers, 38 bytes each, and a path has at
	// most 4095 bytes: a disk with 107 layers below it cannot start.
	mostLayers = 64
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

// flatten copies the layers below a running VM's disk into it, so that a deep chain costs
// nothing later; with part only the upper layers. It yields to any other operation on the
// VM.
func (e *Engine) flatten(op *operation, part bool) error {
	op.yields.Store(true)
	r := e.runOf(op.slot)
	if r == nil {
		return nil
	}
	if err := e.reconcileDisk(op.ctx, op.slot); err != nil {
		return err
	}
	return e.merge(op.ctx, op.slot, r, part)
}

func (e *Engine) merge(ctx context.Context, s *slot, r *run, part bool) error {
	if err := r.machine.Flatten(ctx, e.cfg.Dir.Images(), part); err != nil {
		return err
	}
	err := e.noteLayer(context.WithoutCancel(ctx), s)
	e.collectLater()
	return err
}

// shorten merges the upper layers of a deep disk before a capture adds another, even if
// the VM is busy. If merging fails, the capture proceeds unless the depth exceeds
// mostLayers: then kind Limit.
func (e *Engine) shorten(ctx context.Context, s *slot) error {
	depth := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.depthLocked(s.rec)
	}
	if depth() < deepLayers {
		return nil
	}
	var err error
	if r := e.runOf(s); r != nil {
		bounded, stop := context.WithTimeout(ctx, shortenWait)
		err = e.merge(bounded, s, r, true)
		stop()
		if ctx.Err() != nil || died(err) {
			return cause(ctx, err)
		}
	}
	n := depth()
	if n >= mostLayers {
		return vm.Errorf(vm.Limit, string(s.id), "the VM's disk has %d layers below it, and they could not be merged", n).
			WithHint("start the VM and leave it idle for a while: the layers are merged while it runs, if the disk has room")
	}
	if err != nil {
		e.log.Warn("the layers below a disk could not be merged", "vm", s.id, "layers", n, "err", err)
	}
	return nil
}

// noteLayer records the layer below the VM's disk, as the disk's header names it.
func (e *Engine) noteLayer(ctx context.Context, s *slot) error {
	id, err := e.cfg.Generations.DiskOn(s.id)
	if err != nil || id == e.recordOf(s).DiskOn {
		return err
	}
	if err := e.ownLayer(s.account, id); err != nil {
		return err
	}
	_, err = e.update(ctx, s, func(rec *vm.VM) { rec.DiskOn = id })
	return err
}

// ownLayer checks that the generation which a disk names as its layer belongs to the
// account. The VM's QEMU writes that header, and a guest may have taken over QEMU.
func (e *Engine) ownLayer(account vm.AccountID, id vm.GenerationID) error {
	if id == "" {
		return nil
	}
	if g, ok := e.generationInfo(id); !ok || g.Account != account {
		return vm.Errorf(vm.Corrupt, string(id), "a disk names this generation as its layer, but another account owns it").
			WithHint("somebody tampered with the disk; go back to an earlier generation: `warren tree NAME`, `warren rollback NAME`")
	}
	return nil
}

// ownLayers is ownLayer for a generation and all generations below it.
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
