// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Images returns the images of the server's host.
func (c *Client) Images(ctx context.Context) ([]vm.Image, error) {
	l, err := do[api.ImageList](ctx, c, call{method: "GET", path: pathOf("v1", "images")}, nil)
	return l.Images, err
}

// Host returns what the server's host offers.
func (c *Client) Host(ctx context.Context) (api.Host, error) {
	return do[api.Host](ctx, c, call{method: "GET", path: pathOf("v1", "host")}, nil)
}

// Config returns the server's effective settings with their origin. Admins only.
func (c *Client) Config(ctx context.Context) (json.RawMessage, error) {
	return do[json.RawMessage](ctx, c, call{method: "GET", path: pathOf("v1", "config")}, nil)
}

// AuditQuery selects audit records. A zero field selects all.
type AuditQuery struct {
	VM, Op, Actor, ID string
	Since, Until      time.Time
	Limit             int   // 0 = the server's default
	After             int64 // begin after the record with this number
}

// Audit returns audit records, newest first.
func (c *Client) Audit(ctx context.Context, f AuditQuery) ([]api.AuditRecord, error) {
	q := url.Values{}
	for name, text := range map[string]string{"vm": f.VM, "op": f.Op, "actor": f.Actor, "id": f.ID} {
		if text != "" {
			q.Set(name, text)
		}
	}
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339))
		}
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	if f.After > 0 {
		q.Set("after", strconv.FormatInt(f.After, 10))
	}
	l, err := do[api.AuditList](ctx, c, call{method: "GET", path: pathOf("v1", "audit"), query: q}, nil)
	return l.Records, err
}

// AuditVerify checks the chain of audit records, and checkpoints that were kept outside
// against it. Admins only.
func (c *Client) AuditVerify(ctx context.Context, outside []vm.Checkpoint) (api.AuditReport, error) {
	return do[api.AuditReport](ctx, c, call{method: "POST", path: pathOf("v1", "audit", "verify")}, api.VerifyAudit{Anchors: outside})
}

// AuditAcceptNewLog records that the loss of the audit log before this one is known, which
// AuditVerify calls a fault until then, and checks the chain. Admins only.
func (c *Client) AuditAcceptNewLog(ctx context.Context, outside []vm.Checkpoint) (api.AuditReport, error) {
	return do[api.AuditReport](ctx, c, call{method: "POST", path: pathOf("v1", "audit", "verify")}, api.VerifyAudit{Anchors: outside, AcceptNewLog: true})
}

// AuditPrune removes audit records that are older than before, in whole segments. Admins
// only.
func (c *Client) AuditPrune(ctx context.Context, before time.Time) (vm.AuditPruned, error) {
	return do[vm.AuditPruned](ctx, c, call{method: "POST", path: pathOf("v1", "audit", "prune")}, api.PruneAudit{Before: before})
}

// AuditRotateKey lets another key sign the audit log; to = "": the server makes one. Admins
// only.
func (c *Client) AuditRotateKey(ctx context.Context, to string) (api.AuditKey, error) {
	return do[api.AuditKey](ctx, c, call{method: "POST", path: pathOf("v1", "audit", "key")}, api.RotateAuditKey{To: to})
}

// Receipt returns the signed receipt of a VM; a deleted one is named by its id.
func (c *Client) Receipt(ctx context.Context, ref string) (vm.Receipt, error) {
	return do[vm.Receipt](ctx, c, call{method: "GET", path: pathOf("v1", "receipts", ref)}, nil)
}

// Accounts returns all accounts. Admins only.
func (c *Client) Accounts(ctx context.Context) ([]api.Account, error) {
	l, err := do[api.AccountList](ctx, c, call{method: "GET", path: pathOf("v1", "accounts")}, nil)
	return l.Accounts, err
}

// CreateAccount creates an account with a first key, whose secret only this
// answer has. Admins only.
func (c *Client) CreateAccount(ctx context.Context, name string) (api.CreatedAccount, error) {
	return do[api.CreatedAccount](ctx, c, call{method: "POST", path: pathOf("v1", "accounts")}, api.NewAccount{Name: name})
}

// RemoveAccount removes an account; with force also its VMs. Admins only.
func (c *Client) RemoveAccount(ctx context.Context, id string, force bool) error {
	q := url.Values{}
	if force {
		q.Set("force", "true")
	}
	_, err := do[none](ctx, c, call{method: "DELETE", path: pathOf("v1", "accounts", id), query: q}, nil)
	return err
}

// Keys returns API keys without their secrets: the caller's own, or, for an
// admin, those of the account ("" = the caller's own).
func (c *Client) Keys(ctx context.Context, account string) ([]api.Key, error) {
	q := url.Values{}
	if account != "" {
		q.Set("account", account)
	}
	l, err := do[api.KeyList](ctx, c, call{method: "GET", path: pathOf("v1", "keys"), query: q}, nil)
	return l.Keys, err
}

// CreateKey creates an API key, whose secret only this answer has.
func (c *Client) CreateKey(ctx context.Context, in api.NewKey) (api.CreatedKey, error) {
	return do[api.CreatedKey](ctx, c, call{method: "POST", path: pathOf("v1", "keys")}, in)
}

// RotateKey replaces a key's secret; the old one stops working at once.
func (c *Client) RotateKey(ctx context.Context, id string) (api.CreatedKey, error) {
	return do[api.CreatedKey](ctx, c, call{method: "POST", path: pathOf("v1", "keys", id, "rotate")}, nil)
}

// RevokeKey removes a key.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: pathOf("v1", "keys", id)}, nil)
	return err
}

// WhoAmI returns the owner of this client's key.
func (c *Client) WhoAmI(ctx context.Context) (api.WhoAmI, error) {
	return do[api.WhoAmI](ctx, c, call{method: "GET", path: pathOf("auth", "v1", "whoami")}, nil)
}
