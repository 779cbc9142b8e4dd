// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type storageOptions struct {
	json bool
}

func newStorage(a *app) *cobra.Command {
	o := &storageOptions{}
	cmd := &cobra.Command{
		Use:   "storage",
		Short: "Show who uses the disk, and what would be removed next",
		Long: `Show the disk space of each VM, generation and image, as the file system counts it: holes take nothing, and shared
blocks count once. OWN is freed when the thing is removed, SHARED is also used by other things. FREES is what
removing a VM frees, including everything that only it needs.

If the data directory exceeds its budget, or the disk lacks its reserve, the server removes things: layers of
specs first, which are built again when needed, then sticky VMs that do not run (the lowest priority first, then
the longest unused), then sticky snapshots. NEXT is the place in that order, or why a VM is kept. Things of
accounts above an equal share of the budget go first. Accounts other than admins see their own use, their quota,
and what is free for them.`,
		Example: "  warren storage\n  warren storage --json",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.storage(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print an object as JSON")
	return cmd
}

func (a *app) storage(ctx context.Context, o *storageOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	s, err := c.Storage(ctx)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(s)
	}
	switch {
	case s.DiskTotal > 0:
		a.io.printf("%s of a budget of %s in %s; %s of %s of the disk are free, %s stay reserved\n",
			human(s.Used), human(s.Budget), printable(s.Path), human(s.DiskFree), human(s.DiskTotal), human(s.Reserve))
	case s.Budget > 0:
		a.io.printf("%s of a quota of %s; %s are free for this account\n", human(s.Used), human(s.Budget), human(s.Available))
	default:
		a.io.printf("%s, without a quota; %s are free for this account\n", human(s.Used), human(s.Available))
	}
	if s.Over > 0 {
		a.io.printf("%s must go\n", human(s.Over))
	}
	t := &table{head: []string{"ACCOUNT", "OWN", "MEMORY IMAGES", "LIMIT"}}
	for _, v := range s.Accounts {
		limit := "-"
		if v.Limit > 0 {
			limit = human(v.Limit)
		}
		t.add(printable(v.Name), human(v.Unique), human(v.MemoryImages), limit)
	}
	a.io.print(t)
	a.io.printf("\n")
	a.io.print(storageTable(s.Items))
	return nil
}

// storageTable lists things that use the disk.
func storageTable(items []vm.StorageItem) *table {
	t := &table{head: []string{"KIND", "NAME", "STATE", "OWN", "SHARED", "FREES", "NEXT"}}
	for _, it := range items {
		frees := "-"
		if it.Kind == "vm" || it.Next > 0 {
			frees = human(it.Frees)
		}
		t.add(kindOf(it), printable(or(it.Name, it.ID)), or(string(it.State), "-"), human(it.Unique), human(it.Shared), frees, nextOf(it))
	}
	return t
}

// kindOf is the kind of a thing; for a generation "snapshot", or the purpose
// of its capture.
func kindOf(it vm.StorageItem) string {
	if it.Why != "" {
		return string(it.Why)
	}
	return it.Kind
}

// nextOf is a thing's place in the order of removal, or why it has none.
func nextOf(it vm.StorageItem) string {
	switch {
	case it.Goes:
		return fmt.Sprintf("%d, now", it.Next)
	case it.Next > 0:
		return itoa(it.Next)
	case it.Kept != "":
		return "kept: " + it.Kept
	}
	return "-"
}

type pruneOptions struct {
	dry  bool
	free string
	json bool
}

func newPrune(a *app) *cobra.Command {
	o := &pruneOptions{}
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Free space on the disk",
		Long: `Remove what is no longer needed, then free space until the storage budget is met and --free is free: layers of
specs, then sticky VMs that do not run (the lowest priority first, then the longest unused), sticky snapshots
last. VMs that run, are held, or are persistent are never removed. --dry-run only prints what would be removed.
The server does the same when necessary; this does it now. Accounts other than admins prune their own things.`,
		Example: "  warren prune --dry-run\n  warren prune --free 10G",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.prune(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.dry, "dry-run", false, "only print what would be removed")
	cmd.Flags().StringVar(&o.free, "free", "", "free this much more: GiB, or such as 500M")
	cmd.Flags().BoolVar(&o.json, "json", false, "print an object as JSON")
	return cmd
}

func (a *app) prune(ctx context.Context, o *pruneOptions) error {
	r := api.Prune{DryRun: o.dry}
	if o.free != "" {
		n, err := parseBytes(o.free, 1<<30)
		if err != nil {
			return err
		}
		r.Free = n
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	p, err := c.Prune(ctx, r)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(p)
	}
	if len(p.Gone) > 0 {
		t := &table{head: []string{"KIND", "NAME", "ID", "PRIORITY", "UNUSED FOR", "FREES"}}
		for _, it := range p.Gone {
			priority := "-"
			if it.Persistence != nil && it.Persistence.Priority != nil {
				priority = itoa(*it.Persistence.Priority)
			}
			t.add(kindOf(it), printable(or(it.Name, "-")), it.ID, priority, age(it.LastActive), human(it.Frees))
		}
		a.io.print(t)
	}
	if p.DryRun {
		a.io.printf("would remove %d and free %s\n", len(p.Gone), human(p.Frees))
	} else {
		a.io.printf("%d removed, %s freed\n", len(p.Gone), human(p.Frees))
	}
	if p.Left > 0 {
		a.io.tellf("%s more are needed, and nothing else may be removed: stop VMs, or delete VMs, snapshots or images", human(p.Left))
	}
	return nil
}
