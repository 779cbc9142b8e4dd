// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
)

func newSnapshot(a *app) *cobra.Command {
	return group("snapshot", "Keep named states of VMs", "  warren snapshot create app --name before-upgrade\n  warren snapshot ls",
		newSnapshotCreate(a), newSnapshotLs(a), newSnapshotInspect(a), newSnapshotRename(a), newSnapshotRm(a))
}

type snapshotCreateOptions struct {
	vm       string
	name     string
	persist  string
	diskOnly bool
	volumes  string
	json     bool
}

func newSnapshotCreate(a *app) *cobra.Command {
	o := &snapshotCreateOptions{}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Capture a snapshot of a VM, which keeps running",
		Long: `Capture memory, processes and disk of a running or suspended VM, or the disk of a stopped one. It stays until you
remove it, even if the VM is removed. Return to it with rollback, make VMs from it with ` + "`warren up SNAPSHOT`" + `.`,
		Example: "  warren snapshot create app\n  warren snapshot create app --name before-upgrade\n  warren snapshot create app --disk-only",
		Args:    args(1, 1, "which VM? warren snapshot create NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.vm = list[0]
			return a.snapshotCreate(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the snapshot")
	f.StringVar(&o.persist, "persist", "", "how it is kept: sticky, sticky:0 to sticky:10, persistent (default sticky)")
	f.StringVar(&o.volumes, "volumes", "", "if it has volumes mounted: detach (unmount them meanwhile) or cut (VMs made from it get disks that fail)")
	f.BoolVar(&o.diskOnly, "disk-only", false, "leave the memory out; the file system is frozen at the capture")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) snapshotCreate(ctx context.Context, o *snapshotCreateOptions) error {
	persist, err := parsePersist(o.persist)
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("capturing %s", o.vm)
	s, err := c.Snapshot(ctx, o.vm, api.TakeSnapshot{Name: o.name, Persistence: persist, DiskOnly: o.diskOnly, Volumes: o.volumes})
	p.done()
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(s.Snapshot)
	}
	name := or(s.Snapshot.Name, string(s.SnapshotID))
	a.io.printf("%s  %s on disk, %s was paused for %.0f ms\n", s.SnapshotID, human(s.Snapshot.DataBytes), printable(o.vm), s.Snapshot.PauseMs)
	a.io.printf("  holds     %s: all of these that were in the VM\n", strings.Join(s.Snapshot.MayContain, ", "))
	a.io.printf("  go back   warren rollback %s %s\n", printable(o.vm), printable(name))
	a.io.printf("  copy      warren up %s --name NAME\n", printable(name))
	a.io.printf("  erase     warren snapshot rm %s\n", printable(name))
	return nil
}

type snapshotLsOptions struct {
	all  bool
	json bool
}

func newSnapshotLs(a *app) *cobra.Command {
	o := &snapshotLsOptions{}
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List snapshots",
		Long:    "List the snapshots of your account, and those of the images.",
		Example: "  warren snapshot ls\n  warren snapshot ls --json",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.snapshotLs(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "also list deleted and lost snapshots")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) snapshotLs(ctx context.Context, o *snapshotLsOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Snapshots(ctx, o.all)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l.Snapshots)
	}
	t := &table{head: []string{"NAME", "ID", "OF", "STATE", "MEMORY", "ON DISK", "AGE"}}
	for _, s := range l.Snapshots {
		of, memory := or(s.SourceVMName, string(s.SourceVMID)), "no"
		if s.GenerationID == "" {
			of, memory = "an image", "yes"
		}
		if s.Memory {
			memory = "yes"
		}
		state := s.State
		if s.Deleted {
			state = "deleted"
		}
		t.add(or(printable(s.Name), "-"), string(s.SnapshotID), or(printable(of), "-"), state, memory, human(s.DataBytes), span(time.Since(s.CreatedAt)))
	}
	a.io.print(t)
	return nil
}

func newSnapshotInspect(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "inspect SNAPSHOT...", Short: "Show all details of snapshots",
		Example: "  warren snapshot inspect before-upgrade", Args: args(1, -1, "which snapshot?"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			return a.each(list, func(name string) error {
				s, err := c.GetSnapshot(cmd.Context(), name)
				if err != nil {
					return err
				}
				return a.io.json(s)
			})
		},
		ValidArgsFunction: a.completeSnapshots,
	}
	cmd.Flags().Bool("json", true, "print as JSON; there is no other form")
	return cmd
}

func newSnapshotRename(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "rename SNAPSHOT NAME", Short: "Give a snapshot another name",
		Example: "  warren snapshot rename sc-0123456789abcdefghij before-upgrade", Args: args(2, 2, "which snapshot, and what name?"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RenameSnapshot(cmd.Context(), list[0], list[1]); err != nil {
				return err
			}
			a.changed(change{Name: list[0], Result: "renamed", To: list[1], text: list[0] + " is now called " + list[1]})
			return nil
		},
		ValidArgsFunction: a.completeSnapshots,
	})
}

func newSnapshotRm(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "rm SNAPSHOT...", Aliases: []string{"delete"}, Short: "Delete snapshots; VMs made from them stay",
		Example: "  warren snapshot rm before-upgrade", Args: args(1, -1, "which snapshot?"),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.endEach(list, "deleted", func(c *client.Client, name string) error { return c.DeleteSnapshot(cmd.Context(), name) })
		},
		ValidArgsFunction: a.completeSnapshots,
	})
}
