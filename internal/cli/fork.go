// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type forkOptions struct {
	parent string
	count  int
	prefix string
	json   bool

	volumes string
	folders string
	labels  []string
	net     string
}

func newFork(a *app) *cobra.Command {
	o := &forkOptions{}
	cmd := &cobra.Command{
		Use:   "fork NAME",
		Short: "Make running copies of a VM",
		Long: `Make running copies of a running or suspended VM, with its memory, processes, terminals, ports and disk of one instant,
and each with its own identity. The parent is paused for some milliseconds, then keeps running. Either all copies run or
none. They are named PREFIX-1, PREFIX-2 and so on; without --name the prefix is the parent's name, with the next
free numbers. The first fork of a VM says what the copies still share.`,
		Example: "  warren fork app\n  warren fork app -n 3 --name try\n  warren fork app -n 8 --json\n  warren fork app -n 2 --label try=7\n  warren fork app --net closed",
		Args:    args(1, 1, "which VM? warren fork NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.parent = list[0]
			return a.fork(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	f := cmd.Flags()
	f.IntVarP(&o.count, "count", "n", 1, "how many copies")
	f.StringVar(&o.prefix, "name", "", "the copies are named NAME-1, NAME-2, ...")
	f.StringVar(&o.folders, "folders", "", "how they get its directories of the host: ro (default), rw, none")
	f.StringVar(&o.volumes, "volumes", "", "if it has volumes mounted: detach (unmount them meanwhile), cut (the copies get disks that fail), ro (the copies may read them, too)")
	f.StringArrayVar(&o.labels, "label", nil, "label the copies, in addition to the parent's labels: KEY=VALUE; may repeat")
	a.completeLabels(cmd, "=")
	a.netFlag(cmd, &o.net, "what the copies may reach, if less than the parent: closed, packages, hosts or policies (default as the parent)")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) fork(ctx context.Context, o *forkOptions) error {
	labels, err := parseLabels(o.labels)
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	if o.prefix == "" {
		if o.prefix, err = freePrefix(ctx, c, o.parent, o.count); err != nil {
			return err
		}
	}
	p := a.io.doing("forking %s", o.parent)
	f, err := c.Fork(ctx, o.parent, api.ForkVM{Count: &o.count, Name: o.prefix, Volumes: o.volumes, Folders: o.folders, Labels: labels, Network: vm.NetworkSpec(o.net)})
	p.done()
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(f)
	}
	for _, k := range f.Forks {
		if a.io.quiet {
			a.io.printf("%s\n", k.Name)
			continue
		}
		a.io.printf("%-20s %s\n", printable(k.Name), k.ID)
	}
	if a.io.quiet {
		return nil
	}
	if f.PauseMs > 0 {
		a.io.printf("%s was paused for %.0f ms\n", printable(o.parent), f.PauseMs)
	}
	a.io.printf("  enter     warren exec %s -- COMMAND\n", printable(f.Forks[0].Name))
	a.io.printf("  compare   warren tree %s\n", printable(o.parent))
	a.io.printf("  keep one  warren keep %s --over %s\n", printable(f.Forks[0].Name), printable(o.parent))
	if f.First { // a second fork of the VM need not repeat them
		for _, w := range f.Caveats {
			a.io.notef("note: %s", plain(w))
		}
	}
	return nil
}

// freePrefix returns a prefix whose next n numbered names are free: the
// parent's name, or that with a letter.
func freePrefix(ctx context.Context, c *client.Client, parent string, n int) (string, error) {
	v, err := c.Get(ctx, parent)
	if err != nil || v.Name == "" {
		return "", err
	}
	l, err := c.List(ctx, false)
	if err != nil {
		return "", err
	}
	taken := map[string]bool{}
	for _, other := range l.VMs {
		taken[other.Name] = true
	}
	for round := 1; ; round++ {
		prefix := v.Name
		if round > 1 {
			prefix = fmt.Sprintf("%s-%s", strings.TrimRight(v.Name, "-"), letters(round))
		}
		free := true
		for i := range n {
			free = free && !taken[fmt.Sprintf("%s-%d", prefix, i+1)]
		}
		if free {
			return prefix, nil
		}
	}
}

// letters counts b, c, ... z, bb, bc, ...
func letters(n int) string {
	if n < 26 {
		return string(rune('a' + n - 1))
	}
	return letters(n/25) + letters(2+n%25)
}
