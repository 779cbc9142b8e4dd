// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// recordDeadline bounds one write of a record.
const recordDeadline = 10 * time.Second

// durable bounds a write of a record. The caller's cancellation does not reach
// it: a write whose outcome is not known would be worse than a late one.
func durable(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordDeadline)
}

// saved makes one durable change of a record.
func saved[T any](ctx context.Context, rec T, change func(context.Context, T) (int64, error)) (int64, error) {
	ctx, stop := durable(ctx)
	defer stop()
	return change(ctx, rec)
}

// deleting is a collection's Delete as a change for saved.
func deleting[T any](c Collection[T]) func(context.Context, T) (int64, error) {
	return func(ctx context.Context, rec T) (int64, error) { return 0, gone(c.Delete(ctx, rec)) }
}

// dropped removes a record durably.
func dropped[T any](ctx context.Context, rec T, drop func(context.Context, T) error) error {
	ctx, stop := durable(ctx)
	defer stop()
	return drop(ctx, rec)
}

// gone makes it no error that what is to be removed is not there.
func gone(err error) error {
	if vm.KindOf(err) == vm.NotFound {
		return nil
	}
	return err
}

// resaved replaces a record durably. Where the store has another revision of it,
// the answer to an earlier write was lost, as by a disk that stood still: this
// server is the only one that writes, and what it has in memory is what is true.
func resaved[T any](ctx context.Context, c Collection[T], rec T, key func(*T) (id string, revision *int64)) (int64, error) {
	rev, err := saved(ctx, rec, c.Update)
	if vm.KindOf(err) != vm.Busy {
		return rev, err
	}
	bounded, stop := durable(ctx)
	defer stop()
	list, lerr := c.List(bounded)
	if lerr != nil {
		return 0, lerr
	}
	id, revision := key(&rec)
	for i := range list {
		if other, now := key(&list[i]); other == id {
			*revision = *now
			return saved(ctx, rec, c.Update)
		}
	}
	return 0, err
}
