// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"

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
		return rec, vm.Errorf(vm.Corrupt, c.name, "a record cannot be read: %w", err)
	}
	_, r := c.key(&rec)
	*r = rev
	return rec, nil
}

// List returns every record, ordered by id.
func (c *Collection[T]) List(ctx context.Context) ([]T, error) {
	resp, err := c.store.client.Get(ctx, c.path(""), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil {
		return nil, writeError(c.name, err)
	}
	out := make([]T, 0, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		rec, err := c.decode(kv.Value, kv.ModRevision)
		if err != nil {
			return nil, err
		}
		out = append(out, rec)
	}
	return out, nil
}

// Get returns one record. Kind NotFound.
func (c *Collection[T]) Get(ctx context.Context, id string) (T, error) {
	var none T
	resp, err := c.store.client.Get(ctx, c.path(id))
	if err != nil {
		return none, writeError(id, err)
	}
	if len(resp.Kvs) == 0 {
		return none, vm.Errorf(vm.NotFound, id, "no such record in %s", c.name)
	}
	return c.decode(resp.Kvs[0].Value, resp.Kvs[0].ModRevision)
}

// Create stores a new record durably and returns its revision. Kind Exists when
// its id is taken.
func (c *Collection[T]) Create(ctx context.Context, rec T) (int64, error) {
	id, _ := c.key(&rec)
	rev, ok, err := c.put(ctx, id, rec, clientv3.Compare(clientv3.CreateRevision(c.path(id)), "=", 0))
	if err == nil && !ok {
		return 0, vm.Errorf(vm.Exists, id, "there is such a record in %s already", c.name)
	}
	return rev, err
}

// Update replaces a record durably when it is still of the revision that rec
// carries, and returns the new one. Kind Busy when it was changed or deleted
// meanwhile.
func (c *Collection[T]) Update(ctx context.Context, rec T) (int64, error) {
	id, rev := c.key(&rec)
	next, ok, err := c.put(ctx, id, rec, clientv3.Compare(clientv3.ModRevision(c.path(id)), "=", *rev))
	if err == nil && !ok {
		return 0, vm.Errorf(vm.Busy, id, "the record in %s was changed meanwhile", c.name).WithHint("try again")
	}
	return next, err
}

func (c *Collection[T]) put(ctx context.Context, id string, rec T, cmp clientv3.Cmp) (rev int64, ok bool, err error) {
	data, err := json.Marshal(rec)
	if err != nil {
		return 0, false, vm.Errorf(vm.Internal, id, "record of %s: %w", c.name, err)
	}
	resp, err := c.store.client.Txn(ctx).If(cmp).Then(clientv3.OpPut(c.path(id), string(data))).Commit()
	if err != nil {
		return 0, false, writeError(id, err)
	}
	return resp.Header.Revision, resp.Succeeded, nil
}

// Delete removes a record of the revision that rec carries; 0 = of any. Kinds
// NotFound and Busy.
func (c *Collection[T]) Delete(ctx context.Context, rec T) error {
	id, rev := c.key(&rec)
	txn := c.store.client.Txn(ctx)
	if *rev != 0 {
		txn = txn.If(clientv3.Compare(clientv3.ModRevision(c.path(id)), "=", *rev))
	}
	resp, err := txn.Then(clientv3.OpDelete(c.path(id))).Else(clientv3.OpGet(c.path(id), clientv3.WithCountOnly())).Commit()
	if err != nil {
		return writeError(id, err)
	}
	if resp.Succeeded && resp.Responses[0].GetResponseDeleteRange().Deleted == 1 {
		return nil
	}
	if !resp.Succeeded && resp.Responses[0].GetResponseRange().Count > 0 {
		return vm.Errorf(vm.Busy, id, "the record in %s was changed meanwhile", c.name).WithHint("try again")
	}
	return vm.Errorf(vm.NotFound, id, "no such record in %s", c.name)
}
