// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/url"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Turn marks a turn of a VM: a state to which Undo returns.
func (c *Client) Turn(ctx context.Context, ref string, in api.MarkTurn) (vm.Turn, error) {
	return do[vm.Turn](ctx, c, call{method: "POST", path: vmPath(ref, "turns")}, in)
}

// Turns lists the turns of a VM, the oldest first. With compare each has what changed
// until the next turn, the last what changed until now.
func (c *Client) Turns(ctx context.Context, ref string, compare bool) ([]vm.Turn, error) {
	q := url.Values{}
	if compare {
		q.Set("compare", "true")
	}
	l, err := do[api.TurnList](ctx, c, call{method: "GET", path: vmPath(ref, "turns"), query: q}, nil)
	return l.Turns, err
}

// Undo puts a VM back to a turn.
func (c *Client) Undo(ctx context.Context, ref string, in api.UndoVM) (api.UndoneVM, error) {
	return do[api.UndoneVM](ctx, c, call{method: "POST", path: vmPath(ref, "undo")}, in)
}

// Restore brings one path of a VM back from an older state.
func (c *Client) Restore(ctx context.Context, ref string, in vm.RestoreRequest) (vm.Restored, error) {
	return do[vm.Restored](ctx, c, call{method: "POST", path: vmPath(ref, "restore")}, in)
}

// Compare shows how VMs differ from what they were made from, beside each other.
func (c *Client) Compare(ctx context.Context, in vm.CompareRequest) (vm.ForkComparison, error) {
	return do[vm.ForkComparison](ctx, c, call{method: "POST", path: pathOf("v1", "compare")}, in)
}
