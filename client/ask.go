// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/url"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// AskFor says how long later calls wait for an approval that they need; 0 = as long as the
// server's default. Call it before the first request.
func (c *Client) AskFor(d time.Duration) { c.askFor = d }

// Asks returns what waits for a decision and what was decided lately, the newest first;
// state and ref (a VM) "" = all.
func (c *Client) Asks(ctx context.Context, state vm.AskState, kind vm.AskKind, ref string) ([]vm.Ask, error) {
	v := url.Values{}
	for name, text := range map[string]string{"state": string(state), "kind": string(kind), "vm": ref} {
		if text != "" {
			v.Set(name, text)
		}
	}
	l, err := do[api.AskList](ctx, c, call{method: "GET", path: pathOf("v1", "asks"), query: v}, nil)
	return l.Asks, err
}

// Ask returns one ask.
func (c *Client) Ask(ctx context.Context, id string) (vm.Ask, error) {
	return do[vm.Ask](ctx, c, call{method: "GET", path: pathOf("v1", "asks", id)}, nil)
}

// ApproveAsk lets an ask happen. A proposed rule is in force when it returns.
func (c *Client) ApproveAsk(ctx context.Context, id string, in api.ApproveAsk) (vm.Ask, error) {
	return do[vm.Ask](ctx, c, call{method: "POST", path: pathOf("v1", "asks", id, "approve")}, in)
}

// DenyAsk refuses an ask.
func (c *Client) DenyAsk(ctx context.Context, id string, in api.DenyAsk) (vm.Ask, error) {
	return do[vm.Ask](ctx, c, call{method: "POST", path: pathOf("v1", "asks", id, "deny")}, in)
}
