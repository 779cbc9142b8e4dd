// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package meter counts what each VM uses of the host: time, memory, CPU, disk and
// network. It keeps the figures of deleted VMs, and their sums by account. The engine
// reports every change of a VM's state. In between, the meter reads the counters of the
// running machines every two minutes.
package meter

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

const (
	// countEvery is how often running machines are counted. A power loss loses the use
	// since the last count.
	countEvery = 2 * time.Minute
	// lastDeadline bounds the last count of a machine that is about to end.
	lastDeadline = time.Second
	// vmsKept is for how many deleted VMs of an account the usage is kept separately.
	// Older ones are only part of the account's sum.
	vmsKept = 200
)

// Clock is the time.
type Clock interface {
	Now() time.Time
	// After is like time.NewTimer: the channel receives once, unless stop is
	// called first.
	After(d time.Duration) (c <-chan time.Time, stop func())
}

// Machine is a running machine that has counters.
type Machine interface {
	Status(ctx context.Context) (vm.MachineStatus, error)
}

// Source is how the meter learns about VMs. The engine provides it.
type Source struct {
	Find    func(c *vm.Call, ref string) (vm.VM, error) // the VM that ref names for the caller
	Account func(id vm.AccountID) (name string)
	Running func() map[vm.ID]Machine // machines that no operation is using
	Disk    func(id vm.ID) int64     // bytes of the host's disk that only this VM takes
}

// Meter counts what VMs use. Its methods may be called concurrently.
type Meter struct {
	table *ledger.Table[string, vm.UsageRecord]
	host  string
	clock Clock
	log   *slog.Logger
	src   Source // set by Open

	life  context.Context // set by Open; ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	writes sync.Mutex // held while records are written; before mu

	mu sync.Mutex
	// guarded by mu
	counts  map[string]*count // by the key of the record
	closed  bool
	unsaved map[string]bool // keys whose last write failed
}

// count is the use of a VM or an account. Its record is newer than the stored one.
type count struct {
	asking sync.Mutex // held while its machine is asked; before Meter.mu
	// guarded by Meter.mu
	rec       vm.UsageRecord
	memoryMiB int // of the VM
}

// New returns a meter whose table is in the ledger. Call Open when the ledger is
// loaded.
func New(l *ledger.Ledger, clock Clock, log *slog.Logger) *Meter {
	m := &Meter{host: l.Host(), clock: clock, log: log, counts: map[string]*count{}, unsaved: map[string]bool{}}
	m.table = ledger.Add(l, Kind)
	return m
}

// Kind is the table of usage.
var Kind = ledger.Kind[string, vm.UsageRecord]{
	Name: "usage",
	Key:  (*vm.UsageRecord).Key,
	Host: func(u *vm.UsageRecord) *string { return &u.Host },
}

// Open loads the stored usage and reconciles it with the existing VMs. Then it counts
// running machines until Close.
func (m *Meter) Open(ctx context.Context, src Source, vms []vm.VM) error {
	m.src = src
	m.life, m.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := m.recover(ctx, vms); err != nil {
		return err
	}
	m.spawn(m.run)
	return nil
}

// Close ends the meter's tasks and waits for them until ctx ends.
func (m *Meter) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	if m.end == nil { // it was never opened
		return nil
	}
	m.end()
	done := make(chan struct{})
	go func() { // ends with the tasks, which end with life
		m.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return vm.Errorf(vm.Timeout, "usage", "the usage was not stored in time: %w", context.Cause(ctx))
	}
}

// spawn runs f as a task of the meter, unless the meter is closed.
func (m *Meter) spawn(f func(ctx context.Context)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.tasks.Go(func() { f(m.life) })
	}
}

// Changed begins or ends the count of a VM's machine when its record changes. It does not
// block: the caller may hold locks. An ended count is stored soon.
func (m *Meter) Changed(before, after vm.VM) {
	m.mu.Lock()
	ended := m.changedLocked(before, after)
	m.mu.Unlock()
	if ended {
		m.spawn(func(ctx context.Context) { m.store(ctx, string(after.ID)) })
	}
}

func (m *Meter) changedLocked(before, after vm.VM) (ended bool) {
	now := m.now()
	n := m.counts[string(after.ID)]
	if n != nil {
		n.rec.Name, n.memoryMiB = after.Name, after.Size.MemoryMiB
	}
	switch was, is := counts(before.State), counts(after.State); {
	case !was && is:
		if n == nil {
			n = m.addLocked(notRun(&after), after.Size.MemoryMiB)
		}
		u := &n.rec
		u.RunningSince, u.AsOf, u.QEMUPID, u.MonitorPID = now, now, 0, 0
	case n == nil:
	case was && !is:
		endCount(&n.rec, after.Exit, now, before.Size.MemoryMiB)
		return true
	case is && before.Size.MemoryMiB != after.Size.MemoryMiB:
		n.rec.Run(n.rec.RunningSince, now, before.Size.MemoryMiB)
		n.rec.RunningSince, n.rec.AsOf = now, now
	}
	return false
}

func (m *Meter) addLocked(u vm.UsageRecord, memoryMiB int) *count {
	n := &count{rec: u, memoryMiB: memoryMiB}
	m.counts[u.Key()] = n
	return n
}

// counts reports whether a VM in a state has a machine that is counted.
func counts(s vm.State) bool { return s == vm.Running || s == vm.Suspending }

// notRun is the usage of a VM that has had no machine yet.
func notRun(rec *vm.VM) vm.UsageRecord {
	return vm.UsageRecord{Usage: vm.Usage{Account: rec.Account, VM: rec.ID, Name: rec.Name, Since: rec.CreatedAt}}
}

// Ask returns the status of a VM's machine and counts its use since the last time. If
// another caller is asking the same machine, the answer is not counted: an older answer
// would look like counters that restarted.
func (m *Meter) Ask(ctx context.Context, id vm.ID, machine Machine) (vm.MachineStatus, error) {
	n := m.find(id)
	mine := n != nil && n.asking.TryLock()
	if mine {
		defer n.asking.Unlock()
	}
	st, err := machine.Status(ctx)
	if err == nil && mine {
		m.add(n, id, st)
	}
	return st, err
}

// Last counts a machine that is about to end. It blocks for at most a second; a machine
// that does not answer by then keeps its count.
func (m *Meter) Last(ctx context.Context, id vm.ID, machine Machine) {
	n := m.find(id)
	if n == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, lastDeadline)
	defer stop()
	for !n.asking.TryLock() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
	defer n.asking.Unlock()
	if st, err := machine.Status(ctx); err == nil {
		m.add(n, id, st)
	}
}

func (m *Meter) find(id vm.ID) *count {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[string(id)]
}

// add counts what a machine's counters show. The caller holds n.asking.
func (m *Meter) add(n *count, id vm.ID, st vm.MachineStatus) {
	disk := m.src.Disk(id)
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	u := &n.rec
	if u.RunningSince.IsZero() {
		return
	}
	u.Count(st)
	u.Run(u.RunningSince, now, n.memoryMiB)
	u.RunningSince, u.AsOf = now, now
	u.DiskBytes, u.DiskPeakBytes = disk, max(u.DiskPeakBytes, disk)
}

// run is the task that counts running machines and stores what it found.
func (m *Meter) run(ctx context.Context) {
	for {
		after, stop := m.clock.After(countEvery)
		select {
		case <-after:
			m.countAll(ctx)
		case <-ctx.Done():
			stop()
			return
		}
	}
}

// countAll counts every running machine, one after the other, so that a hanging monitor
// only delays the count. It retries failed writes.
func (m *Meter) countAll(ctx context.Context) {
	for id, machine := range m.src.Running() {
		if ctx.Err() != nil {
			return
		}
		m.Last(ctx, id, machine)
		m.store(ctx, string(id))
	}
	m.mu.Lock()
	again := slices.Collect(maps.Keys(m.unsaved))
	m.mu.Unlock()
	for _, key := range again {
		m.store(ctx, key)
	}
}

func (m *Meter) now() time.Time { return m.clock.Now().UTC() }

// Usage returns the use of each VM of the caller's account, including deleted ones,
// newest first, and the account's sum. With all it returns every account's, for admins.
// Kind Denied.
func (m *Meter) Usage(_ context.Context, c *vm.Call, all bool) (sums, vms []vm.Usage, err error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, nil, vm.WithOp(vm.OpList, "", err)
	}
	if all {
		if err := c.Actor.AdminOnly(); err != nil {
			return nil, nil, vm.WithOp(vm.OpList, "", err)
		}
	}
	now := m.now()
	accounts := map[vm.AccountID]vm.Usage{}
	m.mu.Lock()
	for _, n := range m.counts {
		if n.rec.Account != c.Actor.Account && !all {
			continue
		}
		seen := seen(n.rec, n.memoryMiB, now)
		if n.rec.VM != "" {
			vms = append(vms, seen)
		}
		sum := accounts[n.rec.Account]
		sum.Account = n.rec.Account
		sum.Add(seen)
		accounts[n.rec.Account] = sum
	}
	m.mu.Unlock()
	slices.SortFunc(vms, func(a, b vm.Usage) int { return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.VM, b.VM)) })
	for _, sum := range accounts {
		sum.Name = m.src.Account(sum.Account)
		sums = append(sums, sum)
	}
	slices.SortFunc(sums, func(a, b vm.Usage) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Account, b.Account)) })
	return sums, vms, nil
}

// UsageOf returns the use of one VM, by its name or id, or by the id of a deleted one.
// Kinds Denied, NotFound.
func (m *Meter) UsageOf(_ context.Context, c *vm.Call, ref string) (vm.Usage, error) {
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return vm.Usage{}, vm.WithOp(vm.OpGet, ref, err)
	}
	rec, err := m.src.Find(c, ref)
	if err == nil {
		return m.UsageNow([]vm.VM{rec})[0], nil
	}
	if u, ok := m.Past(c.Actor.Account, vm.ID(ref)); ok {
		return u, nil
	}
	return vm.Usage{}, vm.WithOp(vm.OpGet, ref, err)
}

// Past returns the use of a VM of an account that has run and may be deleted.
func (m *Meter) Past(account vm.AccountID, id vm.ID) (vm.Usage, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.counts[string(id)]
	if n == nil || n.rec.VM == "" || n.rec.Account != account {
		return vm.Usage{}, false
	}
	return seen(n.rec, n.memoryMiB, m.now()), true
}

// UsageNow returns the use of each of the given VMs. It asks no machine.
func (m *Meter) UsageNow(vms []vm.VM) []vm.Usage {
	out := make([]vm.Usage, len(vms))
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range vms {
		u := notRun(&vms[i])
		if n := m.counts[string(vms[i].ID)]; n != nil {
			u = n.rec
			u.Name = vms[i].Name
		}
		out[i] = seen(u, vms[i].Size.MemoryMiB, now)
	}
	return out
}

// seen adds the time since the last count to a usage.
func seen(u vm.UsageRecord, memoryMiB int, now time.Time) vm.Usage {
	if !u.RunningSince.IsZero() {
		u.Run(u.RunningSince, now, memoryMiB)
		u.AsOf = now
	}
	if today := now.Format(time.DateOnly); u.Day != today {
		u.Day, u.DaySeconds = today, 0
	}
	return u.Usage
}
