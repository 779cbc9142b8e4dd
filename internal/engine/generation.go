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

// generation is the engine's entry for one generation.
type generation struct {
	sealing sync.Mutex // held while its memory is sealed, opened or settled; before nameSnap

	// guarded by Engine.mu
	info vm.Generation // as the table has it
	pins int           // operations that need its files
	left bool          // unneeded files could not be removed: try again
}

// newGeneration writes the first record of a generation and pins it. The caller unpins
// it.
func (e *Engine) newGeneration(ctx context.Context, g vm.Generation) (vm.Generation, error) {
	if e.dead.Load() {
		return g, ErrDied
	}
	if g.Snapshot != "" { // check again: with nameSnap held no other can get the name
		e.nameSnap.Lock()
		defer e.nameSnap.Unlock()
		if err := errors.Join(e.snapshotNameFree(g.Account, g.Name, g.ID), e.snapshotFits(g.Account)); err != nil {
			return g, err
		}
	}
	if err := e.tables.gens.Create(ctx, g); err != nil {
		return g, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gens[g.ID] = &generation{info: g, pins: 1}
	return g, nil
}

// changeGeneration changes a generation's record. It may call change more than once.
func (e *Engine) changeGeneration(ctx context.Context, id vm.GenerationID, change func(*vm.Generation)) (vm.Generation, error) {
	if e.dead.Load() {
		return vm.Generation{}, ErrDied
	}
	if _, ok := e.generationInfo(id); !ok {
		return vm.Generation{}, noGeneration(string(id))
	}
	g, err := e.tables.gens.Change(ctx, id, func(g *vm.Generation) error { change(g); return nil })
	if err != nil {
		return vm.Generation{}, err
	}
	e.generationChanged(nil, &g)
	return g, nil
}

// renameGeneration is changeGeneration with a check by may. No snapshot gets a name
// between the two.
func (e *Engine) renameGeneration(ctx context.Context, id vm.GenerationID, may func() error, change func(*vm.Generation)) (vm.Generation, error) {
	e.nameSnap.Lock()
	defer e.nameSnap.Unlock()
	if err := may(); err != nil {
		return vm.Generation{}, err
	}
	return e.changeGeneration(ctx, id, change)
}

// generationChanged takes over the table's new record.
func (e *Engine) generationChanged(_, now *vm.Generation) {
	if now == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.gens[now.ID]
	if rec, ok := e.tables.gens.Get(now.ID); ok && g != nil {
		g.info = rec
	}
}

// forgetGeneration removes a generation's record.
func (e *Engine) forgetGeneration(ctx context.Context, id vm.GenerationID) error {
	if e.dead.Load() {
		return ErrDied
	}
	if err := e.tables.gens.Drop(ctx, id); err != nil {
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

// pin keeps a generation's files until unpin. It reports whether the generation exists.
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

// findGeneration resolves a generation's id, a snapshot's id, or a snapshot's name that
// is unique in the account. Deleted ones are found by id only.
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

// generations returns the generations that pass, oldest first.
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
