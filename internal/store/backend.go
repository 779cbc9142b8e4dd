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

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// prefix begins every key. Its number is the version of the records' format.
const prefix = "/warren/v1/"

// Backend is the store as a ledger's backend.
type Backend struct{ *Store }

// ReadAll returns every record of some kinds; see ledger.Backend.
func (b Backend) ReadAll(ctx context.Context, kinds ...string) (out []ledger.Entry, revision int64, err error) {
	reads := make([]clientv3.Op, 0, len(kinds))
	for _, kind := range kinds {
		reads = append(reads, clientv3.OpGet(prefix+kind+"/", clientv3.WithPrefix())) // keys come sorted
	}
	resp, err := call(ctx, b.Store, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return b.client.Txn(ctx).Then(reads...).Commit() // one transaction reads at one revision
	})
	if err != nil {
		return nil, 0, requestError("records", err)
	}
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().Kvs {
			out = append(out, entry(kv))
		}
	}
	return out, resp.Header.Revision, nil
}

// dumpPage is how many records one request of Dump reads.
const dumpPage = 1000

// Dump calls f with every record of every kind, ordered by kind and id, all as they are at
// one revision, and returns that revision. f's error ends it and is returned as it is.
func (b Backend) Dump(ctx context.Context, f func(ledger.Entry) error) (revision int64, err error) {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		resp, err := call(ctx, b.Store, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return b.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(revision), clientv3.WithLimit(dumpPage))
		})
		if err != nil {
			return 0, requestError("records", err)
		}
		if revision == 0 {
			revision = resp.Header.Revision // the other pages show it, too
		}
		for _, kv := range resp.Kvs {
			if err := f(entry(kv)); err != nil {
				return 0, err
			}
			from = string(kv.Key) + "\x00"
		}
		if !resp.More {
			return revision, nil
		}
	}
}

// Read returns one record; see ledger.Backend.
func (b Backend) Read(ctx context.Context, kind, id string) (ledger.Entry, error) {
	resp, err := call(ctx, b.Store, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return b.client.Get(ctx, prefix+kind+"/"+id)
	})
	if err != nil {
		return ledger.Entry{}, requestError(id, err)
	}
	if len(resp.Kvs) == 0 {
		return ledger.Entry{Revision: resp.Header.Revision}, vm.Errorf(vm.NotFound, id, "no such record in %s", kind)
	}
	return entry(resp.Kvs[0]), nil
}

// Write makes all the writes or none; see ledger.Backend.
func (b Backend) Write(ctx context.Context, ops ...ledger.Op) (int64, error) {
	list := make([]Op, 0, len(ops))
	for _, o := range ops {
		list = append(list, Op{kind: o.Kind, id: o.ID, revision: o.Revision, value: o.Value, delete: o.Delete})
	}
	return b.Txn(ctx, list...)
}

// Follow returns the changes of every kind; see ledger.Backend.
func (b Backend) Follow(ctx context.Context, after int64) ledger.Follower {
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(ctx)) // a member that is cut off has no changes to tell
	return &follower{store: b.Store, changes: b.client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(after+1)), stop: stop}
}

// follower follows all records.
type follower struct {
	store   *Store
	changes clientv3.WatchChan
	stop    context.CancelFunc
	events  []*clientv3.Event // that have come and were not delivered
}

// Next waits for a change; see ledger.Follower.
func (f *follower) Next(ctx context.Context) (ledger.Event, error) {
	for len(f.events) == 0 {
		select {
		case resp, ok := <-f.changes:
			switch err := resp.Err(); {
			case errors.Is(err, rpctypes.ErrCompacted):
				return ledger.Event{}, vm.Errorf(vm.NotFound, "records", "changes this old are no longer kept").
					WithCode("REVISION_GONE", "oldest", resp.CompactRevision)
			case err != nil:
				return ledger.Event{}, requestError("records", err)
			case !ok:
				return ledger.Event{}, vm.Errorf(vm.Unavailable, "records", "the watch has ended")
			}
			f.events = resp.Events
		case <-f.store.fail.happened:
			return ledger.Event{}, f.store.fail.get()
		case <-ctx.Done():
			return ledger.Event{}, ctx.Err()
		}
	}
	ev := f.events[0]
	f.events = f.events[1:]
	return ledger.Event{Entry: entry(ev.Kv), Deleted: ev.Type == mvccpb.Event_DELETE}, nil
}

// Close ends the follower.
func (f *follower) Close() { f.stop() }

// entry splits a key into kind and id.
func entry(kv *mvccpb.KeyValue) ledger.Entry {
	kind, id, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), prefix), "/")
	return ledger.Entry{Kind: kind, ID: id, Value: kv.Value, Revision: kv.ModRevision}
}
