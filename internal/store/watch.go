// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/warren-vm/warren/vm"
)

// Change is one change of a record.
type Change[T any] struct {
	ID       string
	Record   T // as it is now; the zero value when it was deleted
	Deleted  bool
	Revision int64 // of the change
}

// Watch follows a collection. It is not for two goroutines at once.
type Watch[T any] struct {
	collection *Collection[T]
	changes    clientv3.WatchChan
	stop       context.CancelFunc
	events     []*clientv3.Event // that have come and were not delivered
}

// Watch returns every change after a revision, in order. It outlives broken
// connections to a cluster. Close it.
func (c *Collection[T]) Watch(ctx context.Context, after int64) *Watch[T] {
	ctx, stop := context.WithCancel(ctx)
	ch := c.store.client.Watch(ctx, c.path(""), clientv3.WithPrefix(), clientv3.WithRev(after+1))
	return &Watch[T]{collection: c, changes: ch, stop: stop}
}

// Next waits for the next change. Kinds: NotFound, code REVISION_GONE, when the
// changes after the revision are no longer kept (take a Snapshot and watch after
// that), Unavailable (the store was closed), the store's failure, or ctx's error.
func (w *Watch[T]) Next(ctx context.Context) (Change[T], error) {
	c := w.collection
	for len(w.events) == 0 {
		select {
		case resp, ok := <-w.changes:
			switch err := resp.Err(); {
			case errors.Is(err, rpctypes.ErrCompacted):
				return Change[T]{}, vm.Errorf(vm.NotFound, c.name, "changes this old are no longer kept").
					WithCode("REVISION_GONE", "oldest", resp.CompactRevision)
			case err != nil:
				return Change[T]{}, requestError(c.name, err)
			case !ok:
				return Change[T]{}, vm.Errorf(vm.Unavailable, c.name, "the watch has ended")
			}
			w.events = resp.Events
		case <-c.store.fail.happened:
			return Change[T]{}, c.store.fail.get()
		case <-ctx.Done():
			return Change[T]{}, ctx.Err()
		}
	}
	ev := w.events[0]
	w.events = w.events[1:]
	out := Change[T]{
		ID: strings.TrimPrefix(string(ev.Kv.Key), c.path("")), Revision: ev.Kv.ModRevision, Deleted: ev.Type == mvccpb.Event_DELETE,
	}
	var err error
	if !out.Deleted {
		out.Record, err = c.decode(ev.Kv.Value, ev.Kv.ModRevision)
	}
	return out, err
}

// Close ends the watch.
func (w *Watch[T]) Close() { w.stop() }
