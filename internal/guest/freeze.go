// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// Freeze freezes the guest's programs until Thaw, or until a Wake with all
// resets acknowledged. With disk it also writes back and freezes the root file
// system. The report names the groups that did not freeze in time.
func (c *Client) Freeze(ctx context.Context, disk bool) (vm.FreezeReport, error) {
	q := url.Values{}
	if disk {
		q.Set("disk", "1")
	}
	return c.askFreeze(ctx, q)
}

// FreezeSynced freezes the guest's programs, and then writes what they have written to
// the disks, which are not frozen. Agents without the feature "sync" only freeze.
func (c *Client) FreezeSynced(ctx context.Context) (vm.FreezeReport, error) {
	return c.askFreeze(ctx, url.Values{"sync": {"1"}})
}

// Sync writes what programs have written to the guest's disks. It needs the feature
// "sync".
func (c *Client) Sync(ctx context.Context) error {
	_, err := c.ask(ctx, "POST", "/sync", nil, nil)
	return err
}

func (c *Client) askFreeze(ctx context.Context, q url.Values) (vm.FreezeReport, error) {
	b, err := c.ask(ctx, "POST", "/freeze", q, nil)
	if err != nil {
		return vm.FreezeReport{}, err
	}
	r, err := link.DecodeFreeze(b)
	r.Unfrozen = cleanAll(r.Unfrozen, maxWords)
	return r, odd(err)
}

// Thaw releases everything that Freeze stopped; it may be called at any time.
// It first sets the guest's clock forward, which was paused with its machine.
func (c *Client) Thaw(ctx context.Context) error {
	_, err := c.ask(ctx, "POST", "/thaw", url.Values{"time": {strconv.FormatInt(time.Now().UnixNano(), 10)}}, nil)
	return err
}

// SetClock sets the guest's clock forward to the host's time, so its error is
// the time that the request takes. Old agents without this verb refuse it.
func (c *Client) SetClock(ctx context.Context) error {
	_, err := c.ask(ctx, "POST", "/clock", url.Values{"time": {strconv.FormatInt(time.Now().UnixNano(), 10)}}, nil)
	return err
}
