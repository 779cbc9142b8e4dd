// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package meter counts what each VM uses of the host: time, memory, CPU, disk and
// network. It keeps the figures of VMs that are gone, and their sums by account.
// The engine tells it of every change of a VM's state. Between two such changes it
// reads the counters of the running machines every two minutes.
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
	// countEvery is how often running machines are counted. What a host uses
	// between the last count and a power loss is not counted.
	countEvery = 2 * time.Minute
	// lastDeadline bounds the question to a machine that is about to be ended.
	lastDeadline = time.Second
	// vmsKept is for how many VMs of an account that are gone the usage is kept
	// separately. The usage of older ones is part of the account's sum only.
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

// Source is where the meter learns of VMs. The engine provides it.
type Source struct {
	Find    func(c *vm.Call, ref string) (vm.VM, error) // the VM that ref names for the caller
	Account func(id vm.AccountID) (name string)
	Running func() map[vm.ID]Machine // machines that no operation is using
	Disk    func(id vm.ID) int64     // bytes of the host's disk that the VM alone takes
}

// Meter knows what VMs have used. All methods may be called at once from many
// goroutines.
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

// count is what a VM, or an account, has used. Its record is newer than the
// stored one.
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

// Open takes over the stored usage and compares it with the VMs that there are.
// Then it begins to count running machines, until Close.
func (m *Meter) Open(ctx context.Context, src Source, vms []vm.VM) error {
	m.src = src
	m.life, m.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := m.recover(ctx, vms); err != nil {
		return err
	}
	m.spawn(m.run)
	return nil
}

// Close ends what the meter does by itself, and waits for it, at most as long as
// ctx.
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
		return vm.Errorf(vm.Timeout, "usage", "it was not stored in time: %w", context.Cause(ctx))
	}
}

// spawn runs f as one of the meter's own tasks, unless the meter is closed.
func (m *Meter) spawn(f func(ctx context.Context)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.tasks.Go(func() { f(m.life) })
	}
}

// Changed begins and ends the count of a VM's machine when its record changes. It
// does not block: the caller may hold locks. A count that ended is stored soon.
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

// Ask asks a VM's machine for its status, and counts what it has used since the
// last time. An answer that is older than the last one counted would be taken for
// counters that begin again: while another caller asks the same machine, the
// answer is returned and not counted.
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

// Last counts a machine that is about to be ended. It blocks for a second at most:
// a machine that does not answer by then keeps the count that it has.
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

// countAll counts every running machine, one after the other: a monitor that
// hangs delays the count only. It tries failed writes again.
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

// Usage returns what the VMs of the caller's account have used, including those
// that are gone, newest first, and the account's sum. With all it returns every
// account's, for admins. Kind Denied.
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

// UsageOf returns what one VM has used: by its name or id, or by the id of one
// that is gone. Kinds Denied, NotFound.
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

// Past returns what a VM of an account has used that has run once and may be gone.
func (m *Meter) Past(account vm.AccountID, id vm.ID) (vm.Usage, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.counts[string(id)]
	if n == nil || n.rec.VM == "" || n.rec.Account != account {
		return vm.Usage{}, false
	}
	return seen(n.rec, n.memoryMiB, m.now()), true
}

// UsageNow returns what each of the given VMs has used so far. It asks no machine.
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

// seen is a usage with the time that has passed since its last count.
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
