// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Network returns what a VM may reach.
func (c *Client) Network(ctx context.Context, ref string) (api.Network, error) {
	return do[api.Network](ctx, c, call{method: "GET", path: vmPath(ref, "network")}, nil)
}

// SetNetwork replaces a VM's network policy.
func (c *Client) SetNetwork(ctx context.Context, ref string, in api.SetNetwork) (api.ChangedNetwork, error) {
	return do[api.ChangedNetwork](ctx, c, call{method: "PUT", path: vmPath(ref, "network")}, in)
}

// ChangeNetwork adds and removes rules of a VM's network policy.
func (c *Client) ChangeNetwork(ctx context.Context, ref string, in api.ChangeNetwork) (api.ChangedNetwork, error) {
	return do[api.ChangedNetwork](ctx, c, call{method: "PATCH", path: vmPath(ref, "network")}, in)
}

// CheckNetwork returns what a VM's policy says of a request, without making it.
func (c *Client) CheckNetwork(ctx context.Context, ref string, q vm.NetQuestion) (vm.NetAnswer, error) {
	return do[vm.NetAnswer](ctx, c, call{method: "POST", path: vmPath(ref, "network", "check")}, q)
}

// NetworkRefusals returns what a running VM's network refused lately, the newest last.
func (c *Client) NetworkRefusals(ctx context.Context, ref string) ([]vm.NetRefusal, error) {
	l, err := do[api.NetRefusals](ctx, c, call{method: "GET", path: vmPath(ref, "network", "refusals")}, nil)
	return l.Refusals, err
}

// Connections returns the guest's last connections, allowed and refused.
func (c *Client) Connections(ctx context.Context, ref string) ([]vm.Connection, error) {
	l, err := do[api.Connections](ctx, c, call{method: "GET", path: vmPath(ref, "connections")}, nil)
	return l.Connections, err
}

// Policies returns the network policies that come with Warren, then the account's own.
func (c *Client) Policies(ctx context.Context) ([]api.Policy, error) {
	l, err := do[api.PolicyList](ctx, c, call{method: "GET", path: pathOf("v1", "policies")}, nil)
	return l.Policies, err
}

// Policy returns one network policy, with the VMs that use it.
func (c *Client) Policy(ctx context.Context, name string) (api.Policy, error) {
	return do[api.Policy](ctx, c, call{method: "GET", path: pathOf("v1", "policies", name)}, nil)
}

// SetPolicy makes or replaces a network policy. VMs that use it get its rules at once.
func (c *Client) SetPolicy(ctx context.Context, name string, network vm.NetworkSpec) (api.ChangedPolicy, error) {
	return do[api.ChangedPolicy](ctx, c, call{method: "PUT", path: pathOf("v1", "policies", name)}, api.SetPolicy{Network: network})
}

// RemovePolicy removes a network policy that no VM uses.
func (c *Client) RemovePolicy(ctx context.Context, name string) error {
	_, err := do[struct{}](ctx, c, call{method: "DELETE", path: pathOf("v1", "policies", name)}, nil)
	return err
}
