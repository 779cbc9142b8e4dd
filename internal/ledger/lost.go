// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// maxUnwanted bounds how many creates a table remembers whose outcome is not known.
const maxUnwanted = 1024

// unwanted are the writes of creates whose callers were told that they failed, and
// which may be made yet: what turns up of them is removed again.
type unwanted struct {
	writes map[string]bool // true = it turned up and is being removed
	order  []string        // oldest first; may name some that are not in writes any more
}

func (u *unwanted) add(write string) {
	if u.writes == nil {
		u.writes = map[string]bool{}
	}
	if len(u.order) == maxUnwanted {
		delete(u.writes, u.order[0])
		u.order = u.order[1:]
	}
	u.writes[write] = false
	u.order = append(u.order, write)
}

// write makes writes that have one id. When the answer is lost, the records in the
// store, or the follower, tell by that id that they were made; else the error stays,
// and they may be made later. creating = they must not then.
func (t *Table[K, T]) write(ctx context.Context, write string, creating bool, ws []*writer, ops ...Op) (made int64, err error) {
	t.mu.Lock()
	for _, w := range ws {
		w.write, w.made = write, 0
	}
	t.mu.Unlock()
	made, err = t.commit(ctx, ops...)
	if err != nil && !decided(err) {
		if rev := t.found(ctx, write, ops); rev > 0 {
			made, err = rev, nil
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && !decided(err) {
		for _, w := range ws {
			if w.made > 0 {
				made, err = w.made, nil
			}
		}
	}
	for _, w := range ws {
		if err != nil { // else it is over when memory shows it: see enter
			w.write = ""
		}
	}
	if creating && err != nil && !decided(err) {
		t.unwanted.add(write)
	}
	return made, err
}

// found looks for a write whose answer was lost; 0 = it is not there. Other
// servers may have changed some of the records since.
func (t *Table[K, T]) found(ctx context.Context, write string, ops []Op) (made int64) {
	for _, o := range ops {
		e, there, err := t.look(ctx, K(o.ID))
		switch {
		case err != nil:
			return 0
		case there && writeOf(e.Value) == write:
			return e.Revision
		case there:
			t.learn(Event{Entry: e}, false)
		case o.Revision > 0:
			t.gone(K(o.ID), e.Revision, false)
		}
	}
	return 0
}

// delete removes a record of a revision. When the answer is lost, that the record
// is not in the store tells that it was removed.
func (t *Table[K, T]) delete(ctx context.Context, w *writer, id K, revision int64) (made int64, err error) {
	t.mu.Lock()
	w.dropping, w.made = true, 0
	t.mu.Unlock()
	made, err = t.commit(ctx, Op{Kind: t.kind.Name, ID: string(id), Revision: revision, Delete: true})
	if err != nil && (!decided(err) || vm.KindOf(err) == vm.NotFound) {
		if e, there, lookErr := t.look(ctx, id); lookErr == nil && !there {
			made, err = e.Revision, nil
		} else if there {
			t.learn(Event{Entry: e}, false)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && w.made > 0 {
		made, err = w.made, nil
	}
	w.dropping = err == nil // it is over when memory shows it: see enter
	return made, err
}

func (t *Table[K, T]) dropping(id K) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	w := t.writing[id]
	return w != nil && w.dropping
}

// refresh brings records in memory up to date with the store. It reports whether
// the store answered.
func (t *Table[K, T]) refresh(ctx context.Context, ids []K) bool {
	for _, id := range ids {
		e, there, err := t.look(ctx, id)
		switch {
		case err != nil:
			return false
		case there:
			t.learn(Event{Entry: e}, false)
		default:
			t.gone(id, e.Revision, false)
		}
	}
	return true
}

// gaveUp reports whether a stored record is of a create whose caller was told that
// it failed.
func (t *Table[K, T]) gaveUp(e Entry) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, yes := t.unwanted.writes[writeOf(e.Value)]
	return yes
}

// isUnwanted is gaveUp, and has such a record removed. The caller holds mu.
func (t *Table[K, T]) isUnwanted(e Entry) bool {
	write := writeOf(e.Value)
	going, yes := t.unwanted.writes[write]
	if yes && !going && t.l.life.Err() == nil {
		t.unwanted.writes[write] = true
		t.l.work.Go(func() { t.removeUnwanted(e, write) })
	}
	return yes
}

// removeUnwanted removes a record from the store that memory never showed.
func (t *Table[K, T]) removeUnwanted(e Entry, write string) {
	for t.l.life.Err() == nil {
		_, leave, err := t.enter(t.l.life, K(e.ID))
		if err != nil {
			return
		}
		_, err = t.commit(t.l.life, Op{Kind: e.Kind, ID: e.ID, Revision: e.Revision, Delete: true})
		leave()
		if err == nil || vm.KindOf(err) == vm.Busy || vm.KindOf(err) == vm.NotFound {
			t.mu.Lock()
			delete(t.unwanted.writes, write)
			t.mu.Unlock()
			return
		}
		select {
		case <-t.l.life.Done():
		case <-time.After(followAgain):
		}
	}
}

// commit is the backend's Write with a deadline of its own: a caller that goes away
// must not leave a write behind whose outcome nobody knows.
func (t *Table[K, T]) commit(ctx context.Context, ops ...Op) (int64, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), writeDeadline)
	defer stop()
	return t.l.backend.Write(ctx, ops...)
}

// look reads a record from the store. One that is not there has the revision that
// the answer shows.
func (t *Table[K, T]) look(ctx context.Context, id K) (e Entry, there bool, err error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), lookDeadline)
	defer stop()
	e, err = t.l.backend.Read(ctx, t.kind.Name, string(id))
	if vm.KindOf(err) == vm.NotFound {
		return e, false, nil
	}
	return e, err == nil, err
}

// decided reports whether a failed write was certainly not made.
func decided(err error) bool {
	switch vm.KindOf(err) {
	case vm.Busy, vm.NotFound, vm.Exists, vm.Limit, vm.NoSpace, vm.Invalid:
		return true
	}
	return false
}
