// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"

	"github.com/warren-vm/warren/vm"
)

// Unreadable is the reason of a VM whose record cannot be decoded. It is shown as lost,
// but its files and machine stay for a Warren that can read the record.
const Unreadable = "record-unreadable"

// loadRecords makes the slots of the VMs and returns those to recover.
func (e *Engine) loadRecords() []vm.VM {
	recs := e.tables.vms.All()
	now := e.now()
	for i := range recs {
		fitClock(&recs[i], now)
		fitTerminals(&recs[i])
		e.vms[recs[i].ID] = e.newSlot(recs[i])
	}
	for _, b := range e.tables.vms.Unreadable() {
		var rec vm.VM
		why := vm.Errorf(vm.Corrupt, b.ID, "its record cannot be read: %w", json.Unmarshal(b.Value, &rec))
		rec.ID, rec.State, rec.Reason, rec.Op = vm.ID(b.ID), vm.Lost, Unreadable, ""
		if rec.Account == "" {
			rec.Account = e.cfg.Access.FirstAdmin()
		}
		if on, err := e.cfg.Generations.DiskOn(rec.ID); err == nil {
			rec.DiskOn = on
		}
		e.log.Error("the record of a VM cannot be read; its files and machine are left alone", "vm", b.ID, "err", why)
		s := e.newSlot(rec)
		s.doubt, s.unreadable = why, true
		e.vms[rec.ID] = s
		e.found.unreadable = append(e.found.unreadable, s)
	}
	return recs
}

// loadGenerations reads the records of generations when the engine starts. A generation
// whose record cannot be decoded is lost, but keeps its files.
func (e *Engine) loadGenerations() {
	for _, g := range e.tables.gens.All() {
		e.gens[g.ID] = &generation{info: g}
	}
	for _, b := range e.tables.gens.Unreadable() {
		var g vm.Generation
		err := json.Unmarshal(b.Value, &g)
		e.log.Error("the record of a generation cannot be read; its files stay", "generation", b.ID, "err", err)
		g.ID, g.State, g.Failure = vm.GenerationID(b.ID), vm.GenLost, "its record cannot be read"
		g.Gone, g.DiskOnly = false, false
		if on, err := e.cfg.Generations.Below(g.ID); err == nil {
			g.DiskOn = on
		}
		e.gens[g.ID] = &generation{info: g, pins: 1} // pinned forever: nothing of it is collected
	}
}
