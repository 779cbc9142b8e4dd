// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// as returns the header that names the Linux user whose rights apply; "" = root.
func as(user string) http.Header {
	h := http.Header{}
	if user != "" {
		h.Set(api.HeaderLinuxUser, user)
	}
	return h
}

// Stat describes one entry of the guest's file system without following a
// symlink. In all methods of this file, user is a Linux user of the guest (""
// = root) and a relative path starts in the VM's working directory.
func (c *Client) Stat(ctx context.Context, ref, user, path string) (vm.FileInfo, error) {
	q := url.Values{"path": {path}}
	return do[vm.FileInfo](ctx, c, call{method: "GET", path: vmPath(ref, "fs", "stat"), query: q, header: as(user)}, nil)
}

// ReadDir returns a directory's entries.
func (c *Client) ReadDir(ctx context.Context, ref, user, path string) ([]vm.FileInfo, error) {
	q := url.Values{"path": {path}}
	l, err := do[api.FileList](ctx, c, call{method: "GET", path: vmPath(ref, "fs", "list"), query: q, header: as(user)}, nil)
	return l.Files, err
}

// fileOp calls one of the POST fs/ routes.
func (c *Client) fileOp(ctx context.Context, ref, user, verb string, op api.FileOp) error {
	_, err := do[none](ctx, c, call{method: "POST", path: vmPath(ref, "fs", verb), header: as(user)}, op)
	return err
}

// Mkdir creates a directory, with parents also missing parents.
func (c *Client) Mkdir(ctx context.Context, ref, user, path string, mode uint32, parents bool) error {
	return c.fileOp(ctx, ref, user, "mkdir", api.FileOp{Path: path, Mode: mode, Parents: parents})
}

// Rename renames a file or directory inside the guest.
func (c *Client) Rename(ctx context.Context, ref, user, from, to string) error {
	return c.fileOp(ctx, ref, user, "rename", api.FileOp{From: from, To: to})
}

// Remove removes an entry, with recursive a whole tree.
func (c *Client) Remove(ctx context.Context, ref, user, path string, recursive bool) error {
	return c.fileOp(ctx, ref, user, "remove", api.FileOp{Path: path, Recursive: recursive})
}

// Chmod sets the permission bits of an entry.
func (c *Client) Chmod(ctx context.Context, ref, user, path string, mode uint32) error {
	return c.fileOp(ctx, ref, user, "chmod", api.FileOp{Path: path, Mode: mode})
}

// Symlink makes path a symlink to target.
func (c *Client) Symlink(ctx context.Context, ref, user, target, path string) error {
	return c.fileOp(ctx, ref, user, "symlink", api.FileOp{Target: target, Path: path})
}
