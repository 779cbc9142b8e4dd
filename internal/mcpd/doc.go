// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package mcpd offers Warren to programs that speak the Model Context Protocol: tools for
// machines and what is in them, and resources. It is written against the client, so that
// `warren mcp` on a desk and /mcp on a server have the same tools, and a caller may do
// exactly what the API allows that caller: nothing is authorised here.
package mcpd
