// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/warren-vm/warren/vm"
)

var diskName = regexp.MustCompile(`^/dev/vd[a-z]{1,2}$`)

// Disk waits until the guest has found a volume's disk. It returns the
// guest's device name and what the disk holds: vm.DiskEmpty, ...
func (c *Client) Disk(ctx context.Context, id vm.VolumeID) (device, holds string, err error) {
	b, err := c.ask(ctx, "GET", "/disk", url.Values{"serial": {string(id)}}, nil)
	if err != nil {
		return "", "", err
	}
	device, holds, _ = strings.Cut(string(b), " ")
	if !diskName.MatchString(device) {
		return "", "", fault("its name for a disk is not valid")
	}
	return device, clean(holds, maxName), nil
}

// Mount mounts a volume's disk, which must have a file system.
func (c *Client) Mount(ctx context.Context, u vm.VolumeUse) error {
	q := url.Values{"serial": {string(u.ID)}, "path": {u.Path}}
	for name, set := range map[string]bool{"rw": u.RW, "over": u.Over} {
		if set {
			q.Set(name, "1")
		}
	}
	_, err := c.ask(ctx, "POST", "/mount", q, nil)
	return err
}

// MountFolder mounts a folder of the host, in place of the remains of an
// earlier mount there. It returns the stream of FUSE messages.
func (c *Client) MountFolder(ctx context.Context, path string, rw, over bool) (net.Conn, error) {
	q := url.Values{"path": {path}}
	for name, set := range map[string]bool{"rw": rw, "over": over} {
		if set {
			q.Set(name, "1")
		}
	}
	conn, _, err := c.stream(ctx, "/folder", q)
	return conn, err
}

// LeaveFolder removes the remains of a folder's mount after its stream has ended.
func (c *Client) LeaveFolder(ctx context.Context, path string) error {
	_, err := c.ask(ctx, "POST", "/unmount", url.Values{"path": {path}, "left": {"1"}}, nil)
	return err
}

// Unmount removes a mount; a missing one is no error. While programs use it,
// the error has kind Busy and names them; with force they are killed instead.
func (c *Client) Unmount(ctx context.Context, path string, force bool) error {
	q := url.Values{"path": {path}}
	if force {
		q.Set("force", "1")
	}
	_, err := c.ask(ctx, "POST", "/unmount", q, nil)
	return err
}

// Scrub makes the guest overwrite nearly all of its free memory with zeros.
func (c *Client) Scrub(ctx context.Context) error {
	_, err := c.ask(ctx, "POST", "/scrub", nil, nil)
	return err
}
