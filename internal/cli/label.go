// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type labelOptions struct {
	name   string
	change map[string]*string // nil = not requested
	json   bool
}

func newLabel(a *app) *cobra.Command {
	o := &labelOptions{}
	cmd := &cobra.Command{
		Use:   "label NAME [KEY=VALUE...] [KEY-...]",
		Short: "Set, remove and show a VM's labels",
		Long: `Set labels of a VM with KEY=VALUE and remove them with KEY-; others stay. Without either, print them. "warren ls
-l" finds VMs by them.

A VM has up to 64. A key has up to 128 letters, digits and . _ - /, a letter or digit first and last; a value up
to 128 letters, digits and . _ - / : @ + ~, or none. Forks have their parent's labels.`,
		Example: "  warren label box team=web tier=test\n  warren label box tier-\n  warren label box\n  warren ls -l team=web",
		Args:    args(1, -1, "which VM? warren label NAME KEY=VALUE"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			var err error
			if o.change, err = parseLabelChange(list[1:]); err != nil {
				return err
			}
			return a.label(cmd.Context(), o)
		},
		ValidArgsFunction: func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) == 0 {
				return a.completeVM(cmd, list, prefix)
			}
			return a.labelKeys(cmd.Context(), prefix, "="), noFiles | cobra.ShellCompDirectiveNoSpace
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print the VM as JSON")
	return cmd
}

// parseLabelChange reads KEY=VALUE and KEY-.
func parseLabelChange(list []string) (map[string]*string, error) {
	change := make(map[string]*string, len(list))
	for _, s := range list {
		key, gone := strings.CutSuffix(s, "-")
		if gone && !strings.Contains(s, "=") {
			if _, _, err := vm.ParseLabel(key + "="); err != nil {
				return nil, err
			}
			change[key] = nil
			continue
		}
		key, value, err := vm.ParseLabel(s)
		if err != nil {
			return nil, err
		}
		change[key] = &value
	}
	return change, nil
}

func (a *app) label(ctx context.Context, o *labelOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	var v api.VM
	if len(o.change) == 0 {
		v, err = c.Get(ctx, o.name)
	} else {
		v, err = c.Label(ctx, o.name, o.change)
	}
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(v)
	case len(v.Labels) == 0:
		a.io.notef("%s has no labels", printable(o.name))
	}
	for _, l := range labelList(v.Labels) {
		a.io.printf("%s\n", l)
	}
	return nil
}

// labelList is a VM's labels as KEY=VALUE, by key.
func labelList(labels map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, plain(k+"="+labels[k]))
	}
	return out
}

// labelFlag adds --label to a command that makes VMs.
func (a *app) labelFlag(cmd *cobra.Command, to *[]string) {
	cmd.Flags().StringArrayVar(to, "label", nil, "label it: KEY=VALUE, for \"warren ls -l\"; may repeat")
	a.completeLabels(cmd, "=")
}

// completeLabels completes --label with the keys that VMs have.
func (a *app) completeLabels(cmd *cobra.Command, end string) {
	f := func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return a.labelKeys(cmd.Context(), prefix, end), noFiles | cobra.ShellCompDirectiveNoSpace
	}
	if err := cmd.RegisterFlagCompletionFunc("label", f); err != nil {
		panic(err) // as in completeFlag
	}
}

// labelKeys asks the server for the keys of labels that VMs have.
func (a *app) labelKeys(ctx context.Context, prefix, end string) []string {
	return a.asked(ctx, prefix, func(ctx context.Context, c *client.Client) (all []string, err error) {
		l, err := c.List(ctx, false)
		for _, v := range l.VMs {
			for key := range v.Labels {
				all = append(all, key+end)
			}
		}
		return all, err
	})
}

// parseLabels reads the values of --label.
func parseLabels(list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	labels := make(map[string]string, len(list))
	for _, s := range list {
		key, value, err := vm.ParseLabel(s)
		if err != nil {
			return nil, usage("--label: %w", err).WithHint("%s", vm.AsError(err).Hint)
		}
		labels[key] = value
	}
	return labels, nil
}
