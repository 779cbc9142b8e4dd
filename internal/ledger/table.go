// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/warren-vm/warren/vm"
)

// Kind describes the records of one table.
type Kind[K ~string, T any] struct {
	Name string     // in the store, e.g. "accounts"
	Key  func(*T) K // the id of a record; it never changes
	// Host is where a record says which server it belongs to; nil = the records of
	// this kind belong to all servers. A table shows no record of another server. A
	// record without a host, written by an older warren, counts as this server's.
	Host func(*T) *string
	// Index gives the values under which By finds a record, by the index's name.
	Index map[string]func(*T) []string
	// Limit bounds how many records each owner has; the zero value does not.
	Limit Limit[T]
	// Changed is called after memory took over what another server wrote, or what a
	// lost answer had hidden; was or now is nil where there was or is no record. It
	// may read the table and must not change it. nil = nobody wants to know.
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
	rows    map[K]row[T]
	dropped map[K]int64 // revisions of deletes that the follower has not told yet
	index   map[string]map[string]map[K]bool
	writing map[K]*writer
	bad     []Unreadable
	owned   map[string]int // rows and creates under way, by owner; see Limit
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
	t := &Table[K, T]{l: l, kind: kind, rows: map[K]row[T]{}, dropped: map[K]int64{}, writing: map[K]*writer{}, owned: map[string]int{}}
	t.index = map[string]map[string]map[K]bool{}
	for name := range kind.Index {
		t.index[name] = map[string]map[K]bool{}
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
	return t.pick(maps.Keys(t.rows), len(t.rows))
}

// By returns the records that have the value in the index, ordered by id.
func (t *Table[K, T]) By(index, value string) []T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	ids := t.index[index][value]
	return t.pick(maps.Keys(ids), len(ids))
}

func (t *Table[K, T]) pick(ids func(func(K) bool), n int) []T {
	out := make([]T, 0, n)
	for id := range ids {
		out = append(out, t.rows[id].rec)
	}
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(t.kind.Key(&a), t.kind.Key(&b)) })
	return out
}

// Unreadable returns the stored records that could not be decoded when the table
// was loaded. They stay in the store.
func (t *Table[K, T]) Unreadable() []Unreadable {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Clone(t.bad)
}

// Create stores a new record durably. It blocks for a write. Kinds: Exists when
// the id is taken, Limit above MaxRecord and above the kind's Limit, NoSpace when the store is full,
// Unavailable when it does not answer: the record is not there then, and is
// removed should it turn out later that it was stored.
func (t *Table[K, T]) Create(ctx context.Context, rec T) error {
	id := t.kind.Key(&rec)
	if err := t.reserve(&rec); err != nil {
		return err
	}
	defer t.count(&rec, -1)
	return t.alone(ctx, id, func(w *writer) error { return t.create(ctx, w, id, rec) })
}

// Change replaces a record durably by what f makes of it, and returns it. f works
// on a copy, may be called more than once, and its error is returned as it is: then
// nothing changes. Kinds: NotFound, Busy when other servers keep changing the
// record, and those of Create; after Unavailable the change may turn up later.
func (t *Table[K, T]) Change(ctx context.Context, id K, f func(*T) error) (T, error) {
	var out T
	err := t.alone(ctx, id, func(w *writer) (err error) {
		out, err = t.change(ctx, w, id, f)
		return err
	})
	return out, err
}

// Drop removes a record durably. It is no error when there is none.
func (t *Table[K, T]) Drop(ctx context.Context, id K) error {
	return t.alone(ctx, id, func(w *writer) error { return t.drop(ctx, w, id) })
}

// put takes a record into memory unless memory has a newer one. It returns what
// was there and whether it was replaced. The caller holds mu.
func (t *Table[K, T]) put(id K, r row[T]) (was *T, taken bool) {
	old, had := t.rows[id]
	if had && old.revision >= r.revision || t.dropped[id] >= r.revision {
		return nil, false
	}
	if had {
		was = &old.rec
		t.unlist(id, was)
	}
	t.rows[id] = r
	t.list(id, &r.rec)
	return was, true
}

// remove takes a record out of memory unless memory has a newer one. The caller
// holds mu.
func (t *Table[K, T]) remove(id K, revision int64) (was *T, taken bool) {
	old, had := t.rows[id]
	if !had || old.revision > revision {
		return nil, false
	}
	t.unlist(id, &old.rec)
	delete(t.rows, id)
	return &old.rec, true
}

func (t *Table[K, T]) list(id K, rec *T) {
	t.countLocked(rec, 1)
	for name, values := range t.kind.Index {
		for _, v := range values(rec) {
			if t.index[name][v] == nil {
				t.index[name][v] = map[K]bool{}
			}
			t.index[name][v][id] = true
		}
	}
}

func (t *Table[K, T]) unlist(id K, rec *T) {
	t.countLocked(rec, -1)
	for name, values := range t.kind.Index {
		for _, v := range values(rec) {
			ids := t.index[name][v]
			if delete(ids, id); len(ids) == 0 {
				delete(t.index[name], v)
			}
		}
	}
}

// mine reports whether a record belongs to this server.
func (t *Table[K, T]) mine(rec *T) bool {
	if t.kind.Host == nil {
		return true
	}
	h := *t.kind.Host(rec)
	return h == "" || h == t.l.host
}

// notFound says that there is no such record.
func (t *Table[K, T]) notFound(id K) error {
	return vm.Errorf(vm.NotFound, string(id), "no such record in %s", t.kind.Name)
}
