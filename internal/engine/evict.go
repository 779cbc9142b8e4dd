// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/warren-vm/warren/internal/storage"
	"github.com/warren-vm/warren/vm"
)

// storageEvery is the time between two checks of the disk.
const storageEvery = time.Minute

// PruneRequest asks to free disk space. The zero value frees only what the engine would
// free by itself.
type PruneRequest struct {
	DryRun bool  // report what would be removed, and remove nothing
	Free   int64 // additional bytes to free
}

// keepBudget is the task that evicts VMs, snapshots and layers when the data directory
// exceeds its budget, the disk lacks its reserve, or an account exceeds its quota.
func (e *Engine) keepBudget(ctx context.Context) {
	for {
		after, stop := e.cfg.Clock.After(storageEvery)
		select {
		case <-after:
		case <-ctx.Done():
			stop()
			return
		}
		stop()
		if err := e.makeRoom(ctx); err != nil && ctx.Err() == nil && !died(err) {
			e.log.Error("the disk use could not be checked", "err", err)
		}
	}
}

// makeRoom checks the disk once. It measures only if much can have changed.
func (e *Engine) makeRoom(ctx context.Context) error {
	have, err := e.cfg.Host.Capacity(ctx)
	if err != nil || !e.worthALook(have) {
		return err
	}
	u, err := e.measure(ctx)
	if err != nil {
		return err
	}
	if e.over(u) > 0 {
		if _, err := e.freeUp(ctx, "", e.over); err != nil {
			return err
		}
	}
	for _, id := range e.accountsOver(u) {
		if _, err := e.freeUp(ctx, id, e.accountOver(id)); err != nil {
			return err
		}
	}
	return nil
}

// worthALook reports whether the disk may be short of space: the last measurement found
// it so, or enough has been written since.
func (e *Engine) worthALook(have Capacity) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.looked == nil || have.DiskFree < e.cfg.Settings.DiskReserve || e.over(e.looked) > 0 {
		return true
	}
	return e.looked.have.DiskFree-have.DiskFree > e.cfg.Settings.budget(have.DiskTotal)/1000 || e.now().Sub(e.looked.time) > 10*storageEvery
}

// accountsOver returns the accounts that exceed their disk quota.
func (e *Engine) accountsOver(u *usage) (list []vm.AccountID) {
	for _, a := range e.cfg.Access.AllAccounts() {
		if limit := e.diskLimit(a, u.have.DiskTotal); limit > 0 && u.accounts.Of[a.ID].Unique > limit {
			list = append(list, a.ID)
		}
	}
	return list
}

// accountOver returns a function that says by how many bytes an account exceeds its
// quota.
func (e *Engine) accountOver(id vm.AccountID) func(*usage) int64 {
	return func(u *usage) int64 {
		limit := e.diskLimit(e.account(id), u.have.DiskTotal)
		if limit == 0 {
			return 0
		}
		return max(0, u.accounts.Of[id].Unique-limit)
	}
}

// freeFor is freeUp for a request that needs room. If evicting everything evictable were
// not enough, it evicts nothing, since the request is refused anyway.
func (e *Engine) freeFor(ctx context.Context, account vm.AccountID, over func(*usage) int64) (vm.Pruned, error) {
	return e.free(ctx, account, over, true)
}

// freeUp evicts VMs, snapshots and layers of an account ("" = of all), one after the
// other, until over returns 0. It measures again after each: shared data is freed only
// with its last user.
func (e *Engine) freeUp(ctx context.Context, account vm.AccountID, over func(*usage) int64) (vm.Pruned, error) {
	return e.free(ctx, account, over, false)
}

func (e *Engine) free(ctx context.Context, account vm.AccountID, over func(*usage) int64, enough bool) (out vm.Pruned, err error) {
	e.evicting.Lock()
	defer e.evicting.Unlock()
	out.Gone = []vm.StorageItem{}
	u, err := e.measure(ctx)
	if err != nil {
		return out, err
	}
	before := u.needs.Total
	out.Over = over(u)
	if enough && u.together(e.order(u, account)) < out.Over {
		out.Left = out.Over
		return out, nil
	}
	tried := map[storage.Item]bool{}
	for out.Left = out.Over; out.Left > 0; out.Left = over(u) {
		next := first(e.order(u, account), tried)
		if next == nil {
			return out, nil
		}
		tried[next.Item] = true
		item, err := e.evict(ctx, *next, out.Left)
		if ctx.Err() != nil || died(err) {
			return out, err
		}
		if err != nil {
			e.log.Warn("an eviction failed", "kind", next.Item.Kind, "id", next.Item.ID, "err", err)
			continue
		}
		out.Gone = append(out.Gone, item)
		if next.Priority == storage.TurnMemoryPriority { // its disk may go, too, after the memory of the others
			delete(tried, next.Item)
		}
		e.collect(ctx)
		if u, err = e.measure(ctx); err != nil {
			return out, err
		}
		out.Frees = max(0, before-u.needs.Total)
	}
	return out, nil
}

func first(ordered []storage.Candidate, tried map[storage.Item]bool) *storage.Candidate {
	for i := range ordered {
		if ordered[i].Frees > 0 && !tried[ordered[i].Item] {
			return &ordered[i]
		}
	}
	return nil
}

// evict removes one thing, unless it has been used meanwhile.
func (e *Engine) evict(ctx context.Context, cand storage.Candidate, over int64) (vm.StorageItem, error) {
	item := e.itemOf(cand)
	detail := map[string]any{
		"why":      fmt.Sprintf("the disk is short of %d MiB", (over+1<<20-1)>>20),
		"priority": cand.Priority, "lastActive": cand.LastActive, "freesBytes": cand.Frees, "overBytes": over,
	}
	c := &vm.Call{Actor: vm.Actor{Account: item.Account, System: "storage"}}
	if cand.Item.Kind == storage.VM {
		return item, e.evictVM(c, vm.ID(cand.Item.ID), detail)
	}
	return item, e.evictGeneration(ctx, c, vm.GenerationID(cand.Item.ID), detail)
}

// itemOf describes a candidate.
func (e *Engine) itemOf(cand storage.Candidate) vm.StorageItem {
	item := vm.StorageItem{Kind: cand.Item.Kind, ID: cand.Item.ID, LastActive: cand.LastActive, Frees: cand.Frees, Goes: true}
	e.mu.Lock()
	defer e.mu.Unlock()
	rec := e.itemLocked(cand.Item)
	item.Name, item.Account = rec.name, rec.account
	e.describeLocked(cand.Item, &item)
	return item
}

// evictVM deletes a VM.
func (e *Engine) evictVM(c *vm.Call, id vm.ID, detail map[string]any) (err error) {
	e.mu.Lock()
	s := e.vms[id]
	e.mu.Unlock()
	if s == nil {
		return notFound(string(id))
	}
	op, at, err := e.tryBegin(vm.OpDelete, true, func() (*slot, error) { return s, nil })
	if err != nil {
		return err
	}
	if op == nil {
		return busy(id, at.verb)
	}
	defer func() { err = e.finish(op, err) }()
	e.mu.Lock()
	kept := e.keptWhyLocked(s, false)
	e.mu.Unlock()
	if kept != "" {
		return vm.Errorf(vm.Busy, string(id), "it is no longer evictable: %s", kept)
	}
	detail["onlyHere"] = e.lossesOf(op)
	op.detail = detail
	if _, err = e.deleteSlot(op, c, "evicted"); err == nil {
		e.cfg.Journal.EmitVM(op.before, "vm.evicted", maps.Clone(detail))
	}
	return err
}

// lossesLimit bounds how long an eviction waits to learn what is lost with a VM.
const lossesLimit = 20 * time.Second

// lossesOf says for the audit record and the event of an eviction what exists only in the
// VM, which does not run and which the operation has reserved.
func (e *Engine) lossesOf(op *operation) map[string]any {
	if e.cfg.Losses == nil {
		return map[string]any{"error": "this server does not count it"}
	}
	layers, err := e.cfg.Generations.LayersOf(op.slot.id)
	var only vm.OnlyHere
	if err == nil {
		bounded, stop := context.WithTimeout(op.ctx, lossesLimit)
		only, err = e.cfg.Losses(bounded, op.before, layers)
		stop()
	}
	if err != nil {
		return map[string]any{"error": "it was not determined: " + e.cfg.Journal.ConcealText(vm.AsError(err).Error())}
	}
	examples := []string{}
	for _, p := range only.Examples {
		examples = append(examples, vm.Clip(p.String(), 256))
	}
	return map[string]any{"files": only.Files, "bytes": only.Bytes, "commits": only.Commits, "moreCommits": only.MoreCommits, "examples": examples}
}

// evictGeneration gives up a layer or a snapshot, or the memory of a turn, or, if it has
// none, the turn. collect then removes what nothing else needs.
func (e *Engine) evictGeneration(ctx context.Context, c *vm.Call, id vm.GenerationID, detail map[string]any) error {
	e.mu.Lock()
	g := e.gens[id]
	if g == nil || !keptForItself(g.info) && !e.isTurnLocked(g.info) {
		e.mu.Unlock()
		return notFound(string(id))
	}
	kept, info := keptGeneration(g, e.newestTurnsLocked()), g.info
	e.mu.Unlock()
	if kept != "" {
		return vm.Errorf(vm.Busy, string(id), "it is no longer evictable: %s", kept)
	}
	r, err := e.record(ctx, c, vm.AuditEntry{
		Op: vm.OpSnapshotRemove, VM: info.VM, Subject: cmp.Or(string(info.Snapshot), "evicted"),
		Detail: map[string]any{"generation": string(id), "name": info.Name, "cause": "evicted"},
	})
	if err != nil {
		return err
	}
	info, err = e.changeGeneration(ctx, id, func(g *vm.Generation) {
		if priorityOf(*g) == storage.TurnMemoryPriority {
			g.NoMemory = true
			return
		}
		g.Deleted = true
	})
	r.End(err, detail)
	if err != nil {
		return err
	}
	data := maps.Clone(detail)
	data["generation"] = string(id)
	kind := "layer.evicted"
	switch {
	case info.Snapshot != "":
		kind = "snapshot.evicted"
		data["snapshot"], data["name"] = string(info.Snapshot), info.Name
	case info.Why == vm.WhyTurn:
		kind = "turn.evicted"
		data["turn"], data["onlyMemory"] = info.Turn, !info.Deleted
	}
	e.cfg.Journal.Emit(vm.Event{Type: kind, VM: info.VM, Account: info.Account, Data: data})
	return nil
}

// Prune frees what the engine would free by itself, plus the bytes that were requested.
// Admins prune the host, others their own account.
func (e *Engine) Prune(ctx context.Context, c *vm.Call, r PruneRequest) (out vm.Pruned, err error) {
	defer func() { err = fail(vm.OpPrune, "", err) }()
	if err := c.Actor.OwnerOnly(""); err != nil {
		return out, err
	}
	if r.Free < 0 || r.Free > maxBytes {
		return out, vm.Errorf(vm.Invalid, "freeBytes", "%d is out of range", r.Free).WithCode("INVALID_REQUEST").
			WithHint("give the number of additional bytes to free; 0 = none")
	}
	account, over := hostAccount, e.over
	if !c.Actor.Admin {
		account, over = c.Actor.Account, e.accountOver(c.Actor.Account)
	}
	if r.DryRun {
		return e.wouldPrune(ctx, account, over, r.Free)
	}
	rcpt, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpPrune, Detail: map[string]any{"freeBytes": r.Free}})
	if err != nil {
		return out, err
	}
	e.collect(ctx)
	out, err = e.freeUp(ctx, account, overPlus(over, r.Free))
	rcpt.End(err, map[string]any{"gone": len(out.Gone), "freesBytes": out.Frees, "leftBytes": out.Left})
	return out, err
}

// maxBytes bounds sizes in requests: one exbibyte.
const maxBytes = 1 << 60

// overPlus adds free bytes, counted from the first measurement, to what over asks for.
func overPlus(over func(*usage) int64, free int64) func(*usage) int64 {
	target := int64(-1)
	return func(u *usage) int64 {
		if target < 0 {
			target = max(0, u.needs.Total-free)
		}
		return max(over(u), u.needs.Total-target)
	}
}

// wouldPrune reports what a prune would remove.
func (e *Engine) wouldPrune(ctx context.Context, account vm.AccountID, over func(*usage) int64, free int64) (vm.Pruned, error) {
	u, err := e.measure(ctx)
	if err != nil {
		return vm.Pruned{}, err
	}
	out := vm.Pruned{DryRun: true, Over: overPlus(over, free)(u), Gone: []vm.StorageItem{}}
	chosen, frees := storage.Choose(e.order(u, account), out.Over)
	out.Frees, out.Left = frees, max(0, out.Over-frees)
	for i, cand := range chosen {
		item := e.itemOf(cand)
		item.Bytes, item.Next = u.items.Of[cand.Item], i+1
		out.Gone = append(out.Gone, item)
	}
	return out, nil
}
