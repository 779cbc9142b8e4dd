// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Idle explains when a VM will be suspended, or why not; the request does not
// wake it.
func (c *Client) Idle(ctx context.Context, ref string) (vm.Idle, error) {
	return do[vm.Idle](ctx, c, call{method: "GET", path: vmPath(ref, "idle")}, nil)
}

// Hold keeps a VM awake for a while.
func (c *Client) Hold(ctx context.Context, ref string, in api.NewHold) (vm.Hold, error) {
	return do[vm.Hold](ctx, c, call{method: "POST", path: vmPath(ref, "holds")}, in)
}

// Holds lists a VM's holds, the one that ends first coming first.
func (c *Client) Holds(ctx context.Context, ref string) ([]vm.Hold, error) {
	l, err := do[api.HoldList](ctx, c, call{method: "GET", path: vmPath(ref, "holds")}, nil)
	return l.Holds, err
}

// Release ends a hold early.
func (c *Client) Release(ctx context.Context, ref, hold string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: vmPath(ref, "holds", hold)}, nil)
	return err
}
