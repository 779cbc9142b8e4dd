// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/vm"
)

// record checks that the caller may do an action, with the approval that it needs, and
// writes its audit record durably. If any of it fails, the action is refused. The caller ends
// the receipt.
func (e *Engine) record(ctx context.Context, c *vm.Call, entry vm.AuditEntry) (*journal.Receipt, error) {
	if err := e.mayUse(c.Actor, string(entry.VM), entry.Op); err != nil {
		return nil, err
	}
	if err := e.cfg.Access.Cleared(c.Actor, entry.VM, entry.Op); err != nil {
		return nil, err
	}
	return e.cfg.Journal.Begin(ctx, c, entry)
}

// receiptFor is record for an operation, after its fault label.
func (e *Engine) receiptFor(ctx context.Context, op *operation, c *vm.Call, entry vm.AuditEntry) error {
	if err := e.step(ctx, string(op.verb)+":audit"); err != nil {
		return err
	}
	entry.Op, entry.VM = op.verb, op.slot.id
	r, err := e.record(ctx, c, entry)
	op.rcpt = r
	return err
}

// maxAuditSubject bounds the bytes of a command or path in an audit record.
const maxAuditSubject = 1024

func clip(s string) string { return vm.Clip(s, maxAuditSubject) }
