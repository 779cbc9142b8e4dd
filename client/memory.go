// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"net/url"
	"strconv"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Memory returns what is known of a VM's memory.
func (c *Client) Memory(ctx context.Context, ref string) (vm.Memory, error) {
	return do[vm.Memory](ctx, c, call{method: "GET", path: vmPath(ref, "memory")}, nil)
}

// EnableMemory gives a VM a memory; repo "" = a new repository.
func (c *Client) EnableMemory(ctx context.Context, ref, repo string) (vm.Memory, error) {
	return do[vm.Memory](ctx, c, call{method: "POST", path: vmPath(ref, "memory")}, api.EnableMemory{Repo: repo})
}

// DisableMemory ends the commits of a VM's memory; repository and files stay.
func (c *Client) DisableMemory(ctx context.Context, ref string) (vm.Memory, error) {
	return do[vm.Memory](ctx, c, call{method: "DELETE", path: vmPath(ref, "memory")}, nil)
}

// CommitMemory commits a VM's memory now.
func (c *Client) CommitMemory(ctx context.Context, ref, message string) (vm.Memory, error) {
	return do[vm.Memory](ctx, c, call{method: "POST", path: vmPath(ref, "memory", "commit")}, api.CommitMemory{Message: message})
}

// RollbackMemory puts the files of an earlier commit back.
func (c *Client) RollbackMemory(ctx context.Context, ref, commit string) (vm.Memory, error) {
	return do[vm.Memory](ctx, c, call{method: "POST", path: vmPath(ref, "memory", "rollback")}, api.RollbackMemory{Commit: commit})
}

// MemoryLog lists commits of a VM's memory, newest first.
func (c *Client) MemoryLog(ctx context.Context, ref string, limit int) ([]vm.Commit, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	l, err := do[api.MemoryLog](ctx, c, call{method: "GET", path: vmPath(ref, "memory", "log"), query: q}, nil)
	return l.Commits, err
}

// ShowMemory returns what a commit of a VM's memory changed, as a patch; with a path,
// that file as it was. Agents wrote it: do not trust it.
func (c *Client) ShowMemory(ctx context.Context, ref, commit, path string) ([]byte, error) {
	q := url.Values{}
	if path != "" {
		q.Set("path", path)
	}
	resp, err := c.send(ctx, call{method: "GET", path: vmPath(ref, "memory", "commits", commit), query: q})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	return data, nil
}
