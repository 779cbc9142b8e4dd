// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/httpd"
	"github.com/warren-vm/warren/internal/mcpd"
)

// openMCP makes the door for MCP clients, and the wire by which its calls reach the API.
func (s *stack) openMCP(ctx context.Context) (*mcpd.Door, *mcpd.Wire) {
	wire := mcpd.NewWire()
	return mcpd.NewDoor(ctx, wire.Dial, s.log), wire
}

// serveMCP answers the calls of the door for MCP clients. The function ends that: the
// sessions first, then their calls.
func (s *stack) serveMCP(door *mcpd.Door, wire *mcpd.Wire, handler httpd.Handler) (end func()) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	ended := make(chan struct{})
	go func() { // ends with the function
		defer close(ended)
		if err := server.Serve(wire); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the door for MCP clients has failed", "err", err)
		}
	}()
	return sync.OnceFunc(func() {
		door.Close()
		server.Close()
		<-ended
	})
}
