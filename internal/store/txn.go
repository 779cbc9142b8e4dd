// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/warren-vm/warren/vm"
)

// Op is one change of a transaction.
type Op struct {
	kind, id string
	revision int64 // that the record must have; 0 = it must not be there
	value    []byte
	delete   bool
	lease    *Lease
}

// path is the record's key in the store.
func (o Op) path() string { return prefix + o.kind + "/" + o.id }

// Under binds the record that o writes to a lease: it goes with it.
func (o Op) Under(l *Lease) Op {
	o.lease = l
	return o
}

func (o Op) compare() clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(o.path()), "=", o.revision) // 0 = there is none
}

func (o Op) change() clientv3.Op {
	switch {
	case o.delete:
		return clientv3.OpDelete(o.path())
	case o.lease != nil:
		return clientv3.OpPut(o.path(), string(o.value), clientv3.WithLease(o.lease.id))
	}
	return clientv3.OpPut(o.path(), string(o.value))
}

// conflict says why o cannot be made on the record as it is; nil when it can.
// rev is 0 when there is none.
func (o Op) conflict(rev int64) error {
	switch {
	case rev == o.revision:
		return nil
	case rev == 0:
		return vm.Errorf(vm.NotFound, o.id, "no such record in %s", o.kind)
	case o.revision == 0:
		return vm.Errorf(vm.Exists, o.id, "there is such a record in %s already", o.kind)
	}
	return vm.Errorf(vm.Busy, o.id, "the record in %s was changed meanwhile", o.kind).WithHint("try again")
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
		if !o.delete && o.revision == 0 {
			need = s.createRoom
		}
		cmps, then = append(cmps, o.compare()), append(then, o.change())
		look = append(look, clientv3.OpGet(o.path(), clientv3.WithKeysOnly()))
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
