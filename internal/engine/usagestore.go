// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// loadUsage reads what VMs have used. A sum that a crash has cut short is
// finished, and the usage of a VM that is gone ends.
func (e *Engine) loadUsage(ctx context.Context) error {
	list, err := e.cfg.Records.Usage.List(ctx)
	if err != nil {
		return err
	}
	e.meters.recs = make(map[string]*vm.UsageRecord, len(list))
	for i := range list {
		e.meters.recs[list[i].Key()] = &list[i]
	}
	for i := range list {
		u := &list[i]
		if done := e.meters.recs[string(u.Folded)]; u.Folded != "" && done != nil {
			if err := e.dropUsage(ctx, *done); err != nil {
				return err
			}
		}
		if u.VM != "" && e.vms[u.VM] == nil && u.Gone.IsZero() {
			u.Gone, u.RunningSince, u.DiskBytes = cmp.Or(u.AsOf, e.now()), time.Time{}, 0
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.vms {
		u := e.meters.recs[string(s.id)]
		switch running := metered(s.rec.State); {
		case running && (u == nil || u.RunningSince.Before(s.rec.StartedAt)): // not stored since its start
			e.meterLocked(vm.VM{}, s.rec)
			e.meters.recs[string(s.id)].RunningSince = s.rec.StartedAt
		case !running && u != nil && !u.RunningSince.IsZero():
			endCount(u, s.rec.Exit, e.now(), s.rec.Size.MemoryMiB)
		}
	}
	return nil
}

// storeUsage writes a usage as it is now. What cannot be written is written
// with the next count.
func (e *Engine) storeUsage(ctx context.Context, key string) {
	if e.dead.Load() {
		return
	}
	e.meters.write.Lock()
	defer e.meters.write.Unlock()
	if err := e.writeUsage(ctx, key); err != nil && !died(err) {
		e.log.Warn("what a VM has used could not be stored", "vm", key, "err", err)
	}
}

// writeUsage is storeUsage for those who hold meters.write.
func (e *Engine) writeUsage(ctx context.Context, key string) error {
	e.mu.Lock()
	u := e.meters.recs[key]
	if u == nil {
		e.mu.Unlock()
		return nil
	}
	rec := *u
	e.mu.Unlock()
	var rev int64
	var err error
	if rec.Revision == 0 {
		rev, err = saved(ctx, rec, e.cfg.Records.Usage.Create)
	} else {
		rev, err = resaved(ctx, e.cfg.Records.Usage, rec, func(u *vm.UsageRecord) (string, *int64) { return u.Key(), &u.Revision })
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	u.Revision = rev
	e.mu.Unlock()
	return nil
}

// dropUsage removes a usage from the records, and then from memory.
func (e *Engine) dropUsage(ctx context.Context, rec vm.UsageRecord) error {
	if rec.Revision != 0 {
		if err := gone(dropped(ctx, rec, e.cfg.Records.Usage.Delete)); err != nil {
			return err
		}
	}
	e.mu.Lock()
	delete(e.meters.recs, rec.Key())
	e.mu.Unlock()
	return nil
}

// endUsage closes the usage of a VM that is being forgotten, and adds the oldest
// of those that are gone to the account's.
func (e *Engine) endUsage(ctx context.Context, s *slot) {
	e.mu.Lock()
	u := e.meters.recs[string(s.id)]
	if u != nil {
		now := e.now()
		u.Name, u.Gone, u.AsOf, u.RunningSince, u.DiskBytes = s.rec.Name, now, now, time.Time{}, 0
	}
	e.mu.Unlock()
	if u == nil { // it has never run
		return
	}
	e.meters.write.Lock()
	defer e.meters.write.Unlock()
	err := e.writeUsage(ctx, string(s.id))
	if err == nil {
		err = e.foldUsage(ctx, s.account)
	}
	if err != nil && !died(err) {
		e.log.Warn("what a VM had used could not be stored", "vm", s.id, "err", err)
	}
}

// foldUsage adds the usage of the VMs that are gone longest to their account's,
// so that no account has more than usageKept of them.
func (e *Engine) foldUsage(ctx context.Context, account vm.AccountID) error {
	for {
		e.mu.Lock()
		var past []vm.UsageRecord
		for _, u := range e.meters.recs {
			if u.Account == account && !u.Gone.IsZero() {
				past = append(past, *u)
			}
		}
		e.mu.Unlock()
		if len(past) <= usageKept {
			return nil
		}
		oldest := slices.MinFunc(past, func(a, b vm.UsageRecord) int { return a.Gone.Compare(b.Gone) })
		if err := e.foldOne(ctx, oldest); err != nil {
			return err
		}
	}
}

// foldOne adds one usage to the account's. The sum says whose it was: should the
// other record outlive a crash, it is not added again.
func (e *Engine) foldOne(ctx context.Context, past vm.UsageRecord) error {
	e.mu.Lock()
	sum := e.meters.recs[string(past.Account)]
	if sum == nil {
		sum = &vm.UsageRecord{Usage: vm.Usage{Account: past.Account}}
		e.meters.recs[sum.Key()] = sum
	}
	before := *sum
	if sum.Folded != past.VM {
		sum.Add(past.Usage)
		sum.Folded = past.VM
	}
	e.mu.Unlock()
	if err := e.writeUsage(ctx, sum.Key()); err != nil {
		e.mu.Lock()
		*sum = before
		e.mu.Unlock()
		return err
	}
	return e.dropUsage(ctx, past)
}

// forgetUsage removes the usage of an account that is removed.
func (e *Engine) forgetUsage(ctx context.Context, account vm.AccountID) error {
	e.meters.write.Lock()
	defer e.meters.write.Unlock()
	e.mu.Lock()
	var all []vm.UsageRecord
	for _, u := range e.meters.recs {
		if u.Account == account {
			all = append(all, *u)
		}
	}
	e.mu.Unlock()
	for _, u := range all {
		if err := e.dropUsage(ctx, u); err != nil {
			return err
		}
	}
	return nil
}
