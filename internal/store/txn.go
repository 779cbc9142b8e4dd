// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/warren-vm/warren/vm"
)

// Op is one change of a transaction. Collections make them.
type Op struct {
	collection, id string
	path           string
	revision       int64 // that the record must have; 0 = it must not be there
	any            bool  // it must be there, of whatever revision
	value          []byte
	delete         bool
	lease          *Lease
	err            error // why it cannot be made
}

// Creating is the op of Create.
func (c *Collection[T]) Creating(rec T) Op {
	id, _ := c.key(&rec)
	return c.put(Op{id: id}, rec)
}

// Updating is the op of Update.
func (c *Collection[T]) Updating(rec T) Op {
	id, rev := c.key(&rec)
	o := c.put(Op{id: id, revision: *rev}, rec)
	if *rev == 0 && o.err == nil {
		o.err = vm.Errorf(vm.Internal, id, "an update in %s names no revision", c.name)
	}
	return o
}

// Deleting is the op of Delete.
func (c *Collection[T]) Deleting(rec T) Op {
	id, rev := c.key(&rec)
	return Op{collection: c.name, id: id, path: c.path(id), revision: *rev, any: *rev == 0, delete: true}
}

func (c *Collection[T]) put(o Op, rec T) Op {
	o.collection, o.path = c.name, c.path(o.id)
	if o.value, o.err = json.Marshal(rec); o.err != nil {
		o.err = vm.Errorf(vm.Internal, o.id, "record of %s: %w", c.name, o.err)
	} else if len(o.value) > maxRecord {
		o.err = vm.Errorf(vm.Limit, o.id, "the record is too large: %d KiB, at most %d", len(o.value)>>10, maxRecord>>10)
	}
	return o
}

// Under binds the record that o writes to a lease: it goes with it.
func (o Op) Under(l *Lease) Op {
	o.lease = l
	return o
}

func (o Op) compare() clientv3.Cmp {
	if o.any {
		return clientv3.Compare(clientv3.CreateRevision(o.path), ">", 0)
	}
	return clientv3.Compare(clientv3.ModRevision(o.path), "=", o.revision) // 0 = there is none
}

func (o Op) change() clientv3.Op {
	switch {
	case o.delete:
		return clientv3.OpDelete(o.path)
	case o.lease != nil:
		return clientv3.OpPut(o.path, string(o.value), clientv3.WithLease(o.lease.id))
	}
	return clientv3.OpPut(o.path, string(o.value))
}

// conflict says why o cannot be made on the record as it is; nil when it can.
// rev is 0 when there is none.
func (o Op) conflict(rev int64) error {
	switch {
	case o.any && rev > 0, !o.any && rev == o.revision:
		return nil
	case rev == 0:
		return vm.Errorf(vm.NotFound, o.id, "no such record in %s", o.collection)
	case o.revision == 0:
		return vm.Errorf(vm.Exists, o.id, "there is such a record in %s already", o.collection)
	}
	return vm.Errorf(vm.Busy, o.id, "the record in %s was changed meanwhile", o.collection).WithHint("try again")
}

// Txn makes all changes durably or none, and returns the revision that written
// records have then. No two may be of one record. Kinds: those of the first
// change that cannot be made (Exists, Busy, NotFound), NoSpace (the disk or the
// store is full), Limit (a record above MaxRecord), Unavailable; after Unavailable, Cancelled and Timeout it may have been made.
func (s *Store) Txn(ctx context.Context, ops ...Op) (int64, error) {
	if len(ops) == 0 {
		return 0, vm.Errorf(vm.Internal, "records", "a transaction without a change")
	}
	need := s.changeRoom
	cmps, then, look := make([]clientv3.Cmp, 0, len(ops)), make([]clientv3.Op, 0, len(ops)), make([]clientv3.Op, 0, len(ops))
	for _, o := range ops {
		if o.err != nil {
			return 0, o.err
		}
		if !o.delete && o.revision == 0 {
			need = s.createRoom
		}
		cmps, then = append(cmps, o.compare()), append(then, o.change())
		look = append(look, clientv3.OpGet(o.path, clientv3.WithKeysOnly()))
	}
	if err := s.room(need); err != nil {
		return 0, err
	}
	if err := s.fits(ctx, ops); err != nil {
		return 0, err
	}
	resp, err := s.committed(ctx, ops, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).If(cmps...).Then(then...).Else(look...).Commit()
	})
	if err != nil {
		return 0, requestError(ops[0].id, err)
	}
	if resp.Succeeded {
		return resp.Header.Revision, nil
	}
	for i, o := range ops {
		var rev int64
		if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
			rev = kvs[0].ModRevision
		}
		if err := o.conflict(rev); err != nil {
			return 0, err
		}
	}
	return 0, vm.Errorf(vm.Internal, ops[0].id, "a transaction failed without a reason")
}
