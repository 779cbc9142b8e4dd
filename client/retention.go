// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/url"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Usage returns what the caller's VMs have used, those that are gone too, or,
// for an admin who asks for all, those of every account.
func (c *Client) Usage(ctx context.Context, all bool) (api.UsageList, error) {
	q := url.Values{}
	if all {
		q.Set("all", "true")
	}
	return do[api.UsageList](ctx, c, call{method: "GET", path: pathOf("v1", "usage"), query: q}, nil)
}

// UsageOf returns what one VM has used. One that is gone is named by its id.
func (c *Client) UsageOf(ctx context.Context, ref string) (vm.Usage, error) {
	return do[vm.Usage](ctx, c, call{method: "GET", path: vmPath(ref, "usage")}, nil)
}
