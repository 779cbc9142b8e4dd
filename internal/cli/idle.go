// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type idleOptions struct {
	name string
	json bool
}

func newIdle(a *app) *cobra.Command {
	o := &idleOptions{}
	cmd := &cobra.Command{
		Use:   "idle NAME",
		Short: "Show when a VM will be suspended, or why not",
		Long: `Show since when a VM has been idle, its last use, what keeps it awake, and when it will be suspended or stopped. The
command neither wakes the VM nor keeps it awake.`,
		Example: "  warren idle app\n  warren idle app --json",
		Args:    args(1, 1, "which VM? warren idle NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.idle(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) idle(ctx context.Context, o *idleOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	i, err := c.Idle(ctx, o.name)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(i)
	}
	for _, line := range idleLines(o.name, i, time.Now()) {
		a.io.printf("%s\n", line)
	}
	return nil
}

// idleLines is the page of `warren idle`.
func idleLines(name string, i vm.Idle, now time.Time) []string {
	state := string(i.State)
	switch {
	case i.AsleepFor != "":
		state = fmt.Sprintf("%s for %s (%s)", i.State, span(now.Sub(i.Asleep)), printable(i.AsleepFor))
	case !i.IdleSince.IsZero():
		state += ", idle for " + span(now.Sub(i.IdleSince))
	case len(i.Awake) > 0:
		state += ", kept awake"
	}
	lines := []string{printable(name) + "  " + state}
	if !i.LastActivity.IsZero() {
		lines = append(lines, fmt.Sprintf("  last      %s, %s ago", or(string(i.LastKind), "use"), span(now.Sub(i.LastActivity))))
	}
	for _, k := range i.Awake {
		if k.Hold == "" {
			lines = append(lines, "  awake     "+printable(k.Why))
		}
	}
	for _, h := range i.Holds {
		lines = append(lines, fmt.Sprintf("  held      for another %s  %s  %s", span(h.Until.Sub(now)), h.ID, printable(or(h.Reason, "-"))))
	}
	return append(lines, idleOutlook(name, i, now))
}

// idleOutlook says when the VM will be suspended or what wakes it.
func idleOutlook(name string, i vm.Idle, now time.Time) string {
	switch {
	case i.AsleepFor != "":
		return "  wakes     on use: exec, cp, pty, ssh, a connection, or warren start " + printable(name)
	case i.Never != "":
		return "  never     it is not suspended automatically: " + i.Never
	case !i.SleepsAt.IsZero():
		return fmt.Sprintf("  sleeps    in %s, unless it is used (%s)", span(i.SleepsAt.Sub(now)), i.OnIdle)
	case i.IdleTimeout == nil:
		return "  never     it has no idle timeout"
	}
	return fmt.Sprintf("  sleeps    %s after the last of these has ended (%s)", span(time.Duration(*i.IdleTimeout)), i.OnIdle)
}

type holdOptions struct {
	name   string
	dur    string
	reason string
	ids    []string
	json   bool
}

func newHold(a *app) *cobra.Command {
	o := &holdOptions{}
	cmd := &cobra.Command{
		Use:   "hold NAME",
		Short: "Keep a VM awake for a while",
		Long: `Keep a VM awake for a while, such as during a build in the background. A hold expires by itself, and ends
with the VM. It does not wake a VM, does not prevent stop, suspend or rm, and forks do not inherit it.`,
		Example: "  warren hold app --for 1h --reason \"build\"\n  warren hold ls app\n  warren hold release app hd-0123456789abcdef",
		Args:    args(1, 1, "which VM? warren hold NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.hold(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	cmd.Flags().StringVar(&o.dur, "for", "1h", "how long: seconds, or a duration such as 90s, 15m, 2h, 3d; at most 7d")
	cmd.Flags().StringVar(&o.reason, "reason", "", "the reason; \"warren idle\" shows it")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	cmd.AddCommand(newHoldLs(a), newHoldRelease(a))
	return cmd
}

func (a *app) hold(ctx context.Context, o *holdOptions) error {
	d, err := parseSeconds(o.dur)
	if err != nil {
		return err
	}
	if d < vm.MinHold || d > vm.MaxHold {
		return usage("--for: a hold lasts 1s to 7d")
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	h, err := c.Hold(ctx, o.name, api.NewHold{For: new(vm.Seconds(d)), Reason: o.reason})
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(h)
	}
	a.io.printf("%s  keeps %s awake for %s\n", h.ID, printable(o.name), span(h.Until.Sub(h.CreatedAt)))
	a.io.printf("  end it    warren hold release %s %s\n", printable(o.name), h.ID)
	return nil
}

func newHoldLs(a *app) *cobra.Command {
	o := &holdOptions{}
	cmd := &cobra.Command{
		Use: "ls NAME", Aliases: []string{"list"}, Short: "List a VM's holds",
		Example: "  warren hold ls app\n  warren hold ls app --json",
		Args:    args(1, 1, "which VM? warren hold ls NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.holdLs(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) holdLs(ctx context.Context, o *holdOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Holds(ctx, o.name)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	}
	t := &table{head: []string{"ID", "LEFT", "AGE", "REASON"}}
	for _, h := range l {
		t.add(string(h.ID), span(time.Until(h.Until)), age(h.CreatedAt), printable(or(h.Reason, "-")))
	}
	a.io.print(t)
	return nil
}

func newHoldRelease(a *app) *cobra.Command {
	o := &holdOptions{}
	return a.changing(&cobra.Command{
		Use: "release NAME HOLD...", Short: "Release holds early", Example: "  warren hold release app hd-0123456789abcdef",
		Args: args(2, -1, "which VM, and which hold? warren hold release NAME HOLD..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.ids = list[0], list[1:]
			return a.endEach(o.ids, "released", func(c *client.Client, id string) error { return c.Release(cmd.Context(), o.name, id) })
		},
		ValidArgsFunction: a.completeVMs,
	})
}
