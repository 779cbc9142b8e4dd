// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

func newNet(a *app) *cobra.Command {
	return group("net", "Show and change what a VM may reach", "  warren net show box\n  warren net set box packages",
		newNetShow(a), newNetSet(a), newNetConnections(a))
}

type netOptions struct {
	name string
	mode string
	json bool
}

func newNetShow(a *app) *cobra.Command {
	o := &netOptions{}
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show what a VM may reach", Example: "  warren net show box",
		Args: args(1, 1, "which VM? warren net show NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.netShow(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// netView is what `net show --json` prints.
type netView struct {
	Mode       string        `json:"mode"`
	Registries []vm.Registry `json:"registries"` // reachable in mode packages
}

func (a *app) netShow(ctx context.Context, o *netOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	i, err := c.Inspect(ctx, o.name)
	if err != nil {
		return err
	}
	v := netView{Mode: i.VM.Network, Registries: []vm.Registry{}}
	if i.Image != nil {
		v.Registries = append(v.Registries, i.Image.Registries...)
	}
	if o.json {
		return a.io.json(v)
	}
	a.io.printf("%s: %s\n", v.Mode, netMeaning[vm.NetworkMode(v.Mode)])
	if v.Mode == string(vm.NetPackages) {
		for _, r := range v.Registries {
			a.io.printf("  %-5s %s:%d\n", plain(r.Manager), plain(r.Host), r.Port)
		}
	}
	return nil
}

var netMeaning = map[vm.NetworkMode]string{
	vm.NetClosed:   "nothing is reached",
	vm.NetPackages: "the package registries that its image is configured for, nothing else",
	vm.NetOpen:     "the public internet; never private addresses or this host",
}

func newNetSet(a *app) *cobra.Command {
	o := &netOptions{}
	return a.changing(&cobra.Command{
		Use: "set NAME closed|packages|open", Short: "Change what a VM may reach", Example: "  warren net set box packages\n  warren net set box closed",
		Long: "Change what a VM may reach. The change applies at once; connections that are no longer allowed are closed.",
		Args: args(2, 2, "warren net set NAME closed|packages|open"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.mode = list[0], list[1]
			if _, err := vm.ParseNetworkMode(o.mode); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			v, err := c.SetNetwork(cmd.Context(), o.name, o.mode)
			if err == nil {
				a.changed(change{Name: o.name, Result: v.Network, text: v.Network + ": " + netMeaning[vm.NetworkMode(v.Network)]})
			}
			return err
		},
		ValidArgsFunction: func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) == 1 {
				return []cobra.Completion{"closed", "packages", "open"}, noFiles
			}
			return a.completeVM(cmd, list, prefix)
		},
	})
}

func newNetConnections(a *app) *cobra.Command {
	o := &netOptions{}
	cmd := &cobra.Command{
		Use: "connections NAME", Short: "List a VM's last connections, allowed and refused", Example: "  warren net connections box\n  warren net connections box --json",
		Args: args(1, 1, "which VM? warren net connections NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.netConnections(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) netConnections(ctx context.Context, o *netOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Connections(ctx, o.name)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	case len(l) == 0:
		a.io.notef("no connections")
		return nil
	}
	t := &table{head: []string{"TIME", "PROTO", "TO", "NAME", "UP", "DOWN", "ALLOWED", "WHY"}}
	for _, k := range l {
		allowed := "no"
		if k.Allowed {
			allowed = "yes"
		}
		t.add(k.Time.Local().Format(time.TimeOnly), k.Proto, printable(k.Dest), printable(or(k.Name, "-")), human(k.Up), human(k.Down), allowed, plain(k.Reason))
	}
	a.io.print(t)
	return nil
}
