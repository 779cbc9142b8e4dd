// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

func newIdentity(a *app) *cobra.Command {
	return group("identity", "Manage identities: who may use which VMs, and as which Linux users",
		"  warren identity create ci\n  warren identity grant ci box\n  warren token create ci",
		newIdentityCreate(a), newIdentityLs(a), newIdentityRm(a), newIdentityGrant(a), newIdentityRevoke(a),
		newIdentityPermissions(a), newIdentityKey(a))
}

type identityOptions struct {
	identity string
	vm       string
	users    []string
	asks     []string
	readOnly bool
	noAsk    bool
	change   bool
	json     bool
}

func newIdentityCreate(a *app) *cobra.Command {
	o := &identityOptions{}
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Make an identity, without any rights yet", Example: "  warren identity create ci",
		Args: args(0, 1, "one name at most: warren identity create [NAME]"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.identity = strings.Join(list, "")
			c, err := a.client()
			if err != nil {
				return err
			}
			i, err := c.CreateIdentity(cmd.Context(), o.identity)
			switch {
			case err != nil:
				return err
			case o.json:
				return a.io.json(i)
			}
			a.io.printf("%s %s\n", i.ID, printable(or(i.Name, "-")))
			a.io.notef("give it a VM: warren identity grant %s VM", printable(or(i.Name, string(i.ID))))
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func newIdentityLs(a *app) *cobra.Command {
	o := &identityOptions{}
	cmd := &cobra.Command{
		Use: "ls", Short: "List identities", Example: "  warren identity ls --json", Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.identityLs(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) identityLs(ctx context.Context, o *identityOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Identities(ctx, 0, 0)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l.Identities)
	}
	t := &table{head: []string{"ID", "NAME", "AGE"}}
	for _, i := range l.Identities {
		t.add(string(i.ID), printable(or(i.Name, "-")), age(i.CreatedAt))
	}
	a.io.print(t)
	return nil
}

func newIdentityRm(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "rm IDENTITY...", Short: "Remove identities with their tokens, keys and permissions", Example: "  warren identity rm ci",
		Long: "Remove identities, by id or name, with their tokens, keys and permissions. Their open connections are closed.",
		Args: args(1, -1, "which identity? warren identity rm IDENTITY..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.endEach(list, "removed", func(c *client.Client, ref string) error { return c.DeleteIdentity(cmd.Context(), ref) })
		},
		ValidArgsFunction: a.completeIdentity,
	})
}

// completeIdentity completes the first argument with identities, the second
// with the names of VMs.
func (a *app) completeIdentity(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(list) == 1 && (cmd.Name() == "grant" || cmd.Name() == "revoke") && cmd.Parent().Name() == "identity" {
		return a.names(cmd.Context(), prefix), noFiles
	}
	if len(list) > 0 {
		return nil, noFiles
	}
	return a.asked(cmd.Context(), prefix, func(ctx context.Context, c *client.Client) (all []string, err error) {
		l, err := c.Identities(ctx, 0, 0)
		for _, i := range l.Identities {
			all = append(all, or(i.Name, string(i.ID)))
		}
		return all, err
	}), noFiles
}

func newIdentityGrant(a *app) *cobra.Command {
	o := &identityOptions{}
	cmd := &cobra.Command{
		Use: "grant IDENTITY VM", Short: "Let an identity use a VM",
		Long: `Let an identity use a VM: look at it, start it, run commands, read and write
files, open terminals. It may not change, stop or delete the VM. With --user it
acts only as these Linux users, otherwise as any. With --ask each use of these
rights waits until somebody approves it: exec (commands, terminals, services),
edit (files), copy-out, publish, commit; and mount and snapshot, which it may not
use at all otherwise. --read-only lets it look and read, and asks for the rest.`,
		Example: "  warren identity grant ci box\n  warren identity grant ci box --user alice --user deploy\n  warren identity grant ci box --change --user alice\n  warren identity grant ci box --ask exec,copy-out\n  warren identity grant ci box --read-only",
		Args:    args(2, 2, "which identity, and which VM? warren identity grant IDENTITY VM"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.identity, o.vm = list[0], list[1]
			return a.identityGrant(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeIdentity,
	}
	cmd.Flags().StringSliceVar(&o.users, "user", nil, "a Linux user that it may act as; may repeat (default any)")
	cmd.Flags().StringSliceVar(&o.asks, "ask", nil, "rights of which each use waits for approval: exec, edit, copy-out, publish, commit, mount, snapshot")
	cmd.Flags().BoolVar(&o.readOnly, "read-only", false, "let it read without asking, and nothing else: --ask exec,edit,publish,commit")
	cmd.Flags().BoolVar(&o.noAsk, "no-ask", false, "with --change: no right waits for approval any more")
	cmd.Flags().BoolVar(&o.change, "change", false, "change an existing permission: what the flags name")
	cmd.MarkFlagsMutuallyExclusive("no-ask", "ask")
	cmd.MarkFlagsMutuallyExclusive("no-ask", "read-only")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) identityGrant(ctx context.Context, o *identityOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	grant := c.GrantVM
	if o.change {
		grant = c.ChangeGrant
	}
	in := api.GrantVM{}
	if !o.change || o.users != nil || len(o.asks) == 0 && !o.readOnly {
		in.AllowedUsers = vm.Some(o.users)
	}
	if in.Ask, err = o.asked(); err != nil {
		return err
	}
	p, err := grant(ctx, o.identity, o.vm, in)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(p)
	}
	a.io.printf("%s may use %s as %s%s\n", printable(o.identity), printable(o.vm), printable(linuxUsers(p)), asksFor(p, "; each of these waits for approval: "))
	return nil
}

// asked returns the rights that are to depend on approval; unset = as they are.
func (o *identityOptions) asked() (out vm.Optional[[]vm.AskRight], err error) {
	var rights []vm.AskRight
	for _, r := range o.asks {
		rights = append(rights, vm.AskRight(r))
	}
	if o.readOnly {
		rights = append(rights, vm.ReadOnlyAsks...)
	}
	if rights, err = vm.CheckAskRights(rights); err == nil && (rights != nil || o.noAsk) {
		out = vm.Some(rights)
	}
	return out, err
}

// asksFor lists the rights that depend on approval, after a text; "" = none do.
func asksFor(p api.VMPermission, text string) string {
	var out []string
	for _, r := range p.Ask {
		out = append(out, string(r))
	}
	if out == nil {
		return ""
	}
	return text + strings.Join(out, ", ")
}

// linuxUsers names the Linux users of a permission.
func linuxUsers(p api.VMPermission) string {
	switch {
	case p.AllowedUsers == nil:
		return "any user"
	case len(*p.AllowedUsers) == 0:
		return "no user"
	}
	return strings.Join(*p.AllowedUsers, ", ")
}

func newIdentityRevoke(a *app) *cobra.Command {
	o := &identityOptions{}
	return a.changing(&cobra.Command{
		Use: "revoke IDENTITY VM", Short: "Revoke a permission, and close its connections", Example: "  warren identity revoke ci box",
		Args: args(2, 2, "which identity, and which VM? warren identity revoke IDENTITY VM"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.identity, o.vm = list[0], list[1]
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RevokeVM(cmd.Context(), o.identity, o.vm); err != nil {
				return err
			}
			a.changed(change{Name: o.vm, Result: "revoked", text: o.identity + " may no longer use " + o.vm})
			return nil
		},
		ValidArgsFunction: a.completeIdentity,
	})
}

func newIdentityPermissions(a *app) *cobra.Command {
	o := &identityOptions{}
	cmd := &cobra.Command{
		Use: "permissions IDENTITY", Short: "List the VMs that an identity may use", Example: "  warren identity permissions ci --json",
		Args: args(1, 1, "which identity? warren identity permissions IDENTITY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.identity = list[0]
			return a.identityPermissions(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeIdentity,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) identityPermissions(ctx context.Context, o *identityOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.VMPermissions(ctx, o.identity, 0, 0)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l.Permissions)
	}
	t := &table{head: []string{"VM", "LINUX USERS", "ASKS FOR", "GRANTED"}}
	for _, p := range l.Permissions {
		t.add(string(p.VMID), printable(linuxUsers(p)), or(asksFor(p, ""), "-"), age(p.GrantedAt))
	}
	a.io.print(t)
	return nil
}
