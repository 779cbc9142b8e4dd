// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
)

func newIdentityKey(a *app) *cobra.Command {
	return group("key", "Manage the SSH keys of an identity", "  warren identity key add ci ~/.ssh/id_ed25519.pub\n  warren identity key ls ci",
		newIdentityKeyAdd(a), newIdentityKeyLs(a), newIdentityKeyRm(a))
}

type identityKeyOptions struct {
	identity string
	file     string
	keys     []string
	name     string
	agent    bool
	json     bool
}

// maxPublicKey is more than any public key needs.
const maxPublicKey = 64 << 10

func newIdentityKeyAdd(a *app) *cobra.Command {
	o := &identityKeyOptions{}
	cmd := &cobra.Command{
		Use: "add IDENTITY FILE", Short: "Let the holder of an SSH key act as an identity",
		Long: `Let the holder of an SSH key act as an identity. FILE holds the public half, such as ~/.ssh/id_ed25519.pub; - reads
standard input.`,
		Example: "  warren identity key add ci ~/.ssh/id_ed25519.pub\n  warren identity key add ci - --name laptop --forward-agent",
		Args:    args(2, 2, "which identity, and which key? warren identity key add IDENTITY FILE"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.identity, o.file = list[0], list[1]
			return a.identityKeyAdd(cmd.Context(), o)
		},
		ValidArgsFunction: func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) == 1 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.completeIdentity(cmd, list, prefix)
		},
	}
	cmd.Flags().StringVar(&o.name, "name", "", "its name (default its comment)")
	cmd.Flags().BoolVar(&o.agent, "forward-agent", false, "allow its sessions to use the client's SSH agent")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) identityKeyAdd(ctx context.Context, o *identityKeyOptions) error {
	line, err := a.publicKey(o.file)
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	k, err := c.AddSSHKey(ctx, o.identity, api.NewSSHKey{Name: o.name, PublicKey: line, ForwardAgent: o.agent})
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(k)
	}
	a.io.printf("%s %s\n", printable(k.Name), k.Fingerprint)
	return nil
}

// publicKey reads a file, or standard input.
func (a *app) publicKey(file string) (string, error) {
	in := a.io.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", usage("%v", err).WithHint("name a file such as ~/.ssh/id_ed25519.pub")
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxPublicKey))
	if err != nil {
		return "", usage("%v", err)
	}
	return string(data), nil
}

func newIdentityKeyLs(a *app) *cobra.Command {
	o := &identityKeyOptions{}
	cmd := &cobra.Command{
		Use: "ls IDENTITY", Short: "List the SSH keys of an identity", Example: "  warren identity key ls ci --json",
		Args: args(1, 1, "which identity? warren identity key ls IDENTITY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.identity = list[0]
			return a.identityKeyLs(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeIdentity,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) identityKeyLs(ctx context.Context, o *identityKeyOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.SSHKeys(ctx, o.identity)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	}
	t := &table{head: []string{"NAME", "FINGERPRINT", "AGENT", "AGE"}}
	for _, k := range l {
		agent := "no"
		if k.ForwardAgent {
			agent = "yes"
		}
		t.add(printable(k.Name), k.Fingerprint, agent, age(k.CreatedAt))
	}
	a.io.print(t)
	return nil
}

func newIdentityKeyRm(a *app) *cobra.Command {
	o := &identityKeyOptions{}
	return a.changing(&cobra.Command{
		Use: "rm IDENTITY KEY...", Short: "Remove SSH keys from an identity", Example: "  warren identity key rm ci laptop",
		Long: "Remove SSH keys, by name, id or fingerprint, from an identity. Connections that use them are closed.",
		Args: args(2, -1, "which identity, and which key? warren identity key rm IDENTITY KEY..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.identity, o.keys = list[0], list[1:]
			return a.endEach(o.keys, "removed", func(c *client.Client, key string) error { return c.RemoveSSHKey(cmd.Context(), o.identity, key) })
		},
		ValidArgsFunction: a.completeIdentity,
	})
}
