// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"

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

// AuditVerify checks the whole chain. Only an administrator may ask for it.
func (j *Journal) AuditVerify(ctx context.Context, c *vm.Call) (vm.AuditReport, error) {
	if err := c.Actor.AdminOnly(); err != nil {
		return vm.AuditReport{}, err
	}
	return j.cfg.Audit.Verify(ctx)
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
