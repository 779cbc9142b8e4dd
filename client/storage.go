// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Storage returns the disk space in use, and what would be removed next.
func (c *Client) Storage(ctx context.Context) (vm.Storage, error) {
	return do[vm.Storage](ctx, c, call{method: "GET", path: pathOf("v1", "storage")}, nil)
}

// Prune frees space on the disk, or lists what it would remove.
func (c *Client) Prune(ctx context.Context, r api.Prune) (vm.Pruned, error) {
	return do[vm.Pruned](ctx, c, call{method: "POST", path: pathOf("v1", "storage", "prune")}, r)
}

// Quota returns an account's limits and use; "" = the caller's own. Only
// admins may name another account.
func (c *Client) Quota(ctx context.Context, account string) (vm.QuotaState, error) {
	path := pathOf("v1", "quota")
	if account != "" {
		path = pathOf("v1", "accounts", account, "quota")
	}
	return do[vm.QuotaState](ctx, c, call{method: "GET", path: path}, nil)
}

// SetQuota sets an account's limits; 0 = no limit. Admins only.
func (c *Client) SetQuota(ctx context.Context, account string, q vm.Quota) (vm.QuotaState, error) {
	return do[vm.QuotaState](ctx, c, call{method: "PUT", path: pathOf("v1", "accounts", account, "quota")}, q)
}
