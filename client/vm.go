// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Create makes a VM and returns when it is usable.
func (c *Client) Create(ctx context.Context, r api.CreateVM) (api.CreatedVM, error) {
	return ask[api.CreatedVM](ctx, c, "POST", route("v1", "vms"), nil, r)
}

// Filter says which VMs are listed.
type Filter struct {
	State  vm.State // "" = all
	Search string   // part of a name or the start of an id
	Limit  int      // 0 = the server's
	Offset int
}

// List returns one page of VMs.
func (c *Client) List(ctx context.Context, f Filter) (api.VMList, error) {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" && value != "0" {
			q.Set(name, value)
		}
	}
	set("vmState", string(f.State))
	set("search", f.Search)
	set("limit", strconv.Itoa(f.Limit))
	set("offset", strconv.Itoa(f.Offset))
	return ask[api.VMList](ctx, c, "GET", route("v1", "vms"), q, nil)
}

// ListAll returns every VM that the filter fits.
func (c *Client) ListAll(ctx context.Context, f Filter) ([]api.VM, error) {
	var all []api.VM
	for {
		f.Offset = len(all)
		page, err := c.List(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, page.VMs...)
		if len(page.VMs) == 0 || len(all) >= page.TotalCount {
			return all, nil
		}
	}
}

// Get returns one VM.
func (c *Client) Get(ctx context.Context, ref string) (api.VM, error) {
	return about[api.VM](ctx, c, "GET", ref, nil, nil)
}

// Inspect returns everything known of a VM.
func (c *Client) Inspect(ctx context.Context, ref string) (api.Inspection, error) {
	return about[api.Inspection](ctx, c, "GET", ref, nil, nil, "inspect")
}

// Start starts a stopped VM; a running one stays as it is.
func (c *Client) Start(ctx context.Context, ref string, r api.StartVM) (api.StartedVM, error) {
	return about[api.StartedVM](ctx, c, "POST", ref, r, nil, "start")
}

// Stop powers a VM off: its disk is kept, its memory is not.
func (c *Client) Stop(ctx context.Context, ref string) (api.StoppedVM, error) {
	return about[api.StoppedVM](ctx, c, "POST", ref, nil, nil, "stop")
}

// Kill ends a VM's machine at once.
func (c *Client) Kill(ctx context.Context, ref string) error {
	_, err := about[struct{}](ctx, c, "POST", ref, nil, nil, "kill")
	return err
}

// Delete removes a VM in any state, with its disk and logs.
func (c *Client) Delete(ctx context.Context, ref string) error {
	_, err := about[struct{}](ctx, c, "DELETE", ref, nil, nil)
	return err
}

// Awaited says how a VM ended.
type Awaited struct {
	ID         vm.ID  `json:"id"`
	ExitStatus string `json:"exitStatus"`
}

// Await returns when the VM no longer runs.
func (c *Client) Await(ctx context.Context, ref string) (Awaited, error) {
	return about[Awaited](ctx, c, "POST", ref, nil, nil, "await")
}

// SetNetwork changes what a guest may reach.
func (c *Client) SetNetwork(ctx context.Context, ref, mode string) (api.VM, error) {
	return about[api.VM](ctx, c, "PUT", ref, api.SetNetwork{Mode: mode}, nil, "network")
}

// Connections lists a guest's last connections and how they were judged.
func (c *Client) Connections(ctx context.Context, ref string) ([]vm.Connection, error) {
	out, err := about[api.Connections](ctx, c, "GET", ref, nil, nil, "connections")
	return out.Connections, err
}

// Stats returns a guest's use of its machine.
func (c *Client) Stats(ctx context.Context, ref string) (vm.Stats, error) {
	return about[vm.Stats](ctx, c, "GET", ref, nil, nil, "stats")
}

// Ports lists a guest's listening ports.
func (c *Client) Ports(ctx context.Context, ref string) ([]vm.ListeningPort, error) {
	out, err := about[api.Ports](ctx, c, "GET", ref, nil, nil, "ports")
	return out.Ports, err
}
