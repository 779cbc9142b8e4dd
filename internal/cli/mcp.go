// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/internal/mcpd"
)

func newMCP(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve machines to an MCP client over standard input and output",
		Long: `Speak the Model Context Protocol over standard input and output, for a program such as Claude Code, Codex or Gemini
CLI that starts this command. The program gets tools for machines, commands, files, terminals, forks, reviews,
commits and previews, with the rights of the key that every command here uses.

A server has the same tools at its address with the path /mcp, for clients that speak HTTP: they send a key or an
identity's token as "Authorization: Bearer KEY".

  claude mcp add warren -- warren mcp
  codex mcp add warren -- warren mcp
  gemini mcp add warren warren mcp

When the client leaves, its commands that still run are ended, and so are its terminals, unless they were opened to
be kept. Commands in the background stay.`,
		Example:           "  warren mcp\n  warren --data /srv/warren mcp",
		Args:              args(0, 0, ""),
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.mcp(cmd.Context()) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

func (a *app) mcp(ctx context.Context) error {
	if a.io.outTTY {
		a.io.notef("an MCP client starts this command and speaks to it; ^C ends it\n  hint: claude mcp add warren -- warren mcp")
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return mcpd.New(c).Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(a.io.in), Writer: leftOpen{a.io.out}})
}

// leftOpen is standard output, which the process closes at its end.
type leftOpen struct{ io.Writer }

// Close does nothing.
func (leftOpen) Close() error { return nil }
