// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// maxReceipts is how many receipts of a VM are listed, the newest.
const maxReceipts = 1000

// auditOf reads all audit records of a VM, the newest first.
func (e *Engine) auditOf(ctx context.Context, account vm.AccountID, id vm.ID) (all []vm.AuditRecord, err error) {
	for f := (vm.AuditFilter{Account: account, VM: id, Limit: maxReceipts}); ; {
		page, err := e.cfg.Journal.Records(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < f.Limit {
			return all, nil
		}
		f.After = page[len(page)-1].Seq
	}
}

// Remains lists what this host holds of a VM. One that is gone is named by its
// id.
func (e *Engine) Remains(ctx context.Context, c *vm.Call, ref string) (out vm.Remaining, err error) {
	defer func() { err = fail(vm.OpGet, ref, err) }()
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return out, err
	}
	s, err := e.lookup(c, ref)
	switch {
	case err == nil:
		rec := e.recordOf(s)
		out.VM, out.Name, out.State, out.Folders = rec.ID, rec.Name, rec.State, slices.Clone(rec.Folders)
		out.DiskBytes, out.LogBytes = allocated(e.cfg.Dir.VM(s.id)), allocated(e.cfg.Dir.Logs(s.id))
	case vm.IsID(ref):
		out.VM = vm.ID(ref)
	default:
		return out, err
	}
	known := e.remainsOf(c.Actor.Account, &out)
	records, aerr := e.auditOf(ctx, c.Actor.Account, out.VM)
	if aerr != nil {
		return out, aerr
	}
	var worked []vm.VolumeID // volumes that were mounted in it
	for i, r := range records {
		if i < maxReceipts {
			out.Receipts = append(out.Receipts, r.ID)
		}
		if r.Op == vm.OpRead && r.Outcome == "ok" {
			to, _ := r.Detail["to"].(string)
			out.Copies = append(out.Copies, vm.Copy{Time: r.Time, Path: r.Subject, To: to, Receipt: r.ID})
		}
		if id, _ := r.Detail["volume"].(string); r.Op == vm.OpMount && r.Outcome == "ok" {
			worked = append(worked, vm.VolumeID(id))
		}
	}
	out.Folders = append([]vm.Folder{}, out.Folders...)
	out.Volumes = e.cfg.Vault.RemainingVolumes(c.Actor.Account, out.VM, worked)
	if err != nil && !known && len(records) == 0 { // there never was such a VM
		return out, err
	}
	return out, nil
}

// remainsOf fills in what the records know. It reports whether there is
// anything.
func (e *Engine) remainsOf(account vm.AccountID, out *vm.Remaining) (known bool) {
	out.Snapshots, out.Forks, out.Copies, out.Receipts = []vm.RemainingSnapshot{}, []vm.RemainingVM{}, []vm.Copy{}, []string{}
	e.mu.Lock()
	defer e.mu.Unlock()
	var on vm.GenerationID
	if s := e.vms[out.VM]; s != nil && s.rec.State == vm.Suspended {
		on = s.rec.Generation
	}
	from := map[vm.ID]bool{out.VM: true}
	for _, g := range e.gens {
		i := g.info
		if i.VM != out.VM || i.Account != account || i.Gone {
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
	if u, ran := e.cfg.Meter.Past(account, out.VM); ran {
		known, out.Name = true, cmp.Or(out.Name, u.Name)
	}
	slices.SortFunc(out.Snapshots, func(a, b vm.RemainingSnapshot) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(out.Forks, func(a, b vm.RemainingVM) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return known || len(out.Forks) > 0
}
