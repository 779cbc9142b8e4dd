// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// certain puts a certainty before the collections whose records are kept in
// memory with their revisions. Records of VMs, generations and usage have theirs
// in resaved.
func certain(r Records) Records {
	r.Jobs = withCertainty(r.Jobs, func(j *vm.Job) (string, *int64) { return string(j.VM), &j.Revision })
	return r
}

// certainty finds out what became of a write whose answer was lost. The store is
// asked at once, and, where it does not answer then, when a later change meets
// another revision than it expects. What the store has is our own write if it is
// one that was tried; what anybody else wrote is never overwritten.
type certainty[T any] struct {
	Collection[T]
	key func(*T) (id string, revision *int64)

	mu sync.Mutex
	// guarded by mu
	tried map[string][]sum // writes whose outcome is not known, by id
}

type sum [sha256.Size]byte

const (
	lookDeadline = 3 * time.Second // of a look at the store after a lost answer
	maxTried     = 8               // writes that are remembered of one record
	maxUncertain = 4096            // records of which some are remembered
)

func withCertainty[T any](c Collection[T], key func(*T) (string, *int64)) Collection[T] {
	return &certainty[T]{Collection: c, key: key, tried: map[string][]sum{}}
}

// Create is the collection's. A record that an earlier try has made is replaced.
func (c *certainty[T]) Create(ctx context.Context, rec T) (int64, error) {
	return c.write(ctx, rec, vm.Exists, c.Collection.Create)
}

// Update is the collection's.
func (c *certainty[T]) Update(ctx context.Context, rec T) (int64, error) {
	return c.write(ctx, rec, vm.Busy, c.Collection.Update)
}

// write makes a change. taken is the kind of error that tells of another record
// in the store.
func (c *certainty[T]) write(ctx context.Context, rec T, taken vm.Kind, change func(context.Context, T) (int64, error)) (int64, error) {
	id, revision := c.key(&rec)
	mine := c.sum(rec)
	rev, err := change(ctx, rec)
	switch {
	case err == nil:
		c.forget(id)
		return rev, nil
	case vm.KindOf(err) == taken:
		stored, found, lerr := c.look(ctx, id)
		if lerr != nil || !found {
			return 0, err
		}
		_, now := c.key(&stored)
		switch has := c.sum(stored); {
		case has == mine: // the store has done it, and was asked twice
			c.forget(id)
			return *now, nil
		case !c.own(id, has):
			return 0, err
		}
		*revision = *now
		if rev, err = c.Collection.Update(ctx, rec); err == nil {
			c.forget(id)
		} else if !decided(err) {
			c.remember(id, mine)
		}
		return rev, err
	case decided(err):
		return 0, err
	}
	c.remember(id, mine)
	if stored, found, lerr := c.look(ctx, id); lerr == nil && found && c.sum(stored) == mine {
		_, now := c.key(&stored)
		c.forget(id)
		return *now, nil
	}
	return 0, err
}

// Delete is the collection's.
func (c *certainty[T]) Delete(ctx context.Context, rec T) error {
	id, revision := c.key(&rec)
	err := c.Collection.Delete(ctx, rec)
	if err == nil || vm.KindOf(err) == vm.NotFound {
		c.forget(id)
		return err
	}
	if decided(err) && vm.KindOf(err) != vm.Busy {
		return err
	}
	stored, found, lerr := c.look(ctx, id)
	switch {
	case lerr != nil:
		return err
	case !found: // it was done
		c.forget(id)
		return nil
	case vm.KindOf(err) != vm.Busy || !c.own(id, c.sum(stored)):
		return err
	}
	_, now := c.key(&stored)
	*revision = *now
	if err = c.Collection.Delete(ctx, rec); err == nil {
		c.forget(id)
	}
	return err
}

// decided reports whether a failed change was certainly not made.
func decided(err error) bool {
	switch vm.KindOf(err) {
	case vm.Busy, vm.NotFound, vm.Exists, vm.Limit, vm.NoSpace, vm.Invalid:
		return true
	}
	return false
}

// look reads one record. It has a time of its own: that of the change may be up.
func (c *certainty[T]) look(ctx context.Context, id string) (rec T, found bool, err error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), lookDeadline)
	defer stop()
	list, err := c.List(ctx)
	if err != nil {
		return rec, false, err
	}
	for i := range list {
		if has, _ := c.key(&list[i]); has == id {
			return list[i], true, nil
		}
	}
	return rec, false, nil
}

// sum is of a record's contents, without its revision.
func (c *certainty[T]) sum(rec T) sum {
	_, revision := c.key(&rec)
	*revision = 0
	data, err := json.Marshal(rec)
	if err != nil {
		return sum{} // no such record can be stored
	}
	return sha256.Sum256(data)
}

func (c *certainty[T]) own(id string, has sum) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.tried[id] {
		if s == has {
			return true
		}
	}
	return false
}

func (c *certainty[T]) remember(id string, s sum) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.tried { // any: it is one of thousands that the store did not answer
		if len(c.tried) < maxUncertain {
			break
		}
		delete(c.tried, other)
	}
	list := append(c.tried[id], s)
	c.tried[id] = list[max(0, len(list)-maxTried):]
}

func (c *certainty[T]) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tried, id)
}
