// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type treeOptions struct {
	name string
	json bool
}

func newTree(a *app) *cobra.Command {
	o := &treeOptions{}
	cmd := &cobra.Command{
		Use:   "tree [NAME]",
		Short: "Draw the history of VMs and their generations",
		Long: `Draw the lineage of a VM and its relatives, or of everything: generations (from snapshots, forks and suspends) and
the VMs that run on them. A generation in parentheses has no memory any more, only its disk.`,
		Example: "  warren tree\n  warren tree app\n  warren tree --json",
		Args:    args(0, 1, ""),
		RunE: func(cmd *cobra.Command, list []string) error {
			if len(list) > 0 {
				o.name = list[0]
			}
			return a.tree(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) tree(ctx context.Context, o *treeOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Lineage(ctx, o.name)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(l)
	}
	for _, line := range drawTree(l, time.Now()) {
		a.io.printf("%s\n", line)
	}
	return nil
}

// twig is one line of the tree with its children.
type twig struct {
	text  string
	at    time.Time
	below []*twig
}

// drawTree puts each generation below its parent, and each VM below its
// newest generation.
func drawTree(l api.Lineage, now time.Time) []string {
	gens := map[vm.GenerationID]*twig{}
	for _, g := range l.Generations {
		gens[g.ID] = &twig{text: generationLine(g, now), at: g.CreatedAt}
	}
	var roots []*twig
	hang := func(t *twig, parent vm.GenerationID) {
		if p := gens[parent]; p != nil {
			p.below = append(p.below, t)
			return
		}
		roots = append(roots, t)
	}
	for _, g := range l.Generations {
		hang(gens[g.ID], g.Parent)
	}
	for _, v := range l.VMs {
		hang(&twig{text: fmt.Sprintf("VM %s (%s)", printable(or(v.Name, string(v.ID))), v.State), at: v.CreatedAt}, v.HeadID)
	}
	var out []string
	slices.SortStableFunc(roots, func(a, b *twig) int { return a.at.Compare(b.at) })
	for _, r := range roots {
		out = append(out, r.text)
		out = append(out, r.draw("")...)
	}
	return out
}

func generationLine(g vm.Generation, now time.Time) string {
	var b strings.Builder
	if g.Name != "" {
		fmt.Fprintf(&b, "%s ", printable(g.Name))
	}
	fmt.Fprintf(&b, "%s %s of %s, %s ago", g.ID, g.Why, printable(or(g.VMName, string(g.VM))), span(now.Sub(g.CreatedAt)))
	if g.Note != "" {
		fmt.Fprintf(&b, ": %s", printable(g.Note))
	}
	if g.Commit != "" {
		fmt.Fprintf(&b, ", committed as %s", printable(g.Commit[:min(len(g.Commit), 12)]))
	}
	text := b.String()
	switch {
	case g.Deleted:
		return text + " [deleted]"
	case g.Gone || g.DiskOnly || !g.Memory:
		return "(" + text + ")"
	}
	return text
}

// draw returns the lines of a twig's children.
func (t *twig) draw(indent string) []string {
	slices.SortStableFunc(t.below, func(a, b *twig) int { return a.at.Compare(b.at) })
	var out []string
	for i, b := range t.below {
		mark, next := "|- ", "|  "
		if i == len(t.below)-1 {
			mark, next = "`- ", "   "
		}
		out = append(out, indent+mark+b.text)
		out = append(out, b.draw(indent+next)...)
	}
	return out
}
