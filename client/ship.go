// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// Publish stores a file or directory of a VM as a new version of an object.
func (c *Client) Publish(ctx context.Context, ref string, in vm.PublishRequest) (vm.Published, error) {
	return do[vm.Published](ctx, c, call{method: "POST", path: vmPath(ref, "publish")}, in)
}

// Fetch brings a version of an object into a VM.
func (c *Client) Fetch(ctx context.Context, ref string, in vm.FetchRequest) (vm.Fetched, error) {
	return do[vm.Fetched](ctx, c, call{method: "POST", path: vmPath(ref, "fetch")}, in)
}
