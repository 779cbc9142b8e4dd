// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

func newNetExplain(a *app) *cobra.Command {
	o := &netOptions{}
	cmd := &cobra.Command{
		Use: "explain NAME", Short: "Say what a VM's network refused lately, and what would allow it",
		Long: `Say in words what the network of a running VM refused lately, why, and with which command each would be allowed. It
allows nothing itself.`,
		Example: "  warren net explain box\n  warren net explain box --json",
		Args:    args(1, 1, "which VM? warren net explain NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.netExplain(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) netExplain(ctx context.Context, o *netOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.NetworkRefusals(ctx, o.name)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	case len(l) == 0:
		a.io.notef("%s was refused nothing lately", printable(o.name))
		return nil
	}
	for _, r := range l {
		what := plain(r.Host)
		if r.Port != 0 {
			what = net.JoinHostPort(what, strconv.Itoa(r.Port))
		}
		if r.Method != "" {
			what = plain(r.Method) + " " + what + plain(r.Path)
		}
		times := ""
		if r.Count > 1 {
			times = ", " + itoa(r.Count) + " times"
		}
		a.io.printf("%s (%s%s): %s\n", what, plain(r.Proto), times, plain(r.Reason))
		switch {
		case r.Now.Allowed:
			a.io.printf("  it is allowed now\n")
		case r.Rule != "":
			a.io.printf("  to allow it: warren net allow %s %s\n", quoteShell(o.name), quoteShell(r.Rule)+requestFlags(r))
		}
	}
	return nil
}

// requestFlags are the flags that allow only a request like the one that was refused.
func requestFlags(r vm.NetRefusal) string {
	out := ""
	if r.Method != "" {
		out += " --method " + quoteShell(r.Method)
	}
	if r.Path != "" {
		out += " --path " + quoteShell(r.Path)
	}
	return out
}

type netCheckOptions struct {
	name  string
	ask   vm.NetQuestion
	udp   bool
	json  bool
	where string
}

func newNetCheck(a *app) *cobra.Command {
	o := &netCheckOptions{}
	cmd := &cobra.Command{
		Use: "check NAME HOST[:PORT]|URL", Short: "Say whether a VM may reach a host, without a connection",
		Long: `Say whether a VM's network would allow a connection or a request, which rule decides, and how it would be carried.
Nothing is looked up or connected to. The exit status is 0 if it is allowed and 4 if it is not.`,
		Example: "  warren net check box api.example.com\n  warren net check box https://api.example.com/v1/models --method POST\n  warren net check box 192.0.2.1:53 --udp --json",
		Args:    args(2, 2, "warren net check NAME HOST[:PORT]"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.where = list[0], list[1]
			return a.netCheck(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	f := cmd.Flags()
	f.StringVar(&o.ask.Method, "method", "", "a request with this method")
	f.StringVar(&o.ask.Path, "path", "", "a request for this path")
	f.BoolVar(&o.udp, "udp", false, "UDP in place of TCP")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// question reads HOST, HOST:PORT or a URL.
func (o *netCheckOptions) question() (vm.NetQuestion, error) {
	q := o.ask
	q.Host = o.where
	if o.udp {
		q.Proto = "udp"
	}
	if strings.Contains(o.where, "://") {
		u, err := url.Parse(o.where)
		if err != nil || u.Hostname() == "" {
			return q, usage("%s is not a URL", printable(o.where))
		}
		q.Host, q.Port = u.Hostname(), 443
		if u.Scheme == "http" {
			q.Port = 80
		}
		if q.Path == "" {
			q.Path = or(u.EscapedPath(), "/")
		}
		o.where = u.Host
	}
	host, port, err := net.SplitHostPort(o.where)
	if err != nil {
		q.Host = strings.Trim(q.Host, "[]")
		return q, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return q, usage("%s is not a port", printable(port))
	}
	q.Host, q.Port = host, int(n)
	return q, nil
}

func (a *app) netCheck(ctx context.Context, o *netCheckOptions) error {
	q, err := o.question()
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	w, err := c.CheckNetwork(ctx, o.name, q)
	if err != nil {
		return err
	}
	if o.json {
		if err := a.io.json(w); err != nil {
			return err
		}
	} else {
		verdict := "refused"
		if w.Allowed {
			verdict = "allowed, " + plain(w.How)
		}
		a.io.printf("%s: %s\n", verdict, plain(w.Reason))
		if w.Rule != nil {
			a.io.printf("  rule %s: %s %s\n", plain(w.Rule.ID), w.Rule.Action, plain(w.Rule.Text()))
		}
	}
	if !w.Allowed {
		return vm.Errorf(vm.Denied, q.Host, "%s may not reach it", printable(o.name)).WithHint("allow it: `warren net allow %s %s`", o.name, q.Host)
	}
	return nil
}
