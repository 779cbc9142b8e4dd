// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// mcpRoutes are one address with three methods. What a caller may do there is decided where
// its calls arrive: at the other routes, with the caller's own credentials.
func (s *server) mcpRoutes() []route {
	return []route{
		{"POST", "/mcp", token, s.mcp, "A message of an MCP client (streamable HTTP).", nil, nil, true, ""},
		{"GET", "/mcp", token, s.mcp, "Messages to an MCP client with a session, as they come (SSE).", nil, nil, true, ""},
		{"DELETE", "/mcp", token, s.mcp, "End the session of an MCP client.", nil, nil, true, ""},
	}
}

func (s *server) mcp(q *request) error {
	if s.MCP == nil {
		return vm.Errorf(vm.Unsupported, q.URL.Path, "this server has no door for MCP clients").WithHint("use `warren mcp`")
	}
	ctx, cancel := s.connected(q)
	defer cancel()
	r := q.Clone(ctx)
	secret, _ := q.secret()
	r.Header.Del(api.HeaderIdentityToken)
	r.Header.Set("Authorization", "Bearer "+secret)
	s.MCP.ServeHTTP(q.w, r)
	return nil
}
