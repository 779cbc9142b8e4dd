// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/vm"
)

// NewRecords returns records that live as long as the value: a store for tests
// that are not about the store.
func NewRecords() engine.Records {
	return engine.Records{
		Jobs: newCollection(func(j *vm.Job) (string, *int64) { return string(j.VM), &j.Revision }),
	}
}

// collection keeps records as JSON, as the real store does, with revisions.
type collection[T any] struct {
	key func(*T) (id string, revision *int64)

	mu sync.Mutex
	// guarded by mu
	seq  int64
	recs map[string]stored
}

type stored struct {
	data []byte
	rev  int64
}

func newCollection[T any](key func(*T) (string, *int64)) *collection[T] {
	return &collection[T]{key: key, recs: map[string]stored{}}
}

func (c *collection[T]) List(context.Context) ([]T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]T, 0, len(c.recs))
	var bad store.Unreadable
	for id, s := range c.recs {
		var rec T
		if err := json.Unmarshal(s.data, &rec); err != nil {
			bad.Add(id, s.data, s.rev, vm.Errorf(vm.Corrupt, id, "a record cannot be read: %w", err))
			continue
		}
		_, rev := c.key(&rec)
		*rev = s.rev
		list = append(list, rec)
	}
	if bad.Err != nil {
		return list, &bad
	}
	return list, nil
}

// Damage replaces what is stored of a record, which NewRecords made the
// collection of, by what f makes of it.
func Damage[T any](records engine.Collection[T], id string, f func(data []byte) []byte) {
	c := records.(*collection[T])
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.recs[id]
	s.data = f(s.data)
	c.recs[id] = s
}

func (c *collection[T]) Create(ctx context.Context, rec T) (int64, error) {
	return c.put(ctx, rec, func(id string, _ int64, old stored) error {
		if old.rev != 0 {
			return vm.Errorf(vm.Exists, id, "the record exists")
		}
		return nil
	})
}

func (c *collection[T]) Update(ctx context.Context, rec T) (int64, error) {
	return c.put(ctx, rec, sameRevision)
}

func (c *collection[T]) UpdateAll(ctx context.Context, recs []T) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range recs {
		id, rev := c.key(&recs[i])
		if err := sameRevision(id, *rev, c.recs[id]); err != nil {
			return 0, err
		}
	}
	c.seq++
	for i := range recs {
		data, err := json.Marshal(recs[i])
		if err != nil {
			return 0, err
		}
		id, _ := c.key(&recs[i])
		c.recs[id] = stored{data, c.seq}
	}
	return c.seq, nil
}

func sameRevision(id string, have int64, old stored) error {
	switch old.rev {
	case 0:
		return vm.Errorf(vm.NotFound, id, "no such record")
	case have:
		return nil
	}
	return vm.Errorf(vm.Busy, id, "the record has changed meanwhile")
}

func (c *collection[T]) put(ctx context.Context, rec T, check func(id string, have int64, old stored) error) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return 0, err
	}
	id, rev := c.key(&rec)
	if len(data) > store.MaxRecord {
		return 0, vm.Errorf(vm.Limit, id, "the record would have %d bytes", len(data))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := check(id, *rev, c.recs[id]); err != nil {
		return 0, err
	}
	c.seq++
	c.recs[id] = stored{data, c.seq}
	return c.seq, nil
}

func (c *collection[T]) Delete(_ context.Context, rec T) error {
	id, rev := c.key(&rec)
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.recs[id]
	if *rev == 0 { // of any
		*rev = old.rev
	}
	if err := sameRevision(id, *rev, old); err != nil {
		return err
	}
	delete(c.recs, id)
	return nil
}

// Repositories are git repositories by id.
type Repositories map[string]vm.Repository

// Repository finds one.
func (r Repositories) Repository(_ context.Context, id string) (vm.Repository, error) {
	found, ok := r[id]
	if !ok {
		return found, vm.Errorf(vm.NotFound, id, "no such repository")
	}
	return found, nil
}
