// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/warren-vm/warren/api"
)

// VMRepos lists the repositories that a VM's programs may use as the VM itself.
func (c *Client) VMRepos(ctx context.Context, ref string) ([]api.VMRepo, error) {
	out, err := do[api.VMRepos](ctx, c, call{method: "GET", path: vmPath(ref, "repositories")}, nil)
	return out.Repositories, err
}

// GrantVMRepo lets a VM use a repository, or changes what it may do with it.
func (c *Client) GrantVMRepo(ctx context.Context, ref, repo string, in api.GrantVMRepo) (api.VMRepo, error) {
	return do[api.VMRepo](ctx, c, call{method: "PUT", path: vmPath(ref, "repositories", repo)}, in)
}

// RevokeVMRepo ends a VM's use of a repository.
func (c *Client) RevokeVMRepo(ctx context.Context, ref, repo string) error {
	_, err := do[struct{}](ctx, c, call{method: "DELETE", path: vmPath(ref, "repositories", repo)}, nil)
	return err
}
