// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Storage says who uses what of the disk and what would go next.
func (c *Client) Storage(ctx context.Context) (vm.Storage, error) {
	return do[vm.Storage](ctx, c, call{method: "GET", path: pathOf("v1", "storage")}, nil)
}

// Prune makes room on the disk, or says what it would take.
func (c *Client) Prune(ctx context.Context, r api.Prune) (vm.Pruned, error) {
	return do[vm.Pruned](ctx, c, call{method: "POST", path: pathOf("v1", "storage", "prune")}, r)
}

// Quota says what an account may have and what it has; "" = one's own, another
// one's is for admins.
func (c *Client) Quota(ctx context.Context, account string) (vm.QuotaState, error) {
	path := pathOf("v1", "quota")
	if account != "" {
		path = pathOf("v1", "accounts", account, "quota")
	}
	return do[vm.QuotaState](ctx, c, call{method: "GET", path: path}, nil)
}

// SetQuota says what an account may have; zero fields are no limit. Admins
// only.
func (c *Client) SetQuota(ctx context.Context, account string, q vm.Quota) (vm.QuotaState, error) {
	return do[vm.QuotaState](ctx, c, call{method: "PUT", path: pathOf("v1", "accounts", account, "quota")}, q)
}
