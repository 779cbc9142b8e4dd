// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type drainOptions struct{ json, undo bool }

func newDrain(a *app) *cobra.Command {
	o := &drainOptions{}
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Suspend every VM before the host is shut down",
		Long: `Suspend every running VM of all accounts: their memory and disks are saved. The next start of the server resumes
those that were created with --on-boot resume, or are persistent; the others resume when they are used. Until then
no VM can start; "warren drain --undo" or a restart of the server allows starts again. It needs the admin key.
Installed as deploy/warren-drain.service it runs at each shutdown of the host.`,
		Example: "  warren drain\n  warren drain --json\n  warren drain --undo",
		Args:    args(0, 0, "warren drain has no arguments: it suspends all VMs"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.undo {
				return a.undrain(cmd.Context(), o)
			}
			return a.drain(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	cmd.Flags().BoolVar(&o.undo, "undo", false, "cancel a drain: allow starts again")
	return cmd
}

func (a *app) undrain(ctx context.Context, o *drainOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	done, err := c.Undrain(ctx)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(done)
	}
	a.io.printf("VMs may start again; %d resume\n", done.Resumed)
	return nil
}

func (a *app) drain(ctx context.Context, o *drainOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("suspending all VMs")
	done, err := c.Drain(ctx)
	p.done()
	if err != nil {
		return err
	}
	failed := 0
	for _, d := range done.VMs {
		name := printable(d.Name)
		if name == "" {
			name = string(d.ID)
		}
		then := "stays suspended until it is used"
		if d.ResumesOnBoot {
			then = "resumes when the server starts"
		}
		if d.Error != "" {
			failed++
			then = printable(d.Error)
		}
		if !o.json {
			a.io.printf("%-24s %-10s %s\n", name, d.State, then)
		}
	}
	if o.json {
		if err := a.io.json(done); err != nil {
			return err
		}
	} else if len(done.VMs) == 0 {
		a.io.printf("no VM runs\n")
	}
	if failed > 0 {
		return vm.Errorf(vm.Unavailable, "drain", "%d of %d VMs could not be suspended", failed, len(done.VMs)).WithHint("`warren drain` again, or `warren stop` them")
	}
	return nil
}
