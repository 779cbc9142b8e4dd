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

// ruleFlags are the flags of the rules that a command adds.
type ruleFlags struct {
	netChange
	methods     []string
	paths       []string
	lasts       string
	first       bool
	connections int
	bytes       string
	rate        string
}

func (o *ruleFlags) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.methods, "method", nil, "only these methods of HTTP, such as GET; may repeat")
	f.StringSliceVar(&o.paths, "path", nil, "only these paths of HTTP: * stands for a part, ** at the end for the rest; may repeat")
	f.StringVar(&o.lasts, "for", "", "end the rule after this time, such as 1h")
	f.BoolVar(&o.first, "first", false, "put it before all other rules")
	o.add(cmd)
}

func (o *ruleFlags) limits(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.connections, "limit-connections", 0, "at most this many open connections; 0 = any number")
	f.StringVar(&o.bytes, "limit-bytes", "", "at most this much, both ways, since the rule was made: 500M, 2G")
	f.StringVar(&o.rate, "limit-rate", "", "at most this much a second, each way: 1M")
}

// rules turns targets and flags into rules.
func (o *ruleFlags) rules(targets []string) ([]vm.NetRule, error) {
	limit := vm.NetLimit{Connections: o.connections}
	var err error
	if limit.Bytes, err = limitOf("limit-bytes", o.bytes); err != nil {
		return nil, err
	}
	if limit.Rate, err = limitOf("limit-rate", o.rate); err != nil {
		return nil, err
	}
	if o.connections < 0 {
		return nil, usage("--limit-connections: %d is negative", o.connections).WithHint("leave it out for any number")
	}
	rules := make([]vm.NetRule, len(targets))
	for i, to := range targets {
		rules[i] = vm.NetRule{Action: vm.NetAllow, To: to, Methods: o.methods, Paths: o.paths, Limit: limit}
	}
	return rules, nil
}

// limitOf reads a number of bytes; "" = no limit.
func limitOf(flag, s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := parseBytes(s, 1)
	if err != nil || n <= 0 {
		return 0, usage("--%s: %s is not a number of bytes", flag, printable(s)).WithHint("give one such as 500M or 2G")
	}
	return n, nil
}

// change makes the request of the flags.
func (o *ruleFlags) change() (api.ChangeNetwork, error) {
	r := api.ChangeNetwork{First: o.first, DryRun: o.dryRun, Force: o.force}
	if o.lasts != "" {
		d, err := parseSeconds(o.lasts)
		if err != nil {
			return r, err
		}
		r.For = seconds(d)
	}
	return r, nil
}

func newNetAllow(a *app) *cobra.Command {
	o := &ruleFlags{}
	cmd := a.changing(&cobra.Command{
		Use: "allow NAME HOST[:PORT]...", Short: "Let a VM reach a host, at once",
		Long: `Add rules that allow hosts. HOST is a name, "*." and a domain for all names below it, an address, or a range such as
192.0.2.0/24; udp:HOST:PORT is about UDP. Without a port a name stands for 80 and 443. The rules come after those
that are there, or before them with --first: the first rule that matches decides. A rule about a host that has one
already replaces that.

With --method or --path only such HTTP requests are allowed. To see them, the VM's network reads its connections to
that host, with a certificate of the VM's own. Addresses that are not public need an admin's key.`,
		Example: `  warren net allow box api.example.com
  warren net allow box '*.example.com' db.example.net:5432
  warren net allow box api.github.com --method GET --path '/repos/acme/**'
  warren net allow box files.example.com --for 1h --limit-bytes 2G --limit-rate 1M`,
		Args: args(2, -1, "warren net allow NAME HOST[:PORT]..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			rules, err := o.rules(list[1:])
			if err != nil {
				return err
			}
			r, err := o.change()
			if err != nil {
				return err
			}
			r.Allow = rules
			return a.changeNetwork(cmd.Context(), list[0], r)
		},
		ValidArgsFunction: a.completeVM,
	})
	o.addTo(cmd)
	o.limits(cmd)
	return cmd
}

func newNetDenyHost(a *app) *cobra.Command {
	o, note := &ruleFlags{}, ""
	cmd := a.changing(&cobra.Command{
		Use: "deny NAME HOST[:PORT]... | ASK...", Short: "Forbid a VM a host, at once; or refuse what its programs ask for",
		Long: `Add rules that deny hosts, written as for "warren net allow". Without a port a rule denies every port and protocol of
the host. Open connections that the rules deny are closed. Where an earlier rule allows the host, use --first.
With the id of an ask it refuses what a program in a VM has asked for.`,
		Example: "  warren net deny box pastebin.com\n  warren net deny ask-k3v9s2x7q1mb --note 'use the mirror'\n  warren net deny box '*.example.com' --first\n  warren net deny box api.github.com --method DELETE --first",
		Args:    args(1, -1, "warren net deny NAME HOST[:PORT]..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			if strings.HasPrefix(list[0], "ask-") {
				return a.denyAsks(cmd.Context(), list, note)
			}
			if len(list) < 2 {
				return usage("which host? warren net deny NAME HOST[:PORT]...")
			}
			rules, err := o.rules(list[1:])
			if err != nil {
				return err
			}
			r, err := o.change()
			if err != nil {
				return err
			}
			r.Deny = rules
			return a.changeNetwork(cmd.Context(), list[0], r)
		},
		ValidArgsFunction: a.completeVM,
	})
	cmd.Flags().StringVar(&note, "note", "", "with an ask: why, which the asker is told")
	o.addTo(cmd)
	return cmd
}

func newNetRm(a *app) *cobra.Command {
	o := &netChange{}
	cmd := a.changing(&cobra.Command{
		Use: "rm NAME RULE...", Short: "Remove rules of a VM's network",
		Long: `Remove rules, each by its id or by what it is about, as "warren net show" lists them. The name of a policy ends the
VM's use of it.`,
		Example: "  warren net rm box r-4k2mzp\n  warren net rm box api.example.com\n  warren net rm box agents",
		Args:    args(2, -1, "warren net rm NAME RULE..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.changeNetwork(cmd.Context(), list[0], api.ChangeNetwork{Remove: list[1:], DryRun: o.dryRun, Force: o.force})
		},
		ValidArgsFunction: a.completeRules,
	})
	o.add(cmd)
	return cmd
}

// completeRules completes the name of a VM, then the ids of its rules and the policies that it uses.
func (a *app) completeRules(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(list) == 0 {
		return a.completeVM(cmd, list, prefix)
	}
	c, err := a.client()
	if err != nil {
		return nil, noFiles
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	n, err := c.Network(ctx, list[0])
	if err != nil {
		return nil, noFiles
	}
	var out []string
	for _, name := range n.Policies {
		if strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	for _, r := range n.Rules {
		if strings.HasPrefix(r.ID, prefix) {
			out = append(out, r.ID+"\t"+plain(string(r.Action)+" "+r.Text()))
		}
	}
	return out, noFiles
}

func (a *app) changeNetwork(ctx context.Context, name string, r api.ChangeNetwork) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	n, err := c.ChangeNetwork(ctx, name, r)
	if err == nil {
		a.networkChanged(name, n)
	}
	return err
}
