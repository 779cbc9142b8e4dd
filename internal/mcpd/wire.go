// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package mcpd

import (
	"context"
	"net"
	"sync"
)

// Wire is a listener whose connections come from the same process.
type Wire struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

// NewWire returns a wire.
func NewWire() *Wire { return &Wire{conns: make(chan net.Conn), over: make(chan struct{})} }

// Dial connects to the listener.
func (w *Wire) Dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case w.conns <- far:
		return near, nil
	case <-w.over:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (w *Wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *Wire) Close() error {
	w.once.Do(func() { close(w.over) })
	return nil
}

// Addr implements net.Listener.
func (w *Wire) Addr() net.Addr { return &net.UnixAddr{Name: "mcp", Net: "pipe"} }
