// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// deletedKept is the number of deleted snapshots of an account whose records are kept,
// the newest first. Requests for them get "deleted", not "unknown".
const deletedKept = 100

// forgetGone removes the records of generations that have no files any more and at which
// no lineage branches. The children of a removed one get its parent. So there are at most
// as many records as VMs, kept generations and branching points. It takes time linear in
// the number of records. The caller holds sweeping.
func (e *Engine) forgetGone(ctx context.Context) error {
	e.mu.Lock()
	drop, parents := e.forgettableLocked()
	e.mu.Unlock()
	for id, parent := range parents { // first: a crash in between leaves a record that nobody needs
		if err := e.step(ctx, "collect:parent"); err != nil {
			return err
		}
		if _, err := e.changeGeneration(ctx, id, func(g *vm.Generation) { g.Parent = parent }); err != nil {
			return err
		}
	}
	for _, id := range drop {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := e.forgetGeneration(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// forgettableLocked chooses the records to remove, and returns the new parents of those
// that stay.
func (e *Engine) forgettableLocked() (drop []vm.GenerationID, parents map[vm.GenerationID]vm.GenerationID) {
	stays := e.rememberedLocked()
	children := make(map[vm.GenerationID]int, len(e.gens)) // not yet visited
	for _, g := range e.gens {
		children[g.info.Parent]++
	}
	var ready, order []vm.GenerationID // order: from the last of each history to the first
	for id := range e.gens {
		if children[id] == 0 {
			ready = append(ready, id)
		}
	}
	branches := map[vm.GenerationID]int{} // number that lead to a generation that stays
	for len(ready) > 0 {
		id := ready[len(ready)-1]
		ready, order = ready[:len(ready)-1], append(order, id)
		if branches[id] > 1 {
			stays[id] = true
		}
		parent := e.gens[id].info.Parent
		if stays[id] || branches[id] > 0 {
			branches[parent]++
		}
		if children[parent]--; children[parent] == 0 && e.gens[parent] != nil {
			ready = append(ready, parent)
		}
	}
	parents = map[vm.GenerationID]vm.GenerationID{}
	over := map[vm.GenerationID]vm.GenerationID{} // for each removed one, its nearest ancestor that stays
	for i := len(order) - 1; i >= 0; i-- {
		id := order[i]
		parent := e.gens[id].info.Parent
		above, gone := over[parent]
		if !gone {
			above = parent
		}
		switch {
		case !stays[id]:
			over[id] = above
			drop = append(drop, id)
		case gone:
			parents[id] = above
		}
	}
	return drop, parents
}

// rememberedLocked returns the generations whose records must stay: they have files or
// are being made, a VM is based on them, or they were snapshots.
func (e *Engine) rememberedLocked() map[vm.GenerationID]bool {
	stays := make(map[vm.GenerationID]bool, len(e.gens))
	deleted := map[vm.AccountID][]vm.Generation{}
	for id, g := range e.gens {
		switch {
		case !g.info.Gone || g.left || g.pins > 0 || g.info.State == vm.GenBuilding:
			stays[id] = true
		case g.info.Snapshot != "":
			deleted[g.info.Account] = append(deleted[g.info.Account], g.info)
		}
	}
	for _, list := range deleted {
		sortNewest(list)
		for _, g := range list[:min(deletedKept, len(list))] {
			stays[g.ID] = true
		}
	}
	for _, s := range e.vms {
		stays[s.rec.Head], stays[s.rec.Generation], stays[s.rec.DiskOn] = true, true, true
	}
	return stays
}
