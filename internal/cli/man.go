// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// manPages are the manual pages of section 1 by their names: one of the program, and one of each command with
// all that is below it. made is the date in their last lines.
func manPages(root *cobra.Command, made time.Time) map[string]string {
	out := map[string]string{}
	var list strings.Builder
	for _, g := range root.Groups() {
		fmt.Fprintf(&list, ".SS %s\n", roff(strings.TrimSuffix(g.Title, ":")))
		for _, c := range root.Commands() {
			if c.GroupID != g.ID || c.Hidden {
				continue
			}
			fmt.Fprintf(&list, ".TP\n.BR %s (1)\n%s\n", roff(manName(c)), roff(c.Short))
			p := manHead(manName(c), c.Short, made)
			manCommand(p, c)
			manSection(p, "SEE ALSO")
			p.WriteString(".BR warren (1)\n")
			out[manName(c)] = p.String()
		}
	}
	p := manHead("warren", root.Short, made)
	manSection(p, "SYNOPSIS")
	p.WriteString(".B warren\n.I COMMAND\n[flags]\n")
	manSection(p, "DESCRIPTION")
	manText(p, firstMinutes)
	manSection(p, "COMMANDS")
	p.WriteString(list.String())
	manSection(p, "FLAGS OF EVERY COMMAND")
	manVerbatim(p, root.PersistentFlags().FlagUsages())
	manSection(p, "ENVIRONMENT")
	manVerbatim(p, environment)
	manSection(p, "EXIT STATUS")
	manVerbatim(p, exitTable())
	manText(p, statusesPassed)
	out["warren"] = p.String()
	return out
}

// manName is the name of a command's page, such as warren-image.
func manName(c *cobra.Command) string { return "warren-" + c.Name() }

func manHead(name, short string, made time.Time) *strings.Builder {
	b := &strings.Builder{}
	fmt.Fprintf(b, ".TH %s 1 %s %s Warren\n", roff(strings.ToUpper(name)), roff(made.UTC().Format(time.DateOnly)), roff(`"warren `+api.Version+`"`))
	manSection(b, "NAME")
	fmt.Fprintf(b, "%s \\- %s\n", roff(name), roff(short))
	return b
}

func manSection(b *strings.Builder, title string) { fmt.Fprintf(b, ".SH %s\n", title) }

// manCommand describes a command, and those below it in sections of their own.
func manCommand(b *strings.Builder, c *cobra.Command) {
	if usedAlone(c) {
		manUse(b, c, ".SH ")
	}
	for _, below := range c.Commands() {
		if below.Hidden {
			continue
		}
		manSection(b, roff(strings.ToUpper(below.CommandPath())))
		fmt.Fprintf(b, "%s.\n", roff(below.Short))
		manBelow(b, below)
	}
}

// manBelow describes a command in the section of one above it, and those below it.
func manBelow(b *strings.Builder, c *cobra.Command) {
	if usedAlone(c) {
		manUse(b, c, ".SS ")
	}
	for _, below := range c.Commands() {
		if !below.Hidden {
			fmt.Fprintf(b, ".SS %s\n%s.\n", roff(below.CommandPath()), roff(below.Short))
			manBelow(b, below)
		}
	}
}

// manUse says how a command is used. head begins the line of a heading.
func manUse(b *strings.Builder, c *cobra.Command, head string) {
	b.WriteString(head + "Synopsis\n")
	manVerbatim(b, c.UseLine())
	if c.Long != "" {
		b.WriteString(head + "Description\n")
		manText(b, c.Long)
	}
	if flags := strings.TrimRight(c.LocalNonPersistentFlags().FlagUsages(), "\n"); flags != "" {
		b.WriteString(head + "Flags\n")
		manVerbatim(b, flags)
	}
	if c.Example != "" {
		b.WriteString(head + "Examples\n")
		manVerbatim(b, c.Example)
	}
}

// manText writes paragraphs that are filled. Lines that begin with a space stay as they are.
func manText(b *strings.Builder, text string) {
	verbatim := false
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if indented := strings.HasPrefix(line, " "); indented != verbatim {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[indented])
			verbatim = indented
		}
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	if verbatim {
		b.WriteString(".fi\n")
	}
}

// manVerbatim writes lines as they are.
func manVerbatim(b *strings.Builder, text string) {
	b.WriteString(".nf\n")
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString(roff(line) + "\n")
	}
	b.WriteString(".fi\n")
}

// roff quotes a line of text for troff.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}

// writeMan writes the manual pages into a directory.
func writeMan(root *cobra.Command, dir string, made time.Time) error {
	for name, text := range manPages(root, made) {
		file := filepath.Join(dir, name+".1")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // everybody may read them
			return vm.Errorf(vm.Invalid, file, "cannot be written: %w", err)
		}
	}
	return nil
}
