// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type repoGrantOptions struct {
	vm       string
	identity string
	write    bool
	branches []string
	json     bool
}

func newRepoGrant(a *app) *cobra.Command {
	o := &repoGrantOptions{}
	cmd := &cobra.Command{
		Use:   "grant REPO --vm NAME|--identity NAME [--write]",
		Short: "Let a VM, or an identity, use a repository",
		Long: `Let the programs of a VM use a repository as the VM itself: git clone https://git.warren.internal/REPO works
inside, whatever the VM's network policy is, and needs no key or token. The right is in the VM's record; a fork has
those of its parent.

With --write it may push to branches below agent/NAME/ and agent/ID/. --branch names others instead: a protected
branch must be named without a wildcard. A second grant replaces the first. An identity (--identity) uses its
token, and pushes below agent/ or to the branches named.`,
		Example: `  warren repo grant app --vm box
  warren repo grant app --vm box --write
  warren repo grant app --vm box --write --branch main --branch 'agent/**'
  warren repo grant app --identity ci`,
		Args: args(1, 1, "which repository? `warren repo ls` lists them"),
		RunE: func(cmd *cobra.Command, list []string) error {
			if (o.vm == "") == (o.identity == "") {
				return usage("name a VM, or an identity").WithHint("warren repo grant %s --vm NAME", printable(list[0]))
			}
			if o.identity != "" {
				return a.repoGrantIdentity(cmd.Context(), o, list[0])
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
		ValidArgsFunction: a.completeRepo,
	}
	f := cmd.Flags()
	f.StringVar(&o.vm, "vm", "", "name or id of the VM")
	cmd.Flags().StringVar(&o.identity, "identity", "", "name or id of the identity")
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
		Use:   "revoke REPO --vm NAME|--identity NAME",
		Short: "End the use of a repository by a VM, or an identity",
		Long: `End a VM's use of a repository at once: what it fetches or pushes at this moment is cut off. Its forks keep
theirs; revoke those one by one.`,
		Example: "  warren repo revoke app --vm box",
		Args:    args(1, 1, "which repository? `warren repo ls` lists them"),
		RunE: func(cmd *cobra.Command, list []string) error {
			if (o.vm == "") == (o.identity == "") {
				return usage("name a VM, or an identity").WithHint("warren repo revoke %s --vm NAME", printable(list[0]))
			}
			if o.identity != "" {
				return a.repoRevokeIdentity(cmd.Context(), o, list[0])
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
		ValidArgsFunction: a.completeRepo,
	}
	cmd.Flags().StringVar(&o.vm, "vm", "", "name or id of the VM")
	cmd.Flags().StringVar(&o.identity, "identity", "", "name or id of the identity")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	a.completeVMFlag(cmd)
	return cmd
}

// completeVMFlag completes the flag --vm.
func (a *app) completeVMFlag(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("vm", a.completeVM) // fails only without the flag
}

// repoGrantIdentity lets an identity use a repository, or changes what it may.
func (a *app) repoGrantIdentity(ctx context.Context, o *repoGrantOptions, repo string) error {
	in := api.GrantRepo{Permission: vm.GitRead, Branches: o.branches}
	what := "read"
	if o.write || len(o.branches) > 0 {
		in.Permission, what = vm.GitWrite, "read and push to"
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	r, err := c.Repo(ctx, repo)
	if err == nil {
		err = c.GrantRepo(ctx, o.identity, r.ID, in, false)
	}
	if vm.AsError(err).Code == "PERMISSION_ALREADY_EXISTS" {
		err = c.GrantRepo(ctx, o.identity, r.ID, in, true)
	}
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(map[string]any{"repo": r.ID, "identity": o.identity, "access": in.Permission, "branches": append([]string{}, in.Branches...)})
	}
	a.io.notef("%s may %s %s", printable(o.identity), what, printable(repo))
	return nil
}

// repoRevokeIdentity ends an identity's use of a repository.
func (a *app) repoRevokeIdentity(ctx context.Context, o *repoGrantOptions, repo string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	r, err := c.Repo(ctx, repo)
	if err == nil {
		err = c.RevokeRepo(ctx, o.identity, r.ID)
	}
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(map[string]string{"repo": r.ID, "identity": o.identity})
	}
	a.io.notef("%s may no longer use %s", printable(o.identity), printable(repo))
	return nil
}
