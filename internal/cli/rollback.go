// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type rollbackOptions struct {
	name string
	to   string
	json bool

	volumes string
}

func newRollback(a *app) *cobra.Command {
	o := &rollbackOptions{}
	cmd := &cobra.Command{
		Use:   "rollback NAME [GENERATION]",
		Short: "Put a VM back to an earlier state",
		Long: `Put a VM back to a generation, with the memory, processes and disk of that time, under the same name and id. The
default is the VM's newest generation: a snapshot, the state of its last fork or resume, or one from its schedule.
The current state is captured first, so that you can undo a rollback.`,
		Example: "  warren rollback app\n  warren rollback app --volumes detach\n  warren rollback app before-upgrade\n  warren rollback app sl-0123456789abcdef",
		Args:    args(1, 2, "which VM? warren rollback NAME [GENERATION]"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			if len(list) > 1 {
				o.to = list[1]
			}
			return a.rollback(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	putBackFlags(cmd, &o.volumes, &o.json)
	return cmd
}

func (a *app) rollback(ctx context.Context, o *rollbackOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("rolling %s back", o.name)
	r, err := c.Rollback(ctx, o.name, api.RollbackVM{To: o.to, Volumes: o.volumes})
	p.done()
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(r)
	}
	n := printable(o.name)
	a.io.printf("%s is back to %s (%s)\n", n, r.To.CreatedAt.Local().Format("2006-01-02 15:04:05"), called(r.To))
	a.io.printf("  undo      warren rollback %s %s\n", n, r.Before.ID)
	a.io.notBack(r.VM.Losses, r.NotUndone)
	return nil
}

// putBackFlags are the flags of commands that put a VM back.
func putBackFlags(cmd *cobra.Command, volumes *string, json *bool) {
	cmd.Flags().StringVar(volumes, "volumes", "", "if it has volumes mounted, or had then: detach (unmount them first) or cut (it loses them; disks that it had then fail)")
	cmd.Flags().BoolVar(json, "json", false, "print as JSON")
}

// notBack says what is not as it was then.
func (s *streams) notBack(losses, notUndone []string) {
	for _, l := range losses {
		s.tellf("not restored: %s", plain(l))
	}
	for _, l := range notUndone {
		s.tellf("not undone: %s", plain(l))
	}
}

// called is the name of a generation for people.
func called(g vm.Generation) string {
	if g.Name != "" {
		return "snapshot " + printable(g.Name)
	}
	return string(g.Why) + " " + string(g.ID)
}
