// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type turnOptions struct {
	name     string
	note     string
	diskOnly bool
	json     bool
}

func newTurn(a *app) *cobra.Command {
	o := &turnOptions{}
	cmd := &cobra.Command{
		Use:   "turn NAME [NOTE]",
		Short: "Mark a state that undo returns to",
		Long: `Mark a turn: capture memory, processes and disk of a VM, which keeps running, with a note of what is tried next.
The VM is paused as long as for a fork. "warren turns" lists the turns of a VM with what changed in each, "warren
undo" returns to one, and "warren restore" brings back one file of one.

The newest 50 turns of a VM are kept, the newest 5 of them with memory; undo to an older one boots the VM on the
disk of that turn. "warren snapshot rm" removes a turn by its id.`,
		Example: "  warren turn app 'try the new parser'\n  warren turn app --disk-only",
		Args:    args(1, 2, "which VM? warren turn NAME NOTE"),
		RunE: func(cmd *cobra.Command, list []string) error {
			if o.name = list[0]; len(list) > 1 {
				o.note = list[1]
			}
			return a.turn(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.diskOnly, "disk-only", false, "leave the memory out: undo then boots the VM on this disk")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) turn(ctx context.Context, o *turnOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("marking a turn of %s", o.name)
	t, err := c.Turn(ctx, o.name, api.MarkTurn{Note: o.note, DiskOnly: o.diskOnly})
	p.done()
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(t)
	}
	n := printable(o.name)
	a.io.printf("turn %d of %s, which was paused for %.0f ms\n", t.Number, n, t.PauseMs)
	a.io.printf("  review    warren diff %s --from %s\n", n, t.ID)
	a.io.printf("  go back   warren undo %s %d\n", n, t.Number)
	return nil
}

// noteTurn says which turn was marked before a command.
func (a *app) noteTurn(name string, t *vm.Turn) {
	if t != nil {
		a.io.notef("turn %d: `warren undo %s %d` returns to it", t.Number, printable(name), t.Number)
	}
}

// noteSummary prints what a command changed.
func (a *app) noteSummary(s *vm.ExecSummary) {
	switch {
	case s == nil:
		return
	case a.gather != nil:
		a.gather.summary = s
		return
	case s.Error != "":
		a.io.tellf("warren: no summary: %s", plain(s.Error))
		return
	}
	a.io.tellf("warren: files: %s", filesOf(s.Stat))
	for _, alert := range s.Alerts {
		a.io.tellf("  alert     %s", plain(alert.Text))
	}
	for _, p := range s.Outside {
		a.io.tellf("  outside   %s", p)
	}
	if s.OutsideMore > 0 {
		a.io.tellf("            and %d more outside %s", s.OutsideMore, s.Workdir)
	}
	if s.Noise > 0 {
		a.io.tellf("  and %d outside in caches and logs", s.Noise)
	}
}
