// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Candidate is a VM, a snapshot or a layer that may be removed.
type Candidate struct {
	Item       Item
	Priority   int // one of those below 0, 0 to 10, or from SnapshotPriority on
	LastActive time.Time
	Frees      int64  // bytes that its removal frees
	Kept       string // why it must stay; "" = it may be removed
	Account    vm.AccountID
}

// Kept returns why a VM must not be removed, however short the disk is; "" = it
// may. held: it has a hold; used: a call or operation uses it now.
func Kept(rec vm.VM, held, used bool) string {
	switch {
	case rec.Persistence.Type == vm.Persistent:
		return "persistent"
	case rec.Persistence.Type == vm.Ephemeral:
		return "ephemeral" // its own event deletes it
	case rec.State != vm.Stopped && rec.State != vm.Suspended:
		return string(rec.State)
	case held:
		return "held"
	case used:
		return "in use"
	}
	return ""
}

// The priorities of what goes before all VMs: first what can be made again, then the
// memory of turns, then their disks.
const (
	CachePriority      = -3
	TurnMemoryPriority = -2
	TurnPriority       = -1
)

// SnapshotPriority is added to a snapshot's own: snapshots are removed after all
// VMs.
const SnapshotPriority = 11

// Priority is the priority of a sticky thing: the lowest is removed first.
func Priority(p vm.Persistence) int {
	if p.Priority == nil {
		return *vm.DefaultPersistence().Priority
	}
	return *p.Priority
}

// Order returns the candidates that may be removed, the first to remove first:
// things of accounts above their fair share (above; nil = none), then the rest; in
// each part the lowest priority first, then the longest unused.
func Order(list []Candidate, above map[vm.AccountID]int64) []Candidate {
	may := make([]Candidate, 0, len(list))
	for _, c := range list {
		if c.Kept == "" {
			may = append(may, c)
		}
	}
	slices.SortFunc(may, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.LastActive.Compare(b.LastActive), cmp.Compare(a.Item.Kind, b.Item.Kind), cmp.Compare(a.Item.ID, b.Item.ID))
	})
	left := maps.Clone(above)
	first, then := make([]Candidate, 0, len(may)), make([]Candidate, 0, len(may))
	for _, c := range may {
		if left[c.Account] <= 0 {
			then = append(then, c)
			continue
		}
		left[c.Account] -= c.Frees
		first = append(first, c)
	}
	return append(first, then...)
}

// Above returns how much each account has above its fair share: an equal part of
// the budget, less what belongs to no account, for every account that has anything.
func Above(has map[vm.AccountID]vm.Bytes, budget int64) map[vm.AccountID]int64 {
	n := int64(0)
	for id, b := range has {
		if id != "" && b.Unique > 0 {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	share := max(0, budget-has[""].Unique) / n
	above := map[vm.AccountID]int64{}
	for id, b := range has {
		if id != "" && b.Unique > share {
			above[id] = b.Unique - share
		}
	}
	return above
}

// Choose returns how many of the ordered candidates must be removed for need bytes,
// and what that frees at least. It skips candidates that free nothing.
func Choose(ordered []Candidate, need int64) (chosen []Candidate, frees int64) {
	for _, c := range ordered {
		if frees >= need {
			break
		}
		if c.Frees > 0 {
			chosen, frees = append(chosen, c), frees+c.Frees
		}
	}
	return chosen, frees
}

// Over returns how many bytes must be freed: the use above the budget, or what the
// disk lacks of its reserve, whichever is more. A budget of 0 is none.
func Over(used, budget, free, reserve int64) int64 {
	over := max(0, reserve-free)
	if budget > 0 {
		over = max(over, used-budget)
	}
	return over
}
