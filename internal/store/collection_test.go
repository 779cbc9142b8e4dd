// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// collection writes and reads records of one kind by the backend, as a ledger does.
type collection[T any] struct {
	Backend
	kind string
	// key gives a record's id and where it keeps its revision.
	key func(*T) (id string, revision *int64)
}

// record is what these tests store.
type record struct {
	ID       string   `json:"id"`
	Name     string   `json:"name,omitempty"`
	State    vm.State `json:"state,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Revision int64    `json:"-"` // of the store
}

func vms(s *Store) collection[record] {
	return collection[record]{Backend{s}, "vms", func(r *record) (string, *int64) { return r.ID, &r.Revision }}
}

// op is a change of a record: of the revision that it carries, or its creation.
func (c collection[T]) op(rec T) Op {
	id, rev := c.key(&rec)
	value, err := json.Marshal(rec)
	if err != nil {
		panic(err)
	}
	return Op{kind: c.kind, id: id, value: value, revision: *rev}
}

// path is the key of a record in etcd.
func (c collection[T]) path(id string) string { return prefix + c.kind + "/" + id }

// removal is the deletion of a record of the revision that it carries.
func (c collection[T]) removal(rec T) Op {
	id, rev := c.key(&rec)
	return Op{kind: c.kind, id: id, revision: *rev, delete: true}
}

// put creates a record without a revision, and replaces one with.
func (c collection[T]) put(ctx context.Context, rec T) (revision int64, err error) {
	return c.putAll(ctx, []T{rec})
}

func (c collection[T]) putAll(ctx context.Context, recs []T) (revision int64, err error) {
	var ops []ledger.Op
	for _, rec := range recs {
		o := c.op(rec)
		ops = append(ops, ledger.Op{Kind: o.kind, ID: o.id, Value: o.value, Revision: o.revision})
	}
	return c.Write(ctx, ops...)
}

// drop removes a record of the revision that it carries; without one, of any.
func (c collection[T]) drop(ctx context.Context, rec T) error {
	id, rev := c.key(&rec)
	if *rev == 0 {
		e, err := c.Read(ctx, c.kind, id)
		if err != nil {
			return err
		}
		*rev = e.Revision
	}
	_, err := c.Write(ctx, ledger.Op{Kind: c.kind, ID: id, Revision: *rev, Delete: true})
	return err
}

func (c collection[T]) decode(e ledger.Entry) (rec T, err error) {
	if len(e.Value) == 0 {
		return rec, nil
	}
	err = json.Unmarshal(e.Value, &rec)
	_, rev := c.key(&rec)
	*rev = e.Revision
	return rec, err
}

func (c collection[T]) get(ctx context.Context, id string) (rec T, err error) {
	e, err := c.Read(ctx, c.kind, id)
	if err != nil {
		return rec, err
	}
	return c.decode(e)
}

// list returns every record and the revision that it shows.
func (c collection[T]) list(ctx context.Context) (recs []T, revision int64, err error) {
	entries, revision, err := c.ReadAll(ctx, c.kind)
	for _, e := range entries {
		rec, bad := c.decode(e)
		recs, err = append(recs, rec), errors.Join(err, bad)
	}
	return recs, revision, err
}

// next waits for a change that a follower tells of.
func (c collection[T]) next(t *testing.T, f ledger.Follower) (ev ledger.Event, rec T) {
	t.Helper()
	ev, err := f.Next(t.Context())
	if err == nil {
		rec, err = c.decode(ev.Entry)
	}
	if err != nil {
		t.Fatalf("the next change: %v", err)
	}
	return ev, rec
}
