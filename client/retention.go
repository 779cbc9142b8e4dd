// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/url"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Usage returns what the caller's VMs have used, including deleted ones; with
// all, an admin gets those of every account.
func (c *Client) Usage(ctx context.Context, all bool) (api.UsageList, error) {
	q := url.Values{}
	if all {
		q.Set("all", "true")
	}
	return do[api.UsageList](ctx, c, call{method: "GET", path: pathOf("v1", "usage"), query: q}, nil)
}

// UsageOf returns what one VM has used. Name a deleted VM by its id.
func (c *Client) UsageOf(ctx context.Context, ref string) (vm.Usage, error) {
	return do[vm.Usage](ctx, c, call{method: "GET", path: vmPath(ref, "usage")}, nil)
}

// Shred deletes a VM, and says which data became unreadable and which did
// not.
func (c *Client) Shred(ctx context.Context, ref string) (vm.Shredded, error) {
	q := url.Values{"shred": {"true"}}
	d, err := do[api.DeletedVM](ctx, c, call{method: "DELETE", path: vmPath(ref), query: q}, nil)
	if err != nil || d.Shredded == nil {
		return vm.Shredded{}, err
	}
	return *d.Shredded, nil
}

// Remains lists what the host still has of a VM. Name a deleted VM by its id.
func (c *Client) Remains(ctx context.Context, ref string) (vm.Remaining, error) {
	return do[vm.Remaining](ctx, c, call{method: "GET", path: vmPath(ref, "remains")}, nil)
}

// Done closes the steps of a VM's job that in names, and returns the job's
// record.
func (c *Client) Done(ctx context.Context, ref string, in api.FinishVM) (vm.Job, error) {
	return do[vm.Job](ctx, c, call{method: "POST", path: vmPath(ref, "done")}, in)
}

// Jobs returns the closed jobs, newest first.
func (c *Client) Jobs(ctx context.Context) ([]vm.Job, error) {
	l, err := do[api.JobList](ctx, c, call{method: "GET", path: pathOf("v1", "jobs")}, nil)
	return l.Jobs, err
}
