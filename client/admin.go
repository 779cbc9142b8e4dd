// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// WhoAmI says whose key this is.
func (c *Client) WhoAmI(ctx context.Context) (api.WhoAmI, error) {
	return ask[api.WhoAmI](ctx, c, "GET", route("auth", "v1", "whoami"), nil, nil)
}

// Images lists the images of the server's host.
func (c *Client) Images(ctx context.Context) ([]vm.Image, error) {
	out, err := ask[api.ImageList](ctx, c, "GET", route("v1", "images"), nil, nil)
	return out.Images, err
}

// Host says what the server's host offers.
func (c *Client) Host(ctx context.Context) (api.Host, error) {
	return ask[api.Host](ctx, c, "GET", route("v1", "host"), nil, nil)
}

// Config returns the server's effective settings; admins only.
func (c *Client) Config(ctx context.Context) (json.RawMessage, error) {
	return ask[json.RawMessage](ctx, c, "GET", route("v1", "config"), nil, nil)
}

// AuditFilter says which audit records are listed.
type AuditFilter struct {
	VM    string // id; "" = all
	Limit int    // 0 = the server's
	After int64  // only records older than this sequence number; 0 = from the newest
}

// Audit lists audit records, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) ([]api.AuditRecord, error) {
	q := url.Values{}
	if f.VM != "" {
		q.Set("vm", f.VM)
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	if f.After > 0 {
		q.Set("after", strconv.FormatInt(f.After, 10))
	}
	out, err := ask[api.AuditList](ctx, c, "GET", route("v1", "audit"), q, nil)
	return out.Records, err
}

// AuditVerify checks the audit chain; admins only.
func (c *Client) AuditVerify(ctx context.Context) (api.AuditReport, error) {
	return ask[api.AuditReport](ctx, c, "GET", route("v1", "audit", "verify"), nil, nil)
}

// Accounts lists accounts; admins only.
func (c *Client) Accounts(ctx context.Context) ([]api.Account, error) {
	out, err := ask[api.AccountList](ctx, c, "GET", route("v1", "accounts"), nil, nil)
	return out.Accounts, err
}

// CreateAccount makes an account with a first key; admins only.
func (c *Client) CreateAccount(ctx context.Context, name string) (api.CreatedAccount, error) {
	return ask[api.CreatedAccount](ctx, c, "POST", route("v1", "accounts"), nil, api.NewAccount{Name: name})
}

// RemoveAccount removes an account, by id or name; one that has VMs only with
// force, and then its VMs too.
func (c *Client) RemoveAccount(ctx context.Context, id string, force bool) error {
	q := url.Values{}
	if force {
		q.Set("force", "true")
	}
	return c.json(ctx, call{method: "DELETE", path: route("v1", "accounts", id), query: q}, nil)
}

// Keys lists API keys of an account; "" = one's own.
func (c *Client) Keys(ctx context.Context, account string) ([]api.Key, error) {
	q := url.Values{}
	if account != "" {
		q.Set("account", account)
	}
	out, err := ask[api.KeyList](ctx, c, "GET", route("v1", "keys"), q, nil)
	return out.Keys, err
}

// CreateKey makes an API key. Its secret is in this answer and nowhere else.
func (c *Client) CreateKey(ctx context.Context, r api.NewKey) (api.CreatedKey, error) {
	return ask[api.CreatedKey](ctx, c, "POST", route("v1", "keys"), nil, r)
}

// RotateKey replaces a key's secret; the old one ends at once.
func (c *Client) RotateKey(ctx context.Context, id string) (api.CreatedKey, error) {
	return ask[api.CreatedKey](ctx, c, "POST", route("v1", "keys", id, "rotate"), nil, nil)
}

// RevokeKey ends a key.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	return c.json(ctx, call{method: "DELETE", path: route("v1", "keys", id)}, nil)
}
