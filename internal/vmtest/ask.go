// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"
	"fmt"
	"time"

	"github.com/warren-vm/warren/internal/asks"
	"github.com/warren-vm/warren/vm"
)

// DenyNext runs f and, as the account's owner, denies the next ask that waits. It returns
// that ask and f's error; an error of its own when f ends without an ask, or neither happens
// in 20 s.
func (h *House) DenyNext(ctx context.Context, owner *vm.Call, f func() error) (ask vm.Ask, outcome, err error) {
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- f() }() // ends with the denial
	for {
		list, err := h.Asks.List(ctx, owner, asks.Filter{State: vm.AskPending})
		if err == nil && len(list) > 0 {
			if _, err = h.Asks.Deny(ctx, &vm.Call{Actor: owner.Actor}, list[0].ID, ""); err == nil {
				return list[0], <-done, nil
			}
		}
		if err != nil {
			return ask, nil, err
		}
		select {
		case outcome := <-done:
			return ask, outcome, fmt.Errorf("it ended without an ask: %w", outcome)
		case <-ctx.Done():
			return ask, nil, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}
