// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/url"

	"github.com/warren-vm/warren/api"
)

// Paths returns a VM's path rules, in the order in which they decide.
func (c *Client) Paths(ctx context.Context, ref string) (api.PathRules, error) {
	return do[api.PathRules](ctx, c, call{method: "GET", path: vmPath(ref, "paths")}, nil)
}

// AddPath adds a path rule before all others, in place of one with the same pattern.
func (c *Client) AddPath(ctx context.Context, ref string, r api.AddPath) (api.PathRules, error) {
	return do[api.PathRules](ctx, c, call{method: "POST", path: vmPath(ref, "paths")}, r)
}

// SetPaths sets all path rules of a VM.
func (c *Client) SetPaths(ctx context.Context, ref string, list []api.AddPath) (api.PathRules, error) {
	return do[api.PathRules](ctx, c, call{method: "PUT", path: vmPath(ref, "paths")}, api.SetPaths{Rules: list})
}

// RemovePath removes the path rule with an id or a pattern, which may be about what is below
// a mount point.
func (c *Client) RemovePath(ctx context.Context, ref, rule, mount string) (api.PathRules, error) {
	q := url.Values{"rule": {rule}}
	if mount != "" {
		q.Set("mount", mount)
	}
	return do[api.PathRules](ctx, c, call{method: "DELETE", path: vmPath(ref, "paths"), query: q}, nil)
}
