// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// LeftOf returns what the engine holds of a VM of an account: its files, snapshots and
// other generations, and the VMs that were made of it. The VM may be gone. known
// reports whether the account has, or had, such a VM.
func (e *Engine) LeftOf(account vm.AccountID, id vm.ID) (out vm.Remaining, known bool) {
	out.VM, out.Folders, out.Snapshots, out.Forks = id, []vm.Folder{}, []vm.RemainingSnapshot{}, []vm.RemainingVM{}
	var on vm.GenerationID // that its memory is in
	if s := e.slotOf(id); s != nil && s.account == account {
		rec := e.recordOf(s)
		known, out.Name, out.State, out.Folders = true, rec.Name, rec.State, append(out.Folders, rec.Folders...)
		out.DiskBytes, out.LogBytes = allocated(e.cfg.Dir.VM(id)), allocated(e.cfg.Dir.Logs(id))
		if rec.State == vm.Suspended {
			on = rec.Generation
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	from := map[vm.ID]bool{id: true}
	for _, g := range e.gens {
		i := g.info
		if i.VM != id || i.Account != account || i.Gone {
			continue
		}
		known = true
		switch {
		case i.ID == on:
			out.MemoryBytes += i.DataBytes
		case i.Snapshot != "" && !i.Deleted:
			out.Snapshots = append(out.Snapshots, vm.RemainingSnapshot{ID: i.Snapshot, Name: i.Name, Bytes: i.DataBytes, Memory: i.Memory && !i.DiskOnly})
		default:
			out.OtherBytes += i.DataBytes
		}
	}
	for more := true; more; { // until no VM comes from those that do
		more = false
		for _, s := range e.vms {
			if from[s.rec.Parent] && !from[s.id] && s.account == account {
				from[s.id], more = true, true
				out.Forks = append(out.Forks, vm.RemainingVM{ID: s.id, Name: s.rec.Name, State: s.rec.State})
			}
		}
	}
	slices.SortFunc(out.Snapshots, func(a, b vm.RemainingSnapshot) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(out.Forks, func(a, b vm.RemainingVM) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return out, known || len(out.Forks) > 0
}
