// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// Names is told what becomes of VMs that host names lead to.
type Names interface {
	// VMGone ends the mappings of a VM that was deleted.
	VMGone(ctx context.Context, id vm.ID) error
	// Move points the mappings of a VM to another VM. back undoes what was done, also
	// after an error.
	Move(ctx context.Context, from, to vm.ID) (back func(context.Context) error, err error)
}

// Find returns the VM that ref names among those that the actor reaches: ref is an
// id, or a name that only one of them has. Kinds NotFound, Invalid and Denied.
func (e *Engine) Find(a vm.Actor, ref string) (vm.VM, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.lookupLocked(a, ref)
	if err != nil {
		return vm.VM{}, err
	}
	return s.rec, nil
}

// VMOf returns the VM with an id, of any account.
func (e *Engine) VMOf(id vm.ID) (vm.VM, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.vms[id]
	if s == nil {
		return vm.VM{}, false
	}
	return s.rec, true
}

// VMsWhere returns the VMs of all accounts that pass; pass must not call the engine.
func (e *Engine) VMsWhere(pass func(*vm.VM) bool) (list []vm.VM) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.vms {
		if pass(&s.rec) {
			list = append(list, s.rec)
		}
	}
	return list
}

// Snapshotted returns the VMs of which snapshots are kept, also those that are gone.
func (e *Engine) Snapshotted() map[vm.ID]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := map[vm.ID]bool{}
	for _, g := range e.gens {
		if g.info.Snapshot != "" && !g.info.Deleted && !g.info.Gone {
			of[g.info.VM] = true
		}
	}
	return of
}

// OfAccount lists the VMs of an account.
func (e *Engine) OfAccount(a vm.AccountID) (list []vm.VM) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.vms {
		if s.rec.Account == a {
			list = append(list, s.rec)
		}
	}
	return list
}

// VMsNamed returns the VMs with a name, of all accounts.
func (e *Engine) VMsNamed(name string) (list []vm.VM) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.namedLocked("", name) {
		list = append(list, s.rec)
	}
	return list
}

// ChangeRepos durably replaces the repositories of a VM's record by what change makes of
// a copy of them. It may call change more than once; an error of change changes nothing.
func (e *Engine) ChangeRepos(ctx context.Context, id vm.ID, change func([]vm.RepoGrant) ([]vm.RepoGrant, error)) (vm.VM, error) {
	e.mu.Lock()
	s := e.vms[id]
	e.mu.Unlock()
	if s == nil {
		return vm.VM{}, notFound(string(id))
	}
	var refused error
	rec, err := e.update(ctx, s, func(rec *vm.VM) {
		var list []vm.RepoGrant
		if list, refused = change(slices.Clone(rec.Repos)); refused == nil {
			rec.Repos = list
		}
	})
	return rec, cmp.Or(refused, err)
}

// ChangePreviews durably replaces the previews of a VM's record by what change makes
// of the record. Kind NotFound.
func (e *Engine) ChangePreviews(ctx context.Context, id vm.ID, change func(vm.VM) []vm.Preview) (vm.VM, error) {
	e.mu.Lock()
	s := e.vms[id]
	e.mu.Unlock()
	if s == nil {
		return vm.VM{}, notFound(string(id))
	}
	return e.update(ctx, s, func(rec *vm.VM) { rec.Previews = change(*rec) })
}

// moveNames gives the loser's names and open ports to the winner, to be given back
// when the operation fails.
func (e *Engine) moveNames(ctx context.Context, op *operation, from, to *slot) error {
	back, err := e.cfg.Names.Move(ctx, from.id, to.id)
	if uerr := op.undo.add(ctx, "mappings", back); err != nil || uerr != nil {
		return errors.Join(err, uerr)
	}
	winner, loser := e.recordOf(to).Previews, e.recordOf(from).Previews
	return e.swapPreviews(ctx, op, from, to, winner, loser)
}

// swapPreviews gives what was open under the loser's name to the winner.
func (e *Engine) swapPreviews(ctx context.Context, op *operation, from, to *slot, winner, loser []vm.Preview) error {
	if len(loser) == 0 {
		return nil
	}
	set := func(ctx context.Context, s *slot, list []vm.Preview) error {
		_, err := e.update(ctx, s, func(rec *vm.VM) { rec.Previews = list })
		return err
	}
	merged := slices.Clone(loser)
	for _, p := range winner {
		if !slices.ContainsFunc(merged, func(o vm.Preview) bool { return o.Port == p.Port }) {
			merged = append(merged, p)
		}
	}
	if err := set(ctx, to, merged); err != nil {
		return err
	}
	if err := op.undo.add(ctx, "previews", func(ctx context.Context) error {
		return errors.Join(set(ctx, to, winner), set(ctx, from, loser))
	}); err != nil {
		return err
	}
	return set(ctx, from, nil)
}
