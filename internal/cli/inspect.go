// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type inspectOptions struct {
	names []string
	json  bool
}

func newInspect(a *app) *cobra.Command {
	o := &inspectOptions{}
	cmd := &cobra.Command{
		Use:     "inspect NAME...",
		Short:   "Show all details of VMs",
		Long:    "Show the records of VMs, the state of their machines, and their use of the host.",
		Example: "  warren inspect box\n  warren inspect --json box",
		Args:    args(1, -1, "which VM? warren inspect NAME..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.names = list
			return a.inspect(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON: one object for each VM")
	return cmd
}

func (a *app) inspect(ctx context.Context, o *inspectOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	first := true
	return a.each(o.names, func(name string) error {
		i, err := c.Inspect(ctx, name)
		if err != nil {
			return err
		}
		if o.json {
			return a.io.json(i)
		}
		if !first {
			a.io.printf("\n")
		}
		first = false
		a.inspected(i)
		return nil
	})
}

func (a *app) inspected(i api.Inspection) {
	v := i.VM
	row := func(name, format string, args ...any) {
		a.io.printf("%-14s"+format+"\n", append([]any{name}, args...)...)
	}
	row("id", "%s", v.ID)
	row("name", "%s", or(v.Name, "-"))
	state := a.io.state(v.State)
	if v.Reason != "" {
		state += " (" + plain(v.Reason) + ")"
	}
	row("state", "%s", state)
	if v.Operation != "" {
		row("in progress", "%s", v.Operation)
	}
	row("image", "%s %s", printable(v.Image), v.ImageID)
	row("size", "%s", sizing(v.Sizing))
	row("disk", "%s used on the host", human(i.DiskBytes))
	row("network", "%s", networkOf(v))
	row("profile", "%s", or(v.Profile, vm.ProfileAgent))
	for _, l := range labelList(v.Labels) {
		row("label", "%s", l)
	}
	row("kept", "%s", retention(v))
	row("made", "%s (%s ago)", v.CreatedAt.Local().Format(time.DateTime), age(v.CreatedAt))
	if !v.StartedAt.IsZero() {
		row("started", "%s (%s ago)", v.StartedAt.Local().Format(time.DateTime), age(v.StartedAt))
	}
	if v.Accel != "" {
		row("runs by", "%s", v.Accel)
	}
	if m := i.Machine; m != nil {
		if m.RunState == "io-error" {
			row("paused", "the disk of the data directory is full; it resumes when there is room")
		}
		row("machine", "qemu %d %s resident, monitor %d %s resident", m.QEMUPID, human(m.RSS), m.MonitorPID, human(m.MonRSS))
		row("cpu time", "%s", m.CPU.Round(10*time.Millisecond))
		row("used so far", "%s", used(i.Usage))
		row("traffic", "%s in, %s out", human(m.TxBytes), human(m.RxBytes))
		row("guest", "kernel %s, agent %s", plain(m.Agent.Kernel), plain(m.Agent.Version))
		for _, name := range slices.Sorted(maps.Keys(m.Resets)) {
			if r := m.Resets[name]; r != "ok" {
				row("reset", "%s: %s", plain(name), plain(r))
			}
		}
	}
	if i.MachineError != "" {
		row("machine", "%s", plain(i.MachineError))
	}
	for _, l := range v.Losses {
		row("not restored", "%s", plain(l))
	}
	warnings := i.Warnings
	if w := warningOf(v); w != "" && !slices.Contains(warnings, w) {
		warnings = append(warnings, w)
	}
	for _, w := range warnings {
		row("warning", "%s", w)
	}
}
