// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
)

type suspendOptions struct {
	names []string
	cold  bool
	json  bool
}

func newSuspend(a *app) *cobra.Command {
	o := &suspendOptions{}
	cmd := &cobra.Command{
		Use:   "suspend NAME...",
		Short: "Suspend VMs with everything that runs in them",
		Long: `Save the memory and disks of VMs and stop their machines. Nothing is lost: resume, or any use of the VM (exec, cp),
continues the same processes.`,
		Example: "  warren suspend app\n  warren suspend app --cold",
		Args:    args(1, -1, "which VM? warren suspend NAME..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.names = list
			return a.suspend(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	cmd.Flags().BoolVar(&o.cold, "cold", false, "compress and encrypt the memory at once; waking takes longer then")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) suspend(ctx context.Context, o *suspendOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	var done []api.SuspendedVM
	err = a.each(o.names, func(name string) error {
		before := known(ctx, c, name)
		p := a.io.doing("suspending %s", name)
		s, err := c.Suspend(ctx, name, api.SuspendVM{Cold: o.cold})
		p.done()
		if err != nil {
			return err
		}
		done = append(done, s)
		if !o.json {
			a.details("%s is suspended\n", printable(name))
			a.ownRemains(ctx, c, before, "onsuspend", string(s.ID),
				"memory "+human(s.MemoryBytes)+", disk "+human(s.Remains.DiskBytes)+", logs "+human(s.Remains.LogBytes))
			a.nextSteps(before, name, "onsuspend", "resume")
		}
		return nil
	})
	if o.json {
		if jerr := list(a.io, done); err == nil {
			err = jerr
		}
	}
	return err
}
