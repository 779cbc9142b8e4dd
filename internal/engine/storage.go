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

// account of the host's own data: images, records, logs.
const hostAccount vm.AccountID = ""

// usage is one measurement of the data directory.
type usage struct {
	time     time.Time
	have     Capacity
	items    storage.Use[storage.Item]   // by the item that the files belong to
	needs    storage.Use[storage.Item]   // by the items that need the files: what only one VM needs is freed with it
	accounts storage.Use[vm.AccountID]   // by account
	memory   map[vm.AccountID]int64      // the memory of generations in it
	info     map[storage.Item]itemRecord // of VMs, generations and volumes
	freed    func(gone map[storage.Item]bool) int64
}

// together is what deleting the whole list frees, including what only its items share.
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

// measure measures the disk use and stores the result in looked.
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
	e.looked.freed = nil // the usage already includes it
	e.mu.Unlock()
	return u, nil
}

// over is how many bytes the host must free.
func (e *Engine) over(u *usage) int64 {
	s := e.cfg.Settings
	return storage.Over(u.needs.Total, s.budget(u.have.DiskTotal), u.have.DiskFree, s.DiskReserve)
}

// budget is how much of a disk of that size the data directory may take.
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

// itemsLocked describes VMs, generations, volumes and repositories.
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
	for _, a := range e.cfg.Access.AllAccounts() {
		out[storage.Item{Kind: storage.Objects, ID: string(a.ID)}] = itemRecord{"", a.ID}
	}
	if e.cfg.Repos != nil {
		for _, rec := range e.cfg.Repos() {
			out[storage.Item{Kind: storage.Repository, ID: rec.ID}] = itemRecord{rec.Name, rec.Account}
		}
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

// holders lists who needs the files of each generation.
type holders struct {
	disk, memory map[vm.GenerationID][]storage.Item
}

// of returns who needs a file: its owner, or for generations those that need it by
// needsLocked. An unneeded generation is its own until it is collected.
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

// holdersLocked is needsLocked with the names of those who need a generation: a VM, or a
// generation that is kept for its own sake.
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
	newest := e.newestTurnsLocked()
	for id, n := range e.keptLocked() {
		g, who := e.gens[id].info, genItem(id)
		if (automatic(g.Why) || newest[g.VM] == id) && g.Snapshot == "" {
			who = vmItem(g.VM) // removed with its VM
		}
		if n == needAll {
			whole(id, who)
		} else {
			below(id, who)
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

// candidates lists what may and what may not be evicted from an account ("" = from all):
// every VM, every snapshot, every turn, and layers of specs.
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
	newest := e.newestTurnsLocked()
	for id, g := range e.gens {
		if i := g.info; (keptForItself(i) || e.isTurnLocked(i)) && (account == "" || i.Account == account) {
			list = append(list, storage.Candidate{
				Item: genItem(id), Account: i.Account, Priority: priorityOf(i), LastActive: lastUse(i), Frees: u.needs.Of[genItem(id)].Unique, Kept: keptGeneration(g, newest),
			})
		}
	}
	return list
}

// order lists what may be evicted from an account ("" = from all), in that order. For all
// accounts, the data of accounts above their fair share comes first.
func (e *Engine) order(u *usage, account vm.AccountID) []storage.Candidate {
	var above map[vm.AccountID]int64
	if account == hostAccount {
		above = e.above(u)
	}
	return storage.Order(e.candidates(u, account), above)
}

// above is how many bytes each account has above its fair share of the budget.
func (e *Engine) above(u *usage) map[vm.AccountID]int64 {
	return storage.Above(u.accounts.Of, e.cfg.Settings.budget(u.have.DiskTotal))
}

// keptForItself reports whether a generation is a layer or a snapshot. Others are removed
// with the VMs that need them.
func keptForItself(i vm.Generation) bool {
	return (i.Why == vm.WhyLayer || i.Snapshot != "") && !i.Deleted && !i.Gone
}

// priorityOf is the priority of a layer, a turn or a snapshot. Layers go first, since they
// can be made again; snapshots go after all VMs.
func priorityOf(i vm.Generation) int {
	switch {
	case i.Why == vm.WhyTurn && i.Whole() && !i.NoMemory:
		return storage.TurnMemoryPriority
	case i.Why == vm.WhyTurn:
		return storage.TurnPriority
	case i.Snapshot == "":
		return storage.CachePriority
	}
	return storage.SnapshotPriority + storage.Priority(i.Persistence)
}

// keptGeneration returns why a layer, a turn or a snapshot may not be evicted; "" = it
// may. newest has the newest turn of each VM.
func keptGeneration(g *generation, newest map[vm.ID]vm.GenerationID) string {
	i := g.info
	switch {
	case newest[i.VM] == i.ID:
		return "the newest turn"
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

// keptWhyLocked returns why a VM may not be evicted; "" = it may.
func (e *Engine) keptWhyLocked(s *slot, busy bool) string {
	used := busy || s.doubt != nil || s.attached+s.byTraffic+s.waiting > 0 || s.waking != nil || e.claimedLocked(s.id)
	return storage.Kept(s.rec, len(s.holds()) > 0, used)
}

// Storage reports who uses the disk and what would be evicted next. Admins see
// everything. Others see their account, its quota as the budget, and what is free for
// them.
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

// accountsUse lists the use of each account, the largest first.
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

// itemsUse lists the use of each item, the largest first, including VMs without files.
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
		if c.Actor.Admin || cand.Account == c.Actor.Account { // the number of others' items is not shown
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
