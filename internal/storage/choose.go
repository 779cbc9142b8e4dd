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

// Candidate is a VM, a snapshot or a layer as the decision sees it.
type Candidate struct {
	Item       Item
	Priority   int // CachePriority, 0 to 10, or from SnapshotPriority on
	LastActive time.Time
	Frees      int64  // bytes that are free once it is gone
	Kept       string // why it may not go; "" = it may
	Account    vm.AccountID
}

// Kept says why a VM may not be let go, however short the disk is; "" = it may.
// held: somebody asked that it stay; used: somebody is at it now.
func Kept(rec vm.VM, held, used bool) string {
	switch {
	case rec.Persistence.Type == vm.Persistent:
		return "persistent"
	case rec.Persistence.Type == vm.Ephemeral:
		return "ephemeral" // its own event ends it
	case rec.State != vm.Stopped && rec.State != vm.Suspended:
		return string(rec.State)
	case held:
		return "held"
	case used:
		return "in use"
	}
	return ""
}

// CachePriority is that of what can be made again: it goes before all else.
const CachePriority = -1

// SnapshotPriority is added to a snapshot's own: snapshots go after all VMs.
const SnapshotPriority = 11

// Priority is that of what is sticky: the lower, the sooner it goes.
func Priority(p vm.Persistence) int {
	if p.Priority == nil {
		return *vm.DefaultPersistence().Priority
	}
	return *p.Priority
}

// Order returns those that may go, the first to go first: what accounts have
// above their fair share (above; nil = nobody does), then the rest; of each the
// lowest priority, then the oldest use.
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

// Above is what each account has above its fair share: an equal part of the
// budget, less what is nobody's, for every account that has anything.
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

// Choose says how many of the ordered must go for need bytes, and what that
// frees at least. What frees nothing is not chosen.
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

// Over is what must go: what is used above the budget, or what the disk lacks
// of its reserve, whichever is more. A budget of 0 is none.
func Over(used, budget, free, reserve int64) int64 {
	over := max(0, reserve-free)
	if budget > 0 {
		over = max(over, used-budget)
	}
	return over
}
