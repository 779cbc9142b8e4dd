// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// seal compresses and encrypts the memory of a generation. The key is its own, wrapped by
// the host's, and only in its record: removing the record makes the memory unreadable. A
// sealed generation is opened again on use.
func (e *Engine) seal(ctx context.Context, id vm.GenerationID) error {
	unlock, ok := e.lockMemory(id)
	if !ok {
		return nil
	}
	defer unlock()
	g, ok := e.generationInfo(id)
	if !ok || g.Sealed || !g.Whole() || !g.Durable || e.mapped(id) {
		return nil
	}
	if !e.pinAlone(id) {
		return vm.Errorf(vm.Busy, string(id), "a VM is starting on it").WithHint("try again when it runs")
	}
	defer e.unpin(id)
	wrapped := g.SealKey
	if len(wrapped) == 0 {
		var err error
		if wrapped, err = e.cfg.Generations.SealKey(); err != nil {
			return err
		}
		// The key is recorded first: memory sealed with a key that is not recorded would
		// be lost.
		if _, err := e.changeGeneration(ctx, id, func(g *vm.Generation) { g.SealKey = wrapped }); err != nil {
			return err
		}
	}
	if err := e.step(ctx, "cold:seal"); err != nil {
		return err
	}
	n, err := e.cfg.Generations.Seal(ctx, id, wrapped)
	if err != nil {
		return err
	}
	_, err = e.changeGeneration(ctx, id, func(g *vm.Generation) { g.Sealed, g.DataBytes = true, n })
	return err
}

// lockMemory keeps others from sealing or opening this generation's memory until unlock
// is called. ok is false if there is no such generation.
func (e *Engine) lockMemory(id vm.GenerationID) (unlock func(), ok bool) {
	e.mu.Lock()
	g := e.gens[id]
	e.mu.Unlock()
	if g == nil {
		return nil, false
	}
	g.sealing.Lock()
	return g.sealing.Unlock, true
}

// pinAlone pins a generation unless somebody else has pinned it.
func (e *Engine) pinAlone(id vm.GenerationID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.gens[id]
	if g == nil || g.pins > 0 {
		return false
	}
	g.pins++
	return true
}

// mapped reports whether a machine runs on the generation, whose file must then not
// change.
func (e *Engine) mapped(id vm.GenerationID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.vms {
		if s.rec.Generation == id && s.rec.State != vm.Suspended {
			return true
		}
	}
	return false
}

// opened returns a generation whose memory is in the clear. It opens a sealed one. The
// caller has pinned it.
func (e *Engine) opened(ctx context.Context, g vm.Generation) (vm.Generation, error) {
	id := g.ID
	unlock, ok := e.lockMemory(id)
	if !ok {
		return g, noGeneration(string(id))
	}
	defer unlock()
	if g, ok = e.generationInfo(id); !ok {
		return g, noGeneration(string(id))
	}
	if !g.Sealed {
		return g, nil
	}
	if err := e.step(ctx, "cold:open"); err != nil {
		return g, err
	}
	if err := e.cfg.Generations.Open(ctx, g.ID, g.SealKey); err != nil {
		return g, err
	}
	e.settleLater(g.ID)
	return g, nil
}

// settleLater makes an opened generation durable without its seal, in the background.
func (e *Engine) settleLater(id vm.GenerationID) {
	if !e.pin(id) {
		return
	}
	ok := e.spawn(func(ctx context.Context) {
		defer e.collectLater() // seals it again if it holds a volume's data and nothing runs on it
		defer e.unpin(id)
		unlock, ok := e.lockMemory(id)
		if !ok {
			return
		}
		defer unlock()
		n, err := e.cfg.Generations.DropSealed(ctx, id)
		if err == nil {
			_, err = e.changeGeneration(ctx, id, func(g *vm.Generation) { g.Sealed, g.SealKey, g.DataBytes = false, nil, n })
		}
		if err != nil && !died(err) && ctx.Err() == nil {
			e.log.Warn("an opened generation keeps its sealed copy", "generation", id, "err", err)
		}
	})
	if !ok {
		e.unpin(id)
	}
}

// sealSuspended seals the memory of a suspended VM.
func (e *Engine) sealSuspended(op *operation) error {
	rec := e.recordOf(op.slot)
	if rec.State != vm.Suspended {
		return nil
	}
	if err := e.seal(op.ctx, rec.Generation); err != nil {
		return err
	}
	e.cfg.Journal.EmitVM(rec, "vm.sealed", map[string]any{"generation": string(rec.Generation)})
	return nil
}
