// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/warren-vm/warren/api"
)

// identityPath returns the path of something that belongs to an identity, named by id or name.
func identityPath(ref string, rest ...string) string {
	return pathOf(append([]string{"identity", "v1", "identities", ref}, rest...)...)
}

// CreateIdentity makes an identity without rights; name "" = none.
func (c *Client) CreateIdentity(ctx context.Context, name string) (api.Identity, error) {
	return do[api.Identity](ctx, c, call{method: "POST", path: pathOf("identity", "v1", "identities")}, api.NewIdentity{Name: name})
}

func pageQuery(limit, offset int) url.Values {
	return url.Values{"limit": {strconv.Itoa(limit)}, "offset": {strconv.Itoa(offset)}}
}

// Identities returns one page of the account's identities, oldest first; limit
// 0 = all.
func (c *Client) Identities(ctx context.Context, limit, offset int) (api.IdentityList, error) {
	return do[api.IdentityList](ctx, c, call{method: "GET", path: pathOf("identity", "v1", "identities"), query: pageQuery(limit, offset)}, nil)
}

// DeleteIdentity deletes an identity with its tokens, keys and permissions.
func (c *Client) DeleteIdentity(ctx context.Context, ref string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: identityPath(ref)}, nil)
	return err
}

// CreateToken creates a token of an identity. Only this answer has its secret.
func (c *Client) CreateToken(ctx context.Context, identity string, in api.NewToken) (api.CreatedToken, error) {
	return do[api.CreatedToken](ctx, c, call{method: "POST", path: identityPath(identity, "tokens")}, in)
}

// Tokens returns the tokens of an identity, without their secrets.
func (c *Client) Tokens(ctx context.Context, identity string) ([]api.Token, error) {
	l, err := do[api.TokenList](ctx, c, call{method: "GET", path: identityPath(identity, "tokens")}, nil)
	return l.Tokens, err
}

// RevokeToken revokes a token at once, and closes all connections that use
// it.
func (c *Client) RevokeToken(ctx context.Context, identity, id string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: identityPath(identity, "tokens", id)}, nil)
	return err
}

// GrantVM lets an identity use a VM.
func (c *Client) GrantVM(ctx context.Context, identity, ref string, in api.GrantVM) (api.VMPermission, error) {
	return do[api.VMPermission](ctx, c, call{method: "POST", path: identityPath(identity, "permissions", "vm", ref)}, in)
}

// ChangeGrant replaces the Linux users of a permission.
func (c *Client) ChangeGrant(ctx context.Context, identity, ref string, in api.GrantVM) (api.VMPermission, error) {
	return do[api.VMPermission](ctx, c, call{method: "PUT", path: identityPath(identity, "permissions", "vm", ref)}, in)
}

// RevokeVM revokes a permission.
func (c *Client) RevokeVM(ctx context.Context, identity, ref string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: identityPath(identity, "permissions", "vm", ref)}, nil)
	return err
}

// VMPermissions returns one page of an identity's permissions, oldest first;
// limit 0 = all.
func (c *Client) VMPermissions(ctx context.Context, identity string, limit, offset int) (api.VMPermissionList, error) {
	return do[api.VMPermissionList](ctx, c, call{method: "GET", path: identityPath(identity, "permissions", "vm"), query: pageQuery(limit, offset)}, nil)
}

// AddSSHKey lets the holder of an SSH key act as an identity.
func (c *Client) AddSSHKey(ctx context.Context, identity string, in api.NewSSHKey) (api.SSHKey, error) {
	return do[api.SSHKey](ctx, c, call{method: "POST", path: identityPath(identity, "keys")}, in)
}

// SSHKeys returns the SSH keys of an identity.
func (c *Client) SSHKeys(ctx context.Context, identity string) ([]api.SSHKey, error) {
	l, err := do[api.SSHKeyList](ctx, c, call{method: "GET", path: identityPath(identity, "keys")}, nil)
	return l.Keys, err
}

// RemoveSSHKey removes a key, named by id, name or fingerprint.
func (c *Client) RemoveSSHKey(ctx context.Context, identity, key string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: identityPath(identity, "keys", key)}, nil)
	return err
}
