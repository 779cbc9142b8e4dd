// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// recover loads the stored usage. It finishes a sum that a crash interrupted, ends the
// usage of VMs that are gone, and continues that of running machines.
func (m *Meter) recover(ctx context.Context, vms []vm.VM) error {
	there := make(map[string]*vm.VM, len(vms))
	for i := range vms {
		there[string(vms[i].ID)] = &vms[i]
	}
	var folded []vm.UsageRecord
	m.mu.Lock()
	for _, u := range m.table.All() {
		n := m.addLocked(u, 0)
		switch rec := there[u.Key()]; {
		case rec != nil:
			n.rec.Name, n.memoryMiB = rec.Name, rec.Size.MemoryMiB
		case u.VM != "" && u.Gone.IsZero():
			n.rec.Gone, n.rec.RunningSince, n.rec.DiskBytes = cmp.Or(u.AsOf, m.now()), time.Time{}, 0
		}
		if u.Folded != "" {
			folded = append(folded, vm.UsageRecord{Usage: vm.Usage{VM: u.Folded}})
		}
	}
	for i := range vms {
		rec, n := &vms[i], m.counts[string(vms[i].ID)]
		switch running := counts(rec.State); {
		case running && (n == nil || n.rec.RunningSince.Before(rec.StartedAt)): // not stored since its start
			m.changedLocked(vm.VM{}, *rec)
			m.counts[string(rec.ID)].rec.RunningSince = rec.StartedAt
		case !running && n != nil && !n.rec.RunningSince.IsZero():
			endCount(&n.rec, rec.Exit, m.now(), rec.Size.MemoryMiB)
		}
	}
	m.mu.Unlock()
	for _, u := range folded {
		if err := m.drop(ctx, u.Key()); err != nil {
			return err
		}
	}
	return nil
}

// endCount counts a machine until its end. If a machine was found gone, its end is
// unknown, and nothing more is counted.
func endCount(u *vm.UsageRecord, exit vm.MachineExit, now time.Time, memoryMiB int) {
	until := now
	if exit.Time.After(u.RunningSince) && exit.Time.Before(now) {
		until = exit.Time
	}
	if exit.Reason != "host-restart" && exit.Detail != vm.ExitUnseen {
		u.Run(u.RunningSince, until, memoryMiB)
		u.AsOf = until
	}
	u.RunningSince = time.Time{}
}

// store writes the current usage. The next count retries a failed write.
func (m *Meter) store(ctx context.Context, key string) {
	m.writes.Lock()
	defer m.writes.Unlock()
	if err := m.write(ctx, key); err != nil {
		m.log.Warn("what a VM has used could not be stored", "vm", key, "err", err)
	}
}

// write writes the current usage, if there is one. The caller holds m.writes.
func (m *Meter) write(ctx context.Context, key string) error {
	m.mu.Lock()
	n := m.counts[key]
	var now vm.UsageRecord
	if n != nil {
		now = n.rec
	}
	m.mu.Unlock()
	if n == nil {
		return nil
	}
	var err error
	if _, stored := m.table.Get(key); stored {
		_, err = m.table.Change(ctx, key, func(u *vm.UsageRecord) error {
			*u = now
			return nil
		})
	} else {
		err = m.table.Create(ctx, now)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.unsaved, key)
	if err != nil {
		m.unsaved[key] = true
	}
	return err
}

// drop removes a usage from the store, then from memory.
func (m *Meter) drop(ctx context.Context, key string) error {
	if err := m.table.Drop(ctx, key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.counts, key)
	delete(m.unsaved, key)
	return nil
}

// Gone ends the usage of a VM that is being deleted, and adds the usage of the longest
// deleted VMs to the account's sum. It blocks for the writes. The next count retries a
// failed write.
func (m *Meter) Gone(ctx context.Context, rec vm.VM) {
	m.mu.Lock()
	n := m.counts[string(rec.ID)]
	if n != nil {
		u, now := &n.rec, m.now()
		u.Name, u.Gone, u.AsOf, u.RunningSince, u.DiskBytes = rec.Name, now, now, time.Time{}, 0
	}
	m.mu.Unlock()
	if n == nil { // it has never run
		return
	}
	m.writes.Lock()
	defer m.writes.Unlock()
	err := m.write(ctx, string(rec.ID))
	if err == nil {
		err = m.fold(ctx, rec.Account)
	}
	if err != nil {
		m.log.Warn("the usage of a deleted VM could not be stored", "vm", rec.ID, "err", err)
	}
}

// fold adds the usage of the longest deleted VMs to their account's sum, until vmsKept
// are left.
func (m *Meter) fold(ctx context.Context, account vm.AccountID) error {
	for {
		past := m.of(func(u *vm.UsageRecord) bool { return u.Account == account && !u.Gone.IsZero() })
		if len(past) <= vmsKept {
			return nil
		}
		oldest := slices.MinFunc(past, func(a, b vm.UsageRecord) int { return a.Gone.Compare(b.Gone) })
		if err := m.foldOne(ctx, oldest); err != nil {
			return err
		}
	}
}

// foldOne adds one usage to the account's sum. The sum names the VM that was added last,
// so that it is not added again if its own record outlives a crash.
func (m *Meter) foldOne(ctx context.Context, past vm.UsageRecord) error {
	m.mu.Lock()
	sum := m.sumLocked(past.Account)
	before := sum.rec
	if sum.rec.Folded != past.VM {
		sum.rec.Add(past.Usage)
		sum.rec.Folded = past.VM
	}
	m.mu.Unlock()
	if err := m.write(ctx, before.Key()); err != nil {
		m.mu.Lock()
		sum.rec = before
		m.mu.Unlock()
		return err
	}
	return m.drop(ctx, past.Key())
}

// sumLocked returns the sum of an account's VMs that have no record of their own. Each
// server has its own.
func (m *Meter) sumLocked(account vm.AccountID) *count {
	for _, n := range m.counts {
		if n.rec.VM == "" && n.rec.Account == account {
			return n
		}
	}
	return m.addLocked(vm.UsageRecord{Usage: vm.Usage{Account: account}, Server: m.host}, 0)
}

// Forget removes the usage of an account that is being deleted.
func (m *Meter) Forget(ctx context.Context, account vm.AccountID) error {
	m.writes.Lock()
	defer m.writes.Unlock()
	for _, u := range m.of(func(u *vm.UsageRecord) bool { return u.Account == account }) {
		if err := m.drop(ctx, u.Key()); err != nil {
			return err
		}
	}
	return nil
}

// of lists the wanted records.
func (m *Meter) of(want func(*vm.UsageRecord) bool) (list []vm.UsageRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.counts {
		if want(&n.rec) {
			list = append(list, n.rec)
		}
	}
	return list
}
