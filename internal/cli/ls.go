// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type lsOptions struct {
	all  bool
	json bool
	form string

	labels []string
}

func newLs(a *app) *cobra.Command {
	o := &lsOptions{}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List VMs",
		Long: `List the VMs of your account in every state. With -l, those that a label selects: KEY (they have it), !KEY (they do
not), KEY=VALUE or KEY!=VALUE. Several, or one list with commas, must all match.`,
		Example: `  warren ls
  warren ls -o wide
  warren ls --json
  warren ls -l team=web -l '!old'
  warren ls -q -l team=web,tier!=prod`,
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(wideOrPlain(o.form), o.selectors()); err != nil {
				return err
			}
			return a.ls(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "list VMs of every account; for admins")
	cmd.Flags().StringArrayVarP(&o.labels, "label", "l", nil, "only VMs that match: KEY, !KEY, KEY=VALUE, KEY!=VALUE; may repeat, all must match")
	a.completeLabels(cmd, "")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	formFlag(cmd, &o.form)
	return cmd
}

// selectors splits the values of -l at commas and checks them.
func (o *lsOptions) selectors() error {
	var all []string
	for _, l := range o.labels {
		all = append(all, strings.Split(l, ",")...)
	}
	o.labels = all
	for _, l := range all {
		if _, err := vm.ParseLabelSelector(l); err != nil {
			return usage("-l: %w", err).WithHint("%s", vm.AsError(err).Hint)
		}
	}
	return nil
}

// formFlag adds -o, the form of a table.
func formFlag(cmd *cobra.Command, form *string) {
	cmd.Flags().StringVarP(form, "output", "o", "", "wide: print every column, however narrow the terminal is")
}

// wideOrPlain refuses an unknown form.
func wideOrPlain(form string) error {
	if form != "" && form != "wide" {
		return usage("-o %s: no such form", printable(form)).WithHint("-o wide prints every column, --json every field")
	}
	return nil
}

// form prints the table as -o says.
func (t *table) form(form string) *table {
	if form == "wide" {
		t.spare = nil
	}
	return t
}

func (a *app) ls(ctx context.Context, o *lsOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.List(ctx, o.all, o.labels...)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l.VMs)
	}
	t := &table{head: []string{"NAME", "ID", "STATE", "IMAGE", "SIZE", "NETWORK", "AGE", "KEPT", "LABELS"}, spare: []string{"LABELS", "KEPT", "SIZE", "ID", "NETWORK", "IMAGE"}}
	emulated := false
	for _, v := range l.VMs {
		emulated = emulated || v.Accel == vm.TCG
		t.add(or(v.Name, "-"), string(v.ID), a.io.state(v.State), printable(v.Image), sizing(v.Sizing), networkOf(v), age(v.CreatedAt), retention(v), or(strings.Join(labelList(v.Labels), ","), "-"))
	}
	if len(l.VMs) == 0 && len(o.labels) > 0 {
		a.io.notef("no VM matches; `warren ls -o wide` shows labels")
		return nil
	}
	if len(l.VMs) == 0 {
		a.io.notef("no VMs; `warren up --name box` makes one")
		return nil
	}
	a.io.print(t.form(o.form))
	if emulated && a.io.outTTY {
		a.io.notef("%s", vm.EmulatedWarning)
	}
	return nil
}
