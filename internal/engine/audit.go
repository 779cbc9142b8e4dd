// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// receipt is the audit record of one action under way. A nil receipt stands
// for an action that did not come to pass.
type receipt struct {
	e    *Engine
	id   string
	once sync.Once
}

// record writes the audit record of an action, durably, before the action:
// without it the action is refused, and so is what an identity may not do. The
// caller ends the receipt.
func (e *Engine) record(ctx context.Context, c *vm.Call, entry AuditEntry) (*receipt, error) {
	if !identityOps[entry.Op] {
		if err := ownerOnly(c.Actor, entry.VM); err != nil {
			return nil, err
		}
	}
	entry.Actor, entry.Request = c.Actor, c.Request
	bounded, stop := e.withAuditDeadline(ctx)
	id, err := e.cfg.Audit.Begin(bounded, entry)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = context.Cause(bounded)
	}
	stop()
	if err != nil {
		return nil, vm.Errorf(vm.KindOf(err), "", "no audit record could be written: %w", err).
			WithHint("nothing was done; see that the data directory has space and is writable, and that its disk answers")
	}
	if c.Receipt == "" {
		c.Receipt = id
	}
	return &receipt{e: e, id: id}, nil
}

// auditDeadline is how long an action waits for its record: a disk that hangs
// may never take it.
const auditDeadline = 30 * time.Second

func (e *Engine) withAuditDeadline(ctx context.Context) (bounded context.Context, stop func()) {
	bounded, cancel := context.WithCancelCause(ctx)
	after, release := e.cfg.Clock.After(auditDeadline)
	go func() { // ends with bounded
		defer release()
		select {
		case <-after:
			cancel(vm.Errorf(vm.Timeout, "audit", "the disk did not take it within %s", auditDeadline))
		case <-bounded.Done():
		}
	}()
	return bounded, func() { cancel(nil) }
}

// receiptFor is record for an operation, behind its fault label.
func (e *Engine) receiptFor(ctx context.Context, op *operation, c *vm.Call, entry AuditEntry) error {
	if err := e.step(ctx, string(op.verb)+":audit"); err != nil {
		return err
	}
	entry.Op, entry.VM = op.verb, op.slot.id
	r, err := e.record(ctx, c, entry)
	op.rcpt = r
	return err
}

// end writes the outcome, once. It may be called on nil.
func (r *receipt) end(outcome error, detail map[string]any) {
	if r == nil || r.e.dead.Load() {
		return
	}
	r.once.Do(func() {
		if err := r.e.cfg.Audit.End(r.id, r.e.Conceal(outcome), detail); err != nil {
			r.e.log.Error("the outcome of an action was not recorded", "receipt", r.id, "err", err)
		}
	})
}

// closePending ends the records of actions that an earlier engine did not
// live to end.
func (e *Engine) closePending(ctx context.Context) error {
	open, err := e.cfg.Audit.Pending(ctx)
	if err != nil {
		return err
	}
	for _, r := range open {
		cut := vm.Errorf(vm.Unavailable, string(r.VM), "the server ended before the outcome was known")
		if err := e.cfg.Audit.End(r.ID, cut, nil); err != nil {
			return err
		}
	}
	return nil
}

// AuditList returns records of the caller's account, newest first; admins see
// every account's, unless the filter names one.
func (e *Engine) AuditList(ctx context.Context, c *vm.Call, f AuditFilter) ([]AuditRecord, error) {
	if err := ownerOnly(c.Actor, f.VM); err != nil {
		return nil, err
	}
	if !c.Actor.Admin {
		f.Account = c.Actor.Account
	}
	if f.Limit <= 0 || f.Limit > maxAuditPage {
		f.Limit = min(max(f.Limit, 0), maxAuditPage)
		if f.Limit == 0 {
			f.Limit = 100
		}
	}
	return e.cfg.Audit.List(ctx, f)
}

const maxAuditPage = 10000

// AuditVerify checks the whole chain of this host. Admins only.
func (e *Engine) AuditVerify(ctx context.Context, c *vm.Call) (AuditReport, error) {
	if err := needAdmin(c); err != nil {
		return AuditReport{}, err
	}
	return e.cfg.Audit.Verify(ctx)
}
