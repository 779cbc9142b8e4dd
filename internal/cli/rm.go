// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func newRm(a *app, runF func(context.Context, []string) error) *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME...",
		Aliases: []string{"delete"},
		Short:   "Remove VMs with their disks and logs",
		Long:    "Remove VMs in any state, with their disks, memory and logs. There is no way back. The audit trail is kept.",
		Example: "  warren rm box\n  warren rm box box-2 build-7",
		Args:    args(1, -1, "which VM? warren rm NAME..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			if runF != nil {
				return runF(cmd.Context(), list)
			}
			return a.rm(cmd.Context(), list)
		},
		ValidArgsFunction: a.completeVMs,
	}
}

func (a *app) rm(ctx context.Context, names []string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	return a.each(names, func(name string) error {
		p := a.io.doing("removing %s", name)
		err := c.Delete(ctx, name)
		p.done()
		if err == nil {
			a.io.printf("%s is removed, with its disk and logs\n", printable(name))
		}
		return err
	})
}
