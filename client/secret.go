// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/warren-vm/warren/api"
)

// SetSecret keeps a secret, or replaces the value of one.
func (c *Client) SetSecret(ctx context.Context, in api.SetSecret) (api.Secret, error) {
	return do[api.Secret](ctx, c, call{method: "POST", path: pathOf("v1", "secrets")}, in)
}

// Secrets returns the account's secrets by name, without their values.
func (c *Client) Secrets(ctx context.Context) ([]api.Secret, error) {
	l, err := do[api.SecretList](ctx, c, call{method: "GET", path: pathOf("v1", "secrets")}, nil)
	return l.Secrets, err
}

// Secret returns one secret without its value, and the VMs that may use it.
func (c *Client) Secret(ctx context.Context, name string) (api.Secret, error) {
	return do[api.Secret](ctx, c, call{method: "GET", path: pathOf("v1", "secrets", name)}, nil)
}

// RotateSecret gives a secret a new value at its service.
func (c *Client) RotateSecret(ctx context.Context, name string) (api.Secret, error) {
	return do[api.Secret](ctx, c, call{method: "POST", path: pathOf("v1", "secrets", name, "rotate")}, nil)
}

// RemoveSecret removes a secret. No VM can use it any more.
func (c *Client) RemoveSecret(ctx context.Context, name string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: pathOf("v1", "secrets", name)}, nil)
	return err
}

// GrantSecret lets a VM use a secret.
func (c *Client) GrantSecret(ctx context.Context, name, ref string) (api.SecretVM, error) {
	return do[api.SecretVM](ctx, c, call{method: "PUT", path: pathOf("v1", "secrets", name, "vms", ref)}, nil)
}

// RevokeSecret ends the use of a secret by a VM.
func (c *Client) RevokeSecret(ctx context.Context, name, ref string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: pathOf("v1", "secrets", name, "vms", ref)}, nil)
	return err
}
