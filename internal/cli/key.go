// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

func newKey(a *app) *cobra.Command {
	return group("key", "Manage API keys", "  warren key create --name ci\n  warren key ls",
		newKeyCreate(a), newKeyLs(a), newKeyRotate(a), newKeyRevoke(a))
}

type keyOptions struct {
	id      string
	name    string
	account string
	json    bool
}

func newKeyCreate(a *app) *cobra.Command {
	o := &keyOptions{}
	cmd := &cobra.Command{
		Use: "create", Short: "Make an API key", Example: "  warren key create --name ci",
		Long: "Make an API key. Its secret is printed once; the server keeps only a hash.",
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			made, err := c.CreateKey(cmd.Context(), api.NewKey{Name: o.name, Account: vm.AccountID(o.account)})
			return a.keyMade(made, err, o.json)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&o.name, "name", "", "what it is for")
	cmd.Flags().StringVar(&o.account, "account", "", "id of its account (default your own); for admins")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) keyMade(made api.CreatedKey, err error, asJSON bool) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		return a.io.json(made)
	}
	a.secret(string(made.Key.ID), made.Secret)
	return nil
}

func newKeyLs(a *app) *cobra.Command {
	o := &keyOptions{}
	cmd := &cobra.Command{
		Use: "ls", Short: "List API keys", Example: "  warren key ls --json", Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.keyLs(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&o.account, "account", "", "id of the account (default your own); for admins")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) keyLs(ctx context.Context, o *keyOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Keys(ctx, o.account)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	}
	t := &table{head: []string{"ID", "NAME", "ACCOUNT", "AGE", "LAST USED"}}
	for _, k := range l {
		t.add(string(k.ID), printable(or(k.Name, "-")), string(k.Account), age(k.CreatedAt), age(k.LastUsed))
	}
	a.io.print(t)
	return nil
}

func newKeyRotate(a *app) *cobra.Command {
	o := &keyOptions{}
	cmd := &cobra.Command{
		Use: "rotate KEY", Short: "Replace a key's secret; the old one stops working at once", Example: "  warren key rotate ky-0123456789abcdef",
		Args: args(1, 1, "which key? warren key rotate KEY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.id = list[0]
			c, err := a.client()
			if err != nil {
				return err
			}
			made, err := c.RotateKey(cmd.Context(), o.id)
			return a.keyMade(made, err, o.json)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func newKeyRevoke(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "revoke KEY...", Short: "End keys", Example: "  warren key revoke ky-0123456789abcdef",
		Args: args(1, -1, "which key? warren key revoke KEY..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.endEach(list, "revoked", func(c *client.Client, id string) error { return c.RevokeKey(cmd.Context(), id) })
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	})
}
