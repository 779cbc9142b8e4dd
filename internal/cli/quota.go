// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type quotaOptions struct {
	account                string
	counts                 vm.Quota // of those that are numbers
	mem, disk, memoryImage string
	flags                  *pflag.FlagSet
	json                   bool
}

func newAccountQuota(a *app) *cobra.Command {
	o := &quotaOptions{}
	cmd := &cobra.Command{
		Use:   "quota [ACCOUNT]",
		Short: "Show or set the limits of an account",
		Long: `Show the limits and the use of an account, by default your own. Flags set limits and keep the others; 0 means no
limit, for disk the default of "warren serve --account-disk". A limit below the current use is refused. Only
admins set limits and see other accounts.`,
		Example: "  warren account quota\n  warren account quota team-a --vms 20 --running 5 --disk 50G",
		Args:    args(0, 1, "which account? warren account quota ACCOUNT"),
		RunE: func(cmd *cobra.Command, list []string) error {
			if len(list) > 0 {
				o.account = list[0]
			}
			o.flags = cmd.Flags()
			return a.accountQuota(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.IntVar(&o.counts.VMs, "vms", 0, "VMs in any state")
	f.IntVar(&o.counts.Running, "running", 0, "VMs that run at once")
	f.IntVar(&o.counts.VCPU, "vcpu", 0, "CPUs of its running VMs together")
	f.StringVar(&o.mem, "mem", "", "memory of its running VMs together: MiB, or such as 8G")
	f.StringVar(&o.disk, "disk", "", "disk of its VMs, snapshots, repositories and objects: GiB, or such as 500M")
	f.StringVar(&o.memoryImage, "memory-images", "", "memory of suspended VMs and snapshots, a part of --disk")
	f.IntVar(&o.counts.Snapshots, "snapshots", 0, "snapshots")
	f.BoolVar(&o.json, "json", false, "print an object as JSON")
	return cmd
}

// quotaFlags are the flags that set a limit.
var quotaFlags = []string{"vms", "running", "vcpu", "mem", "disk", "memory-images", "snapshots"}

func (a *app) accountQuota(ctx context.Context, o *quotaOptions) error {
	set := false
	for _, name := range quotaFlags {
		set = set || o.flags.Changed(name)
	}
	if set && o.account == "" {
		return usage("which account?").WithHint("warren account quota ACCOUNT --vms 20")
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	s, err := c.Quota(ctx, o.account)
	if err != nil {
		return err
	}
	if set {
		if s, err = o.change(ctx, c, s.Quota); err != nil {
			return err
		}
	}
	if o.json {
		return a.io.json(s)
	}
	t := &table{head: []string{printable(s.Name), "USED", "LIMIT"}}
	row := func(what string, use, limit int64, show func(int64) string) {
		may := "no limit"
		if limit > 0 {
			may = show(limit)
		}
		t.add(what, show(use), may)
	}
	number := func(n int64) string { return itoa(int(n)) }
	row("VMs", int64(s.Use.VMs), int64(s.Quota.VMs), number)
	row("running", int64(s.Use.Running), int64(s.Quota.Running), number)
	row("CPUs", int64(s.Use.VCPU), int64(s.Quota.VCPU), number)
	row("memory", int64(s.Use.MemoryMiB)<<20, int64(s.Quota.MemoryMiB)<<20, human)
	row("disk", s.Use.Disk, cmp.Or(s.Quota.Disk, s.DiskDefault), human)
	row("memory images", s.Use.MemoryImages, s.Quota.MemoryImages, human)
	row("snapshots", int64(s.Use.Snapshots), int64(s.Quota.Snapshots), number)
	a.io.print(t)
	return nil
}

// change sets the limits that the flags name, and keeps the others.
func (o *quotaOptions) change(ctx context.Context, c *client.Client, q vm.Quota) (vm.QuotaState, error) {
	number := func(name string, to *int, n int) {
		if o.flags.Changed(name) {
			*to = n
		}
	}
	number("vms", &q.VMs, o.counts.VMs)
	number("running", &q.Running, o.counts.Running)
	number("vcpu", &q.VCPU, o.counts.VCPU)
	number("snapshots", &q.Snapshots, o.counts.Snapshots)
	var memory int64
	for _, f := range []struct {
		name, text string
		unit       int64
		to         *int64
	}{{"mem", o.mem, 1 << 20, &memory}, {"disk", o.disk, 1 << 30, &q.Disk}, {"memory-images", o.memoryImage, 1 << 30, &q.MemoryImages}} {
		if !o.flags.Changed(f.name) {
			continue
		}
		n, err := parseBytes(f.text, f.unit)
		if err != nil {
			return vm.QuotaState{}, err
		}
		*f.to = n
	}
	if o.flags.Changed("mem") {
		if memory%(1<<20) != 0 {
			return vm.QuotaState{}, usage("--mem: %s is not a number of MiB", printable(o.mem)).WithHint("give one such as 512 or 8G")
		}
		q.MemoryMiB = int(memory >> 20)
	}
	return c.SetQuota(ctx, o.account, q)
}
