// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type restoreOptions struct {
	name string
	req  vm.RestoreRequest
	json bool
}

func newRestore(a *app) *cobra.Command {
	o := &restoreOptions{}
	cmd := &cobra.Command{
		Use:   "restore NAME PATH",
		Short: "Bring one path of a VM back from an older state",
		Long: `Bring a file, a directory with all that is below it, or a link back from an older state, while the VM keeps running.
All else stays as it is. The default state is the newest turn; --from takes the number of a turn, a generation, a
snapshot, or "image".

The path is replaced in one step, with owners, modes, times and extended attributes. A turn is marked first, so
that "warren undo" returns to the state before. No links are followed on the way to the path. Devices, pipes and
sockets do not come back.

--dry-run shows what would change and prints a state; --if-unchanged STATE then refuses if the path has changed
since.`,
		Example: "  warren restore app /work/src\n  warren restore app /etc/nginx --from 3 --dry-run\n  warren restore app /work/src --if-unchanged 0123456789abcdef",
		Args:    args(2, 2, "which VM and path? warren restore NAME PATH"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.req.Path = list[0], vm.GuestPath(list[1])
			return a.restore(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	f := cmd.Flags()
	f.StringVar(&o.req.From, "from", "", "the state to take it from (default the newest turn)")
	f.BoolVar(&o.req.DryRun, "dry-run", false, "only show what would change")
	f.StringVar(&o.req.IfUnchanged, "if-unchanged", "", "refuse unless the path is still as a --dry-run showed it: the state that it printed")
	f.BoolVar(&o.req.NoTurn, "no-turn", false, "do not mark a turn first")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// restoreListed is how many changes a restore prints.
const restoreListed = 20

func (a *app) restore(ctx context.Context, o *restoreOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("restoring %s", o.req.Path)
	r, err := c.Restore(ctx, o.name, o.req)
	p.done()
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(r)
	}
	n := printable(o.name)
	verb := "restored"
	switch {
	case r.Stat.Files() == 0:
		a.io.printf("%s is as it was then: nothing to restore\n", r.Path)
		return nil
	case r.DryRun:
		verb = "would be restored"
	}
	a.io.printf("%s %s from %s: %s\n", r.Path, verb, or(string(r.From.Generation), "the image"), filesOf(r.Stat))
	for i, ch := range r.Changes {
		if i == restoreListed {
			break
		}
		a.io.printf("  %-8s  %s\n", ch.Verb, ch.Path)
	}
	if more := len(r.Changes) + r.More - restoreListed; more > 0 {
		a.io.printf("  and %d more (--json lists them)\n", more)
	}
	for _, l := range r.NotKept {
		a.io.tellf("not restored: %s", plain(l))
	}
	if r.DryRun {
		a.io.printf("  state     %s\n", r.State)
	} else if r.Turn != nil {
		a.io.printf("  undo      warren undo %s %d\n", n, r.Turn.Number)
	}
	return nil
}
