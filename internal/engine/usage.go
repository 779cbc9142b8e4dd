// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	// usageEvery is how often running machines are counted. What a host uses
	// between the last count and a power loss is not counted.
	usageEvery = 2 * time.Minute
	// usageDeadline bounds the question to a machine that is about to be ended.
	usageDeadline = time.Second
	// usageKept is of how many VMs of an account that are gone the usage is kept
	// for itself; that of older ones goes on in the account's sum.
	usageKept = 200
)

// meters is what VMs have used.
type meters struct {
	write sync.Mutex // held while a record of it is written; before Engine.mu

	// guarded by Engine.mu
	recs map[string]*vm.UsageRecord // by UsageRecord.Key
}

// Usage returns what the VMs of the caller's account have used, those that are
// gone too, newest first, and the sum of it with all before them; with all, of
// every account, for admins.
func (e *Engine) Usage(_ context.Context, c *vm.Call, all bool) (sums, vms []vm.Usage, err error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, nil, fail(vm.OpList, "", err)
	}
	if all {
		if err := c.Actor.AdminOnly(); err != nil {
			return nil, nil, fail(vm.OpList, "", err)
		}
	}
	now := e.now()
	today := dayOf(now)
	accounts := map[vm.AccountID]vm.Usage{}
	e.mu.Lock()
	for _, u := range e.meters.recs {
		if u.Account != c.Actor.Account && !all {
			continue
		}
		seen := e.seenLocked(*u, now, today)
		if u.VM != "" {
			vms = append(vms, seen)
		}
		sum := accounts[u.Account]
		sum.Account, sum.Name = u.Account, e.users.accounts[u.Account].Name
		sum.Add(seen)
		accounts[u.Account] = sum
	}
	e.mu.Unlock()
	slices.SortFunc(vms, func(a, b vm.Usage) int { return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.VM, b.VM)) })
	for _, sum := range accounts {
		sums = append(sums, sum)
	}
	slices.SortFunc(sums, func(a, b vm.Usage) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Account, b.Account)) })
	return sums, vms, nil
}

// UsageOf returns what one VM has used: by its name or id, or by the id of one
// that is gone.
func (e *Engine) UsageOf(_ context.Context, c *vm.Call, ref string) (vm.Usage, error) {
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return vm.Usage{}, fail(vm.OpGet, ref, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.lookupLocked(c.Actor, ref)
	if err == nil {
		ref = string(s.id)
	}
	u, now := e.meters.recs[ref], e.now()
	switch {
	case u != nil && u.VM != "" && u.Account == c.Actor.Account:
		return e.seenLocked(*u, now, dayOf(now)), nil
	case err == nil: // it has not run yet
		return e.seenLocked(notRun(&s.rec), now, dayOf(now)), nil
	}
	return vm.Usage{}, fail(vm.OpGet, ref, err)
}

// UsageNow returns what each of the given VMs has used so far. It asks no machine.
func (e *Engine) UsageNow(vms []vm.VM) []vm.Usage {
	out := make([]vm.Usage, len(vms))
	now := e.now()
	today := dayOf(now)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range vms {
		u := e.meters.recs[string(vms[i].ID)]
		if u == nil {
			none := notRun(&vms[i])
			u = &none
		}
		out[i] = e.seenLocked(*u, now, today)
	}
	return out
}

// notRun is the usage of a VM that has had no machine yet.
func notRun(rec *vm.VM) vm.UsageRecord {
	return vm.UsageRecord{Usage: vm.Usage{Account: rec.Account, VM: rec.ID, Name: rec.Name, Since: rec.CreatedAt}}
}

// seenLocked is a usage with the time that has passed since its last count; today
// is now's day.
func (e *Engine) seenLocked(u vm.UsageRecord, now time.Time, today string) vm.Usage {
	if s := e.vms[u.VM]; s != nil {
		u.Name = s.rec.Name
		if !u.RunningSince.IsZero() {
			u.Run(u.RunningSince, now, s.rec.Size.MemoryMiB)
			u.AsOf = now
		}
	}
	if u.Day != today {
		u.Day, u.DaySeconds = today, 0
	}
	return u.Usage
}

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// metered reports whether a VM in a state has a machine that counts.
func metered(s vm.State) bool { return s == vm.Running || s == vm.Suspending }

// meterLocked begins and ends counting with the change of a VM's record. It
// reports whether a count has ended and is to be stored.
func (e *Engine) meterLocked(before, after vm.VM) (ended bool) {
	now := e.now()
	u := e.meters.recs[string(after.ID)]
	switch was, is := metered(before.State), metered(after.State); {
	case !was && is:
		if u == nil {
			first := notRun(&after)
			u = &first
			e.meters.recs[u.Key()] = u
		}
		u.Name, u.RunningSince, u.AsOf = after.Name, now, now
		u.QEMUPID, u.MonitorPID = 0, 0
	case was && !is && u != nil:
		endCount(u, after.Exit, now, before.Size.MemoryMiB)
		return true
	case is && before.Size.MemoryMiB != after.Size.MemoryMiB && u != nil:
		u.Run(u.RunningSince, now, before.Size.MemoryMiB)
		u.RunningSince, u.AsOf = now, now
	}
	return false
}

// endCount counts a machine up to its end. Of one that was found gone it is not
// known until when it ran.
func endCount(u *vm.UsageRecord, exit vm.MachineExit, now time.Time, memoryMiB int) {
	until := now
	if exit.Time.After(u.RunningSince) && exit.Time.Before(now) {
		until = exit.Time
	}
	if exit.Reason != "host-restart" && exit.Detail != unseen {
		u.Run(u.RunningSince, until, memoryMiB)
		u.AsOf = until
	}
	u.RunningSince = time.Time{}
}

// unseen is the detail of a machine's end that nobody saw.
const unseen = "its processes were gone"

// metered asks a machine how it is, and counts what it has used since. One at a
// time: an answer that is older than the last one counted would be taken for
// counters that begin anew. Where another is at it, it is left to that one.
func (e *Engine) metered(ctx context.Context, s *slot, r *run) (vm.MachineStatus, error) {
	mine := s.metering.TryLock()
	if mine {
		defer s.metering.Unlock()
	}
	st, err := r.machine.Status(ctx)
	if err == nil && mine {
		e.count(s, st)
	}
	return st, err
}

// count adds to a VM's usage what its machine's counters show. The caller holds
// the slot's metering.
func (e *Engine) count(s *slot, st vm.MachineStatus) {
	disk := e.diskUsed(s)
	now := e.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	u := e.meters.recs[string(s.id)]
	if u == nil || u.RunningSince.IsZero() {
		return
	}
	u.Count(st)
	u.Run(u.RunningSince, now, s.rec.Size.MemoryMiB)
	u.RunningSince, u.AsOf, u.Name = now, now, s.rec.Name
	u.DiskBytes, u.DiskPeakBytes = disk, max(u.DiskPeakBytes, disk)
}

// countLast counts a machine that is about to be ended. One that does not
// answer at once has been counted for the last time.
func (e *Engine) countLast(ctx context.Context, s *slot, r *run) {
	if r == nil || e.dead.Load() {
		return
	}
	ctx, stop := context.WithTimeout(ctx, usageDeadline)
	defer stop()
	for !s.metering.TryLock() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
	defer s.metering.Unlock()
	if st, err := r.machine.Status(ctx); err == nil {
		e.count(s, st)
	}
}

// diskUsed is what a VM alone takes of the host's disk: its own files and those
// of generations that were taken of it.
func (e *Engine) diskUsed(s *slot) int64 {
	n := allocated(e.cfg.Dir.VM(s.id))
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range e.gens {
		if g.info.VM == s.id && !g.info.Gone {
			n += g.info.DataBytes
		}
	}
	return n
}

// allocated adds up what the files of a directory take of the disk.
func allocated(dir string) (bytes int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, entry := range entries {
		var st syscall.Stat_t
		if syscall.Lstat(filepath.Join(dir, entry.Name()), &st) == nil {
			bytes += st.Blocks * 512
		}
	}
	return bytes
}

// runMeters is the task that counts running machines and stores what it found.
func (e *Engine) runMeters(ctx context.Context) {
	for {
		after, stop := e.cfg.Clock.After(usageEvery)
		select {
		case <-after:
			e.meterAll(ctx)
		case <-ctx.Done():
			stop()
			return
		}
	}
}

// meterAll counts every running machine, one after the other: a monitor that
// hangs holds up the count alone.
func (e *Engine) meterAll(ctx context.Context) {
	e.mu.Lock()
	runs := make(map[*slot]*run, len(e.vms))
	for _, s := range e.vms {
		if s.run != nil && s.op == nil {
			runs[s] = s.run
		}
	}
	e.mu.Unlock()
	for s, r := range runs {
		if ctx.Err() != nil {
			return
		}
		e.countLast(ctx, s, r)
		e.storeUsage(ctx, string(s.id))
	}
}
