// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func newKill(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use:   "kill NAME...",
		Short: "Stop VMs at once, like a power failure",
		Long: `End VMs at once, without their help: for guests that do not answer. The disk is kept as it was at its
last sync. To end one process in a VM see "warren signal".`,
		Example: "  warren kill box\n  warren kill box box-2 --json",
		Args:    args(1, -1, "which VM? warren kill NAME..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.kill(cmd.Context(), list)
		},
		ValidArgsFunction: a.completeVMs,
	})
}

func (a *app) kill(ctx context.Context, names []string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	return a.each(names, func(name string) error {
		before := known(ctx, c, name)
		if err := c.Kill(ctx, name); err != nil {
			return err
		}
		a.changed(change{Name: name, Result: "stopped", text: name + " is stopped, as if its power had failed"})
		a.nextSteps(before, name, "onstop", "start")
		return nil
	})
}
