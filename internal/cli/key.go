// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/hex"
	"strings"

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

	s3       bool
	e2b      bool
	identity string
}

func newKeyCreate(a *app) *cobra.Command {
	o := &keyOptions{}
	cmd := &cobra.Command{
		Use: "create", Short: "Make an API key, or an access key for S3", Example: "  warren key create --name ci\n  warren key create --e2b\n  warren key create --s3 --identity reports",
		Long: `Make an API key. Its secret is printed once; the server keeps only a hash.
With --e2b print it, with the addresses of the server, in the form that the SDKs of E2B read.
With --s3 make an access key for S3 clients: an id and a secret, printed once. The server keeps the secret
encrypted under its host key. The key acts as the account, or as an identity.`,
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			switch {
			case o.s3 && o.e2b:
				return usage("--s3 and --e2b make different keys")
			case o.s3 && o.account != "":
				return usage("--s3 makes keys of your own account only")
			case o.s3:
				return a.createS3Key(cmd.Context(), c, o)
			case o.identity != "":
				return usage("--identity needs --s3; `warren token create` makes tokens of identities")
			}
			made, err := c.CreateKey(cmd.Context(), api.NewKey{Name: o.name, Account: vm.AccountID(o.account)})
			if err == nil && o.e2b {
				return a.e2bKeyMade(c.URL(), made, o.json)
			}
			return a.keyMade(made, err, o.json)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&o.name, "name", "", "what it is for")
	cmd.Flags().BoolVar(&o.e2b, "e2b", false, "print it as E2B's SDKs read it")
	cmd.Flags().StringVar(&o.account, "account", "", "id of its account (default your own); for admins")
	cmd.Flags().BoolVar(&o.s3, "s3", false, "make an access key for S3 clients")
	cmd.Flags().StringVar(&o.identity, "identity", "", "with --s3: the key acts as this identity")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	_ = cmd.RegisterFlagCompletionFunc("identity", a.completeIdentity)
	return cmd
}

// createS3Key makes an access key and prints it in the form of S3 clients' settings.
func (a *app) createS3Key(ctx context.Context, c *client.Client, o *keyOptions) error {
	made, err := c.CreateS3Key(ctx, api.NewS3Key{Name: o.name, Identity: o.identity})
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(made)
	}
	if a.io.quiet {
		a.io.printf("%s %s\n", made.AccessKeyID, made.SecretAccessKey)
		return nil
	}
	a.io.printf("AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\nAWS_REGION=%s\n", made.AccessKeyID, made.SecretAccessKey, made.Region)
	if made.Endpoint != "" {
		a.io.printf("AWS_ENDPOINT_URL_S3=%s\n", made.Endpoint)
	}
	a.io.notef("the secret is shown only now; clients use path-style addresses")
	return nil
}

// e2bKeyMade prints a key as the variables of E2B's SDKs. Those want a key of hexadecimal digits.
func (a *app) e2bKeyMade(server string, made api.CreatedKey, asJSON bool) error {
	out := e2bVariables{made.Key.ID, "e2b_" + hex.EncodeToString([]byte(made.Secret)), server + "/e2b", server}
	if asJSON {
		return a.io.json(out)
	}
	a.io.printf("E2B_API_KEY=%s\nE2B_API_URL=%s\nE2B_SANDBOX_URL=%s\n", out.Key, out.API, out.Sandbox)
	a.io.notef("the key is shown only now; export all three")
	return nil
}

// e2bVariables is what a program with an SDK of E2B needs.
type e2bVariables struct {
	ID      vm.KeyID `json:"id"`
	Key     string   `json:"E2B_API_KEY"`
	API     string   `json:"E2B_API_URL"`
	Sandbox string   `json:"E2B_SANDBOX_URL"`
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
		Use: "ls", Short: "List API keys, or access keys for S3", Example: "  warren key ls --json\n  warren key ls --s3", Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.s3 {
				return a.s3KeyLs(cmd.Context(), o.json)
			}
			return a.keyLs(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&o.account, "account", "", "id of the account (default your own); for admins")
	cmd.Flags().BoolVar(&o.s3, "s3", false, "list access keys for S3 clients, of your own account")
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

func (a *app) s3KeyLs(ctx context.Context, asJSON bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.S3Keys(ctx)
	switch {
	case err != nil:
		return err
	case asJSON:
		return list(a.io, l)
	}
	t := &table{head: []string{"ID", "NAME", "IDENTITY", "AGE", "LAST USED"}}
	for _, k := range l {
		used := "-"
		if k.LastUsed != nil {
			used = age(*k.LastUsed)
		}
		t.add(k.AccessKeyID, printable(or(k.Name, "-")), or(string(k.Identity), "-"), age(k.CreatedAt), used)
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
			return a.endEach(list, "revoked", func(c *client.Client, id string) error {
				if strings.HasPrefix(id, "WARREN") { // an access key for S3
					return c.RevokeS3Key(cmd.Context(), id)
				}
				return c.RevokeKey(cmd.Context(), id)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	})
}
