// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func newAccount(a *app) *cobra.Command {
	return group("account", "Manage accounts, the owners of VMs; for admins", "  warren account create team-a\n  warren account ls",
		newAccountCreate(a), newAccountLs(a), newAccountQuota(a), newAccountRm(a))
}

type accountOptions struct {
	name  string
	force bool
	json  bool
}

func newAccountCreate(a *app) *cobra.Command {
	o := &accountOptions{}
	cmd := &cobra.Command{
		Use: "create ACCOUNT", Short: "Make an account with a first API key", Example: "  warren account create team-a",
		Long: "Make an account with a first API key. The key's secret is printed once; the server does not store it.",
		Args: args(1, 1, "what is its name? warren account create ACCOUNT"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.accountCreate(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) accountCreate(ctx context.Context, o *accountOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	made, err := c.CreateAccount(ctx, o.name)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(made)
	}
	a.io.printf("%-9s%s %s\n", "account", made.Account.ID, printable(made.Account.Name))
	a.secret(string(made.Key.ID), made.Secret)
	return nil
}

// secret prints a key's secret, which the server cannot show again.
func (a *app) secret(id, secret string) {
	a.io.printf("%-9s%s\n%-9s%s\n", "key", id, "secret", secret)
	a.io.notef("the secret is shown only once; use it as WARREN_API_KEY")
}

func newAccountLs(a *app) *cobra.Command {
	o := &accountOptions{}
	cmd := &cobra.Command{
		Use: "ls", Short: "List accounts", Example: "  warren account ls --json", Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.accountLs(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) accountLs(ctx context.Context, o *accountOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Accounts(ctx)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	}
	t := &table{head: []string{"ID", "NAME", "ADMIN", "AGE"}}
	for _, v := range l {
		admin := "no"
		if v.Admin {
			admin = "yes"
		}
		t.add(string(v.ID), printable(v.Name), admin, age(v.CreatedAt))
	}
	a.io.print(t)
	return nil
}

func newAccountRm(a *app) *cobra.Command {
	o := &accountOptions{}
	cmd := &cobra.Command{
		Use: "rm ACCOUNT", Short: "Remove an account with its keys", Example: "  warren account rm team-a\n  warren account rm --force team-a",
		Long: "Remove an account, by id or name, with its keys. An account with VMs, volumes or snapshots is refused,\nunless --force removes them too.",
		Args: args(1, 1, "which account? warren account rm ACCOUNT"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveAccount(cmd.Context(), o.name, o.force); err != nil {
				return err
			}
			a.changed(change{Name: o.name, Result: "removed"})
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.force, "force", false, "remove its VMs, volumes and snapshots too")
	return a.changing(cmd)
}
