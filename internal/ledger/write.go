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
	changeTries = 8 // of a change that meets other servers' writes
	maxTried    = 8 // writes whose outcome is not known, of one record
	// writeField carries the id of a write in the stored JSON. No record has a field
	// of that name.
	writeField = `"_write":"`
)

// writer orders the writes of one record. It is there while somebody writes, or
// the outcome of a write is not known.
type writer struct {
	turn  chan struct{} // holds one: whose turn it is
	users int           // guarded by the table's mu
	// tried are the ids of writes whose outcome is not known. unwanted are those
	// among them that are to be removed again. Both belong to who has the turn.
	tried    []string
	unwanted string
}

// alone runs f when no other write of the record is under way.
func (t *Table[K, T]) alone(ctx context.Context, id K, f func(w *writer) error) error {
	t.mu.Lock()
	w := t.writing[id]
	if w == nil {
		w = &writer{turn: make(chan struct{}, 1)}
		t.writing[id] = w
	}
	w.users++
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if w.users--; w.users == 0 && len(w.tried) == 0 {
			delete(t.writing, id)
		}
	}()
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-w.turn }()
	return f(w)
}

func (t *Table[K, T]) create(ctx context.Context, w *writer, id K, rec T) error {
	if t.kind.Host != nil {
		*t.kind.Host(&rec) = t.l.host
	}
	value, write, err := t.encode(id, &rec)
	if err != nil {
		return err
	}
	rev, err := t.write(ctx, Op{Kind: t.kind.Name, ID: string(id), Value: value})
	if err != nil && (vm.KindOf(err) == vm.Exists || !decided(err)) {
		e, found, lerr := t.look(ctx, id)
		switch {
		case lerr != nil && !decided(err):
			w.tried, w.unwanted = append(w.tried, write), write
			return err
		case lerr != nil:
			return err
		case found && writeOf(e.Value) == write:
			rev, err = e.Revision, nil
		case found && slices.Contains(w.tried, writeOf(e.Value)): // of an earlier create that failed
			if rev, err = t.write(ctx, Op{Kind: t.kind.Name, ID: string(id), Value: value, Revision: e.Revision}); err != nil {
				return err
			}
		default:
			return err
		}
	}
	if err != nil {
		return err
	}
	w.tried, w.unwanted = nil, ""
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(id, row[T]{rec, rev})
	return nil
}

func (t *Table[K, T]) change(ctx context.Context, w *writer, id K, f func(*T) error) (rec T, err error) {
	for range changeTries {
		t.mu.RLock()
		r, ok := t.rows[id]
		t.mu.RUnlock()
		if !ok {
			return rec, t.notFound(id)
		}
		rec = r.rec
		if err := f(&rec); err != nil {
			return r.rec, err
		}
		if t.kind.Host != nil {
			*t.kind.Host(&rec) = t.l.host
		}
		value, write, err := t.encode(id, &rec)
		if err != nil {
			return r.rec, err
		}
		rev, err := t.write(ctx, Op{Kind: t.kind.Name, ID: string(id), Value: value, Revision: r.revision})
		if err != nil {
			again, newer, lerr := t.missed(ctx, w, id, write, err)
			if lerr != nil {
				return r.rec, lerr
			}
			if again {
				continue
			}
			rev = newer
		}
		w.tried = nil
		t.mu.Lock()
		t.put(id, row[T]{rec, rev})
		t.mu.Unlock()
		return rec, nil
	}
	return rec, vm.Errorf(vm.Busy, string(id), "the record in %s was changed meanwhile", t.kind.Name).WithHint("try again")
}

// missed finds out what became of a change whose write failed with err: again, the
// store has another record, which memory has taken over; revision, the write is
// stored; else the error to return.
func (t *Table[K, T]) missed(ctx context.Context, w *writer, id K, write string, err error) (again bool, revision int64, _ error) {
	sure := decided(err)
	if sure && vm.KindOf(err) != vm.Busy && vm.KindOf(err) != vm.NotFound {
		return false, 0, err
	}
	e, found, lerr := t.look(ctx, id)
	switch {
	case lerr != nil && !sure:
		w.tried = append(w.tried, write)
		w.tried = w.tried[max(0, len(w.tried)-maxTried):]
		return false, 0, err
	case lerr != nil:
		return false, 0, err
	case found && writeOf(e.Value) == write:
		return false, e.Revision, nil
	case !found:
		t.gone(id)
		return false, 0, t.notFound(id)
	}
	t.take(Event{Entry: e})
	if !sure { // it was not made, and may be made yet: the revision that it expects may still be there
		w.tried = append(w.tried, write)
		return false, 0, err
	}
	return true, 0, nil
}

func (t *Table[K, T]) drop(ctx context.Context, w *writer, id K) error {
	for range changeTries {
		t.mu.RLock()
		r, ok := t.rows[id]
		t.mu.RUnlock()
		if !ok {
			return nil
		}
		rev, err := t.write(ctx, Op{Kind: t.kind.Name, ID: string(id), Revision: r.revision, Delete: true})
		if err == nil {
			t.mu.Lock()
			t.remove(id, rev)
			t.dropped[id] = rev
			t.mu.Unlock()
			w.tried = nil
			return nil
		}
		if decided(err) && vm.KindOf(err) != vm.Busy && vm.KindOf(err) != vm.NotFound {
			return err
		}
		e, found, lerr := t.look(ctx, id)
		switch {
		case lerr != nil:
			return err
		case !found:
			t.gone(id)
			w.tried = nil
			return nil
		case !decided(err):
			return err
		}
		t.take(Event{Entry: e})
	}
	return vm.Errorf(vm.Busy, string(id), "the record in %s was changed meanwhile", t.kind.Name).WithHint("try again")
}

// gone takes a record out of memory that the store does not have any more.
func (t *Table[K, T]) gone(id K) {
	t.mu.Lock()
	r, ok := t.rows[id]
	var was *T
	if ok {
		was, _ = t.remove(id, r.revision)
	}
	t.mu.Unlock()
	if was != nil && t.kind.Changed != nil {
		t.kind.Changed(was, nil)
	}
}

// take takes over what the store has, unless memory has it already.
func (t *Table[K, T]) take(ev Event) {
	id := K(ev.ID)
	t.mu.Lock()
	r, ok := t.rows[id]
	if ev.Deleted && t.dropped[id] <= ev.Revision {
		delete(t.dropped, id)
	}
	t.mu.Unlock()
	if ok && r.revision >= ev.Revision || !ok && ev.Deleted {
		return
	}
	var rec T
	if !ev.Deleted {
		if err := json.Unmarshal(ev.Value, &rec); err != nil {
			t.l.log.Error("a record that changed cannot be read", "kind", t.kind.Name, "id", ev.ID, "err", err)
			return
		}
	}
	t.mu.Lock()
	var was, now *T
	var taken bool
	if ev.Deleted || !t.mine(&rec) {
		was, taken = t.remove(id, ev.Revision)
	} else {
		was, taken = t.put(id, row[T]{rec, ev.Revision})
		now = &rec
	}
	t.mu.Unlock()
	if taken && t.kind.Changed != nil {
		t.kind.Changed(was, now)
	}
}

// load reads every record and drops from memory those that are gone.
func (t *Table[K, T]) load(ctx context.Context) (int64, error) {
	entries, revision, err := t.l.backend.ReadAll(ctx, t.kind.Name)
	if err != nil {
		return 0, err
	}
	there := map[K]bool{}
	var bad []Unreadable
	for _, e := range entries {
		var rec T
		if err := json.Unmarshal(e.Value, &rec); err != nil {
			bad = append(bad, Unreadable{e, vm.Errorf(vm.Corrupt, t.kind.Name, "a record cannot be read: %w", err).
				WithHint("it was damaged, or written by a newer warren")})
			continue
		}
		there[K(e.ID)] = true
		t.take(Event{Entry: e})
	}
	t.mu.Lock()
	t.bad = bad
	var old []K
	for id, r := range t.rows {
		if !there[id] && r.revision <= revision {
			old = append(old, id)
		}
	}
	t.mu.Unlock()
	for _, id := range old {
		t.gone(id)
	}
	return revision, nil
}

// write is the backend's, with a deadline of its own: a caller that goes away must
// not leave a write behind whose outcome nobody knows.
func (t *Table[K, T]) write(ctx context.Context, op Op) (int64, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), writeDeadline)
	defer stop()
	return t.l.backend.Write(ctx, op)
}

func (t *Table[K, T]) look(ctx context.Context, id K) (e Entry, found bool, err error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), lookDeadline)
	defer stop()
	e, err = t.l.backend.Read(ctx, t.kind.Name, string(id))
	if vm.KindOf(err) == vm.NotFound {
		return e, false, nil
	}
	return e, err == nil, err
}

// encode returns the stored form of a record, with the id of a new write.
func (t *Table[K, T]) encode(id K, rec *T) (value []byte, write string, err error) {
	value, err = json.Marshal(rec)
	if err != nil {
		return nil, "", vm.Errorf(vm.Internal, string(id), "record of %s: %w", t.kind.Name, err)
	}
	write = strings.ToLower(rand.Text()[:16])
	field := writeField + write + `"`
	if !bytes.Equal(value, []byte("{}")) {
		field = "," + field
	}
	value = append(value[:len(value)-1], field+"}"...)
	if len(value) > MaxRecord {
		return nil, "", vm.Errorf(vm.Limit, string(id), "the record in %s would have %d bytes, at most %d", t.kind.Name, len(value), MaxRecord).
			WithCode("LIMIT_EXCEEDED", "limit", MaxRecord, "requested", len(value)).
			WithHint("remove some of what belongs to it, or give shorter names and paths")
	}
	return value, write, nil
}

// writeOf is the id of the write that made a stored record; "" where an older
// warren wrote it.
func writeOf(value []byte) string {
	i := bytes.LastIndex(value, []byte(writeField))
	if i < 0 {
		return ""
	}
	id, _, _ := strings.Cut(string(value[i+len(writeField):]), `"`)
	return id
}

// decided reports whether a failed write was certainly not made.
func decided(err error) bool {
	switch vm.KindOf(err) {
	case vm.Busy, vm.NotFound, vm.Exists, vm.Limit, vm.NoSpace, vm.Invalid:
		return true
	}
	return false
}
