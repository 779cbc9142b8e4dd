// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

func newToken(a *app) *cobra.Command {
	return group("token", "Manage the tokens by which programs act as an identity", "  warren token create ci --ttl 24h\n  warren token ls ci",
		newTokenCreate(a), newTokenLs(a), newTokenRevoke(a))
}

type tokenOptions struct {
	identity string
	tokens   []string
	ttl      string
	json     bool
}

func newTokenCreate(a *app) *cobra.Command {
	o := &tokenOptions{}
	cmd := &cobra.Command{
		Use: "create IDENTITY", Short: "Make a token for an identity", Example: "  warren token create ci\n  warren token create ci --ttl 24h",
		Long: `Make a token, with which a program acts as an identity. It is printed once; the server stores only a hash. It
works wherever an API key does (WARREN_API_KEY), with the rights of the identity.`,
		Args: args(1, 1, "which identity? warren token create IDENTITY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.identity = list[0]
			return a.tokenCreate(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeIdentity,
	}
	cmd.Flags().StringVar(&o.ttl, "ttl", "", "how long it is valid, such as 90s, 15m, 2h, 3d (default until it is revoked)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) tokenCreate(ctx context.Context, o *tokenOptions) error {
	var in api.NewToken
	if o.ttl != "" {
		d, err := parseSeconds(o.ttl)
		if err != nil {
			return err
		}
		in.TTL = vm.Some(vm.Seconds(max(d, time.Second)))
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	made, err := c.CreateToken(ctx, o.identity, in)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(made)
	}
	a.io.printf("%-9s%s\n%-9s%s\n", "token", made.ID, "secret", made.Token)
	a.io.notef("the secret is shown only once; use it as WARREN_API_KEY")
	return nil
}

func newTokenLs(a *app) *cobra.Command {
	o := &tokenOptions{}
	cmd := &cobra.Command{
		Use: "ls IDENTITY", Short: "List the tokens of an identity", Example: "  warren token ls ci --json",
		Args: args(1, 1, "which identity? warren token ls IDENTITY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.identity = list[0]
			return a.tokenLs(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeIdentity,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) tokenLs(ctx context.Context, o *tokenOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Tokens(ctx, o.identity)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	}
	t := &table{head: []string{"ID", "AGE", "LAST USED", "EXPIRES IN"}}
	for _, k := range l {
		used, expires := "-", "never"
		if k.LastUsed != nil {
			used = age(*k.LastUsed)
		}
		if k.ExpiresAt != nil {
			expires = span(time.Until(*k.ExpiresAt))
		}
		t.add(string(k.ID), age(k.CreatedAt), used, expires)
	}
	a.io.print(t)
	return nil
}

func newTokenRevoke(a *app) *cobra.Command {
	o := &tokenOptions{}
	return a.changing(&cobra.Command{
		Use: "revoke IDENTITY TOKEN...", Short: "Revoke tokens, and close their connections",
		Example: "  warren token revoke ci 0d9b3c4e-5f60-4718-9a2b-3c4d5e6f7081",
		Args:    args(2, -1, "which identity, and which token? warren token revoke IDENTITY TOKEN..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.identity, o.tokens = list[0], list[1:]
			return a.endEach(o.tokens, "revoked", func(c *client.Client, id string) error { return c.RevokeToken(cmd.Context(), o.identity, id) })
		},
		ValidArgsFunction: a.completeIdentity,
	})
}
