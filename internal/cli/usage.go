// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type usageOptions struct {
	names []string
	all   bool
	json  bool
	form  string
}

func newUsage(a *app) *cobra.Command {
	o := &usageOptions{}
	cmd := &cobra.Command{
		Use:   "usage [NAME...]",
		Short: "Show the resources that VMs have used, including deleted VMs",
		Long: `Show how long VMs have run, their use of the host's CPUs, memory, disk and network, and the sum of the account.
The sum includes every VM ever. The last two hundred deleted VMs are listed, and can be named by their id.

Memory is the VM's size times its running time: 1 GiB-hour is 512 MiB for two hours.`,
		Example: "  warren usage\n  warren usage box\n  warren usage --all --json",
		Args:    args(0, -1, ""),
		RunE: func(cmd *cobra.Command, list []string) error {
			if o.names = list; o.all && len(list) > 0 {
				return usage("--all lists everything; omit %s", printable(list[0]))
			}
			if err := wideOrPlain(o.form); err != nil {
				return err
			}
			return a.usage(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "list every account; for admins")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	formFlag(cmd, &o.form)
	return cmd
}

func (a *app) usage(ctx context.Context, o *usageOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if len(o.names) == 0 {
		l, err := c.Usage(ctx, o.all)
		if err != nil {
			return err
		}
		if o.json {
			return a.io.json(l)
		}
		a.usageTable(o.form, l.VMs, l.Accounts)
		return nil
	}
	var vms []vm.Usage
	err = a.each(o.names, func(name string) error {
		u, err := c.UsageOf(ctx, name)
		if err == nil {
			vms = append(vms, u)
		}
		return err
	})
	if o.json {
		if jerr := list(a.io, vms); err == nil {
			err = jerr
		}
	} else if len(vms) > 0 {
		a.usageTable(o.form, vms, nil)
	}
	return err
}

func (a *app) usageTable(form string, vms, sums []vm.Usage) {
	t := &table{head: []string{"NAME", "ID", "RUNNING", "CPU", "MEMORY", "DISK", "PEAK", "IN", "OUT", "UNTIL"}, spare: []string{"PEAK", "ID", "OUT", "IN", "UNTIL", "DISK"}}
	row := func(name, id, until string, u vm.Usage) {
		t.add(name, id, clock(u.RunningSeconds), clock(u.CPUSeconds), gibHours(u.MemorySeconds), human(u.DiskBytes), human(u.DiskPeakBytes),
			human(u.BytesIn), human(u.BytesOut), until)
	}
	for _, u := range vms {
		until := "now"
		if !u.Gone.IsZero() {
			until = u.Gone.Local().Format(time.DateTime)
		}
		row(printable(or(u.Name, "-")), string(u.VM), until, u)
	}
	for _, u := range sums {
		row("all of "+printable(or(u.Name, "the account")), string(u.Account), "now", u)
	}
	a.io.print(t.form(form))
}

// used formats a usage as one line.
func used(u vm.Usage) string {
	return fmt.Sprintf("%s running, %s CPU, %s memory, %s disk, %s in, %s out", clock(u.RunningSeconds), clock(u.CPUSeconds), gibHours(u.MemorySeconds),
		human(u.DiskBytes), human(u.BytesIn), human(u.BytesOut))
}

// clock renders seconds, to the second: 1h02m03s.
func clock(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

func gibHours(mibSeconds float64) string { return fmt.Sprintf("%.2f GiB-h", mibSeconds/1024/3600) }
