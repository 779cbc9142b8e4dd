// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type onBootOptions struct {
	name, setting string
	json          bool
}

func newOnBoot(a *app) *cobra.Command {
	o := &onBootOptions{}
	cmd := &cobra.Command{
		Use:   "on-boot NAME resume|stay|default",
		Short: "Set what happens to a VM after a restart of the host",
		Long: `Set what happens to a VM that ran when the host was shut down (see "warren drain"): after the host's start it
resumes (resume), or stays suspended until it is used (stay). By default a persistent VM resumes and any other
stays suspended.`,
		Example: "  warren on-boot app resume\n  warren on-boot app default",
		Args:    args(2, 2, "warren on-boot NAME resume|stay|default"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.setting = list[0], list[1]
			if o.setting == "default" {
				o.setting = ""
			} else if s, err := vm.ParseOnBoot(o.setting); err != nil || s == "" {
				return usage("%s is none of resume, stay and default", printable(or(o.setting, "nothing")))
			}
			return a.onBoot(cmd.Context(), o)
		},
		ValidArgsFunction: func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) == 1 {
				return []cobra.Completion{"resume", "stay", "default"}, noFiles
			}
			return a.completeVM(cmd, list, prefix)
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) onBoot(ctx context.Context, o *onBootOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	v, err := c.SetOnBoot(ctx, o.name, o.setting)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(v)
	}
	a.io.printf("%s: %s\n", printable(o.name), onBootMeaning[v.OnBoot])
	return nil
}

var onBootMeaning = map[vm.OnBoot]string{
	vm.OnBootResume: "resumes after a drain, when the host has started",
	vm.OnBootStay:   "stays suspended after a drain until it is used",
}
