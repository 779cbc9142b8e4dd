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

// Services returns the services of the guest's systemd.
func (c *Client) Services(ctx context.Context, ref string) ([]api.ServiceName, error) {
	l, err := do[api.ServiceList](ctx, c, call{method: "GET", path: vmPath(ref, "systemd", "services")}, nil)
	return l.Services, err
}

// Service returns the state of a service.
func (c *Client) Service(ctx context.Context, ref, name string) (vm.UnitStatus, error) {
	return do[vm.UnitStatus](ctx, c, call{method: "GET", path: vmPath(ref, "systemd", "services", name, "status")}, nil)
}

// ServiceLogs returns the last lines of a service's journal, oldest first;
// lines 0 = 100, since "" = from the beginning.
func (c *Client) ServiceLogs(ctx context.Context, ref, name string, lines int, since string) ([]vm.UnitLog, error) {
	q := url.Values{}
	if lines != 0 {
		q.Set("lines", strconv.Itoa(lines))
	}
	if since != "" {
		q.Set("since", since)
	}
	l, err := do[api.ServiceLogs](ctx, c, call{method: "GET", path: vmPath(ref, "systemd", "services", name, "logs"), query: q}, nil)
	return l.Logs, err
}

// AddService installs a service and, unless u.Enable is false, starts it.
func (c *Client) AddService(ctx context.Context, ref string, u vm.Unit) (api.AddedService, error) {
	return do[api.AddedService](ctx, c, call{method: "POST", path: vmPath(ref, "systemd", "services")}, u)
}

// RemoveService stops and removes an added service.
func (c *Client) RemoveService(ctx context.Context, ref, name string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: vmPath(ref, "systemd", "services", name)}, nil)
	return err
}

// SwitchServices starts, stops or restarts services: verb is one of the three.
func (c *Client) SwitchServices(ctx context.Context, ref, verb string, names ...string) ([]vm.UnitResult, error) {
	in := api.ServiceIDs{Services: []api.ServiceID{}}
	for _, n := range names {
		in.Services = append(in.Services, api.ServiceID{ID: n})
	}
	r, err := do[api.ServiceResults](ctx, c, call{method: "POST", path: vmPath(ref, "systemd", verb)}, in)
	return r.Results, err
}

// BuildSnapshot makes a snapshot from a spec.
func (c *Client) BuildSnapshot(ctx context.Context, in api.BuildSnapshot) (vm.SnapshotID, error) {
	r, err := do[api.BuiltSnapshot](ctx, c, call{method: "POST", path: pathOf("v1", "vms", "snapshots")}, in)
	return r.SnapshotID, err
}
