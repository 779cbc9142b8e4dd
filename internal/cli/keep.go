// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
)

type keepOptions struct {
	child  string
	over   string
	remove bool
	others bool
	json   bool
}

func newKeep(a *app) *cobra.Command {
	o := &keepOptions{}
	cmd := &cobra.Command{
		Use:   "keep CHILD --over PARENT",
		Short: "Replace a VM by its better copy",
		Long: `Give a VM, usually a fork, the name of another VM, which it replaces. The other VM keeps running under a new name;
--rm removes it. --rm-others removes the other VMs that were forked from the same state, the candidates that lost.`,
		Example: "  warren keep try-2 --over app\n  warren keep try-2 --over app --rm\n  warren keep try-2 --over app --rm-others",
		Args:    args(1, 1, "which VM? warren keep CHILD --over PARENT"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.child = list[0]
			if o.over == "" {
				return usage("over which VM?").WithHint("warren keep %s --over PARENT", printable(o.child))
			}
			return a.keep(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	cmd.Flags().StringVar(&o.over, "over", "", "the VM whose name is taken")
	cmd.Flags().BoolVar(&o.remove, "rm", false, "remove that VM")
	cmd.Flags().BoolVar(&o.others, "rm-others", false, "remove the other VMs that were forked from the same state")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) keep(ctx context.Context, o *keepOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	k, err := c.Keep(ctx, o.child, api.KeepVM{Over: o.over, Remove: o.remove, RemoveOthers: o.others})
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(k)
	}
	a.io.printf("%s is now %s\n", printable(o.child), printable(or(k.VM.Name, string(k.VM.ID))))
	if o.remove {
		a.io.printf("the replaced VM is removed\n")
	} else {
		a.io.printf("the replaced VM is now called %s\n", printable(or(k.Over.Name, string(k.Over.ID))))
	}
	if o.others {
		a.io.printf("%d other candidates are removed\n", len(k.Removed))
	}
	return nil
}
