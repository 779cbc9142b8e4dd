// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// need says which files of a generation are needed.
type need int

const (
	needNothing need = iota
	needDisk         // its layer lies below another disk
	needAll          // a machine runs on it, or may start on it
)

// collectLater runs collect soon, as a task of the engine.
func (e *Engine) collectLater() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.collectLaterLocked()
}

func (e *Engine) collectLaterLocked() {
	if !e.collecting {
		e.collecting = e.spawnLocked(e.collect)
	}
}

// collect removes the files and records that no VM, snapshot or later generation needs
// any more.
func (e *Engine) collect(ctx context.Context) {
	e.sweeping.Lock()
	defer e.sweeping.Unlock()
	e.mu.Lock()
	e.collecting = false
	needs, coming := e.needsLocked(), e.comingLocked()
	var todo, seen []vm.Generation
	for id, g := range e.gens {
		if e.recovered && len(g.info.VolumesSeen) > 0 && needs[id] == needAll && !coming[id] && !e.doubtfulLocked(g.info.VM) {
			seen = append(seen, g.info)
		}
		if g.pins == 0 && g.info.State != vm.GenBuilding && (g.left || surplus(g.info, needs[id])) {
			todo = append(todo, g.info)
		}
	}
	e.mu.Unlock()
	for _, g := range todo {
		if ctx.Err() != nil || e.dead.Load() {
			return
		}
		err := e.dropUnneeded(ctx, g, needs[g.ID])
		e.mu.Lock()
		if known := e.gens[g.ID]; known != nil {
			known.left = err != nil
		}
		e.mu.Unlock()
		if err != nil && !died(err) {
			e.log.Warn("a generation that nobody needs could not be removed", "generation", g.ID, "err", err)
		}
	}
	if err := e.forgetGone(ctx); err != nil && ctx.Err() == nil && !died(err) {
		e.log.Warn("records of generations that are gone could not be removed", "err", err)
	}
	for _, g := range seen {
		e.sealSeen(ctx, g)
	}
}

// comingLocked returns the generations that VMs are about to start on.
func (e *Engine) comingLocked() map[vm.GenerationID]bool {
	coming := map[vm.GenerationID]bool{}
	for _, s := range e.vms {
		if s.op != nil {
			coming[s.rec.DiskOn], coming[s.rec.Generation] = true, true
		}
	}
	return coming
}

// surplus reports whether a generation has more files than needed.
func surplus(g vm.Generation, n need) bool {
	switch n {
	case needAll:
		return false
	case needDisk:
		return !g.DiskOnly && g.Memory
	default:
		return !g.Gone
	}
}

// needsLocked returns what is needed of each generation. Those that VMs start on or are
// suspended on, and those that are kept, are needed whole. Those below a needed disk are
// needed as disks.
func (e *Engine) needsLocked() map[vm.GenerationID]need {
	needs := map[vm.GenerationID]need{}
	below := func(id vm.GenerationID) {
		for id != "" && needs[id] == needNothing {
			needs[id] = needDisk
			if g := e.gens[id]; g != nil {
				id = g.info.DiskOn
			} else {
				id = ""
			}
		}
	}
	whole := func(id vm.GenerationID) {
		g := e.gens[id]
		if g == nil {
			return
		}
		if needs[id] == needNothing {
			below(id)
		}
		needs[id] = needAll
	}
	for _, s := range e.vms {
		whole(s.rec.Generation)
	}
	for id, n := range e.keptLocked() {
		if n == needAll {
			whole(id)
		} else {
			below(id)
		}
	}
	for _, g := range e.gens {
		if g.pins > 0 || g.info.State == vm.GenBuilding || e.doubtfulLocked(g.info.VM) && !g.info.Gone {
			whole(g.info.ID)
		}
	}
	for _, s := range e.vms {
		below(s.rec.DiskOn)
	}
	return needs
}

// keptLocked returns the generations that are kept for their own sake, and what is kept
// of each.
func (e *Engine) keptLocked() map[vm.GenerationID]need {
	kept := map[vm.GenerationID]need{}
	auto, layers := map[vm.ID][]vm.Generation{}, map[string][]vm.Generation{}
	reviewed := map[vm.ID]vm.Generation{}
	for id, g := range e.gens {
		switch {
		case g.info.Gone || g.info.State != vm.GenReady || g.info.Deleted:
		case g.info.Snapshot != "":
			kept[id] = needAll
		case g.info.Why == vm.WhyLayer:
			layers[string(g.info.Account)+" "+g.info.Key] = append(layers[string(g.info.Account)+" "+g.info.Key], g.info)
		case g.info.Why == vm.WhyReview:
			if newest, ok := reviewed[g.info.VM]; e.vms[g.info.VM] != nil && (!ok || g.info.CreatedAt.After(newest.CreatedAt)) {
				reviewed[g.info.VM] = g.info
			}
		case automatic(g.info.Why) && e.vms[g.info.VM] != nil:
			auto[g.info.VM] = append(auto[g.info.VM], g.info)
		}
	}
	for _, g := range reviewed {
		kept[g.ID] = needAll
	}
	for _, id := range e.committedLocked() {
		kept[id] = max(kept[id], needDisk)
	}
	for _, list := range layers {
		if sortNewest(list); e.now().Sub(lastUse(list[0])) < layersKept {
			kept[list[0].ID] = needAll // older ones of the key were replaced
		}
	}
	for _, list := range e.turnsLocked() {
		for i, g := range list[:min(len(list), turnsKept)] {
			if kept[g.ID] = needAll; i >= turnMemories || g.NoMemory {
				kept[g.ID] = needDisk
			}
		}
	}
	for _, list := range auto {
		for _, id := range thin(list, e.now()) {
			kept[id] = needAll
		}
	}
	return kept
}

// layersKept is how long an unused layer is kept.
const layersKept = 30 * 24 * time.Hour

// lastUse is when a layer was made or last used.
func lastUse(g vm.Generation) time.Time {
	if g.UsedAt.After(g.CreatedAt) {
		return g.UsedAt
	}
	return g.CreatedAt
}

// automatic reports whether generations of that kind are kept as long as their VM and
// thinned by age.
func automatic(w vm.Why) bool {
	return w == vm.WhyBeforeRollback || w == vm.WhyBeforeBoot || w == vm.WhySchedule || w == vm.WhyBeforeExec
}

// thin chooses the automatic generations that stay: the latest five, the last of each
// hour for a day, and the last of each day for a month.
func thin(list []vm.Generation, now time.Time) []vm.GenerationID {
	sortNewest(list)
	var keep []vm.GenerationID
	seen := map[time.Time]bool{}
	for i, g := range list {
		age := now.Sub(g.CreatedAt)
		slot := g.CreatedAt.Truncate(24 * time.Hour)
		if age < 24*time.Hour {
			slot = g.CreatedAt.Truncate(time.Hour)
		}
		if i < 5 || age < 30*24*time.Hour && !seen[slot] {
			keep = append(keep, g.ID)
		}
		seen[slot] = true
	}
	return keep
}

// dropUnneeded removes the files of a generation that are not needed.
func (e *Engine) dropUnneeded(ctx context.Context, g vm.Generation, n need) error {
	if err := e.step(ctx, "collect:files"); err != nil {
		return err
	}
	if n == needDisk {
		// The record first: from here on no VM can start on it.
		if _, err := e.changeGeneration(ctx, g.ID, func(g *vm.Generation) { g.DiskOnly, g.Sealed, g.SealKey = true, false, nil }); err != nil {
			return err
		}
		if err := e.step(ctx, "collect:drop"); err != nil {
			return err
		}
		return e.cfg.Generations.DropMemory(g.ID)
	}
	if !g.Gone {
		if _, err := e.changeGeneration(ctx, g.ID, func(g *vm.Generation) { g.Gone, g.DataBytes, g.Sealed, g.SealKey = true, 0, false, nil }); err != nil {
			return err
		}
	}
	if err := e.step(ctx, "collect:drop"); err != nil {
		return err
	}
	return e.cfg.Generations.Remove(g.ID)
}
