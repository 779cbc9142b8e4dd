// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"
)

type volumeSnapshotOptions struct {
	project  string
	volume   string
	snapshot string
	json     bool
}

func newVolumeSnapshot(a *app) *cobra.Command {
	return group("snapshot", "Manage snapshots of volumes",
		`  warren volume snapshot create work --name before-upgrade
  warren volume snapshot ls work
  warren volume rollback work before-upgrade`,
		newVolumeSnapshotCreate(a), newVolumeSnapshotLs(a), newVolumeSnapshotRm(a))
}

// volumeSnapshotCmd has the shared parts of the commands about a volume's
// snapshots.
func (a *app) volumeSnapshotCmd(o *volumeSnapshotOptions, cmd *cobra.Command, run func(context.Context, *volumeSnapshotOptions) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, list []string) error {
		o.volume = list[0]
		if len(list) > 1 {
			o.snapshot = list[1]
		}
		return run(cmd.Context(), o)
	}
	cmd.ValidArgsFunction = a.completeVolumes
	projectFlag(cmd, &o.project)
	return cmd
}

func newVolumeSnapshotCreate(a *app) *cobra.Command {
	o := &volumeSnapshotOptions{}
	cmd := a.volumeSnapshotCmd(o, &cobra.Command{
		Use: "create VOLUME", Short: "Make a snapshot of a volume",
		Long: `Make a snapshot of an unlocked volume. Nothing is copied: it takes the space of later changes, and is encrypted
like the volume. A VM may have the volume mounted with --rw: the snapshot then holds what a power cut at that
instant would leave, so everything that was synced. It is refused while VMs have the volume mounted read-only.`,
		Example: "  warren volume snapshot create work\n  warren volume snapshot create work --name before-upgrade",
		Args:    args(1, 1, "which volume? warren volume snapshot create VOLUME"),
	}, a.volumeSnapshotCreate)
	cmd.Flags().StringVar(&o.snapshot, "name", "", "name of the snapshot")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) volumeSnapshotCreate(ctx context.Context, o *volumeSnapshotOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	s, err := c.SnapshotVolume(ctx, o.project, o.volume, o.snapshot)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(s)
	}
	a.io.printf("%s\n", or(s.Name, s.ID))
	return nil
}

func newVolumeSnapshotLs(a *app) *cobra.Command {
	o := &volumeSnapshotOptions{}
	cmd := a.volumeSnapshotCmd(o, &cobra.Command{
		Use: "ls VOLUME", Short: "List the snapshots of a volume",
		Example: "  warren volume snapshot ls work\n  warren volume snapshot ls work --json",
		Args:    args(1, 1, "which volume? warren volume snapshot ls VOLUME"),
	}, a.volumeSnapshotLs)
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) volumeSnapshotLs(ctx context.Context, o *volumeSnapshotOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	v, err := c.Volume(ctx, o.project, o.volume)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, v.Snapshots)
	}
	t := &table{head: []string{"SNAPSHOT", "NAME", "SIZE", "AGE", "MADE BY"}}
	for _, s := range v.Snapshots {
		by := "request"
		if s.Before {
			by = "rollback"
		}
		t.add(s.ID, printable(s.Name), mib(s.SizeMiB), age(s.CreatedAt), by)
	}
	a.io.print(t)
	return nil
}

func newVolumeSnapshotRm(a *app) *cobra.Command {
	o := &volumeSnapshotOptions{}
	return a.changing(a.volumeSnapshotCmd(o, &cobra.Command{
		Use: "rm VOLUME SNAPSHOT", Short: "Delete a snapshot of a volume",
		Example: "  warren volume snapshot rm work before-upgrade",
		Args:    args(2, 2, "which volume, and which snapshot? warren volume snapshot rm VOLUME SNAPSHOT"),
	}, a.volumeSnapshotRm))
}

func (a *app) volumeSnapshotRm(ctx context.Context, o *volumeSnapshotOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	err = c.RemoveVolumeSnapshot(ctx, o.project, o.volume, o.snapshot)
	return a.changedQuietly(err, change{Name: o.snapshot, Result: "removed"})
}

func newVolumeRollback(a *app) *cobra.Command {
	o := &volumeSnapshotOptions{}
	cmd := a.volumeSnapshotCmd(o, &cobra.Command{
		Use: "rollback VOLUME [SNAPSHOT]", Short: "Put a volume back to a snapshot",
		Long: `Put an unlocked, unmounted volume back to a snapshot, by default the newest that you made. The state before that is
kept as a snapshot, too, so that you can undo a rollback; the last four of these are kept.`,
		Example: "  warren volume rollback work\n  warren volume rollback work before-upgrade",
		Args:    args(1, 2, "which volume? warren volume rollback VOLUME [SNAPSHOT]"),
	}, a.volumeRollback)
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) volumeRollback(ctx context.Context, o *volumeSnapshotOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	r, err := c.RollbackVolume(ctx, o.project, o.volume, o.snapshot)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(r)
	}
	n := printable(r.Name)
	a.io.printf("%s was rolled back\n  undo      warren volume rollback %s %s\n", n, n, r.Before.ID)
	return nil
}
