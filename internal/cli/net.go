// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

func newNet(a *app) *cobra.Command {
	return group("net", "Show and change what a VM may reach", "  warren net show box\n  warren net allow box api.example.com\n  warren net log box -f",
		newNetShow(a), newNetSet(a), newNetAllow(a), newNetDenyHost(a), newNetRm(a), newNetLog(a), newNetExplain(a), newNetCheck(a), newNetPending(a), newAskApprove(a, vm.AskNetwork))
}

// netWords says what --net and `net set` take.
const netWords = "closed, packages, open, hosts such as api.example.com:443, or names of policies, with commas between them"

// completeNet completes the words of a network: modes and names of policies.
func (a *app) completeNet(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	done, last := "", prefix
	if i := strings.LastIndexByte(prefix, ','); i >= 0 {
		done, last = prefix[:i+1], prefix[i+1:]
	}
	names := a.policyNames(cmd.Context(), last)
	for i := range names {
		names[i] = done + names[i]
	}
	return names, noFiles | cobra.ShellCompDirectiveNoSpace
}

// policyNames returns the names of policies with a prefix; the modes are among them.
func (a *app) policyNames(ctx context.Context, prefix string) []string {
	names := a.asked(ctx, prefix, func(ctx context.Context, c *client.Client) (all []string, err error) {
		l, err := c.Policies(ctx)
		for _, p := range l {
			all = append(all, p.Name)
		}
		return all, err
	})
	if len(names) > 0 {
		return names
	}
	for _, m := range []vm.NetworkMode{vm.NetClosed, vm.NetPackages, vm.NetOpen} {
		if strings.HasPrefix(string(m), prefix) {
			names = append(names, string(m))
		}
	}
	return names
}

// netFlag adds --net to a command that makes VMs.
func (a *app) netFlag(cmd *cobra.Command, to *string, text string) {
	cmd.Flags().StringVar(to, "net", "", text)
	if err := cmd.RegisterFlagCompletionFunc("net", a.completeNet); err != nil {
		panic(err) // as in completeFlag
	}
}

type netOptions struct {
	name string
	json bool
}

func newNetShow(a *app) *cobra.Command {
	o := &netOptions{}
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show what a VM may reach", Example: "  warren net show box\n  warren net show box --json",
		Long: `Show the rules of a VM's network in the order in which they are tried. The first that matches decides. If none does,
the last line decides.`,
		Args: args(1, 1, "which VM? warren net show NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.netShow(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) netShow(ctx context.Context, o *netOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	n, err := c.Network(ctx, o.name)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(n)
	}
	a.printNetwork(n)
	return nil
}

// printNetwork prints the rules of a network, then its mode.
func (a *app) printNetwork(n api.Network) {
	if len(n.Rules) > 0 {
		a.io.print(ruleTable(n.Rules))
	}
	for _, u := range n.Secrets {
		a.io.printf("secret %s is put into the header %s of requests to %s:%d\n", plain(u.Name), plain(u.Header), plain(u.Host), u.Port)
	}
	what := netMeaning[n.Mode]
	if len(n.Rules) > 0 {
		what = "all else: " + what
	}
	a.io.printf("%s: %s\n", n.Mode, what)
	if n.Mode != vm.NetPackages {
		return
	}
	for _, r := range n.Registries {
		a.io.printf("  %-5s %s:%d\n", plain(r.Manager), plain(r.Host), r.Port)
	}
}

// ruleTable lists rules in their order.
func ruleTable(rules []vm.NetRule) *table {
	t := &table{head: []string{"RULE", "", "TO", "LIMITS", "UNTIL", "FROM"}, spare: []string{"FROM", "LIMITS"}}
	for _, r := range rules {
		until := "-"
		if !r.Until.IsZero() {
			until = r.Until.Local().Format(time.DateTime)
		}
		t.add(plain(r.ID), string(r.Action), plain(r.Text()), or(limitText(r.Limit), "-"), until, or(plain(r.From), "-"))
	}
	return t
}

// limitText says what a rule limits.
func limitText(l vm.NetLimit) string {
	var out []string
	if l.Connections > 0 {
		out = append(out, itoa(l.Connections)+" at once")
	}
	if l.Bytes > 0 {
		out = append(out, human(l.Bytes))
	}
	if l.Rate > 0 {
		out = append(out, human(l.Rate)+"/s")
	}
	return strings.Join(out, ", ")
}

var netMeaning = map[vm.NetworkMode]string{
	vm.NetClosed:   "nothing is reached",
	vm.NetPackages: "the package registries that its image is configured for, nothing else",
	vm.NetOpen:     "the public internet; never private addresses or this host",
}

// netChange are the flags of every change of a VM's network.
type netChange struct {
	name   string
	dryRun bool
	force  bool
}

func (o *netChange) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only show what would change, and which open connections would be closed")
	cmd.Flags().BoolVar(&o.force, "force", false, "even if it closes the VM's own connection to this server")
}

func newNetSet(a *app) *cobra.Command {
	o := &netChange{}
	cmd := a.changing(&cobra.Command{
		Use: "set NAME WORD...", Short: "Replace what a VM may reach", Example: "  warren net set box packages\n  warren net set box closed api.example.com:443\n  warren net set box agents,packages --dry-run",
		Long: `Replace what a VM may reach by what the words say: one of closed, packages and open, hosts such as
api.example.com:443, *.example.com or 192.0.2.0/24, and names of policies ("warren policy ls").

The change applies at once. Connections that are no longer allowed are closed. "warren net allow" and "warren net
deny" add to what is there.`,
		Args: args(2, -1, "warren net set NAME closed|packages|open|HOST|POLICY..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			c, err := a.client()
			if err != nil {
				return err
			}
			n, err := c.SetNetwork(cmd.Context(), o.name, api.SetNetwork{Network: vm.NetworkSpec(strings.Join(list[1:], ",")), DryRun: o.dryRun, Force: o.force})
			if err == nil {
				a.networkChanged(o.name, n)
			}
			return err
		},
		ValidArgsFunction: func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) >= 1 {
				return a.completeNet(cmd, list, prefix)
			}
			return a.completeVM(cmd, list, prefix)
		},
	})
	o.add(cmd)
	return cmd
}

// networkChanged reports a change of a VM's network.
func (a *app) networkChanged(name string, n api.ChangedNetwork) {
	mode := or(string(n.Policy.Mode), n.VM.Network)
	text := mode + ": " + netMeaning[n.Policy.Mode]
	if k := len(n.Policy.Rules); k > 0 {
		text = countOf(k, "rule") + ", and all else: " + netMeaning[n.Policy.Mode]
	}
	if n.DryRun {
		text = "would be " + text
	}
	v := n.VM
	a.changed(change{Name: name, Result: mode, VM: &v, Network: &n.Policy, Cut: n.Cut, text: text})
	closed := "closed"
	if n.DryRun {
		closed = "would close"
	}
	for _, w := range n.Widens {
		a.details("  newly allowed: %s\n", plain(w))
	}
	for _, k := range n.Connections {
		a.details("  %s: %s %s\n", closed, k.Proto, plain(leadsTo(k)))
	}
}

// leadsTo is where a connection leads: the name and the port, else the address.
func leadsTo(k vm.Connection) string {
	if k.Name == "" || k.Name == k.Dest {
		return k.Dest
	}
	return k.Name + " (" + k.Dest + ")"
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return itoa(n) + " " + what + "s"
}

// networkOf is a VM's network in a few words: its mode, its policies, how many rules.
func networkOf(v api.VM) string {
	words := append([]string{v.Network}, v.NetworkPolicies...)
	text := plain(strings.Join(words, ","))
	if v.NetworkRules > 0 && len(v.NetworkPolicies) == 0 {
		text += "+" + itoa(v.NetworkRules)
	}
	return text
}
