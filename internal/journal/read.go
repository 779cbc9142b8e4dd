// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

const (
	auditPage    = 100 // records of a list that names no limit
	maxAuditPage = 10000
)

// AuditList returns audit records, newest first: an administrator's caller sees
// those of every account, another those of its own. An identity is refused.
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

// Events streams the caller's events; an administrator gets those of every
// account. See EventLog.Subscribe for after. An identity is refused.
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

// ownEvents leaves out what happened in other accounts.
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
