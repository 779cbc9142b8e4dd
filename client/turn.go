// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Turn marks a turn of a VM: a state to which Undo returns.
func (c *Client) Turn(ctx context.Context, ref string, in api.MarkTurn) (vm.Turn, error) {
	return do[vm.Turn](ctx, c, call{method: "POST", path: vmPath(ref, "turns")}, in)
}
