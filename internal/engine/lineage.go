// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// sortNewest puts the newest generation first.
func sortNewest(list []vm.Generation) {
	slices.SortFunc(list, func(a, b vm.Generation) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
}

// Lineage returns a VM, its ancestors and descendants, and the generations that connect
// them; with ref "" everything in the account.
func (e *Engine) Lineage(_ context.Context, c *vm.Call, ref string) (Lineage, error) {
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return Lineage{}, fail(vm.OpGet, ref, err)
	}
	var only map[vm.ID]bool
	if ref != "" {
		s, err := e.lookup(c, ref)
		if err != nil {
			return Lineage{}, fail(vm.OpGet, ref, err)
		}
		only = e.family(s.id, c.Actor.Account)
	}
	var out Lineage
	e.mu.Lock()
	for id, s := range e.vms {
		if s.account == c.Actor.Account && (only == nil || only[id]) {
			out.VMs = append(out.VMs, s.rec)
		}
	}
	e.mu.Unlock()
	slices.SortFunc(out.VMs, func(a, b vm.VM) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	out.Generations = e.generations(func(g *vm.Generation) bool {
		return g.Account == c.Actor.Account && (only == nil || only[g.VM])
	})
	return out, nil
}

// family returns a VM's ancestors and descendants, including deleted ones of which a
// generation is left.
func (e *Engine) family(id vm.ID, account vm.AccountID) map[vm.ID]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	parent := map[vm.ID]vm.ID{}
	for _, s := range e.vms {
		if s.account != account {
			continue
		}
		parent[s.id] = s.rec.Parent
		if g := e.gens[s.rec.Head]; s.rec.Parent == "" && g != nil && g.info.VM != s.id {
			parent[s.id] = g.info.VM // made from a snapshot of it
		}
	}
	for _, g := range e.gens {
		if p := e.gens[g.info.Parent]; p != nil && p.info.VM != g.info.VM && parent[g.info.VM] == "" {
			parent[g.info.VM] = p.info.VM
		}
	}
	in := map[vm.ID]bool{}
	for up := id; up != "" && !in[up]; up = parent[up] {
		in[up] = true
	}
	for again := true; again; {
		again = false
		for child, p := range parent {
			if in[p] && !in[child] && (p == id || !isAncestor(parent, p, id)) {
				in[child], again = true, true
			}
		}
	}
	return in
}

// isAncestor reports whether a is an ancestor of b.
func isAncestor(parent map[vm.ID]vm.ID, a, b vm.ID) bool {
	seen := map[vm.ID]bool{}
	for up := parent[b]; up != "" && !seen[up]; up = parent[up] {
		if up == a {
			return true
		}
		seen[up] = true
	}
	return false
}

// Siblings lists the other VMs that were forked from the same state as a VM, the oldest
// first.
func (e *Engine) Siblings(_ context.Context, c *vm.Call, ref string) ([]vm.VM, error) {
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return nil, fail(vm.OpKeep, ref, err)
	}
	s, err := e.lookup(c, ref)
	if err != nil {
		return nil, fail(vm.OpKeep, ref, err)
	}
	own := e.recordOf(s)
	from, ok := e.originOf(own)
	if !ok || own.Parent == "" {
		return nil, nil
	}
	var others, out []vm.VM
	e.mu.Lock()
	for _, o := range e.vms {
		if o != s && o.account == own.Account && o.rec.Parent == own.Parent {
			others = append(others, o.rec)
		}
	}
	e.mu.Unlock()
	for _, rec := range others {
		if g, ok := e.originOf(rec); ok && g.ID == from.ID {
			out = append(out, rec)
		}
	}
	slices.SortFunc(out, func(a, b vm.VM) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Keep makes a VM replace another, usually the one that it was forked from: it takes the
// other's name and place in the tree. The other is renamed to show that it was replaced,
// or with remove is deleted.
func (e *Engine) Keep(ctx context.Context, c *vm.Call, ref, over string, remove bool) (out Kept, err error) {
	op, err := e.begin(ctx, c, ref, vm.OpKeep)
	if err != nil {
		return out, fail(vm.OpKeep, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	loser, err := e.lookup(c, over)
	if err != nil {
		return out, err
	}
	if loser == op.slot {
		return out, vm.Errorf(vm.Invalid, over, "a VM cannot be kept over itself").WithCode("INVALID_REQUEST")
	}
	if err := e.receiptFor(op.ctx, op, c, vm.AuditEntry{Subject: string(loser.id), Detail: map[string]any{"remove": remove}}); err != nil {
		return out, err
	}
	lost, err := e.beginSlot(ctx, loser, vm.OpKeep)
	if err != nil {
		return out, err
	}
	done := false
	defer func() {
		if !done {
			err = joinUndo(err, e.finish(lost, err))
		}
	}()
	out.Over, err = e.renamed(op.ctx, lost, e.promise(op, lost.before))
	if err != nil {
		return out, err
	}
	out.VM, err = e.renamed(op.ctx, op, lost.before.Name)
	if err != nil {
		return out, err
	}
	if err := e.moveNames(op.ctx, op, loser, op.slot); err != nil {
		return out, err
	}
	e.cfg.Journal.EmitVM(out.VM, "vm.kept", map[string]any{"over": string(loser.id)})
	if !remove {
		return out, nil
	}
	done = true
	if err := e.finish(lost, nil); err != nil {
		return out, err
	}
	_, err = e.Delete(ctx, &vm.Call{Actor: c.Actor, Request: c.Request}, string(loser.id))
	return out, err
}

// renamed changes a VM's name. If the operation fails, the old name is restored.
func (e *Engine) renamed(ctx context.Context, op *operation, name string) (vm.VM, error) {
	before := op.before.Name
	rec, err := e.update(ctx, op.slot, func(rec *vm.VM) { rec.Name = name })
	if err != nil {
		return rec, err
	}
	return rec, op.undo.add(ctx, "name", func(ctx context.Context) error {
		_, err := e.update(ctx, op.slot, func(rec *vm.VM) { rec.Name = before })
		return err
	})
}

// promise reserves three names until op ends: the other VM's, which the VM of op takes,
// the one that the other gets instead, which promise returns, and the old one of op's VM,
// for the undo.
func (e *Engine) promise(op *operation, rec vm.VM) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := replacedName(rec, e.now(), 1)
	for n := 2; name != "" && e.nameFreeLocked(vm.VM{Account: rec.Account, Name: name}) != nil; n++ {
		name = replacedName(rec, e.now(), n)
	}
	if name != "" {
		e.promised[op] = []string{rec.Name, name, op.before.Name}
	}
	return name
}

// replacedName is the new name of a VM that was replaced; n counts those replaced at the
// same time.
func replacedName(rec vm.VM, now time.Time, n int) string {
	if rec.Name == "" {
		return ""
	}
	suffix := "-old-" + now.Format("0102-150405")
	if n > 1 {
		suffix += fmt.Sprintf("-%d", n)
	}
	return rec.Name[:min(len(rec.Name), vm.MaxName-len(suffix))] + suffix
}
