// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"io"
	"net"

	"github.com/coder/websocket"
)

// dial connects the caller to a port of the guest. It waits for an approval where the caller needs
// one, wakes the VM and connects before the upgrade, so that a failure has an HTTP status.
func (s *server) dial(q *request) error {
	port, err := q.port()
	if err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	conn, err := s.Inside.ConnectPort(ctx, q.call, q.ref(), port)
	if err != nil {
		return err
	}
	defer conn.Close()
	ws, err := s.upgrade(q)
	if err != nil {
		return nil // Accept has answered
	}
	defer ws.CloseNow()
	join(websocket.NetConn(ctx, ws, websocket.MessageBinary), conn)
	return nil
}

// join copies both ways until either end closes. WebSocket messages have no half-close:
// when the client is done, the connection ends.
func join(a, b net.Conn) {
	done := make(chan struct{})
	go func() { // ends when b is closed
		_, _ = io.Copy(a, b)
		_ = a.Close() // a normal close: data sent before it still arrives
		close(done)
	}()
	_, _ = io.Copy(b, a)
	_ = b.Close()
	<-done
}
