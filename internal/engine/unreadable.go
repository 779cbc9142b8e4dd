// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/vm"
)

// Unreadable is the reason of a VM whose record cannot be decoded. It is shown
// as lost, but all of it stays, its machine too, for a warren that can read the
// record.
const Unreadable = "record-unreadable"

// readable lists records and, apart, those that cannot be decoded, as far as
// they can.
func readable[T any](ctx context.Context, c Collection[T]) (recs []T, bad []store.UnreadableRecord, err error) {
	recs, err = c.List(ctx)
	var u *store.Unreadable
	if errors.As(err, &u) {
		return recs, u.Records, nil
	}
	return recs, nil, err
}

// loadRecords reads the VMs into memory and returns those that are to be
// recovered.
func (e *Engine) loadRecords(ctx context.Context) ([]vm.VM, error) {
	recs, bad, err := readable(ctx, e.cfg.Records.VMs)
	if err != nil {
		return nil, err
	}
	now := e.now()
	for i := range recs {
		fitClock(&recs[i], now)
		fitTerminals(&recs[i])
		e.vms[recs[i].ID] = e.newSlot(recs[i])
	}
	for _, b := range bad {
		var rec vm.VM
		why := vm.Errorf(vm.Corrupt, b.ID, "its record cannot be read: %w", json.Unmarshal(b.Data, &rec))
		rec.ID, rec.Revision, rec.State, rec.Reason, rec.Op = vm.ID(b.ID), b.Revision, vm.Lost, Unreadable, ""
		if rec.Account == "" {
			rec.Account = e.firstAdmin()
		}
		if on, err := e.cfg.Generations.DiskOn(rec.ID); err == nil {
			rec.DiskOn = on
		}
		e.log.Error("the record of a VM cannot be read; all of the VM stays as it is", "vm", b.ID, "err", why)
		s := e.newSlot(rec)
		s.doubt = why
		e.vms[rec.ID] = s
	}
	return recs, nil
}

// firstAdmin is whose that is of which the owner is not known; "" = nobody's.
func (e *Engine) firstAdmin() (id vm.AccountID) {
	for _, a := range e.users.accounts {
		if a.Admin && (id == "" || a.ID < id) {
			id = a.ID
		}
	}
	return id
}

// loadGenerations reads the records at the start of an engine. One that cannot
// be decoded is of no use, and keeps its files.
func (e *Engine) loadGenerations(ctx context.Context) error {
	list, bad, err := readable(ctx, e.cfg.Records.Generations)
	if err != nil {
		return err
	}
	for _, g := range list {
		e.gens[g.ID] = &generation{info: g}
	}
	for _, b := range bad {
		var g vm.Generation
		err := json.Unmarshal(b.Data, &g)
		e.log.Error("the record of a generation cannot be read; its files stay", "generation", b.ID, "err", err)
		g.ID, g.Revision, g.State, g.Failure = vm.GenerationID(b.ID), b.Revision, vm.GenLost, "its record cannot be read"
		g.Gone, g.DiskOnly = false, false
		if on, err := e.cfg.Generations.Below(g.ID); err == nil {
			g.DiskOn = on
		}
		e.gens[g.ID] = &generation{info: g, pins: 1} // for ever: nothing of it is collected
	}
	return nil
}
