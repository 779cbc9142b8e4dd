// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type rmOptions struct {
	names []string
	shred bool
	yes   bool
}

func newRm(a *app) *cobra.Command {
	o := &rmOptions{}
	cmd := &cobra.Command{
		Use:     "rm NAME...",
		Aliases: []string{"delete"},
		Short:   "Remove VMs with their disks and logs",
		Long: `Remove VMs in any state, with their disks, memory and logs. This cannot be undone. Snapshots, VMs made from them,
the audit trail and the usage records stay, and are listed.

First it says what exists only in the VM and would be lost ("warren truth" shows more), for at most 5 seconds a VM.
On a terminal it then asks. A script is not asked: it gets the lines on standard error. --yes removes at once,
without this look.

--shred also destroys the keys of memory that was compressed and encrypted (warren suspend --cold, or suspended
for a day), and says what has become unreadable. It also says what was never encrypted: a deleted file's blocks
stay on the drive until they are overwritten. Encrypt the drive if that matters.`,
		Example: "  warren rm box\n  warren rm box box-2 build-7\n  warren rm --shred box\n  warren rm box --yes\n  warren rm box --json",
		Args:    args(1, -1, "which VM? warren rm NAME..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.names = list
			return a.rm(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	cmd.Flags().BoolVar(&o.shred, "shred", false, "also destroy the key of sealed memory; print what is then unreadable, and what is not")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not look what would be lost, and do not ask")
	return a.changing(cmd)
}

func (a *app) rm(ctx context.Context, o *rmOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	return a.each(o.names, func(name string) error {
		if !o.yes && a.losses(ctx, c, name) && !a.listed && !a.yes("remove %s?", printable(name)) {
			return vm.Errorf(vm.Cancelled, name, "it was not removed")
		}
		left, asked := a.remaining(ctx, c, name)
		p := a.io.doing("removing %s", name)
		gone, err := remove(ctx, c, name, o.shred)
		p.done()
		if vm.KindOf(err) == vm.NotFound {
			a.io.notef("%s does not exist: nothing to remove", printable(name))
			return a.changedQuietly(nil, change{Name: name, Result: "not there"})
		}
		if err != nil {
			return err
		}
		did := change{Name: name, Result: "removed", Unreadable: gone.Unreadable, Readable: gone.Readable, text: name + " is removed, with its disk and logs"}
		remains := asked && len(left.Snapshots)+len(left.Forks)+len(left.Copies)+len(left.Artifacts)+len(left.Volumes) > 0
		if remains {
			left.Folders = nil // the VM's removal ends them
			did.Remains = &left
		}
		a.changed(did)
		if remains {
			a.details("  remains   of %s\n", left.VM)
			a.others(left)
		}
		for _, what := range gone.Unreadable {
			a.details("  unreadable: %s; its key is destroyed\n", plain(what))
		}
		for _, what := range gone.Readable {
			a.details("  not erased: %s\n", plain(what))
		}
		return nil
	})
}

func remove(ctx context.Context, c *client.Client, name string, shred bool) (vm.Shredded, error) {
	if shred {
		return c.Shred(ctx, name)
	}
	return vm.Shredded{}, c.Delete(ctx, name)
}
