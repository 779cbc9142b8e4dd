// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Create creates a VM, starts it and returns when it is usable.
func (c *Client) Create(ctx context.Context, in api.CreateVM) (api.CreatedVM, error) {
	return do[api.CreatedVM](ctx, c, call{method: "POST", path: pathOf("v1", "vms")}, in)
}

// List returns the caller's VMs or, for an admin with all, those of every account.
// With labels (see vm.ParseLabelSelector) it returns those that match all of them.
func (c *Client) List(ctx context.Context, all bool, labels ...string) (api.VMList, error) {
	q := url.Values{}
	if len(labels) > 0 {
		q["label"] = labels
	}
	if all {
		q.Set("all", "true")
	}
	return do[api.VMList](ctx, c, call{method: "GET", path: pathOf("v1", "vms"), query: q}, nil)
}

// Get returns a VM by its id or name, like every ref of this package.
func (c *Client) Get(ctx context.Context, ref string) (api.VM, error) {
	return do[api.VM](ctx, c, call{method: "GET", path: vmPath(ref)}, nil)
}

// RenameVM gives a VM another name, which no other VM of the account may have.
func (c *Client) RenameVM(ctx context.Context, ref, name string) (api.VM, error) {
	return do[api.VM](ctx, c, call{method: "POST", path: vmPath(ref, "rename")}, api.RenameVM{Name: name})
}

// Label changes a VM's labels: a string sets one, nil removes one, the others stay.
func (c *Client) Label(ctx context.Context, ref string, labels map[string]*string) (api.VM, error) {
	return do[api.VM](ctx, c, call{method: "PATCH", path: vmPath(ref, "labels")}, api.LabelVM{Labels: labels})
}

// Inspect returns all details of a VM and its machine.
func (c *Client) Inspect(ctx context.Context, ref string) (api.Inspection, error) {
	return do[api.Inspection](ctx, c, call{method: "GET", path: vmPath(ref, "inspect")}, nil)
}

// Start starts a stopped VM and returns when it is usable; a running one stays.
func (c *Client) Start(ctx context.Context, ref string, in api.StartVM) (api.StartedVM, error) {
	return do[api.StartedVM](ctx, c, call{method: "POST", path: vmPath(ref, "start")}, in)
}

// Stop shuts a VM down. Its disk is kept, its memory is not.
func (c *Client) Stop(ctx context.Context, ref string) (api.StoppedVM, error) {
	return do[api.StoppedVM](ctx, c, call{method: "POST", path: vmPath(ref, "stop")}, nil)
}

// Kill ends the machine at once; the disk stays as of its last sync.
func (c *Client) Kill(ctx context.Context, ref string) error {
	_, err := do[none](ctx, c, call{method: "POST", path: vmPath(ref, "kill")}, nil)
	return err
}

// Delete removes a VM in any state, with its disk and logs.
func (c *Client) Delete(ctx context.Context, ref string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: vmPath(ref)}, nil)
	return err
}

// Await returns when the VM no longer runs, with the reason.
func (c *Client) Await(ctx context.Context, ref string) (exitStatus string, err error) {
	type awaited struct {
		ExitStatus string `json:"exitStatus"`
	}
	a, err := do[awaited](ctx, c, call{method: "POST", path: vmPath(ref, "await")}, nil)
	return a.ExitStatus, err
}

// Stats returns the guest's use of its machine.
func (c *Client) Stats(ctx context.Context, ref string) (vm.Stats, error) {
	return do[vm.Stats](ctx, c, call{method: "GET", path: vmPath(ref, "stats")}, nil)
}

// State returns what runs in the guest; for a VM that does not run, it
// describes the record.
func (c *Client) State(ctx context.Context, ref string) (vm.GuestState, error) {
	return do[vm.GuestState](ctx, c, call{method: "GET", path: vmPath(ref, "state")}, nil)
}

// Top returns what the guest does now. With apart it takes two samples and reports
// how busy each process was in between; brief leaves out services and journal.
func (c *Client) Top(ctx context.Context, ref string, apart time.Duration, brief bool) (vm.Top, error) {
	q := secondsQuery(apart)
	if brief {
		q.Set("brief", "true")
	}
	return do[vm.Top](ctx, c, call{method: "GET", path: vmPath(ref, "top"), query: q}, nil)
}

// Diagnose returns what is wrong with a VM, from two samples that are apart; 0 = 3 s.
func (c *Client) Diagnose(ctx context.Context, ref string, apart time.Duration) (vm.Diagnosis, error) {
	return do[vm.Diagnosis](ctx, c, call{method: "GET", path: vmPath(ref, "diagnose"), query: secondsQuery(apart)}, nil)
}

func secondsQuery(d time.Duration) url.Values {
	q := url.Values{}
	if d != 0 {
		q.Set("seconds", strconv.FormatFloat(d.Seconds(), 'f', -1, 64))
	}
	return q
}

// Ports returns the guest's listening ports.
func (c *Client) Ports(ctx context.Context, ref string) ([]vm.ListeningPort, error) {
	p, err := do[api.Ports](ctx, c, call{method: "GET", path: vmPath(ref, "ports")}, nil)
	return p.Ports, err
}

// WaitPort returns once a program in the guest accepts connections on a TCP port,
// including its loopback. It waits at most limit (kind Timeout); 0 = without limit.
func (c *Client) WaitPort(ctx context.Context, ref string, port uint16, limit time.Duration) error {
	q := url.Values{}
	if limit > 0 {
		q.Set("timeoutMs", strconv.FormatInt(limit.Milliseconds(), 10))
	}
	_, err := do[api.OpenPort](ctx, c, call{method: "POST", path: vmPath(ref, "ports", strconv.Itoa(int(port)), "wait"), query: q}, nil)
	return err
}

// ConsoleLog returns the console's log from an absolute offset, and the offset of the
// first kept byte. With follow it ends only with ctx, at Close, or with the server.
func (c *Client) ConsoleLog(ctx context.Context, ref string, from int64, follow bool) (io.ReadCloser, int64, error) {
	q := logQuery(from, follow)
	q.Set("source", "console")
	return c.log(ctx, vmPath(ref, "logs"), q)
}

func logQuery(from int64, follow bool) url.Values {
	q := url.Values{}
	if from != 0 {
		q.Set("from", strconv.FormatInt(from, 10))
	}
	if follow {
		q.Set("follow", "true")
	}
	return q
}

// log opens a log that begins at the offset in its header.
func (c *Client) log(ctx context.Context, path string, q url.Values) (io.ReadCloser, int64, error) {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: path, query: q})
	if err != nil {
		return nil, 0, err
	}
	offset, err := strconv.ParseInt(resp.Header.Get(api.HeaderOffset), 10, 64)
	if err != nil || offset < 0 {
		resp.Body.Close()
		return nil, 0, c.foreign(resp)
	}
	return &stream{c: c, ctx: ctx, body: resp.Body}, offset, nil
}
