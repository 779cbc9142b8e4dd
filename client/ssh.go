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

// SSHInfo says where the SSH gateway listens, and its host key.
func (c *Client) SSHInfo(ctx context.Context) (api.SSHInfo, error) {
	return do[api.SSHInfo](ctx, c, call{method: "GET", path: pathOf("v1", "ssh")}, nil)
}

// SSH opens a connection to the SSH gateway for a VM. An SSH client that speaks
// over it is logged in by the API key; its user is the Linux user. ctx is the
// connection's life.
func (c *Client) SSH(ctx context.Context, ref string) (net.Conn, error) {
	conn, err := c.socket(ctx, vmPath(ref, "ssh"), nil, http.Header{})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(-1) // the messages are pieces of one stream
	return websocket.NetConn(ctx, conn, websocket.MessageBinary), nil
}
