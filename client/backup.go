// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
)

// Backup has the server copy its state. The reader returns the archive and then io.EOF, or
// fails if the copy is incomplete. Close it. Admins only.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	resp, err := c.send(ctx, call{method: "POST", path: pathOf("v1", "backups")}) //nolint:bodyclose // the returned reader closes it
	if err != nil {
		return nil, err
	}
	return &tarReader{stream: stream{c: c, ctx: ctx, body: resp.Body}, path: "backup", resp: resp}, nil
}
