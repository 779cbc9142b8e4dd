// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

const (
	changeTries = 8 // of a write that meets other servers' writes
	// writeField carries the id of a write in the stored JSON. No record has a field
	// of that name.
	writeField = `"_write":"`
)

// writer orders the writes of one record. It is there while somebody writes.
type writer struct {
	turn chan struct{} // holds one: whose turn it is
	// guarded by the table's mu
	users    int
	write    string // the id of the write that is in progress; "" = none
	dropping bool   // a delete is in progress
	made     int64  // the revision of either, once the follower has told of it
}

// madeBy reports whether an event tells of the write that is in progress, and notes
// its revision. The caller holds the table's mu.
func (w *writer) madeBy(ev Event) bool {
	if w == nil || ev.Deleted && !w.dropping || !ev.Deleted && (w.write == "" || w.write != writeOf(ev.Value)) {
		return false
	}
	w.made = ev.Revision
	return true
}

// enter waits until no other write of the records is in progress, and keeps others
// from writing them until leave is called. The writers are in no order.
func (t *Table[K, T]) enter(ctx context.Context, ids ...K) (ws []*writer, leave func(), err error) {
	ordered := slices.Sorted(slices.Values(ids)) // whoever wants several takes them in this order
	if n := len(slices.Compact(slices.Clone(ordered))); n < len(ids) {
		return nil, nil, vm.Errorf(vm.Internal, string(ids[0]), "one change of %s names a record twice", t.kind.Name)
	}
	taken := 0
	leave = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for i, id := range ordered {
			w := t.writing[id]
			if i < taken {
				w.write, w.dropping = "", false
				<-w.turn
			}
			if w.users--; w.users == 0 {
				delete(t.writing, id)
			}
		}
	}
	t.mu.Lock()
	for _, id := range ordered {
		if t.writing[id] == nil {
			t.writing[id] = &writer{turn: make(chan struct{}, 1)}
		}
		t.writing[id].users++
		ws = append(ws, t.writing[id])
	}
	t.mu.Unlock()
	for _, w := range ws {
		if err := w.wait(ctx); err != nil {
			leave()
			return nil, nil, err
		}
		taken++
	}
	return ws, leave, nil
}

func (w *writer) wait(ctx context.Context) error {
	if ctx.Err() != nil { // nothing is written for a caller that is gone
		return context.Cause(ctx)
	}
	select {
	case w.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// createBy stores a new record. Its owner's reservation ends with it.
func (t *Table[K, T]) createBy(ctx context.Context, w *writer, id K, rec T) (err error) {
	made, given := int64(0), ""
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.countLocked(&rec, -1)
		if err == nil {
			t.put(id, row[T]{rec, made})
			delete(t.unwanted.writes, given)
		}
	}()
	over := int64(0) // the revision of a record of an earlier create, whose caller was told that it failed
	for range changeTries {
		value, write, err := t.encode(id, &rec)
		if err != nil {
			return err
		}
		made, err = t.write(ctx, write, true, []*writer{w}, Op{Kind: t.kind.Name, ID: string(id), Value: value, Revision: over})
		if kind := vm.KindOf(err); kind != vm.Exists && (over == 0 || kind != vm.Busy && kind != vm.NotFound) {
			return err
		}
		e, found, lookErr := t.look(ctx, id)
		switch {
		case lookErr != nil:
			return err
		case !found:
			over, given = 0, ""
		case !t.gaveUp(e):
			t.learn(Event{Entry: e}, false)
			return vm.Errorf(vm.Exists, string(id), "there is such a record in %s already", t.kind.Name)
		default:
			over, given = e.Revision, writeOf(e.Value)
		}
	}
	return t.busy(id)
}

func (t *Table[K, T]) changeAllBy(ctx context.Context, ws []*writer, ids []K, f func(i int, rec *T) error) ([]T, error) {
	for range changeTries {
		was, err := t.current(ids)
		if err != nil {
			return recsOf(was), err
		}
		ops, recs, write, err := t.changed(ids, was, f)
		if err != nil {
			return recsOf(was), err
		}
		made, err := t.write(ctx, write, false, ws, ops...)
		if kind := vm.KindOf(err); err != nil && kind != vm.Busy && kind != vm.NotFound {
			return recsOf(was), err
		}
		if err == nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			for i, id := range ids {
				t.put(id, row[T]{recs[i], made})
			}
			return recs, nil
		}
		if !t.refresh(ctx, ids) {
			return recsOf(was), err
		}
	}
	was, _ := t.current(ids)
	return recsOf(was), t.busy(ids[0])
}

// current returns records as memory has them.
func (t *Table[K, T]) current(ids []K) (rows []row[T], err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	rows = make([]row[T], len(ids))
	for i, id := range ids {
		r, ok := t.rows[id]
		if rows[i] = r; err != nil {
			continue
		}
		if bad, unreadable := t.bad[id]; unreadable {
			err = bad.Err
		} else if !ok {
			err = t.notFound(id)
		}
	}
	return rows, err
}

// changed returns what f makes of records and the writes that store it. The writes
// are one: they have one id.
func (t *Table[K, T]) changed(ids []K, was []row[T], f func(i int, rec *T) error) (ops []Op, recs []T, write string, err error) {
	recs = recsOf(was)
	write = newWrite()
	for i, id := range ids {
		if err := f(i, &recs[i]); err != nil {
			return nil, nil, "", err
		}
		if t.kind.Host != nil {
			*t.kind.Host(&recs[i]) = t.l.host
		}
		value, err := t.encodeAs(write, id, &recs[i])
		if err != nil {
			return nil, nil, "", err
		}
		ops = append(ops, Op{Kind: t.kind.Name, ID: string(id), Value: value, Revision: was[i].revision})
	}
	return ops, recs, write, nil
}

func recsOf[T any](rows []row[T]) []T {
	out := make([]T, len(rows))
	for i := range rows {
		out[i] = rows[i].rec
	}
	return out
}

func (t *Table[K, T]) dropBy(ctx context.Context, w *writer, id K) error {
	for range changeTries {
		t.mu.RLock()
		revision := max(t.rows[id].revision, t.bad[id].Revision)
		t.mu.RUnlock()
		if revision == 0 {
			return nil
		}
		made, err := t.delete(ctx, w, id, revision)
		if err == nil {
			t.gone(id, made, true)
			return nil
		}
		if kind := vm.KindOf(err); kind != vm.Busy && kind != vm.NotFound || !t.refresh(ctx, []K{id}) {
			return err
		}
	}
	return t.busy(id)
}

func (t *Table[K, T]) busy(id K) error {
	return vm.Errorf(vm.Busy, string(id), "the record in %s was changed meanwhile", t.kind.Name).WithHint("try again")
}

// encode returns the stored form of a record, with the id of a new write.
func (t *Table[K, T]) encode(id K, rec *T) (value []byte, write string, err error) {
	write = newWrite()
	value, err = t.encodeAs(write, id, rec)
	return value, write, err
}

func (t *Table[K, T]) encodeAs(write string, id K, rec *T) (value []byte, err error) {
	value, err = json.Marshal(rec)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, string(id), "record of %s: %w", t.kind.Name, err)
	}
	field := writeField + write + `"`
	if !bytes.Equal(value, []byte("{}")) {
		field = "," + field
	}
	return append(value[:len(value)-1], field+"}"...), nil
}

func newWrite() string { return strings.ToLower(rand.Text()[:16]) }

// writeOf is the id of the write that made a stored record; "" where an older
// warren wrote it.
func writeOf(value []byte) string {
	i := bytes.LastIndex(value, []byte(writeField))
	if i < 0 {
		return ""
	}
	id, _, _ := bytes.Cut(value[i+len(writeField):], []byte(`"`))
	return string(id)
}
