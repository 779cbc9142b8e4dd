// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/storage"
	"github.com/warren-vm/warren/vm"
)

// account of what is the host's own: images, records, logs.
const hostAccount vm.AccountID = ""

// usage is one look at what the data directory takes.
type usage struct {
	time     time.Time
	have     Capacity
	items    storage.Use[storage.Item]   // by the thing whose files they are
	needs    storage.Use[storage.Item]   // by who needs them: what only a VM needs is free without it
	accounts storage.Use[vm.AccountID]   // by whose they are
	memory   map[vm.AccountID]int64      // the part of it that is memory of generations
	info     map[storage.Item]itemRecord // of VMs, generations and volumes
	freed    func(gone map[storage.Item]bool) int64
}

// together is what is free once all of the list are gone, with what only they
// share.
func (u *usage) together(list []storage.Candidate) int64 {
	gone := make(map[storage.Item]bool, len(list))
	for _, c := range list {
		gone[c.Item] = true
	}
	return u.freed(gone)
}

// itemRecord is what the records say of an item.
type itemRecord struct {
	name    string
	account vm.AccountID
}

// measure looks at the disk, and remembers what it saw.
func (e *Engine) measure(ctx context.Context) (*usage, error) {
	e.measuring.Lock()
	defer e.measuring.Unlock()
	have, err := e.cfg.Host.Capacity(ctx)
	if err != nil {
		return nil, err
	}
	files, err := e.cfg.Disk.Measure(ctx)
	if err != nil {
		return nil, err
	}
	u := &usage{time: e.now(), have: have}
	e.mu.Lock()
	holders := e.holdersLocked()
	u.info = e.itemsLocked()
	e.mu.Unlock()
	u.items = storage.Sum(files, func(f *storage.File) []storage.Item { return []storage.Item{f.Item} })
	u.needs = storage.Sum(files, holders.of)
	owner := func(f *storage.File) []vm.AccountID { return []vm.AccountID{u.info[f.Item].account} }
	u.accounts = storage.Sum(files, owner)
	u.freed = func(gone map[storage.Item]bool) int64 {
		return storage.Sum(files, func(f *storage.File) []bool {
			goes := []bool{}
			for _, who := range holders.of(f) {
				goes = append(goes, gone[who])
			}
			return goes
		}).Of[true].Unique
	}
	memory := slices.DeleteFunc(slices.Clone(files), func(f storage.File) bool { return !f.Memory || f.Item.Kind != storage.Generation })
	u.memory = map[vm.AccountID]int64{}
	for a, b := range storage.Sum(memory, owner).Of {
		u.memory[a] = b.Unique
	}
	e.mu.Lock()
	e.looked = new(usage)
	*e.looked = *u
	e.looked.freed = nil // it holds all that was seen
	e.mu.Unlock()
	return u, nil
}

// over is what must go for the host.
func (e *Engine) over(u *usage) int64 {
	s := e.cfg.Settings
	return storage.Over(u.needs.Total, s.budget(u.have.DiskTotal), u.have.DiskFree, s.DiskReserve)
}

// budget is what the data directory may take of a disk of that size.
func (s Settings) budget(disk int64) int64 {
	if s.StorageBudget > 0 {
		return s.StorageBudget
	}
	return disk / 100 * int64(s.StoragePercent)
}

func vmItem(id vm.ID) storage.Item { return storage.Item{Kind: storage.VM, ID: string(id)} }

func genItem(id vm.GenerationID) storage.Item {
	return storage.Item{Kind: storage.Generation, ID: string(id)}
}

func volItem(id vm.VolumeID) storage.Item { return storage.Item{Kind: storage.Volume, ID: string(id)} }

// itemsLocked names VMs, generations and volumes and says whose they are.
func (e *Engine) itemsLocked() map[storage.Item]itemRecord {
	out := make(map[storage.Item]itemRecord, len(e.vms)+len(e.gens))
	for id := range e.vms {
		out[vmItem(id)] = e.itemLocked(vmItem(id))
	}
	for id := range e.gens {
		out[genItem(id)] = e.itemLocked(genItem(id))
	}
	for _, rec := range e.cfg.Vault.VolumeRecords() {
		out[volItem(rec.ID)] = itemRecord{rec.Project + "/" + rec.Name, rec.Account}
	}
	return out
}

func (e *Engine) itemLocked(it storage.Item) (out itemRecord) {
	if s := e.vms[vm.ID(it.ID)]; it.Kind == storage.VM && s != nil {
		out = itemRecord{s.rec.Name, s.account}
	}
	if g := e.gens[vm.GenerationID(it.ID)]; it.Kind == storage.Generation && g != nil {
		out = itemRecord{cmp.Or(g.info.Name, g.info.VMName), g.info.Account}
	}
	return out
}

// holders is who needs the files of each generation.
type holders struct {
	disk, memory map[vm.GenerationID][]storage.Item
}

// of is who needs a file: what it belongs to, and of generations those that
// needsLocked would name. What nobody needs is its own, until it is collected.
func (h holders) of(f *storage.File) []storage.Item {
	if f.Item.Kind != storage.Generation {
		return []storage.Item{f.Item}
	}
	list := h.disk[vm.GenerationID(f.Item.ID)]
	if f.Memory {
		list = h.memory[vm.GenerationID(f.Item.ID)]
	}
	if len(list) == 0 {
		return []storage.Item{f.Item}
	}
	return list
}

// holdersLocked is needsLocked with the names of those who need: a VM, or a
// generation that is kept for itself.
func (e *Engine) holdersLocked() holders {
	h := holders{map[vm.GenerationID][]storage.Item{}, map[vm.GenerationID][]storage.Item{}}
	below := func(id vm.GenerationID, who storage.Item) {
		for id != "" && !slices.Contains(h.disk[id], who) {
			h.disk[id] = append(h.disk[id], who)
			g := e.gens[id]
			if g == nil {
				return
			}
			id = g.info.DiskOn
		}
	}
	whole := func(id vm.GenerationID, who storage.Item) {
		if e.gens[id] == nil {
			return
		}
		below(id, who)
		h.memory[id] = append(h.memory[id], who)
	}
	for id, s := range e.vms {
		whole(s.rec.Generation, vmItem(id))
		below(s.rec.DiskOn, vmItem(id))
	}
	for id := range e.keptLocked() {
		if g := e.gens[id].info; automatic(g.Why) && g.Snapshot == "" {
			whole(id, vmItem(g.VM)) // it goes with its VM
		} else {
			whole(id, genItem(id))
		}
	}
	for id, g := range e.gens {
		switch {
		case g.pins > 0 || g.info.State == vm.GenBuilding:
			whole(id, genItem(id))
		case e.doubtfulLocked(g.info.VM) && !g.info.Gone:
			whole(id, vmItem(g.info.VM))
		}
	}
	return h
}

// candidates are what may be let go of an account ("" = of all), and what may
// not: every VM, every snapshot, and layers of specs.
func (e *Engine) candidates(u *usage, account vm.AccountID) []storage.Candidate {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]storage.Candidate, 0, len(e.vms))
	for id, s := range e.vms {
		if account == "" || s.account == account {
			list = append(list, storage.Candidate{
				Item: vmItem(id), Account: s.account, Priority: storage.Priority(s.rec.Persistence), LastActive: s.rec.LastActive,
				Frees: u.needs.Of[vmItem(id)].Unique, Kept: e.keptWhyLocked(s, s.op != nil),
			})
		}
	}
	for id, g := range e.gens {
		if i := g.info; keptForItself(i) && (account == "" || i.Account == account) {
			list = append(list, storage.Candidate{
				Item: genItem(id), Account: i.Account, Priority: priorityOf(i), LastActive: lastUse(i), Frees: u.needs.Of[genItem(id)].Unique, Kept: keptGeneration(g),
			})
		}
	}
	return list
}

// order is what may be let go of an account ("" = of all), the first to go
// first. Of all, what accounts have above their fair share goes before the rest.
func (e *Engine) order(u *usage, account vm.AccountID) []storage.Candidate {
	var above map[vm.AccountID]int64
	if account == hostAccount {
		above = e.above(u)
	}
	return storage.Order(e.candidates(u, account), above)
}

// above is what each account has above its fair share of the budget.
func (e *Engine) above(u *usage) map[vm.AccountID]int64 {
	return storage.Above(u.accounts.Of, e.cfg.Settings.budget(u.have.DiskTotal))
}

// keptForItself says whether a generation is a layer or a snapshot: the others
// go with the VMs that need them.
func keptForItself(i vm.Generation) bool {
	return (i.Why == vm.WhyLayer || i.Snapshot != "") && !i.Deleted && !i.Gone
}

// priorityOf is that of a layer or a snapshot: layers can be made again, and
// snapshots go after all VMs.
func priorityOf(i vm.Generation) int {
	if i.Snapshot == "" {
		return storage.CachePriority
	}
	return storage.SnapshotPriority + storage.Priority(i.Persistence)
}

// keptGeneration says why a layer or a snapshot may not be let go; "" = it may.
func keptGeneration(g *generation) string {
	i := g.info
	switch {
	case i.Snapshot != "" && i.Persistence.Type == vm.Persistent:
		return string(vm.Persistent)
	case g.pins > 0:
		return "in use"
	case i.State != vm.GenReady:
		return string(i.State)
	case !i.Durable:
		return "being written"
	}
	return ""
}

// keptWhyLocked says why a VM may not be let go; "" = it may.
func (e *Engine) keptWhyLocked(s *slot, busy bool) string {
	used := busy || s.doubt != nil || s.attached+s.loose+s.waiting > 0 || s.waking != nil || e.claimedLocked(s.id)
	return storage.Kept(s.rec, len(s.holds()) > 0, used)
}

// Storage says who uses what of the disk and what would go next. Admins see
// everything; others what is their account's, with its quota in place of the
// budget, and what is free for them.
func (e *Engine) Storage(ctx context.Context, c *vm.Call) (out vm.Storage, err error) {
	defer func() { err = fail(vm.OpStorage, "", err) }()
	if err := c.Actor.OwnerOnly(""); err != nil {
		return out, err
	}
	u, err := e.measure(ctx)
	if err != nil {
		return out, err
	}
	out = vm.Storage{Accounts: e.accountsUse(c, u), Items: e.itemsUse(c, u)}
	s := e.cfg.Settings
	budget := s.budget(u.have.DiskTotal)
	out.Available = max(0, min(budget-u.needs.Total, u.have.DiskFree-s.DiskReserve))
	if c.Actor.Admin {
		out.Path, out.Budget, out.Used, out.Over = string(e.cfg.Dir), budget, u.needs.Total, e.over(u)
		out.DiskTotal, out.DiskFree, out.Reserve = u.have.DiskTotal, u.have.DiskFree, s.DiskReserve
		return out, nil
	}
	out.Budget = e.diskLimit(e.account(c.Actor.Account), u.have.DiskTotal)
	out.Used = u.accounts.Of[c.Actor.Account].Unique
	if out.Budget > 0 {
		out.Over = max(0, out.Used-out.Budget)
		out.Available = max(0, min(out.Available, out.Budget-out.Used))
	}
	return out, nil
}

// accountsUse is what each account takes, the largest first.
func (e *Engine) accountsUse(c *vm.Call, u *usage) []vm.AccountStorage {
	list := []vm.AccountStorage{}
	for _, a := range e.cfg.Access.AllAccounts() {
		if c.Actor.Admin || a.ID == c.Actor.Account {
			list = append(list, vm.AccountStorage{
				Account: a.ID, Name: a.Name, Bytes: u.accounts.Of[a.ID], MemoryImages: u.memory[a.ID], Limit: e.diskLimit(a, u.have.DiskTotal),
			})
		}
	}
	slices.SortFunc(list, func(a, b vm.AccountStorage) int {
		return cmp.Or(cmp.Compare(b.Unique, a.Unique), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// itemsUse is what each thing takes, the largest first. VMs that have no files
// are there, too.
func (e *Engine) itemsUse(c *vm.Call, u *usage) []vm.StorageItem {
	all := e.candidates(u, hostAccount)
	found := make(map[storage.Item]*vm.StorageItem, len(u.items.Of))
	add := func(it storage.Item) *vm.StorageItem {
		if found[it] == nil {
			found[it] = &vm.StorageItem{
				Kind: it.Kind, ID: it.ID, Name: u.info[it].name, Account: u.info[it].account, Bytes: u.items.Of[it],
			}
		}
		return found[it]
	}
	for it := range u.items.Of {
		add(it)
	}
	for _, cand := range all {
		it := add(cand.Item)
		it.LastActive, it.Frees, it.Kept = cand.LastActive, cand.Frees, cand.Kept
	}
	order := storage.Order(all, e.above(u))
	next := 0
	for _, cand := range order {
		if c.Actor.Admin || cand.Account == c.Actor.Account { // how many others have is not said
			next++
			found[cand.Item].Next = next
		}
	}
	chosen, _ := storage.Choose(order, e.over(u))
	for _, cand := range chosen {
		found[cand.Item].Goes = true
	}
	list := []vm.StorageItem{}
	e.mu.Lock()
	for it, shown := range found {
		if c.Actor.Admin || shown.Account == c.Actor.Account {
			e.describeLocked(it, shown)
			list = append(list, *shown)
		}
	}
	e.mu.Unlock()
	slices.SortFunc(list, func(a, b vm.StorageItem) int {
		return cmp.Or(cmp.Compare(b.Unique+b.Shared, a.Unique+a.Shared), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// describeLocked adds what the record says.
func (e *Engine) describeLocked(it storage.Item, shown *vm.StorageItem) {
	if s := e.vms[vm.ID(it.ID)]; it.Kind == storage.VM && s != nil {
		keep := s.rec.Persistence
		shown.State, shown.Persistence = s.rec.State, &keep
	}
	if g := e.gens[vm.GenerationID(it.ID)]; it.Kind == storage.Generation && g != nil {
		shown.Why, shown.Snapshot = g.info.Why, g.info.Snapshot
		if g.info.Snapshot != "" {
			keep := g.info.Persistence
			shown.Persistence = &keep
		}
	}
}
