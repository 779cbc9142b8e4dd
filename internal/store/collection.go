// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/warren-vm/warren/vm"
)

// prefix begins every key. Its number is the version of the records' format.
const prefix = "/warren/v1/"

// Collection is one kind of record, kept as JSON under its id.
type Collection[T any] struct {
	store *Store
	name  string
	// key gives a record's id and where it keeps its revision.
	key func(*T) (id string, revision *int64)
}

// NewCollection returns the records of that name. key gives a record's id and
// the field that holds its revision, which is not part of the JSON.
func NewCollection[T any](s *Store, name string, key func(*T) (id string, revision *int64)) *Collection[T] {
	return &Collection[T]{store: s, name: name, key: key}
}

func (c *Collection[T]) path(id string) string { return prefix + c.name + "/" + id }

func (c *Collection[T]) decode(data []byte, rev int64) (T, error) {
	var rec T
	if err := json.Unmarshal(data, &rec); err != nil {
		return rec, vm.Errorf(vm.Corrupt, c.name, "a record cannot be read: %w", err).
			WithHint("it was damaged, or written by a newer warren")
	}
	_, r := c.key(&rec)
	*r = rev
	return rec, nil
}

// Unreadable is the error of List where some records cannot be decoded; the
// others are listed anyway.
type Unreadable struct {
	Records []UnreadableRecord
	Err     error // why the first cannot be, of kind Corrupt
}

// UnreadableRecord is one that cannot be decoded.
type UnreadableRecord struct {
	ID       string
	Data     []byte
	Revision int64
}

func (u *Unreadable) Error() string { return u.Err.Error() }

// Unwrap returns the reason.
func (u *Unreadable) Unwrap() error { return u.Err }

// Add notes one more.
func (u *Unreadable) Add(id string, data []byte, revision int64, err error) {
	if u.Err == nil {
		u.Err = err
	}
	u.Records = append(u.Records, UnreadableRecord{id, data, revision})
}

// List returns every record, ordered by id; where some cannot be decoded, those
// that can, with an *Unreadable.
func (c *Collection[T]) List(ctx context.Context) ([]T, error) {
	out, _, err := c.Snapshot(ctx)
	return out, err
}

// Snapshot is List, and the revision that it shows: a Watch after it tells every
// change since.
func (c *Collection[T]) Snapshot(ctx context.Context) (recs []T, revision int64, err error) {
	resp, err := call(ctx, c.store, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return c.store.client.Get(ctx, c.path(""), clientv3.WithPrefix()) // keys come sorted
	})
	if err != nil {
		return nil, 0, requestError(c.name, err)
	}
	recs = make([]T, 0, len(resp.Kvs))
	var bad Unreadable
	for _, kv := range resp.Kvs {
		rec, err := c.decode(kv.Value, kv.ModRevision)
		if err != nil {
			bad.Add(strings.TrimPrefix(string(kv.Key), c.path("")), kv.Value, kv.ModRevision, err)
			continue
		}
		recs = append(recs, rec)
	}
	if bad.Err != nil {
		return recs, resp.Header.Revision, &bad
	}
	return recs, resp.Header.Revision, nil
}

// Get returns one record. Kind NotFound.
func (c *Collection[T]) Get(ctx context.Context, id string) (T, error) {
	var none T
	resp, err := call(ctx, c.store, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return c.store.client.Get(ctx, c.path(id))
	})
	if err != nil {
		return none, requestError(id, err)
	}
	if len(resp.Kvs) == 0 {
		return none, vm.Errorf(vm.NotFound, id, "no such record in %s", c.name)
	}
	return c.decode(resp.Kvs[0].Value, resp.Kvs[0].ModRevision)
}

// Create stores a new record durably and returns its revision. Kind Exists when
// its id is taken.
func (c *Collection[T]) Create(ctx context.Context, rec T) (int64, error) {
	return c.store.Txn(ctx, c.Creating(rec))
}

// Update replaces a record durably when it is still of the revision that rec
// carries, and returns the new one. Kinds Busy (it was changed meanwhile) and
// NotFound.
func (c *Collection[T]) Update(ctx context.Context, rec T) (int64, error) {
	return c.store.Txn(ctx, c.Updating(rec))
}

// UpdateAll is Update of several records, all or none; they have one revision
// then. Kind Limit, too, when those are too many or too large for one change: an
// embedded store takes 2,048 of 8 MiB, a cluster what it was set to.
func (c *Collection[T]) UpdateAll(ctx context.Context, recs []T) (int64, error) {
	ops := make([]Op, 0, len(recs))
	for _, rec := range recs {
		ops = append(ops, c.Updating(rec))
	}
	return c.store.Txn(ctx, ops...)
}

// Delete removes a record of the revision that rec carries; 0 = of any. Kinds
// NotFound and Busy.
func (c *Collection[T]) Delete(ctx context.Context, rec T) error {
	_, err := c.store.Txn(ctx, c.Deleting(rec))
	return err
}
