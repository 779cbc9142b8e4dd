// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type repoGrantOptions struct {
	vm       string
	write    bool
	branches []string
	json     bool
}

func newRepoGrant(a *app) *cobra.Command {
	o := &repoGrantOptions{}
	cmd := &cobra.Command{
		Use:   "grant REPO --vm NAME [--write]",
		Short: "Let a VM use a repository, without a secret in it",
		Long: `Let the programs of a VM use a repository as the VM itself: git clone https://git.warren.internal/REPO works
inside, whatever the VM's network policy is, and needs no key or token. The right is in the VM's record; a fork has
those of its parent.

With --write it may push to branches below agent/NAME/ and agent/ID/. --branch names others instead: a protected
branch must be named without a wildcard. A second grant replaces the first.`,
		Example: `  warren repo grant app --vm box
  warren repo grant app --vm box --write
  warren repo grant app --vm box --write --branch main --branch 'agent/**'`,
		Args: args(1, 1, "which repository? `warren repo ls` lists them"),
		RunE: func(cmd *cobra.Command, list []string) error {
			if o.vm == "" {
				return usage("no VM is named").WithHint("warren repo grant %s --vm NAME", printable(list[0]))
			}
			in := api.GrantVMRepo{Access: vm.GitRead, Branches: o.branches}
			if o.write || len(o.branches) > 0 {
				in.Access = vm.GitWrite
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.GrantVMRepo(cmd.Context(), o.vm, list[0], in)
			switch {
			case err != nil:
				return err
			case o.json:
				return a.io.json(got)
			}
			a.io.notef("%s may %s %s: `git clone %s`", printable(o.vm), may(got), printable(or(got.Name, got.ID)), printable(got.URL))
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.vm, "vm", "", "name or id of the VM")
	f.BoolVar(&o.write, "write", false, "it may push, too")
	f.StringArrayVar(&o.branches, "branch", nil, "pattern of the branches that it may push to (default agent/NAME/** and agent/ID/**); may repeat")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	a.completeVMFlag(cmd)
	return cmd
}

// may says what a grant allows.
func may(g api.VMRepo) string {
	if g.Access != vm.GitWrite {
		return "read"
	}
	return "read, and push to " + printable(strings.Join(g.Branches, ", ")) + " of"
}

func newRepoRevoke(a *app) *cobra.Command {
	o := &repoGrantOptions{}
	cmd := &cobra.Command{
		Use:   "revoke REPO --vm NAME",
		Short: "End a VM's use of a repository",
		Long: `End a VM's use of a repository at once: what it fetches or pushes at this moment is cut off. Its forks keep
theirs; revoke those one by one.`,
		Example: "  warren repo revoke app --vm box",
		Args:    args(1, 1, "which repository? `warren repo ls` lists them"),
		RunE: func(cmd *cobra.Command, list []string) error {
			if o.vm == "" {
				return usage("no VM is named").WithHint("warren repo revoke %s --vm NAME", printable(list[0]))
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RevokeVMRepo(cmd.Context(), o.vm, list[0]); err != nil {
				return err
			}
			if o.json {
				return a.io.json(map[string]string{"repo": list[0], "vm": o.vm})
			}
			a.io.notef("%s no longer reaches %s", printable(o.vm), printable(list[0]))
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&o.vm, "vm", "", "name or id of the VM")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	a.completeVMFlag(cmd)
	return cmd
}

// completeVMFlag completes the flag --vm.
func (a *app) completeVMFlag(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("vm", a.completeVM) // fails only without the flag
}
