// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type stopOptions struct {
	names []string
	json  bool
}

func newStop(a *app) *cobra.Command {
	o := &stopOptions{}
	cmd := &cobra.Command{
		Use:     "stop NAME...",
		Aliases: []string{"down"},
		Short:   "Stop VMs; their disks are kept",
		Long: `Stop VMs. Files, installed packages and logs are kept; memory and running processes are lost. The command prints
what remains on the host and how to erase it.`,
		Example: "  warren stop box\n  warren down box",
		Args:    args(1, -1, "which VM? warren stop NAME..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.names = list
			return a.stop(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// alreadyIs reports whether a verb failed because the VM is in the state that the
// verb leads to, and returns the VM.
func alreadyIs(ctx context.Context, c *client.Client, name string, state vm.State, err error) (api.VM, bool) {
	if vm.KindOf(err) != vm.WrongState {
		return api.VM{}, false
	}
	v, gerr := c.Get(ctx, name)
	return v, gerr == nil && v.State == state
}

func (a *app) stop(ctx context.Context, o *stopOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	var stopped []api.StoppedVM
	err = a.each(o.names, func(name string) error {
		before := known(ctx, c, name)
		p := a.io.doing("stopping %s", name)
		s, err := c.Stop(ctx, name)
		p.done()
		if v, is := alreadyIs(ctx, c, name, vm.Stopped, err); is {
			stopped = append(stopped, api.StoppedVM{VMID: v.ID})
			if !o.json && !a.io.quiet {
				a.io.printf("%s is stopped already\n", printable(name))
			}
			return nil
		}
		if err != nil {
			return err
		}
		stopped = append(stopped, s)
		if !o.json {
			a.details("%s is stopped; its memory is lost\n", printable(name))
			a.ownRemains(ctx, c, before, "onstop", string(s.VMID), "disk "+human(s.Remains.DiskBytes)+", logs "+human(s.Remains.LogBytes))
			a.nextSteps(before, name, "onstop", "start")
		}
		return nil
	})
	if o.json {
		if jerr := list(a.io, stopped); err == nil {
			err = jerr
		}
	}
	return err
}
