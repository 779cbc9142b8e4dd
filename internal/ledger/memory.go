// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// put takes a record into memory unless memory shows a newer state of it. The
// caller holds mu.
func (t *Table[K, T]) put(id K, r row[T]) (was *T, taken bool) {
	if t.stale(id, r.revision) {
		return nil, false
	}
	was = t.remove(id)
	t.rows[id] = r
	t.ids = with(t.ids, id)
	t.countLocked(&r.rec, 1)
	for name, values := range t.kind.Index {
		for _, v := range values(&r.rec) {
			t.index[name][v] = with(t.index[name][v], id)
		}
	}
	return was, true
}

// remove takes a record out of memory and returns it; nil = there was none. The
// caller holds mu.
func (t *Table[K, T]) remove(id K) (was *T) {
	delete(t.bad, id)
	r, ok := t.rows[id]
	if !ok {
		return nil
	}
	delete(t.rows, id)
	t.ids = without(t.ids, id)
	t.countLocked(&r.rec, -1)
	for name, values := range t.kind.Index {
		for _, v := range values(&r.rec) {
			if t.index[name][v] = without(t.index[name][v], id); len(t.index[name][v]) == 0 {
				delete(t.index[name], v)
			}
		}
	}
	return &r.rec
}

// stale reports whether memory shows the state of a record at a revision, or a
// newer one. The caller holds mu.
func (t *Table[K, T]) stale(id K, revision int64) bool {
	return revision <= max(t.seen, t.rows[id].revision, t.bad[id].Revision, t.dropped[id])
}

// follow takes over a change that the store tells of. All earlier ones were told
// before.
func (t *Table[K, T]) follow(ev Event) {
	t.learn(ev, false)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = max(t.seen, ev.Revision-1) // others may have the same revision
	t.forgetDropped()
}

// forgetDropped forgets the drops that seen covers. The caller holds mu.
func (t *Table[K, T]) forgetDropped() {
	maps.DeleteFunc(t.dropped, func(_ K, rev int64) bool { return rev <= t.seen })
}

// learn takes over what the store has, or had at the event's revision, unless
// memory shows it already. quiet = nobody is told.
func (t *Table[K, T]) learn(ev Event, quiet bool) {
	id := K(ev.ID)
	t.mu.RLock()
	stale := t.stale(id, ev.Revision)
	t.mu.RUnlock()
	if stale {
		return
	}
	var rec T
	var bad error
	if !ev.Deleted {
		bad = json.Unmarshal(ev.Value, &rec) // takes long: not under the lock
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stale(id, ev.Revision) {
		return
	}
	own := t.writing[id].madeBy(ev)
	switch {
	case ev.Deleted:
		was := t.remove(id)
		t.dropped[id] = ev.Revision
		t.news(was, nil, quiet || own)
	case t.isUnwanted(ev.Entry):
	case bad != nil && t.mineAs(ev.Value, id):
		t.bad[id] = t.asUnreadable(ev.Entry, bad)
	case bad != nil || !t.mine(&rec):
		t.news(t.remove(id), nil, quiet)
	default:
		was, _ := t.put(id, row[T]{rec, ev.Revision})
		t.news(was, &rec, quiet || own)
	}
}

// gone takes a record out of memory that the store did not have at a revision.
// quiet = nobody is told.
func (t *Table[K, T]) gone(id K, revision int64, quiet bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows[id].revision > revision || t.bad[id].Revision > revision {
		return
	}
	if revision > t.seen {
		t.dropped[id] = max(t.dropped[id], revision)
	}
	t.news(t.remove(id), nil, quiet)
}

// news has Changed called. The caller holds mu, so that calls are in the order of
// the changes.
func (t *Table[K, T]) news(was, now *T, quiet bool) {
	if t.kind.Changed != nil && !quiet && (was != nil || now != nil) {
		t.l.later(func() { t.kind.Changed(was, now) })
	}
}

// mineAs is mine of a stored record that cannot be decoded. One whose host cannot be
// read either stays with the server that knew it; else it is like one without a
// host. The caller holds mu.
func (t *Table[K, T]) mineAs(value []byte, id K) bool {
	if t.kind.Host == nil {
		return true
	}
	host, ok := hostOf(value)
	_, shown := t.rows[id]
	_, listed := t.bad[id]
	return !ok && (shown || listed) || t.l.Owns(host)
}

// hostOf reads the host of a stored record as far as it is JSON.
func hostOf(value []byte) (host string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(value))
	for field, err := d.Token(); err == nil; field, err = d.Token() { // the first is the brace
		if field == json.Delim('{') {
			continue
		}
		if field == "host" {
			return host, d.Decode(&host) == nil
		}
		if d.Decode(&json.RawMessage{}) != nil {
			break
		}
	}
	return "", false
}

func (t *Table[K, T]) asUnreadable(e Entry, err error) Unreadable {
	t.l.log.Error("a record cannot be read; it stays in the store", "kind", t.kind.Name, "id", e.ID, "err", err)
	return Unreadable{e, vm.Errorf(vm.Corrupt, e.ID, "a record in %s cannot be read: %w", t.kind.Name, err).
		WithHint("it was damaged, or written by a newer warren")}
}

// load takes over every record as it is at a revision, and drops from memory those
// that are gone.
func (t *Table[K, T]) load(entries []Entry, revision int64, first bool) {
	there := make(map[K]bool, len(entries))
	for _, e := range entries {
		there[K(e.ID)] = true
		t.learn(Event{Entry: e}, first)
	}
	t.mu.RLock()
	known := slices.Concat(t.ids, sortedKeys(t.bad))
	t.mu.RUnlock()
	for _, id := range known {
		if !there[id] {
			t.gone(id, revision, t.dropping(id))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = max(t.seen, revision)
	t.forgetDropped()
}

// with returns ordered ids with one more.
func with[K ~string](ids []K, id K) []K {
	i, found := slices.BinarySearch(ids, id)
	if found {
		return ids
	}
	return slices.Insert(ids, i, id)
}

// without returns ordered ids with one less.
func without[K ~string](ids []K, id K) []K {
	if i, found := slices.BinarySearch(ids, id); found {
		return slices.Delete(ids, i, i+1)
	}
	return ids
}
