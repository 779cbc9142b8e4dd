// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// newDocs prints docs/cli.md.
func newDocs(a *app) *cobra.Command {
	var man string
	var made int64
	cmd := &cobra.Command{
		Use: "docs", Short: "Print the reference of all commands as Markdown", Hidden: true, Example: "  warren docs\n  warren docs --man DIR",
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if man != "" {
				return writeMan(cmd.Root(), man, time.Unix(made, 0))
			}
			a.io.printf("%s", reference(cmd.Root()))
			return nil
		},
	}
	cmd.Flags().StringVar(&man, "man", "", "write manual pages into this directory instead")
	cmd.Flags().Int64Var(&made, "made", 0, "date of the manual pages, in seconds since 1970")
	return cmd
}

// reference is the text of docs/cli.md.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# warren\n\nMade from the commands by `make docs`; do not edit.\n\n")
	b.WriteString("```\n" + firstMinutes + "```\n")
	b.WriteString("\nA name works wherever an id does. Every command has `--json`, except those that pass bytes or a terminal through.\n")
	b.WriteString("\n## Environment\n\n```\n" + environment + "```\n\n## Flags of every command\n\n```\n" + root.PersistentFlags().FlagUsages() + "```\n\n")
	b.WriteString("## Exit statuses\n\n```\n" + exitTable() + "```\n" + statusesPassed)
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				section(&b, c)
			}
		}
	}
	return b.String()
}

// usedAlone says that a command does something itself: it has none below it, or takes arguments of its own, as
// "warren hold NAME" does beside "warren hold ls".
func usedAlone(c *cobra.Command) bool { return !c.HasSubCommands() || strings.Contains(c.Use, " ") }

// section describes a command and those below it.
func section(b *strings.Builder, c *cobra.Command) {
	if c.Hidden {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n%s.\n", c.CommandPath(), c.Short)
	if usedAlone(c) {
		usageOf(b, c)
	}
	for _, sub := range c.Commands() {
		section(b, sub)
	}
}

// usageOf says how a command is used.
func usageOf(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n```\n%s\n```\n", c.UseLine())
	if len(c.Aliases) > 0 {
		fmt.Fprintf(b, "\nOther names: %s\n", strings.Join(c.Aliases, ", "))
	}
	if c.Long != "" {
		fmt.Fprintf(b, "\n%s\n", c.Long)
	}
	if f := strings.TrimRight(c.LocalNonPersistentFlags().FlagUsages(), "\n"); f != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", f)
	}
	fmt.Fprintf(b, "\nExamples:\n\n```\n%s\n```\n", c.Example)
}
