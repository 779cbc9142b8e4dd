// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"slices"
	"sync"

	"github.com/warren-vm/warren/vm"
)

// Kind describes the records of one table.
type Kind[K ~string, T any] struct {
	Name string     // in the store, e.g. "accounts"
	Key  func(*T) K // the id of a record; it never changes
	// Host is where a record says which server it belongs to; nil = the records of
	// this kind belong to all servers. A table shows no record of another server.
	// For a record without a host see Ledger.LeaveUnclaimed.
	Host func(*T) *string
	// Index gives the values under which By finds a record, by the index's name.
	Index map[string]func(*T) []string
	// Limit bounds how many records each owner has; the zero value does not.
	Limit Limit[T]
	// Changed is called after memory took over what another server wrote, or what a
	// lost answer had hidden; was or now is nil where there was or is no record. A
	// goroutine of the ledger calls it, for one change after the other; it may take
	// locks and use tables. nil = nobody wants to know.
	Changed func(was, now *T)
}

// Table keeps one kind of record. All methods may be called at once from many
// goroutines. Records that it returns share slices and maps with the table's own:
// a change replaces them and never writes into them.
type Table[K ~string, T any] struct {
	l    *Ledger
	kind Kind[K, T]

	mu sync.RWMutex
	// guarded by mu
	rows  map[K]row[T]
	ids   []K                       // of rows, ordered
	index map[string]map[string][]K // ids by the index's name and the value, ordered
	owned map[string]int            // rows and creates in progress, by owner; see Limit
	bad   map[K]Unreadable
	// seen is a revision: memory shows every change of this kind up to it.
	seen int64
	// dropped are ids of which the store had no record at a revision after seen.
	dropped  map[K]int64
	writing  map[K]*writer
	unwanted unwanted
}

// row is one record as it is stored.
type row[T any] struct {
	rec      T
	revision int64
}

// Unreadable is a stored record that cannot be decoded.
type Unreadable struct {
	Entry
	Err error // kind Corrupt
}

// Add makes a table and gives it to the ledger, which has not been loaded yet.
func Add[K ~string, T any](l *Ledger, kind Kind[K, T]) *Table[K, T] {
	t := &Table[K, T]{
		l: l, kind: kind, rows: map[K]row[T]{}, index: map[string]map[string][]K{}, owned: map[string]int{},
		bad: map[K]Unreadable{}, dropped: map[K]int64{}, writing: map[K]*writer{},
	}
	for name := range kind.Index {
		t.index[name] = map[string][]K{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tables[kind.Name] = t
	return t
}

// Get returns one record.
func (t *Table[K, T]) Get(id K) (rec T, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r, ok := t.rows[id]
	return r.rec, ok
}

// Len is the number of records.
func (t *Table[K, T]) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.rows)
}

// All returns every record, ordered by id.
func (t *Table[K, T]) All() []T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.pick(t.ids)
}

// By returns the records that have the value in the index, ordered by id.
func (t *Table[K, T]) By(index, value string) []T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.pick(t.index[index][value])
}

func (t *Table[K, T]) pick(ids []K) []T {
	out := make([]T, len(ids))
	for i, id := range ids {
		out[i] = t.rows[id].rec
	}
	return out
}

// Unreadable returns the stored records that cannot be decoded, ordered by id.
// They stay in the store; Drop removes them.
func (t *Table[K, T]) Unreadable() []Unreadable {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []Unreadable
	for _, id := range sortedKeys(t.bad) {
		out = append(out, t.bad[id])
	}
	return out
}

// Create stores a new record durably. It blocks for a write. Kinds: Exists when
// the id is taken, Limit above MaxRecord and above the kind's Limit, NoSpace when
// the store is full, Unavailable when it does not answer: the record is not there
// then, and is removed should it turn out later that it was stored.
func (t *Table[K, T]) Create(ctx context.Context, rec T) error {
	if t.kind.Host != nil {
		*t.kind.Host(&rec) = t.l.host
	}
	id := t.kind.Key(&rec)
	if err := t.reserve(&rec); err != nil {
		return err
	}
	ws, leave, err := t.enter(ctx, id)
	if err != nil {
		t.count(&rec, -1)
		return err
	}
	defer leave()
	return t.createBy(ctx, ws[0], id, rec)
}

// Change replaces a record durably by what f makes of it, and returns it. f works
// on a copy, may be called more than once, and its error is returned as it is: then
// nothing changes. Kinds: NotFound, Corrupt (the stored record cannot be decoded),
// Busy when other servers keep changing the record, and those of Create; after
// Unavailable the change may turn up later.
func (t *Table[K, T]) Change(ctx context.Context, id K, f func(*T) error) (T, error) {
	recs, err := t.ChangeAll(ctx, []K{id}, func(_ int, rec *T) error { return f(rec) })
	return recs[0], err
}

// ChangeAll is Change of several records, all or none; f is called for each, with
// its place in ids, which names none twice. With an error the records are those
// before the change. Kind Limit, too, when they are too many or too large for one
// write: an embedded store takes 2,048 of 8 MiB, a cluster what it was set to.
func (t *Table[K, T]) ChangeAll(ctx context.Context, ids []K, f func(i int, rec *T) error) ([]T, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ws, leave, err := t.enter(ctx, ids...)
	if err != nil {
		return make([]T, len(ids)), err
	}
	defer leave()
	return t.changeAllBy(ctx, ws, ids, f)
}

// Drop removes a record durably, also one that cannot be decoded, and also when
// another server has changed it. It is no error when there is none.
func (t *Table[K, T]) Drop(ctx context.Context, id K) error {
	ws, leave, err := t.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	return t.dropBy(ctx, ws[0], id)
}

// mine reports whether a record belongs to this server.
func (t *Table[K, T]) mine(rec *T) bool {
	if t.kind.Host == nil {
		return true
	}
	return t.l.Owns(*t.kind.Host(rec))
}

// notFound says that there is no such record.
func (t *Table[K, T]) notFound(id K) error {
	return vm.Errorf(vm.NotFound, string(id), "no such record in %s", t.kind.Name)
}

// sortedKeys are the keys of a map in order.
func sortedKeys[K ~string, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
