// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type startOptions struct {
	names    []string
	diskOnly bool
}

func newStart(a *app) *cobra.Command {
	o := &startOptions{}
	cmd := &cobra.Command{
		Use:     "start NAME...",
		Aliases: []string{"resume"},
		Short:   "Start stopped or suspended VMs",
		Long: `Start VMs and return when they are usable: a suspended VM continues its processes, a stopped one boots from its
disk. A running VM stays unchanged.`,
		Example: "  warren start box\n  warren resume box\n  warren start box --disk-only\n  warren start box --json",
		Args:    args(1, -1, "which VM? warren start NAME..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.names = list
			return a.start(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	cmd.Flags().BoolVar(&o.diskOnly, "disk-only", false, "boot a suspended VM from its disk; its memory is kept, and rollback returns to it")
	return a.changing(cmd)
}

func (a *app) start(ctx context.Context, o *startOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	return a.each(o.names, func(name string) error {
		before, err := c.Get(ctx, name)
		if err != nil {
			return err
		}
		p := a.io.doing("starting %s", name)
		s, err := c.Start(ctx, name, api.StartVM{DiskOnly: o.diskOnly})
		p.done()
		if err != nil {
			return err
		}
		if before.State == vm.Running {
			a.changed(change{Name: name, Result: "running already", VM: &s.VM})
			return nil
		}
		a.changed(change{Name: name, Result: "running", VM: &s.VM})
		for _, l := range s.VM.Restored {
			a.details("  restored  %s\n", plain(l))
		}
		for _, l := range s.VM.Losses {
			a.io.tellf("not restored: %s", plain(l))
		}
		if w := warningOf(s.VM); w != "" {
			a.io.notef("warning: %s", w)
		}
		return nil
	})
}
