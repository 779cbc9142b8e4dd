// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"

	"github.com/warren-vm/warren/vm"
)

// Limit is how many records of one kind each owner may have: the store is one
// for all, and no owner may fill it.
type Limit[T any] struct {
	Most  int             // 0 = no limit
	Owner func(*T) string // whose a record is
	What  string          // the records in words, e.g. "keys"
	Then  string          // what makes room: the hint of the error
	Code  string          // of the error; "" = LIMIT_EXCEEDED
}

// reserve counts a record that is about to be created, unless its owner has as
// many as it may.
func (t *Table[K, T]) reserve(rec *T) error {
	l := t.kind.Limit
	if l.Most == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.owned[l.Owner(rec)]; have >= l.Most {
		return vm.Errorf(vm.Limit, "", "the account may have %d %s and has %d", l.Most, l.What, have).
			WithCode(cmp.Or(l.Code, "LIMIT_EXCEEDED"), "limit", l.Most, "current", have).WithHint("%s", l.Then)
	}
	t.countLocked(rec, 1)
	return nil
}

func (t *Table[K, T]) count(rec *T, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.countLocked(rec, n)
}

func (t *Table[K, T]) countLocked(rec *T, n int) {
	if t.kind.Limit.Most == 0 {
		return
	}
	owner := t.kind.Limit.Owner(rec)
	if t.owned[owner] += n; t.owned[owner] == 0 {
		delete(t.owned, owner)
	}
}
