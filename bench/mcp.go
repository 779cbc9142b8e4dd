// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// mcpCalls are the calls of one round.
const mcpCalls = 100

// mcp measures 100 calls of the tool exec, one after the other, compared with as many requests to the
// API, in turns: `warren mcp` over its pipes, and /mcp with and without a session.
func (b *bench) mcp(ctx context.Context) (err error) {
	s := b.server
	id, err := s.createVM(ctx, vm.NetClosed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx), id)) }()
	ways := []*way{{name: "API, exec-await", run: func() error { return s.execAwait(ctx, id, "true") }}}
	door := &http.Client{Transport: keyed{s.key}}
	for _, c := range []struct {
		name string
		over mcp.Transport
	}{
		{"MCP, warren mcp", &mcp.CommandTransport{Command: s.cli(ctx, "mcp")}},
		{"MCP, HTTP", &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: door}},
	} {
		session, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: api.Version}, nil).Connect(ctx, c.over, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		defer func() { _ = session.Close() }() // it has been measured
		ways = append(ways, &way{name: c.name, run: func() error { return callTrue(ctx, session, id) }})
	}
	ways, broken := warmUp(ways, func(w *way) (string, func() error) { return w.name, w.run })
	const prefix = "exec true, 100 calls: "
	for range max(4, b.n/5) {
		for _, w := range ways {
			began := time.Now()
			for range mcpCalls {
				if err := w.run(); err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
			}
			b.rep.series(prefix+w.name, "1/s", bound{}).add(mcpCalls / time.Since(began).Seconds())
		}
	}
	for _, name := range []string{"MCP, warren mcp", "MCP, HTTP"} {
		b.compare("exec true, 100 calls, rate: ", " / ", name, "API, exec-await", prefix, bound{Min: 0.7})
	}
	return broken
}

func callTrue(ctx context.Context, session *mcp.ClientSession, id string) error {
	r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"machine": id, "command": "true"}})
	if err == nil && r.IsError {
		err = r.GetError()
	}
	return err
}

// keyed sends the server's key.
type keyed struct{ key string }

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return http.DefaultTransport.RoundTrip(r)
}
