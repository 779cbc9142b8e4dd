// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"

	"github.com/warren-vm/warren/internal/storage"
	"github.com/warren-vm/warren/vm"
)

// KeptBelow returns the newest state of a VM's disk, a generation or one below it, that
// stays when the VM is removed, and what keeps it: snapshots, other VMs, layers of specs.
// Its files stay until release is called. Without such a state keepers is empty.
func (e *Engine) KeptBelow(c *vm.Call, of vm.ID, from vm.GenerationID) (f Frozen, release func(), keepers []vm.DataCopy, err error) {
	release = func() {}
	e.mu.Lock()
	held := e.holdersLocked()
	id := from
	for seen := 0; id != "" && seen < maxChain; seen++ {
		g := e.gens[id]
		if g == nil {
			id = ""
			break
		}
		if keepers = e.keepersLocked(c, of, id, held.disk[id]); len(keepers) > 0 {
			break
		}
		id = g.info.DiskOn
	}
	e.mu.Unlock()
	if len(keepers) == 0 || id == "" {
		return f, release, nil, nil
	}
	f, release, err = e.frozenGeneration(id)
	if vm.KindOf(err) == vm.NotFound || vm.KindOf(err) == vm.Unavailable { // it went meanwhile, or is no copy yet
		return f, func() {}, nil, nil
	}
	return f, release, keepers, err
}

// keepersLocked names those who need a generation's disk beside a VM. An identity gets no
// names of VMs that it does not reach.
func (e *Engine) keepersLocked(c *vm.Call, of vm.ID, id vm.GenerationID, holders []storage.Item) (list []vm.DataCopy) {
	for _, h := range holders {
		one := vm.DataCopy{Place: vm.PlaceMachine, Generation: id}
		if h.Kind == storage.VM {
			s := e.vms[vm.ID(h.ID)]
			if s == nil || s.id == of {
				continue
			}
			one.Note = "another VM was made from it"
			if s.account == c.Actor.Account && e.cfg.Access.Reaches(c.Actor, s.id) {
				one.VM, one.VMName = s.id, s.rec.Name
			}
			list = append(list, one)
			continue
		}
		g := e.gens[vm.GenerationID(h.ID)]
		switch {
		case g == nil || g.info.Deleted || g.info.Gone:
			continue
		case g.info.Snapshot != "":
			one.Snapshot, one.Name, one.Note = g.info.Snapshot, g.info.Name, "snapshot "+cmp.Or(g.info.Name, string(g.info.Snapshot))
			one.VM, one.VMName = g.info.VM, g.info.VMName
		case g.info.Why == vm.WhyLayer:
			one.Note = "layer of a spec"
		default:
			continue
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b vm.DataCopy) int {
		return cmp.Or(cmp.Compare(b.Snapshot, a.Snapshot), cmp.Compare(a.VMName, b.VMName), cmp.Compare(a.VM, b.VM))
	})
	return list
}

// CommitsFrom returns the generations of a VM from which commits were made, the newest
// first, as far as they have records.
func (e *Engine) CommitsFrom(of vm.ID) []vm.Generation {
	list := e.generations(func(g *vm.Generation) bool { return g.VM == of && g.Commit != "" })
	sortNewest(list)
	return list
}

// PublishedFrom returns the generations of a VM from which objects were published, the
// newest first, as far as they have records.
func (e *Engine) PublishedFrom(of vm.ID) []vm.Generation {
	list := e.generations(func(g *vm.Generation) bool { return g.VM == of && len(g.Published) > 0 })
	sortNewest(list)
	return list
}
