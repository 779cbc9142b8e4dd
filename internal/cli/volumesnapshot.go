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
	return group("snapshot", "Keep what is in a volume, to go back to it",
		`  warren volume snapshot create work --name before-upgrade
  warren volume snapshot ls work
  warren volume rollback work before-upgrade`,
		newVolumeSnapshotCreate(a, nil), newVolumeSnapshotLs(a, nil), newVolumeSnapshotRm(a, nil))
}

// volumeSnapshotCmd is what the commands about a volume's snapshots share.
func (a *app) volumeSnapshotCmd(o *volumeSnapshotOptions, cmd *cobra.Command, runF, run func(context.Context, *volumeSnapshotOptions) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, list []string) error {
		o.volume = list[0]
		if len(list) > 1 {
			o.snapshot = list[1]
		}
		if runF != nil {
			return runF(cmd.Context(), o)
		}
		return run(cmd.Context(), o)
	}
	cmd.ValidArgsFunction = a.completeVolumes
	projectFlag(cmd, &o.project)
	return cmd
}

func newVolumeSnapshotCreate(a *app, runF func(context.Context, *volumeSnapshotOptions) error) *cobra.Command {
	o := &volumeSnapshotOptions{}
	cmd := a.volumeSnapshotCmd(o, &cobra.Command{
		Use: "create VOLUME", Short: "Keep what is in a volume",
		Long: `Keep what is in an unlocked volume. Nothing is copied: it takes the space of what is changed from then on, and is
encrypted as the volume is. A VM may have the volume mounted with --rw: what it has written is kept as after a power
cut of that instant, nothing that was synced is missing. It is refused while VMs have it mounted to read only.`,
		Example: "  warren volume snapshot create work\n  warren volume snapshot create work --name before-upgrade",
		Args:    args(1, 1, "which volume? warren volume snapshot create VOLUME"),
	}, runF, a.volumeSnapshotCreate)
	cmd.Flags().StringVar(&o.snapshot, "name", "", "call it so")
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

func newVolumeSnapshotLs(a *app, runF func(context.Context, *volumeSnapshotOptions) error) *cobra.Command {
	o := &volumeSnapshotOptions{}
	cmd := a.volumeSnapshotCmd(o, &cobra.Command{
		Use: "ls VOLUME", Short: "List the snapshots of a volume",
		Example: "  warren volume snapshot ls work\n  warren volume snapshot ls work --json",
		Args:    args(1, 1, "which volume? warren volume snapshot ls VOLUME"),
	}, runF, a.volumeSnapshotLs)
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

func newVolumeSnapshotRm(a *app, runF func(context.Context, *volumeSnapshotOptions) error) *cobra.Command {
	o := &volumeSnapshotOptions{}
	return a.changing(a.volumeSnapshotCmd(o, &cobra.Command{
		Use: "rm VOLUME SNAPSHOT", Short: "Let a snapshot of a volume go",
		Example: "  warren volume snapshot rm work before-upgrade",
		Args:    args(2, 2, "which one? warren volume snapshot rm VOLUME SNAPSHOT"),
	}, runF, a.volumeSnapshotRm))
}

func (a *app) volumeSnapshotRm(ctx context.Context, o *volumeSnapshotOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	err = c.RemoveVolumeSnapshot(ctx, o.project, o.volume, o.snapshot)
	return a.changedQuietly(err, change{Name: o.snapshot, Result: "removed"})
}

func newVolumeRollback(a *app, runF func(context.Context, *volumeSnapshotOptions) error) *cobra.Command {
	o := &volumeSnapshotOptions{}
	cmd := a.volumeSnapshotCmd(o, &cobra.Command{
		Use: "rollback VOLUME [SNAPSHOT]", Short: "Put a volume back to a snapshot",
		Long: `Put an unlocked volume that no VM has mounted back to a snapshot, by default the newest that was asked for. What is
left is kept as a snapshot, too, so that a rollback can be undone; the last four of those are.`,
		Example: "  warren volume rollback work\n  warren volume rollback work before-upgrade",
		Args:    args(1, 2, "which volume? warren volume rollback VOLUME [SNAPSHOT]"),
	}, runF, a.volumeRollback)
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
	a.io.printf("%s was put back\n  undo      warren volume rollback %s %s\n", n, n, r.Before.ID)
	return nil
}
