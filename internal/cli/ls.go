// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type lsOptions struct {
	all   bool
	quiet bool
	json  bool
}

func newLs(a *app, runF func(context.Context, *lsOptions) error) *cobra.Command {
	o := &lsOptions{}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List VMs",
		Long:    "List the VMs of your account in every state.",
		Example: "  warren ls\n  warren ls --json\n  warren ls -q",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return a.ls(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "those of every account; for admins")
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "print ids only")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) ls(ctx context.Context, o *lsOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.List(ctx, o.all)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l.VMs)
	case o.quiet:
		for _, v := range l.VMs {
			a.io.printf("%s\n", v.ID)
		}
		return nil
	}
	t := &table{head: []string{"NAME", "ID", "STATE", "IMAGE", "SIZE", "NETWORK", "AGE", "KEPT"}}
	emulated := false
	for _, v := range l.VMs {
		emulated = emulated || v.Accel == vm.TCG
		t.add(or(v.Name, "-"), string(v.ID), a.io.state(v.State), printable(v.Image), sizing(v.Sizing), v.Network, age(v.CreatedAt), retention(v))
	}
	if len(l.VMs) == 0 {
		a.io.notef("no VMs; `warren up --name box` makes one")
		return nil
	}
	a.io.print(t)
	if emulated && a.io.outTTY {
		a.io.notef("%s", vm.EmulatedWarning)
	}
	return nil
}
