// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type doctorOptions struct {
	json bool
}

func newDoctor(a *app) *cobra.Command {
	o := &doctorOptions{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this host offers and lacks",
		Long: `Check everything that Warren needs of this host: programs, the accelerator (by starting a guest), the data
directory. For each missing thing it shows the command that fixes it; the exit status is then 9.`,
		Example: "  warren doctor\n  warren doctor --json",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.doctor(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) doctor(ctx context.Context, o *doctorOptions) error {
	if a.local.Doctor == nil {
		return notHere("doctor")
	}
	p := a.io.doing("checking this host")
	checks, ok, err := a.local.Doctor(ctx, a.data)
	p.done()
	if err != nil {
		return err
	}
	if o.json {
		err = list(a.io, checks)
	} else {
		for _, c := range checks {
			a.io.printf("%-5s %-18s %s\n", c.Status, c.Name, plain(c.Detail))
			if c.Fix != "" {
				a.io.printf("%-5s %-18s -> %s\n", "", "", plain(c.Fix))
			}
		}
	}
	if err == nil && !ok {
		return exitStatus(api.RowOf(vm.Unsupported).Exit)
	}
	return err
}
