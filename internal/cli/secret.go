// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

func newSecret(a *app) *cobra.Command {
	return group("secret", "Keep secrets outside of VMs", "  warren secret set github-token --host api.github.com --header Authorization --file token.txt\n  warren secret grant github-token box",
		newSecretSet(a), newSecretLs(a), newSecretShow(a), newSecretRotate(a), newSecretGrant(a), newSecretRevoke(a), newSecretRm(a))
}

// completeSecret completes the first argument with secrets, and the second with VMs.
func (a *app) completeSecret(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(list) {
	case 0:
		return a.asked(cmd.Context(), prefix, func(ctx context.Context, c *client.Client) (all []string, err error) {
			l, err := c.Secrets(ctx)
			for _, s := range l {
				all = append(all, s.Name)
			}
			return all, err
		}), noFiles
	case 1:
		return a.names(cmd.Context(), prefix), noFiles
	}
	return nil, noFiles
}

type secretSetOptions struct {
	in         api.SetSecret
	oauth      api.OAuth
	file       string
	clientFile string
	json       bool
}

func newSecretSet(a *app) *cobra.Command {
	o := &secretSetOptions{}
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Keep a secret for one header of one host, or replace it",
		Long: `Keep a secret on this host. VMs that may use it hold a placeholder; the value is put into the header of their
requests to the host, after the host's certificate was verified. The placeholder may stand alone in the header,
after a word such as Bearer, or be the password or the user of Basic authentication.

The value comes from --file or from standard input, never from the command line. For an existing secret give the
name alone: it gets the new value, and every VM uses it from then on.

With --oauth-token-url the value is a refresh token: the server gets access tokens with it and puts those in.

With --rotate-url Warren can give the secret new values ("warren secret rotate", "warren done"): it posts
{"secret", "host", "account", "reason", "vm"} to the URL, with the present value as bearer token, and the rotator
answers {"value": "..."}.`,
		Example: `  warren secret set github-token --host api.github.com --header Authorization --file token.txt
  warren secret set ANTHROPIC_API_KEY --host api.anthropic.com --header X-Api-Key --path '/v1/**' --file key.txt
  warren secret set github-token --file new-token.txt
  warren secret set github-token --rotate-url https://rotator.example.com/github --file token.txt
  warren secret set crm --host api.crm.example --header Authorization --oauth-token-url https://login.crm.example/token --oauth-client-id warren`,
		Args: args(1, 1, "which name? warren secret set NAME --host HOST --header HEADER"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.in.Name = list[0]
			return a.secretSet(cmd.Context(), o)
		},
		ValidArgsFunction: func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) > 0 {
				return nil, noFiles
			}
			return a.completeSecret(cmd, list, prefix)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.in.Host, "host", "", "the one server that gets it, such as api.example.com")
	f.StringVar(&o.in.Header, "header", "", "the one header that it is put into, such as Authorization")
	f.IntVar(&o.in.Port, "port", 0, "the server's port (default 443)")
	f.StringArrayVar(&o.in.Methods, "method", nil, "only for requests with this method; may repeat")
	f.StringArrayVar(&o.in.Paths, "path", nil, "only for requests to this path; * stands for a part of one segment, ** at the end for the rest; may repeat")
	f.StringVar(&o.in.Env, "env", "", "environment variable in VMs that holds the placeholder (default the name in upper case)")
	f.StringVar(&o.file, "file", "", "read the value from this file (default standard input)")
	f.StringVar(&o.oauth.TokenURL, "oauth-token-url", "", "URL at which the server gets access tokens; the value is the refresh token")
	f.StringVar(&o.oauth.ClientID, "oauth-client-id", "", "client id for --oauth-token-url")
	f.StringVar(&o.clientFile, "oauth-client-secret-file", "", "read the client's secret for --oauth-token-url from this file")
	f.StringVar(&o.oauth.Scope, "oauth-scope", "", "scope of the access tokens (default the refresh token's)")
	f.StringVar(&o.oauth.RevokeURL, "oauth-revoke-url", "", "URL at which a rotation revokes the old refresh token (RFC 7009)")
	f.StringVar(&o.in.RotateURL, "rotate-url", "", "URL of a rotator, which gives new values")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) secretSet(ctx context.Context, o *secretSetOptions) error {
	var err error
	if o.in.Value, err = a.secretValue("Value: ", "--file", o.file); err != nil {
		return err
	}
	if o.oauth != (api.OAuth{}) || o.clientFile != "" {
		if o.clientFile != "" {
			if o.oauth.ClientSecret, err = a.secretValue("Value: ", "--oauth-client-secret-file", o.clientFile); err != nil {
				return err
			}
		}
		o.in.OAuth = &o.oauth
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	s, err := c.SetSecret(ctx, o.in)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(s)
	case s.Replaced:
		a.io.printf("%s has a new value: VMs that may use it use it from now on\n", plain(s.Name))
	default:
		a.io.printf("%s is kept for %s\n", plain(s.Name), plain(secretPlace(s)))
		a.io.tellf("let a VM use it: warren secret grant %s VM, or warren up --secret %s\n", plain(s.Name), plain(s.Name))
	}
	return nil
}

// secretValue reads a value from a file, which the flag names, or from standard input. A line end at its
// end is not part of it.
func (a *app) secretValue(prompt, flag, file string) (string, error) {
	var text string
	if file != "" {
		t, err := a.fileText(file)
		if err != nil {
			return "", err
		}
		text = t
	} else if fd, ok := terminal(a.io.in); ok {
		t, err := a.typed(fd, prompt)
		if err != nil {
			return "", err
		}
		text = t
	} else {
		data, err := io.ReadAll(io.LimitReader(a.io.in, maxSecretFile))
		if err != nil {
			return "", vm.Errorf(vm.Invalid, "stdin", "no value: %w", err)
		}
		text = string(data)
	}
	text = strings.TrimRight(text, "\r\n")
	if text == "" {
		return "", usage("the value is empty").WithHint("give it with %s or on standard input", flag)
	}
	return text, nil
}

// secretPlace is where a secret goes, in words.
func secretPlace(s api.Secret) string {
	place := s.Header + " of " + s.Host
	if s.Port != 443 {
		place += ":" + itoa(s.Port)
	}
	if len(s.Methods) > 0 {
		place += ", " + strings.Join(s.Methods, " or ")
	}
	if len(s.Paths) > 0 {
		place += ", " + strings.Join(s.Paths, " or ")
	}
	return place
}

func newSecretLs(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "ls", Short: "List secrets, never their values", Example: "  warren secret ls\n  warren secret ls --json", Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			l, err := c.Secrets(cmd.Context())
			switch {
			case err != nil:
				return err
			case asJSON:
				return list(a.io, l)
			}
			t := &table{head: []string{"NAME", "HOST", "HEADER", "ENV", "KIND", "AGE"}}
			for _, s := range l {
				kind := "value"
				switch {
				case s.OAuth != nil:
					kind = "oauth"
				case s.RotateURL != "":
					kind = "rotator"
				}
				host := s.Host
				if s.Port != 443 {
					host += ":" + itoa(s.Port)
				}
				since := s.CreatedAt
				if s.RotatedAt != nil {
					since = *s.RotatedAt
				}
				t.add(plain(s.Name), plain(host), plain(s.Header), plain(s.Env), kind, age(since))
			}
			a.io.print(t)
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func newSecretShow(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show where a secret goes and which VMs may use it, never its value", Example: "  warren secret show github-token",
		Args: args(1, 1, "which secret? warren secret show NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			s, err := c.Secret(cmd.Context(), list[0])
			switch {
			case err != nil:
				return err
			case asJSON:
				return a.io.json(s)
			}
			a.showSecret(s)
			return nil
		},
		ValidArgsFunction: a.completeSecret,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func (a *app) showSecret(s api.Secret) {
	a.io.printf("%s: %s\n", plain(s.Name), plain(secretPlace(s)))
	a.io.printf("in VMs: $%s and /run/warren/secrets/%s\n", plain(s.Env), plain(s.Name))
	if s.OAuth != nil {
		a.io.printf("access tokens from %s, client %s\n", plain(s.OAuth.TokenURL), plain(s.OAuth.ClientID))
	}
	if s.RotateURL != "" {
		a.io.printf("new values from %s\n", plain(s.RotateURL))
	}
	t := &table{head: []string{"VM", "ID", "PLACEHOLDER", "HOST ALLOWED"}}
	for _, v := range s.VMs {
		reach := "no"
		if v.Reachable {
			reach = "yes"
		}
		t.add(plain(or(v.Name, "-")), string(v.ID), plain(v.Placeholder), reach)
	}
	a.io.print(t)
}

func newSecretRotate(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "rotate NAME", Short: "Give a secret a new value at its service",
		Long: `Give a secret a new value at its service: by an OAuth refresh (--oauth-token-url of "secret set"), which has to give
a new refresh token, or by its rotator (--rotate-url). Every VM that may use the secret uses the new value from then
on, with the placeholder that it has. Until the new value is stored, the old one stays in force.`,
		Example: "  warren secret rotate github-token\n  warren secret rotate github-token --json",
		Args:    args(1, 1, "which secret? warren secret rotate NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			s, err := c.RotateSecret(cmd.Context(), list[0])
			switch {
			case err != nil:
				return err
			case asJSON:
				return a.io.json(s)
			}
			a.io.printf("%s is rotated: VMs that may use it use the new value from now on\n", plain(s.Name))
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) > 0 {
				return nil, noFiles
			}
			return a.completeSecret(cmd, list, prefix)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func newSecretGrant(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "grant NAME VM", Short: "Let a VM use a secret",
		Long:    "Let the programs of a VM use a secret, at once if it runs. They find a placeholder in an environment variable\n(new commands, terminals and services) and in /run/warren/secrets/NAME. The network must allow the host, too.",
		Example: "  warren secret grant github-token box",
		Args:    args(2, 2, "which secret, and which VM? warren secret grant NAME VM"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			v, err := c.GrantSecret(cmd.Context(), list[0], list[1])
			if err != nil {
				return err
			}
			a.changed(change{Name: list[0], Result: "granted", text: list[0] + " is granted to " + list[1]})
			if !v.Reachable {
				a.io.tellf("the VM's network does not allow the secret's host yet: `warren secret show %s` names it, `warren net allow %s HOST` allows it\n", printable(list[0]), printable(list[1]))
			}
			return nil
		},
		ValidArgsFunction: a.completeSecret,
	})
}

func newSecretRevoke(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "revoke NAME VM", Short: "End the use of a secret by a VM", Example: "  warren secret revoke github-token box",
		Args: args(2, 2, "which secret, and which VM? warren secret revoke NAME VM"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RevokeSecret(cmd.Context(), list[0], list[1]); err != nil {
				return err
			}
			a.changed(change{Name: list[0], Result: "revoked", text: list[0] + " is revoked from " + list[1]})
			return nil
		},
		ValidArgsFunction: a.completeSecret,
	})
}

func newSecretRm(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "rm NAME...", Short: "Remove secrets; no VM can use them any more", Example: "  warren secret rm github-token",
		Args: args(1, -1, "which secret? warren secret rm NAME..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.endEach(list, "removed", func(c *client.Client, name string) error { return c.RemoveSecret(cmd.Context(), name) })
		},
		ValidArgsFunction: a.completeSecret,
	})
}
