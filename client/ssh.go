// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
)

// SSHInfo returns the address of the SSH gateway and its host key.
func (c *Client) SSHInfo(ctx context.Context) (api.SSHInfo, error) {
	return do[api.SSHInfo](ctx, c, call{method: "GET", path: pathOf("v1", "ssh")}, nil)
}

// SSH opens a connection to the SSH gateway for a VM. The API key authenticates the SSH client
// that uses it; the client's user name is the Linux user. The connection ends with ctx.
func (c *Client) SSH(ctx context.Context, ref string) (net.Conn, error) {
	conn, err := c.socket(ctx, vmPath(ref, "ssh"), nil, http.Header{})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(-1) // the messages are pieces of one stream
	return websocket.NetConn(ctx, conn, websocket.MessageBinary), nil
}
