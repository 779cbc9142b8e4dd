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

func newPolicy(a *app) *cobra.Command {
	return group("policy", "Name networks that many VMs use", "  warren policy ls\n  warren policy set ci packages,agents,api.example.com\n  warren up --net ci",
		newPolicyLs(a), newPolicyShow(a), newPolicySet(a), newPolicyRm(a))
}

type policyOptions struct {
	name string
	json bool
}

// completePolicy completes the first argument with the names of policies.
func (a *app) completePolicy(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(list) > 0 {
		return nil, noFiles
	}
	return a.policyNames(cmd.Context(), prefix), noFiles
}

func newPolicyLs(a *app) *cobra.Command {
	o := &policyOptions{}
	cmd := &cobra.Command{
		Use: "ls", Short: "List the network policies of the account", Example: "  warren policy ls\n  warren policy ls --json",
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.policyLs(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) policyLs(ctx context.Context, o *policyOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Policies(ctx)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	case a.io.quiet:
		for _, p := range l {
			a.io.printf("%s\n", plain(p.Name))
		}
		return nil
	}
	t := &table{head: []string{"POLICY", "MODE", "RULES", "ALLOWS"}}
	for _, p := range l {
		t.add(plain(p.Name), or(string(p.Mode), "-"), itoa(len(p.Rules)), or(plain(p.About), hostsText(p.Rules)))
	}
	a.io.print(t)
	return nil
}

// hostsText lists what the first rules are about.
func hostsText(rules []vm.NetRule) string {
	const most = 3
	var out []string
	for _, r := range rules[:min(len(rules), most)] {
		s := plain(r.Text())
		if r.Action == vm.NetDeny {
			s = "not " + s
		}
		out = append(out, s)
	}
	if len(rules) > most {
		out = append(out, "…")
	}
	return or(strings.Join(out, ", "), "-")
}

func newPolicyShow(a *app) *cobra.Command {
	o := &policyOptions{}
	cmd := &cobra.Command{
		Use: "show POLICY", Short: "Show a network policy and the VMs that use it", Example: "  warren policy show agents\n  warren policy show ci --json",
		Args: args(1, 1, "which policy? warren policy show POLICY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.policyShow(cmd.Context(), o)
		},
		ValidArgsFunction: a.completePolicy,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) policyShow(ctx context.Context, o *policyOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	p, err := c.Policy(ctx, o.name)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(p)
	}
	if len(p.Rules) > 0 {
		a.io.print(ruleTable(p.Rules))
	}
	if p.Mode != "" {
		a.io.printf("%s: %s\n", p.Mode, netMeaning[p.Mode])
	}
	if p.Shipped {
		a.io.printf("it comes with Warren\n")
	}
	for _, v := range p.VMs {
		a.io.printf("used by %s\n", printable(or(v.Name, string(v.ID))))
	}
	return nil
}

func newPolicySet(a *app) *cobra.Command {
	cmd := a.changing(&cobra.Command{
		Use: "set POLICY WORD...", Short: "Make or replace a network policy",
		Long: `Make or replace a network policy of the account. The words are modes, hosts and agents: ` + "`warren help net set`" + ` lists
them. VMs use it by its name: "warren up --net POLICY", "warren net set NAME POLICY". A change applies at once to the
VMs that use it, and closes their connections that it no longer allows.`,
		Example: "  warren policy set ci packages,agents,api.example.com\n  warren policy set db 'db.example.net:5432' '*.example.org'",
		Args:    args(2, -1, "warren policy set POLICY WORD..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			p, err := c.SetPolicy(cmd.Context(), list[0], vm.NetworkSpec(strings.Join(list[1:], ",")))
			if err == nil {
				a.policyChanged(list[0], p)
			}
			return err
		},
		ValidArgsFunction: func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) == 0 {
				return a.completePolicy(cmd, list, prefix)
			}
			return []cobra.Completion{"closed", "packages", "agents", "open"}, noFiles
		},
	})
	return cmd
}

func (a *app) policyChanged(name string, p api.ChangedPolicy) {
	a.changed(change{Name: name, Result: "set", Cut: p.Cut, text: name + ": " + countOf(len(p.Rules), "rule")})
	for _, v := range p.VMs {
		name := printable(or(v.Name, string(v.ID)))
		if v.Why != "" {
			a.io.tellf("warning: %s does not have the new rules yet: %s", name, plain(v.Why))
			a.io.tellf("  hint: the server tries again every few seconds; `warren net show %s` shows its rules", name)
			continue
		}
		a.details("  %s has them\n", name)
	}
	if p.Cut > 0 {
		a.details("  closed %s\n", countOf(p.Cut, "connection"))
	}
}

func newPolicyRm(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "rm POLICY...", Short: "Remove network policies that no VM uses", Example: "  warren policy rm ci",
		Args: args(1, -1, "which policy? warren policy rm POLICY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			for _, name := range list {
				if err := c.RemovePolicy(cmd.Context(), name); err != nil {
					return err
				}
				a.changed(change{Name: name, Result: "removed"})
			}
			return nil
		},
		ValidArgsFunction: a.completePolicy,
	})
}
