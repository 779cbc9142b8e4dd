// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/warren-vm/warren/vm"
)

// generation is the engine's view of one generation.
type generation struct {
	sealing sync.Mutex // held while its memory is sealed, opened or settled; before genWrite

	// guarded by Engine.mu
	info vm.Generation // as the store has it
	pins int           // operations that need its files
	left bool          // files that nobody needs could not be removed: tried again
}

// newGeneration writes the first record of a generation and pins it. The
// caller unpins it.
func (e *Engine) newGeneration(ctx context.Context, g vm.Generation) (vm.Generation, error) {
	if e.dead.Load() {
		return g, ErrDied
	}
	e.genWrite.Lock()
	defer e.genWrite.Unlock()
	if g.Snapshot != "" { // again, now that no other can come between
		if err := errors.Join(e.snapshotNameFree(g.Account, g.Name, g.ID), e.snapshotFits(g.Account)); err != nil {
			return g, err
		}
	}
	ctx, stop := durable(ctx)
	defer stop()
	rev, err := e.cfg.Records.Generations.Create(ctx, g)
	if err != nil {
		return g, err
	}
	g.Revision = rev
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gens[g.ID] = &generation{info: g, pins: 1}
	return g, nil
}

// changeGeneration changes a generation's record durably, and then in memory.
func (e *Engine) changeGeneration(ctx context.Context, id vm.GenerationID, change func(*vm.Generation)) (vm.Generation, error) {
	return e.changeGenerationIf(ctx, id, func() error { return nil }, change)
}

// changeGenerationIf is changeGeneration, unless may refuses it; no other record of
// a generation changes in between.
func (e *Engine) changeGenerationIf(ctx context.Context, id vm.GenerationID, may func() error, change func(*vm.Generation)) (vm.Generation, error) {
	if e.dead.Load() {
		return vm.Generation{}, ErrDied
	}
	e.genWrite.Lock()
	defer e.genWrite.Unlock()
	if err := may(); err != nil {
		return vm.Generation{}, err
	}
	g, ok := e.generationInfo(id)
	if !ok {
		return g, noGeneration(string(id))
	}
	change(&g)
	rev, err := resaved(ctx, e.cfg.Records.Generations, g, func(g *vm.Generation) (string, *int64) { return string(g.ID), &g.Revision })
	if err != nil {
		return vm.Generation{}, err
	}
	g.Revision = rev
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gens[id].info = g
	return g, nil
}

// forgetGeneration removes a generation's record.
func (e *Engine) forgetGeneration(ctx context.Context, id vm.GenerationID) error {
	if e.dead.Load() {
		return ErrDied
	}
	e.genWrite.Lock()
	defer e.genWrite.Unlock()
	g, ok := e.generationInfo(id)
	if !ok {
		return nil
	}
	ctx, stop := durable(ctx)
	defer stop()
	if err := e.cfg.Records.Generations.Delete(ctx, g); err != nil && vm.KindOf(err) != vm.NotFound {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.gens, id)
	return nil
}

func (e *Engine) generationInfo(id vm.GenerationID) (vm.Generation, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.gens[id]
	if g == nil {
		return vm.Generation{}, false
	}
	return g.info, true
}

// pin keeps a generation's files until unpin. It reports whether there is one.
func (e *Engine) pin(id vm.GenerationID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.gens[id]
	if g != nil {
		g.pins++
	}
	return g != nil
}

func (e *Engine) unpin(id vm.GenerationID) {
	e.mu.Lock()
	if g := e.gens[id]; g != nil {
		g.pins--
	}
	e.mu.Unlock()
}

func noGeneration(ref string) *vm.Error {
	return vm.Errorf(vm.NotFound, ref, "no such snapshot or generation").
		WithCode("SNAPSHOT_NOT_FOUND", "snapshotId", ref).
		WithHint("`warren snapshot ls` lists snapshots, `warren tree` every generation")
}

// findGeneration resolves a generation's id, a snapshot's id, or a snapshot's
// name that is unique in the account. Deleted ones are found by id only.
func (e *Engine) findGeneration(account vm.AccountID, ref string) (vm.Generation, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []vm.Generation
	for _, g := range e.gens {
		switch {
		case g.info.Account != account || g.info.Gone && g.info.Snapshot == "":
		case string(g.info.ID) == ref || g.info.Snapshot != "" && string(g.info.Snapshot) == ref:
			return g.info, nil
		case g.info.Snapshot != "" && !g.info.Deleted && g.info.Name == ref && ref != "":
			found = append(found, g.info)
		}
	}
	switch len(found) {
	case 0:
		return vm.Generation{}, noGeneration(ref)
	case 1:
		return found[0], nil
	}
	return vm.Generation{}, vm.Errorf(vm.Invalid, ref, "%d snapshots have this name", len(found)).
		WithCode("INVALID_SNAPSHOT_ID").WithHint("use an id: `warren snapshot ls` shows them")
}

// generations returns those of an account that pass, oldest first.
func (e *Engine) generations(pass func(*vm.Generation) bool) []vm.Generation {
	e.mu.Lock()
	var list []vm.Generation
	for _, g := range e.gens {
		if pass(&g.info) {
			list = append(list, g.info)
		}
	}
	e.mu.Unlock()
	slices.SortFunc(list, func(a, b vm.Generation) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}
