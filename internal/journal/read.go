// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	auditPage    = 100 // records in a list without a limit
	maxAuditPage = 10000
)

// AuditList returns audit records, newest first: admins get those of every account,
// others their own account's. It refuses identities.
func (j *Journal) AuditList(ctx context.Context, c *vm.Call, f vm.AuditFilter) ([]vm.AuditRecord, error) {
	if err := c.Actor.OwnerOnly(string(f.VM)); err != nil {
		return nil, err
	}
	if !c.Actor.Admin {
		f.Account = c.Actor.Account
	}
	if f.Limit = min(f.Limit, maxAuditPage); f.Limit <= 0 {
		f.Limit = auditPage
	}
	return j.cfg.Audit.List(ctx, f)
}

// Records returns audit records for the server's own use, newest first.
func (j *Journal) Records(ctx context.Context, f vm.AuditFilter) ([]vm.AuditRecord, error) {
	return j.cfg.Audit.List(ctx, f)
}

// AuditVerify checks the whole chain, and checkpoints from outside against it. Only an
// administrator may ask for it.
func (j *Journal) AuditVerify(ctx context.Context, c *vm.Call, outside []vm.Checkpoint) (vm.AuditReport, error) {
	if err := c.Actor.AdminOnly(); err != nil {
		return vm.AuditReport{}, err
	}
	return j.cfg.Audit.Verify(ctx, outside)
}

// AuditAccept records that an administrator knows that the audit log before this one is
// gone: until then a verification calls it a fault. Only an administrator may.
func (j *Journal) AuditAccept(ctx context.Context, c *vm.Call) error {
	if err := c.Actor.AdminOnly(); err != nil {
		return err
	}
	receipt, err := j.cfg.Audit.Accept(ctx, vm.AuditEntry{Actor: c.Actor, Request: c.Request})
	if c.Receipt == "" {
		c.Receipt = receipt
	}
	return err
}

// AuditPrune removes audit records that are older than before, in whole segments. Only an
// administrator may.
func (j *Journal) AuditPrune(ctx context.Context, c *vm.Call, before time.Time) (vm.AuditPruned, error) {
	if err := c.Actor.AdminOnly(); err != nil {
		return vm.AuditPruned{}, err
	}
	if before.IsZero() {
		return vm.AuditPruned{}, vm.Errorf(vm.Invalid, "before", "no time is given").WithHint("`warren audit prune --keep 90d` keeps the last 90 days")
	}
	p, err := j.cfg.Audit.Prune(ctx, before, vm.AuditEntry{Actor: c.Actor, Request: c.Request})
	if c.Receipt == "" {
		c.Receipt = p.Receipt
	}
	return p, err
}

// AuditRotateKey lets another key sign the audit log; to = "" makes one. Only an
// administrator may. It returns the hex public key.
func (j *Journal) AuditRotateKey(ctx context.Context, c *vm.Call, to string) (key string, err error) {
	if err := c.Actor.AdminOnly(); err != nil {
		return "", err
	}
	end, err := j.Begin(ctx, c, vm.AuditEntry{Op: vm.OpAuditKey, Subject: vm.Clip(to, 80)})
	if err != nil {
		return "", err
	}
	defer func() { end.End(err, map[string]any{"key": key}) }()
	return j.cfg.Audit.RotateKey(to)
}

// Sign signs a document of the server's own with the key that signs the audit log. The
// message must begin with words that say what it is.
func (j *Journal) Sign(ctx context.Context, message []byte) (sig []byte, key string, err error) {
	return j.cfg.Audit.Sign(ctx, message)
}

// mostProven bounds the lines of one receipt.
const mostProven = 20_000

// Proven returns the records of a VM with proofs against a signed checkpoint: all of them
// for an admin and for the VM's account. A caller of another account, or of a VM that is
// removed, gets those of its own account; partial says whether there are others. Kind
// NotFound when there is none.
func (j *Journal) Proven(ctx context.Context, c *vm.Call, id vm.ID) (lines []vm.ReceiptLine, at vm.Checkpoint, partial bool, err error) {
	if err := c.Actor.OwnerOnly(string(id)); err != nil {
		return nil, vm.Checkpoint{}, false, err
	}
	all := c.Actor.Admin
	if j.facts.VM != nil && !all {
		v, ok := j.facts.VM(id)
		all = ok && v.Account == c.Actor.Account
	}
	lines, at, err = j.cfg.Audit.Prove(ctx, mostProven, func(r vm.AuditRecord) bool {
		mine := all || r.Actor.Account == c.Actor.Account
		partial = partial || r.VM == id && !mine
		return r.VM == id && mine
	})
	if err == nil && len(lines) == 0 {
		err = vm.Errorf(vm.NotFound, string(id), "the audit log has no record of this VM").WithCode("VM_NOT_FOUND", "vmId", string(id)).WithHint("`warren audit ls` lists the ids; old records may be pruned")
	}
	return lines, at, partial, err
}

// Events streams the events of the caller's account; admins get those of every account.
// See EventLog.Subscribe for after. It refuses identities.
func (j *Journal) Events(ctx context.Context, c *vm.Call, after int64) (EventStream, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, err
	}
	s, err := j.cfg.Events.Subscribe(ctx, after)
	if err != nil {
		return nil, err
	}
	if c.Actor.Admin {
		return s, nil
	}
	return ownEvents{s, c.Actor.Account}, nil
}

// ownEvents filters out the events of other accounts.
type ownEvents struct {
	EventStream
	account vm.AccountID
}

func (s ownEvents) Next(ctx context.Context) (vm.Event, error) {
	for {
		ev, err := s.EventStream.Next(ctx)
		if err != nil || ev.Account == s.account {
			return ev, err
		}
	}
}
