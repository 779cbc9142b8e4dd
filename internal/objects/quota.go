// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// quota counts the bytes that accounts are storing. It asks the engine for the room of an
// account only now and then, because that reads the size of every file.
type quota struct {
	left  func(ctx context.Context, account vm.AccountID) (int64, error)
	limit func(account vm.AccountID) int64 // the account's own quota
	now   func() time.Time

	mu sync.Mutex
	of map[vm.AccountID]*room // guarded by mu
}

// room is what an account may store.
type room struct {
	measured  time.Time
	limit     int64 // the account's quota then
	left      int64 // then
	spent     int64 // since then, with what is being written
	inFlight  int64
	unlimited bool
}

const (
	quotaEvery = 20 * time.Second // how old a measurement may be
	quotaSoon  = time.Second      // how old it may be to refuse
)

func (q *quota) init(now func() time.Time) { q.now, q.of = now, map[vm.AccountID]*room{} }

// left is how many more bytes of objects an account may store; negative = no limit. The
// engine counts files; what is in the index is counted here.
func (o *Objects) left(ctx context.Context, account vm.AccountID) (int64, error) {
	left, err := o.cfg.DiskLeft(ctx, account)
	if err != nil || left < 0 {
		return left, err
	}
	err = o.index.view(func(t *tx) error {
		for _, b := range o.buckets.By(byAccount, string(account)) {
			var u vm.BucketUse
			if _, err := t.getJSON(inUse, []byte(b.ID), &u); err != nil {
				return err
			}
			left -= u.Small + (u.Versions+u.Pending)*versionBytes
		}
		return nil
	})
	return max(0, left), err
}

// reserve counts n more bytes of an account. The caller calls settle once with what it has
// kept. Kind Limit, code OBJECT_QUOTA_EXCEEDED.
func (q *quota) reserve(ctx context.Context, account vm.AccountID, n int64) (settle func(kept bool), err error) {
	if q.left == nil {
		return func(bool) {}, nil
	}
	for {
		limit := q.limit(account)
		q.mu.Lock()
		r := q.of[account]
		age := time.Duration(1<<63 - 1)
		if r != nil && r.limit == limit { // a changed quota is in force at once
			age = q.now().Sub(r.measured)
		}
		fits := r != nil && (r.unlimited || n <= r.left-r.spent)
		switch {
		case fits && age < quotaEvery:
			r.spent += n
			r.inFlight += n
			q.mu.Unlock()
			return func(kept bool) { q.settle(r, n, kept) }, nil
		case r != nil && !fits && age < quotaSoon:
			left := max(0, r.left-r.spent)
			q.mu.Unlock()
			return nil, overQuota(left)
		}
		q.mu.Unlock()
		if err := q.measure(ctx, account); err != nil {
			return nil, err
		}
	}
}

func overQuota(left int64) error {
	return vm.Errorf(vm.Limit, "", "the account may store %d KiB more, and this is larger", left>>10).WithCode("OBJECT_QUOTA_EXCEEDED", "left", left).
		WithHint("remove versions, VMs or snapshots, or ask an admin for more: `warren account quota`")
}

func (q *quota) settle(r *room, n int64, kept bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.inFlight -= n
	if !kept {
		r.spent -= n
	}
}

func (q *quota) measure(ctx context.Context, account vm.AccountID) error {
	limit := q.limit(account)
	left, err := q.left(ctx, account)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.of[account]
	if r == nil {
		r = &room{}
		q.of[account] = r
	}
	r.measured, r.limit, r.left, r.unlimited = q.now(), limit, left, left < 0
	r.spent = r.inFlight
	return nil
}
