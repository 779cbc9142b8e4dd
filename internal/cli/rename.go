// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type renameOptions struct {
	old, name string
	json      bool
}

func newRename(a *app) *cobra.Command {
	o := &renameOptions{}
	cmd := &cobra.Command{
		Use:   "rename OLD NEW",
		Short: "Give a VM another name",
		Long: `Give a VM another name, which no other VM of the account has. It may run, or be suspended or stopped. The command
waits for other operations on it, such as its start.

The old name stops working: commands, ssh to OLD.warren and previews at OLD's address fail, and the same with NEW
work. The VM's id, open connections, mapped domains, permissions and snapshots stay. A running guest keeps its
host name until its next start or wake.`,
		Example: "  warren rename box web\n  warren rename abcdefghij0123456789 web --json",
		Args:    args(2, 2, "which VM, and what is its new name? warren rename OLD NEW"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.old, o.name = list[0], list[1]
			if err := vm.CheckName(o.name); err != nil {
				return err
			}
			return a.rename(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) rename(ctx context.Context, o *renameOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("renaming %s", o.old)
	v, err := c.RenameVM(ctx, o.old, o.name)
	p.done()
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(v)
	case o.old == o.name:
		a.io.printf("%s already has that name\n", printable(o.name))
		return nil
	}
	a.io.printf("%s is now %s\n", printable(o.old), printable(v.Name))
	if v.State == vm.Running {
		a.io.notef("its host name changes at its next start or wake")
	}
	return nil
}
