// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
)

func newStart(a *app, runF func(context.Context, []string) error) *cobra.Command {
	return &cobra.Command{
		Use:     "start NAME...",
		Short:   "Start stopped VMs",
		Long:    "Start stopped VMs on the disks they had and return when they are usable. A running VM stays as it is.",
		Example: "  warren start box",
		Args:    args(1, -1, "which VM? warren start NAME..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			if runF != nil {
				return runF(cmd.Context(), list)
			}
			return a.start(cmd.Context(), list)
		},
		ValidArgsFunction: a.completeVMs,
	}
}

func (a *app) start(ctx context.Context, names []string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	return a.each(names, func(name string) error {
		p := a.io.doing("starting %s", name)
		s, err := c.Start(ctx, name, api.StartVM{})
		p.done()
		if err != nil {
			return err
		}
		a.io.printf("%s is running\n", printable(name))
		for _, l := range s.VM.Losses {
			a.io.notef("not restored: %s", plain(l))
		}
		if w := warningOf(s.VM); w != "" {
			a.io.notef("warning: %s", w)
		}
		return nil
	})
}
