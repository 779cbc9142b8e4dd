// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// Diff returns what differs between two states of VMs; a running VM is paused for a
// moment when its present state is wanted.
func (c *Client) Diff(ctx context.Context, ref string, in vm.DiffRequest) (vm.Diff, error) {
	return do[vm.Diff](ctx, c, call{method: "POST", path: vmPath(ref, "diff")}, in)
}

// Truth returns where the authoritative copy of each tree of a VM is, and what exists
// nowhere else; a running VM is paused for a moment.
func (c *Client) Truth(ctx context.Context, ref string) (vm.Truth, error) {
	return do[vm.Truth](ctx, c, call{method: "GET", path: vmPath(ref, "truth")}, nil)
}
