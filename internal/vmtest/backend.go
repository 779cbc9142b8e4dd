// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// Backend is a ledger's backend in memory, with the revisions, refusals and events
// of the real store.
type Backend struct {
	// Fault is called before each write, and again with done after it. An error it
	// returns becomes the answer. nil = no faults.
	Fault func(done bool, ops []ledger.Op) error
	// Silent is called before each read. An error it returns becomes the answer. nil = no
	// faults.
	Silent func(kind string) error
	// Over is the store behind the faults, e.g. an etcd; nil = memory.
	Over ledger.Backend

	mu sync.Mutex
	// guarded by mu
	seq     int64
	full    bool
	held    bool                    // followers wait; see Hold
	entries map[string]ledger.Entry // by kind and id
	gone    int64                   // the last revision whose events are no longer kept
	events  []ledger.Event
	more    chan struct{} // closed and replaced when events grow
}

// NewBackend returns an empty backend.
func NewBackend() *Backend {
	return &Backend{entries: map[string]ledger.Entry{}, more: make(chan struct{})}
}

// ReadAll returns every record of some kinds.
func (b *Backend) ReadAll(ctx context.Context, kinds ...string) ([]ledger.Entry, int64, error) {
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	for _, kind := range kinds {
		if b.Silent == nil {
			break
		}
		if err := b.Silent(kind); err != nil {
			return nil, 0, err
		}
	}
	if b.Over != nil {
		return b.Over.ReadAll(ctx, kinds...)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []ledger.Entry
	for _, e := range b.entries {
		if slices.Contains(kinds, e.Kind) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(x, y ledger.Entry) int { return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.ID, y.ID)) })
	return out, b.seq, nil
}

// Dump calls f with every record, all as they are at one revision.
func (b *Backend) Dump(ctx context.Context, f func(ledger.Entry) error) (int64, error) {
	if d, ok := b.Over.(interface {
		Dump(ctx context.Context, f func(ledger.Entry) error) (int64, error)
	}); ok {
		return d.Dump(ctx, f)
	}
	b.mu.Lock()
	list, revision := slices.Collect(maps.Values(b.entries)), b.seq
	b.mu.Unlock()
	slices.SortFunc(list, func(x, y ledger.Entry) int { return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.ID, y.ID)) })
	for _, e := range list {
		if err := f(e); err != nil {
			return 0, err
		}
	}
	return revision, nil
}

// Read returns one record.
func (b *Backend) Read(ctx context.Context, kind, id string) (ledger.Entry, error) {
	if ctx.Err() != nil {
		return ledger.Entry{}, context.Cause(ctx)
	}
	if b.Silent != nil {
		if err := b.Silent(kind); err != nil {
			return ledger.Entry{}, err
		}
	}
	if b.Over != nil {
		return b.Over.Read(ctx, kind, id)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.entries[kind+"/"+id]
	if !ok {
		return ledger.Entry{Revision: b.seq}, vm.Errorf(vm.NotFound, id, "no such record in %s", kind)
	}
	return e, nil
}

// Write makes all the writes or none.
func (b *Backend) Write(ctx context.Context, ops ...ledger.Op) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if b.Fault != nil {
		if err := b.Fault(false, ops); err != nil {
			return 0, err
		}
	}
	write := func(_ context.Context, ops ...ledger.Op) (int64, error) { return b.apply(ops) }
	if b.Over != nil {
		write = b.Over.Write
	}
	rev, err := write(ctx, ops...)
	if err == nil && b.Fault != nil {
		err = b.Fault(true, ops)
	}
	return rev, err
}

func (b *Backend) apply(ops []ledger.Op) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.fits(ops); err != nil {
		return 0, err
	}
	for _, o := range ops {
		e := b.entries[o.Kind+"/"+o.ID]
		switch {
		case len(o.Value) > ledger.MaxRecord && len(o.Value) >= len(e.Value):
			return 0, vm.Errorf(vm.Limit, o.ID, "the record would have %d bytes", len(o.Value))
		case e.Revision == o.Revision && (e.Revision > 0 || !o.Delete):
		case e.Revision == 0:
			return 0, vm.Errorf(vm.NotFound, o.ID, "no such record in %s", o.Kind)
		case o.Revision == 0:
			return 0, vm.Errorf(vm.Exists, o.ID, "there is such a record in %s already", o.Kind)
		default:
			return 0, vm.Errorf(vm.Busy, o.ID, "the record in %s was changed meanwhile", o.Kind)
		}
	}
	b.seq++
	for _, o := range ops {
		e := ledger.Entry{Kind: o.Kind, ID: o.ID, Value: o.Value, Revision: b.seq}
		if o.Delete {
			e.Value = nil
			delete(b.entries, o.Kind+"/"+o.ID)
		} else {
			b.entries[o.Kind+"/"+o.ID] = e
		}
		b.events = append(b.events, ledger.Event{Entry: e, Deleted: o.Delete})
	}
	close(b.more)
	b.more = make(chan struct{})
	return b.seq, nil
}

// smallGrowth is how many bytes records may grow in a full store.
const smallGrowth = 1 << 10

// fits refuses writes that grow the records while the store is full. The caller holds mu.
func (b *Backend) fits(ops []ledger.Op) error {
	grows := 0
	for _, o := range ops {
		e := b.entries[o.Kind+"/"+o.ID]
		if grows += len(o.Value) - len(e.Value); e.Revision == 0 && !o.Delete {
			grows += smallGrowth
		}
	}
	if b.full && grows > smallGrowth {
		return vm.Errorf(vm.NoSpace, ops[0].ID, "the record store is full").WithHint("delete something")
	}
	return nil
}

// SetFull sets whether the store is full: then it refuses writes that grow the records.
func (b *Backend) SetFull(full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = full
}

// Hold sets whether followers wait for changes that were made already, as when the
// network to the store is down. It works only in memory.
func (b *Backend) Hold(held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = held
	close(b.more)
	b.more = make(chan struct{})
}

// Compact forgets all changes so far. Followers that have not received them get an error.
func (b *Backend) Compact() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone, b.events = b.seq, nil
	close(b.more)
	b.more = make(chan struct{})
}

// Damage replaces a stored record by f of it, as a broken disk or a newer warren would.
// It works only in memory.
func (b *Backend) Damage(kind, id string, f func(value []byte) []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[kind+"/"+id]
	e.Value = f(slices.Clone(e.Value))
	b.entries[kind+"/"+id] = e
}

// Follow returns the changes of every kind.
func (b *Backend) Follow(ctx context.Context, after int64) ledger.Follower {
	if b.Over != nil {
		return b.Over.Follow(ctx, after)
	}
	return &backendFollower{b: b, after: after}
}

type backendFollower struct {
	b      *Backend
	after  int64          // the last revision fetched from b, or unwanted
	events []ledger.Event // fetched and not returned yet
}

// Next waits for a change.
func (f *backendFollower) Next(ctx context.Context) (ledger.Event, error) {
	for len(f.events) == 0 {
		more, err := f.fetch()
		if err != nil {
			return ledger.Event{}, err
		}
		if more == nil {
			break
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ledger.Event{}, ctx.Err()
		}
	}
	ev := f.events[0]
	f.events = f.events[1:]
	return ev, nil
}

// fetch takes the new events. If there are none, it returns a channel that is closed when
// there are some.
func (f *backendFollower) fetch() (more <-chan struct{}, err error) {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	if f.b.held {
		return f.b.more, nil
	}
	if f.after < f.b.gone {
		return nil, vm.Errorf(vm.NotFound, "records", "changes this old are no longer kept").WithCode("REVISION_GONE", "oldest", f.b.gone)
	}
	i, _ := slices.BinarySearchFunc(f.b.events, f.after+1, func(ev ledger.Event, rev int64) int { return cmp.Compare(ev.Revision, rev) })
	if f.events = slices.Clone(f.b.events[i:]); len(f.events) == 0 {
		return f.b.more, nil
	}
	f.after = f.events[len(f.events)-1].Revision
	return nil, nil
}

// Close does nothing: there is nothing to free.
func (f *backendFollower) Close() {}
