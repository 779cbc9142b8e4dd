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

type domainOptions struct {
	domain string
	name   string
	port   uint16
	check  bool
	public bool
	json   bool
}

func newDomain(a *app) *cobra.Command {
	return group("domain", "Serve ports of VMs at your own domains", "  warren domain map app.warren.localhost box 3000 --public\n  warren domain verify example.com",
		newDomainVerify(a), newDomainLs(a), newDomainMap(a), newDomainUnmap(a))
}

func newDomainVerify(a *app) *cobra.Command {
	o := &domainOptions{}
	cmd := &cobra.Command{
		Use: "verify DOMAIN", Short: "Prove that a domain is yours, by a TXT record", Example: "  warren domain verify example.com\n  warren domain verify example.com --check",
		Long: "Print the TXT record to set; with --check, look for it. Names below the preview domain need no verification.",
		Args: args(1, 1, "which domain? warren domain verify DOMAIN"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.domain = list[0]
			return a.domainVerify(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.check, "check", false, "look for the record")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) domainVerify(ctx context.Context, o *domainOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if o.check {
		if err := c.CheckDomain(ctx, o.domain); err != nil {
			return err
		}
		if o.json {
			return a.io.json(api.Domain{Domain: o.domain})
		}
		a.io.printf("%s is verified\n", printable(o.domain))
		return nil
	}
	v, err := c.VerifyDomain(ctx, o.domain)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(v)
	}
	a.io.printf("Set this record, then: warren domain verify %s --check\n  %s TXT %s\n", plain(v.Domain), plain(vm.VerificationName(v.Domain)), plain(v.VerificationCode))
	return nil
}

// domainView is what `domain ls --json` prints.
type domainView struct {
	Domains  []api.OwnedDomain `json:"domains"`
	Mappings []api.Mapping     `json:"mappings"`
}

func newDomainLs(a *app) *cobra.Command {
	o := &domainOptions{}
	cmd := &cobra.Command{
		Use: "ls", Short: "List domains and their targets", Example: "  warren domain ls\n  warren domain ls --json", Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.domainLs(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) domainLs(ctx context.Context, o *domainOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	var v domainView
	if v.Domains, err = c.Domains(ctx); err != nil {
		return err
	}
	if v.Mappings, err = c.Mappings(ctx); err != nil {
		return err
	}
	if o.json {
		return a.io.json(v)
	}
	t := &table{head: []string{"DOMAIN", "VM", "PORT", "URL", "CERTIFICATE"}}
	for _, m := range v.Mappings {
		t.add(plain(m.Domain), string(m.VM), itoa(int(m.Port)), plain(or(m.URL, "-")), plain(or(m.Certificate, "-")))
	}
	for _, d := range v.Domains {
		if !d.ImplicitlyOwned {
			t.add(plain(d.Domain), "-", "-", "verified", "-")
		}
	}
	a.io.print(t)
	return nil
}

func newDomainMap(a *app) *cobra.Command {
	o := &domainOptions{}
	cmd := &cobra.Command{
		Use: "map DOMAIN NAME PORT --public", Short: "Serve a port of a VM at a domain, to everybody", Example: "  warren domain map app.warren.localhost box 3000 --public",
		Args: args(3, 3, "warren domain map DOMAIN NAME PORT --public"),
		RunE: func(cmd *cobra.Command, list []string) error {
			var err error
			o.domain, o.name = list[0], list[1]
			if o.port, err = portArg(list[2]); err != nil {
				return err
			}
			if !o.public {
				return usage("a mapped domain opens port %d of %s to everybody", o.port, printable(o.name)).
					WithHint("confirm it: `%s %s %s %d --public`", cmd.CommandPath(), printable(o.domain), printable(o.name), o.port)
			}
			return a.domainMap(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.public, "public", false, "open the port to everybody; required, because no other kind of mapping exists")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) domainMap(ctx context.Context, o *domainOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	v, err := c.Get(ctx, o.name)
	if err != nil {
		return err
	}
	m, err := c.MapDomain(ctx, o.domain, v.ID, o.port)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(m)
	}
	a.io.printf("%s\n", plain(or(m.URL, m.Domain)))
	return nil
}

func newDomainUnmap(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "unmap DOMAIN...", Short: "Remove mappings of domains", Example: "  warren domain unmap app.warren.localhost",
		Args: args(1, -1, "which domain? warren domain unmap DOMAIN..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.endEach(list, "unmapped", func(c *client.Client, name string) error { return c.UnmapDomain(cmd.Context(), name) })
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	})
}
