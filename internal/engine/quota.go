// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// newVMRoom is the disk space that a new VM takes of its account before it is usable.
const newVMRoom = 64 << 20

// overQuota refuses a request that would exceed an account's quota q: use is what the
// account has, more what it requests. It only checks what is requested.
func overQuota(q, use, more vm.Quota) error {
	counted := func(limit, have, ask int, code, what, then string) error {
		if limit == 0 || ask <= 0 || have+ask <= limit {
			return nil
		}
		return vm.Errorf(vm.Limit, "", "the account may have %d %s and has %d", limit, what, have).
			WithCode(code, "limit", limit, "current", have, "requested", ask).WithHint("%s, or ask an admin for more: `warren account quota`", then)
	}
	sized := func(limit, have, ask int, code, what string) error {
		if limit == 0 || ask <= 0 || have+ask <= limit {
			return nil
		}
		return vm.Errorf(vm.Limit, "", "the account's running VMs may have %d %s together, have %d and would get %d more", limit, what, have, ask).
			WithCode(code, "got", have+ask, "max", limit, "current", have).WithHint("stop or suspend a VM, ask for less, or ask an admin for more: `warren account quota`")
	}
	stored := func(limit, have, ask int64, code, what, then string) error {
		if limit == 0 || ask <= 0 || have+ask <= limit {
			return nil
		}
		return vm.Errorf(vm.Limit, "", "the account may have %d MiB of %s, has %d and would get about %d more", limit>>20, what, have>>20, ask>>20).
			WithCode(code, "limit", limit, "current", have, "requested", ask).WithHint("%s: `warren storage` shows who uses what", then)
	}
	for _, err := range []error{
		counted(q.VMs, use.VMs, more.VMs, "TOTAL_VM_LIMIT_EXCEEDED", "VMs", "delete one"),
		counted(q.Running, use.Running, more.Running, "VM_LIMIT_EXCEEDED", "running VMs", "stop or suspend one"),
		counted(q.Snapshots, use.Snapshots, more.Snapshots, "SNAPSHOT_LIMIT_EXCEEDED", "snapshots", "delete one (`warren snapshot rm NAME`)"),
		sized(q.VCPU, use.VCPU, more.VCPU, "VCPU_OVER_PLAN_LIMIT", "CPUs"),
		sized(q.MemoryMiB, use.MemoryMiB, more.MemoryMiB, "MEM_OVER_PLAN_LIMIT", "MiB of memory"),
		stored(q.Disk, use.Disk, more.Disk, "ROOTFS_STORAGE_QUOTA_EXCEEDED", "disk", "delete VMs or snapshots"),
		stored(q.MemoryImages, use.MemoryImages, more.MemoryImages, "MEMORY_STORAGE_QUOTA_EXCEEDED", "memory images", "delete snapshots or suspended VMs, or stop VMs rather than suspend them"),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// claim is an admitted VM that does not run yet, or not yet again. Other admissions count
// it.
type claim struct {
	id      vm.ID
	account vm.AccountID
	size    vm.Size
	grows   int64 // bytes of memory that it is expected to take
}

// claimedLocked reports whether a VM was admitted and is being started.
func (e *Engine) claimedLocked(id vm.ID) bool {
	for c := range e.claims {
		if c.id == id {
			return true
		}
	}
	return false
}

// releaseClaims removes claims whose VMs now run or have failed.
func (e *Engine) releaseClaims(claims ...*claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range claims {
		delete(e.claims, c)
	}
	if e.calm != nil && len(e.claims) == 0 {
		close(e.calm)
		e.calm = nil
	}
}

// rename gives a claim the final id of its VM.
func (e *Engine) rename(c *claim, id vm.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.id = id
}

// claimLocked admits VMs of an account by its quota and claims their places. The caller
// has checked the disk.
func (e *Engine) claimLocked(account vm.AccountID, want []*claim) error {
	if e.draining {
		return errDraining
	}
	q := e.account(account).Quota
	if q != (vm.Quota{}) {
		more := vm.Quota{}
		for _, c := range want {
			more.Running++
			more.VCPU += c.size.VCPU
			more.MemoryMiB += c.size.MemoryMiB
			switch s := e.vms[c.id]; {
			case s == nil:
				more.VMs++
			case running(s.rec.State): // it gets more CPUs or memory
				more.Running--
				more.VCPU -= s.rec.Size.VCPU
				more.MemoryMiB -= s.rec.Size.MemoryMiB
			}
		}
		if err := overQuota(q, e.countLocked(account), more); err != nil {
			return err
		}
	}
	for _, c := range want {
		c.account = account
		e.claims[c] = true
	}
	return nil
}

// countLocked counts an account's VMs, those that run or are about to, and its snapshots.
func (e *Engine) countLocked(account vm.AccountID) (use vm.Quota) {
	runs := func(size vm.Size) {
		use.Running++
		use.VCPU += size.VCPU
		use.MemoryMiB += size.MemoryMiB
	}
	claimed := map[vm.ID]bool{}
	for c := range e.claims {
		if c.account != account {
			continue
		}
		claimed[c.id] = true
		runs(c.size)
		if e.vms[c.id] == nil {
			use.VMs++
		}
	}
	for id, s := range e.vms {
		if s.account != account {
			continue
		}
		use.VMs++
		if !claimed[id] && running(s.rec.State) {
			runs(s.rec.Size)
		}
	}
	for _, g := range e.gens {
		if g.info.Account == account && countsAsSnapshot(g.info) {
			use.Snapshots++
		}
	}
	return use
}

// running reports whether a VM in that state has a machine.
func running(s vm.State) bool {
	return s == vm.Running || s == vm.Starting || s == vm.Building || s == vm.Suspending
}

func countsAsSnapshot(g vm.Generation) bool {
	return g.Snapshot != "" && !g.Deleted && !g.Gone && (g.State == vm.GenReady || g.State == vm.GenBuilding)
}

// diskLimit is the disk space that an account may have on a host with a disk of that
// size: its quota, or else the default for accounts that are not admins'. 0 = no limit.
func (e *Engine) diskLimit(a vm.Account, disk int64) int64 {
	s := e.cfg.Settings
	switch {
	case a.Quota.Disk > 0 || a.Admin:
		return a.Quota.Disk
	case s.AccountDisk > 0:
		return s.AccountDisk
	}
	return s.budget(disk) / 100 * int64(s.AccountPercent)
}

// farBelow reports whether an account with the default disk quota is so far below it that
// a request needs no measurement.
func (e *Engine) farBelow(a vm.Account, more, limit int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return a.Quota.Disk == 0 && e.looked != nil && e.now().Sub(e.looked.time) < 10*storageEvery && e.looked.accounts.Of[a.ID].Unique+more < limit-limit/10
}

// roomInQuota refuses a request that exceeds the account's quotas of disk, memory images
// or snapshots. It first evicts what may be evicted in the account.
func (e *Engine) roomInQuota(ctx context.Context, account vm.AccountID, more vm.Quota) error {
	have, err := e.cfg.Host.Capacity(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	a, use := e.account(account), vm.Quota{}
	q := a.Quota
	q.Disk = e.diskLimit(a, have.DiskTotal)
	if q.Snapshots > 0 && more.Snapshots > 0 {
		use = e.countLocked(account)
	}
	e.mu.Unlock()
	if e.farBelow(a, more.Disk, q.Disk) {
		q.Disk = 0
	}
	if q.Disk > 0 && more.Disk > 0 || q.MemoryImages > 0 && more.MemoryImages > 0 {
		u, err := e.measure(ctx)
		if err != nil {
			return err
		}
		use.MemoryImages = u.memory[account]
		if err := overQuota(q, use, vm.Quota{Snapshots: more.Snapshots, MemoryImages: more.MemoryImages}); err != nil {
			return err // before it evicts anything
		}
		over := func(u *usage) int64 { return u.accounts.Of[account].Unique + more.Disk - q.Disk }
		if q.Disk > 0 && more.Disk > 0 && over(u) > 0 {
			if _, err := e.freeFor(ctx, account, over); err != nil {
				return err
			}
			if u, err = e.measure(ctx); err != nil {
				return err
			}
		}
		use.Disk, use.MemoryImages = u.accounts.Of[account].Unique, u.memory[account]
	}
	return overQuota(q, use, more)
}

// DiskLeft returns how many more bytes an account may store: what its quota and the
// host's disk leave. It reads the size of every file of the data directory if the account
// has a quota.
func (e *Engine) DiskLeft(ctx context.Context, account vm.AccountID) (int64, error) {
	have, err := e.cfg.Host.Capacity(ctx)
	if err != nil {
		return 0, err
	}
	left := max(0, have.DiskFree-e.cfg.Settings.DiskReserve)
	if limit := e.diskLimit(e.account(account), have.DiskTotal); limit > 0 {
		u, err := e.measure(ctx)
		if err != nil {
			return 0, err
		}
		left = min(left, max(0, limit-u.accounts.Of[account].Unique))
	}
	return left, nil
}

// snapshotFits refuses a snapshot that would exceed the account's quota.
func (e *Engine) snapshotFits(account vm.AccountID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := vm.Quota{Snapshots: e.account(account).Quota.Snapshots}
	if q.Snapshots == 0 {
		return nil
	}
	return overQuota(q, e.countLocked(account), vm.Quota{Snapshots: 1})
}

// Quota returns an account's quota and its use; "" = the caller's own. Only admins may
// ask for others.
func (e *Engine) Quota(ctx context.Context, c *vm.Call, ref vm.AccountID) (out vm.QuotaState, err error) {
	defer func() { err = fail(vm.OpQuota, string(ref), err) }()
	if err := c.Actor.OwnerOnly(""); err != nil {
		return out, err
	}
	a, err := e.cfg.Access.AccountOf(c, ref)
	if err != nil {
		return out, err
	}
	return e.quotaState(ctx, a)
}

func (e *Engine) quotaState(ctx context.Context, a vm.Account) (vm.QuotaState, error) {
	u, err := e.measure(ctx)
	if err != nil {
		return vm.QuotaState{}, err
	}
	e.mu.Lock()
	use := e.countLocked(a.ID)
	e.mu.Unlock()
	use.Disk, use.MemoryImages = u.accounts.Of[a.ID].Unique, u.memory[a.ID]
	out := vm.QuotaState{Account: a.ID, Name: a.Name, Quota: a.Quota, Use: use}
	a.Quota.Disk = 0
	out.DiskDefault = e.diskLimit(a, u.have.DiskTotal)
	return out, nil
}

// SetQuota sets an account's quota. It refuses a quota below the current use. Admins
// only.
func (e *Engine) SetQuota(ctx context.Context, c *vm.Call, ref vm.AccountID, q vm.Quota) (out vm.QuotaState, err error) {
	defer func() { err = fail(vm.OpQuota, string(ref), err) }()
	if err := c.Actor.AdminOnly(); err != nil {
		return out, err
	}
	a, err := e.cfg.Access.AccountOf(c, ref)
	if err != nil {
		return out, err
	}
	if out, err = e.quotaState(ctx, a); err != nil {
		return out, err
	}
	if err := checkQuota(q, out.Use); err != nil {
		return out, err
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpQuota, Subject: a.Name, Detail: map[string]any{"account": string(a.ID), "from": a.Quota, "to": q}})
	if err != nil {
		return out, err
	}
	defer func() { r.End(err, nil) }()
	if err = e.cfg.Access.PutQuota(ctx, a.ID, q); err != nil {
		return out, err
	}
	out.Quota = q
	return out, nil
}

// checkQuota refuses an invalid quota, or one below the use.
func checkQuota(q, use vm.Quota) error {
	for _, f := range []struct {
		field     string
		want, use int64
	}{
		{"vms", int64(q.VMs), int64(use.VMs)},
		{"running", int64(q.Running), int64(use.Running)},
		{"vcpu", int64(q.VCPU), int64(use.VCPU)},
		{"memoryMib", int64(q.MemoryMiB), int64(use.MemoryMiB)},
		{"diskBytes", q.Disk, use.Disk},
		{"memoryImagesBytes", q.MemoryImages, use.MemoryImages},
		{"snapshots", int64(q.Snapshots), int64(use.Snapshots)},
	} {
		switch {
		case f.want < 0 || f.want > maxBytes:
			return vm.Errorf(vm.Invalid, f.field, "%d is out of range", f.want).
				WithCode("INVALID_REQUEST").WithHint("give a number above 0, or 0 for no limit")
		case f.want > 0 && f.want < f.use:
			return vm.Errorf(vm.Invalid, f.field, "the account has %d already, more than %d", f.use, f.want).
				WithCode("INVALID_REQUEST", "field", f.field, "current", f.use, "requested", f.want).
				WithHint("set at least %d, or first delete or stop some", f.use)
		}
	}
	return nil
}
