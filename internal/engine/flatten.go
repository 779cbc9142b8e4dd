// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	// maxLayers is how deep a disk may lie before its layers are merged, once the VM
	// has been left alone for flattenAfter.
	maxLayers    = 8
	flattenAfter = 5 * time.Second
	// busyLayers is how deep a disk may lie before its upper layers are merged also
	// while the VM is in use, unless something else is asked of it.
	busyLayers = 16
	// deepLayers is how deep a disk may lie before a capture merges them first, for
	// shortenWait at most.
	deepLayers  = 24
	shortenWait = 2 * time.Minute
	// mostLayers is how deep a disk may lie at all. QEMU puts the relative names of
	// all layers one after the other, 38 bytes each, to find the lowest, and a path
	// has 4095: a disk that lies on 107 layers cannot be started.
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

// flatten copies the layers below a running VM's disk into it, in part the upper
// ones alone, so that depth costs nothing later. It gives way to anything else that
// is asked of the VM.
func (e *Engine) flatten(op *operation, part bool) error {
	op.yields.Store(true)
	r := e.runOf(op.slot)
	if r == nil {
		return nil
	}
	if err := e.settleDisk(op.ctx, op.slot); err != nil {
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

// shorten merges the upper layers of a deep disk before a capture adds one more,
// however busy the VM is. That it fails is no reason not to capture before the
// chain has grown far beyond that. Kind Limit then.
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
		return vm.Errorf(vm.Limit, string(s.id), "its disk lies on %d layers, and they could not be merged", n).
			WithHint("start the VM if it is stopped, and leave it alone for a while: they are merged while it runs, if the disk has room")
	}
	if err != nil {
		e.log.Warn("the layers below a disk are not merged", "vm", s.id, "layers", n, "err", err)
	}
	return nil
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
			WithHint("the disk was tampered with; go back to a generation from before: `warren tree NAME`, `warren rollback NAME`")
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
