// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
)

// AnyTable is a table for tests that run for every kind. Its records are *T.
type AnyTable interface {
	Kind() string
	// Again adds a table of the same kind to another ledger. changed is called in
	// place of the kind's own function.
	Again(l *Ledger, changed func(was, now any)) AnyTable
	Blank() any
	Key(rec any) string
	Host(rec any) *string // nil = the kind has no host
	Get(id string) (rec any, ok bool)
	Drop(ctx context.Context, id string) error
	Unreadable() []Unreadable
	CreateAny(ctx context.Context, rec any) error
	ChangeAny(ctx context.Context, ids []string, f func(i int, rec any) error) error
	Indexed(rec any) bool // By finds the record by each of its values
	// Limit is how many records each owner may have; 0 = any number.
	Limit() (most int, what, then, code string)
	// SetOwned says how many records the owner of a record has.
	SetOwned(rec any, n int)
	Kept() (writing, dropped, unwanted int)
}

type anyTable[K ~string, T any] struct{ *Table[K, T] }

func (t *Table[K, T]) any() AnyTable { return anyTable[K, T]{t} }

// Tables are those of a ledger, ordered by kind.
func Tables(l *Ledger) (out []AnyTable) {
	for _, name := range slices.Sorted(maps.Keys(l.tables)) {
		out = append(out, l.tables[name].(interface{ any() AnyTable }).any())
	}
	return out
}

func (t anyTable[K, T]) Kind() string { return t.kind.Name }

func (t anyTable[K, T]) Again(l *Ledger, changed func(was, now any)) AnyTable {
	kind := t.kind
	kind.Changed = func(was, now *T) {
		var w, n any
		if was != nil {
			w = was
		}
		if now != nil {
			n = now
		}
		changed(w, n)
	}
	return anyTable[K, T]{Add(l, kind)}
}

func (t anyTable[K, T]) Blank() any         { return new(T) }
func (t anyTable[K, T]) Key(rec any) string { return string(t.kind.Key(rec.(*T))) }

func (t anyTable[K, T]) Host(rec any) *string {
	if t.kind.Host == nil {
		return nil
	}
	return t.kind.Host(rec.(*T))
}

func (t anyTable[K, T]) Get(id string) (any, bool) {
	rec, ok := t.Table.Get(K(id))
	return &rec, ok
}

func (t anyTable[K, T]) Drop(ctx context.Context, id string) error { return t.Table.Drop(ctx, K(id)) }

func (t anyTable[K, T]) CreateAny(ctx context.Context, rec any) error {
	return t.Create(ctx, *rec.(*T))
}

func (t anyTable[K, T]) ChangeAny(ctx context.Context, ids []string, f func(i int, rec any) error) error {
	if len(ids) == 1 {
		_, err := t.Change(ctx, K(ids[0]), func(rec *T) error { return f(0, rec) })
		return err
	}
	var list []K
	for _, id := range ids {
		list = append(list, K(id))
	}
	_, err := t.ChangeAll(ctx, list, func(i int, rec *T) error { return f(i, rec) })
	return err
}

func (t anyTable[K, T]) Indexed(rec any) bool {
	want, _ := json.Marshal(rec)
	for name, values := range t.kind.Index {
		for _, v := range values(rec.(*T)) {
			if !slices.ContainsFunc(t.By(name, v), func(r T) bool {
				have, _ := json.Marshal(r)
				return string(have) == string(want)
			}) {
				return false
			}
		}
	}
	return true
}

func (t anyTable[K, T]) Limit() (most int, what, then, code string) {
	l := t.kind.Limit
	return l.Most, l.What, l.Then, l.Code
}

func (t anyTable[K, T]) SetOwned(rec any, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owned[t.kind.Limit.Owner(rec.(*T))] = n
}

func (t anyTable[K, T]) Kept() (writing, dropped, unwanted int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.writing), len(t.dropped), len(t.Table.unwanted.writes)
}
