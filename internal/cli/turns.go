// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type turnsOptions struct {
	name string
	fast bool
	json bool
}

func newTurns(a *app) *cobra.Command {
	o := &turnsOptions{}
	cmd := &cobra.Command{
		Use:   "turns NAME",
		Short: "List the turns of a VM with what changed in each",
		Long: `List the turns of a VM, the oldest first, with the files that changed until the next turn. The last line shows what
changed until now; a running VM is paused for a moment for that. Each pair of turns is compared once. If a
comparison fails, the line says so.`,
		Example: "  warren turns app\n  warren turns app --fast\n  warren turns app --json",
		Args:    args(1, 1, "which VM? warren turns NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.turns(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.fast, "fast", false, "compare nothing: show only what was compared before")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) turns(ctx context.Context, o *turnsOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("comparing the turns of %s", o.name)
	turns, err := c.Turns(ctx, o.name, !o.fast)
	p.done()
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, turns)
	}
	if len(turns) == 0 {
		a.io.notef("%s has no turns: `warren turn %s NOTE` marks one", printable(o.name), printable(o.name))
		return nil
	}
	t := &table{head: []string{"TURN", "AGE", "MEMORY", "FILES", "LINES", "BY", "NOTE"}, spare: []string{"BY", "MEMORY", "LINES"}}
	for _, turn := range turns {
		memory, files, lines := "no", "-", "-"
		if turn.Memory {
			memory = "yes"
		}
		switch {
		case turn.Stat != nil:
			files, lines = filesOf(*turn.Stat), fmt.Sprintf("+%d -%d", turn.Stat.LinesAdded, turn.Stat.LinesRemoved)
		case turn.StatError != "":
			files = "failed"
		}
		t.add(itoa(turn.Number), age(turn.At), memory, files, lines, or(turn.Actor, "-"), or(plain(turn.Note), "-"))
	}
	a.io.print(t)
	for _, turn := range turns {
		if turn.StatError != "" {
			a.io.tellf("turn %d could not be compared: %s", turn.Number, plain(turn.StatError))
		}
	}
	return nil
}

// filesOf is how many files changed, in a few characters: "3 added, 1 deleted".
func filesOf(s vm.DiffStat) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{s.Added, "added"}, {s.Modified, "modified"}, {s.Deleted, "deleted"}, {s.Renamed, "renamed"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

type undoOptions struct {
	name    string
	turn    string
	volumes string
	json    bool
}

func newUndo(a *app) *cobra.Command {
	o := &undoOptions{}
	cmd := &cobra.Command{
		Use:   "undo NAME [TURN]",
		Short: "Put a VM back to a turn",
		Long: `Put a VM back to a turn, with the memory, processes and disk of that time, under the same name and id. The default is
its newest turn; TURN is a number of "warren turns", or the id of a generation. The present state is captured
first, so that you can undo an undo. What happened outside the VM stays, and is listed.`,
		Example: "  warren undo app\n  warren undo app 3\n  warren undo app sl-0123456789abcdef",
		Args:    args(1, 2, "which VM? warren undo NAME [TURN]"),
		RunE: func(cmd *cobra.Command, list []string) error {
			if o.name = list[0]; len(list) > 1 {
				o.turn = list[1]
			}
			return a.undo(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	putBackFlags(cmd, &o.volumes, &o.json)
	return cmd
}

func (a *app) undo(ctx context.Context, o *undoOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("putting %s back", o.name)
	r, err := c.Undo(ctx, o.name, api.UndoVM{Turn: o.turn, Volumes: o.volumes})
	p.done()
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(r)
	}
	n, what := printable(o.name), "the state"
	if r.Turn.Number > 0 {
		what = fmt.Sprintf("turn %d", r.Turn.Number)
	}
	if r.Turn.Note != "" {
		what += " (" + plain(r.Turn.Note) + ")"
	}
	a.io.printf("%s is back to %s of %s\n", n, what, r.Turn.At.Local().Format("2006-01-02 15:04:05"))
	a.io.printf("  undo      warren undo %s %s\n", n, r.Before)
	a.io.notBack(r.VM.Losses, r.NotUndone)
	return nil
}
