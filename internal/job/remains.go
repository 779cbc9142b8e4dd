// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"context"

	"github.com/warren-vm/warren/vm"
)

// maxReceipts is how many receipts of a VM are listed, the newest.
const maxReceipts = 1000

// Remains lists what this host holds of a VM. ref is its name or id, or the id of a
// VM that is gone. It reads the audit records of the VM. Kinds Denied for an
// identity, NotFound.
func (j *Job) Remains(ctx context.Context, c *vm.Call, ref string) (out vm.Remaining, err error) {
	defer func() { err = vm.WithOp(vm.OpGet, ref, err) }()
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return out, err
	}
	rec, missing := j.cfg.Engine.Find(c.Actor, ref)
	id := rec.ID
	if missing != nil {
		if !vm.IsID(ref) {
			return out, missing
		}
		id = vm.ID(ref)
	}
	out, known := j.cfg.Engine.LeftOf(c.Actor.Account, id)
	if u, ran := j.cfg.Meter.Past(c.Actor.Account, id); ran {
		known, out.Name = true, cmp.Or(out.Name, u.Name)
	}
	records, err := j.recordsOf(ctx, c.Actor.Account, id)
	if err != nil {
		return out, err
	}
	out.Copies, out.Receipts = []vm.Copy{}, []string{}
	var worked []vm.VolumeID // volumes that were mounted in it
	for i, r := range records {
		if i < maxReceipts {
			out.Receipts = append(out.Receipts, r.ID)
		}
		if copy := copied(r); copy != nil {
			out.Copies = append(out.Copies, *copy)
		}
		if id, _ := r.Detail["volume"].(string); r.Op == vm.OpMount && r.Outcome == "ok" {
			worked = append(worked, vm.VolumeID(id))
		}
	}
	out.Credentials = j.credentials(c.Actor.Account, id, rec.Network, records)
	more := 0
	if out.Artifacts, more, err = j.artifacts(ctx, c, records); err != nil {
		return out, err
	}
	if more > 0 {
		out.Omitted = map[string]int{"artifacts": more}
	}
	out.Volumes = j.cfg.Vault.RemainingVolumes(c.Actor.Account, id, worked)
	if missing != nil && !known && len(records) == 0 { // there never was such a VM
		return out, missing
	}
	return out, nil
}

// digestOf is the digest of the file or tree that a record is about.
func digestOf(r vm.AuditRecord) string {
	one, _ := r.Detail["sha256"].(string)
	all, _ := r.Detail["treeSha256"].(string)
	return cmp.Or(one, all)
}

// recordsOf reads all audit records of a VM, the newest first.
func (j *Job) recordsOf(ctx context.Context, account vm.AccountID, id vm.ID) (all []vm.AuditRecord, err error) {
	for f := (vm.AuditFilter{Account: account, VM: id, Limit: maxReceipts}); ; {
		page, err := j.cfg.Journal.Records(ctx, f)
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
