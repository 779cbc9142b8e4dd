// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type resizeOptions struct {
	name string
	size sizeFlags
	json bool
}

func newResize(a *app) *cobra.Command {
	o := &resizeOptions{}
	cmd := &cobra.Command{
		Use:   "resize NAME [--cpu N] [--mem SIZE] [--disk SIZE]",
		Short: "Change a VM's CPUs, memory or disk",
		Long: `Change the size of a VM. While it runs, CPUs can be added and removed, memory and disk can be added. For other
changes, such as less memory, the VM is stopped and started again: its disk is kept, its memory and processes are
lost. The command says which of the two happened. A disk never shrinks. A stopped VM gets its new size at its next
start.`,
		Example: "  warren resize app --cpu 4\n  warren resize app --mem 2G --disk 32G\n  warren resize app --cpu 2 --json",
		Args:    args(1, 1, "which VM? warren resize NAME --cpu N"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.resize(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	fs := cmd.Flags()
	fs.IntVar(&o.size.cpu, "cpu", 0, "virtual CPUs, a power of two")
	fs.StringVar(&o.size.mem, "mem", "", "memory, a power of two: MiB, or such as 2G")
	fs.StringVar(&o.size.disk, "disk", "", "disk: GiB, or such as 32G; it takes space as it fills")
	fs.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) resize(ctx context.Context, o *resizeOptions) error {
	size, err := o.size.sizes()
	if err != nil {
		return err
	}
	if size == (api.Sizes{}) {
		return usage("nothing to change").WithHint("give at least one of --cpu, --mem and --disk")
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("resizing %s", o.name)
	r, err := c.Resize(ctx, o.name, size)
	p.done()
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(r)
	}
	a.io.printf("%s has %s\n", printable(o.name), sizing(r.Sizing))
	for _, part := range []string{vm.PartCPU, vm.PartMemory, vm.PartDisk} {
		if how, ok := r.How[part]; ok {
			a.io.printf("  %-9s %s\n", part, resizedHow(how))
		}
		if why := r.Why[part]; why != "" {
			a.io.tellf("%s could not be changed while it ran: %s", part, plain(why))
		}
	}
	for _, l := range r.Losses {
		a.io.tellf("not restored: %s", plain(l))
	}
	return nil
}

// resizedHow describes how a part was changed.
func resizedHow(how string) string {
	switch how {
	case vm.Live:
		return "changed while it ran"
	case "restart":
		return "changed by a stop and a start"
	case "at-next-start":
		return "from its next start on"
	}
	return printable(how)
}
