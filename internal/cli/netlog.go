// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type netLogOptions struct {
	name    string
	follow  bool
	refused bool
	json    bool
}

func newNetLog(a *app) *cobra.Command {
	o := &netLogOptions{}
	cmd := &cobra.Command{
		Use: "log NAME", Aliases: []string{"connections"}, Short: "List a VM's last connections, allowed and refused",
		Long: `List the connections that a running VM made or tried, the newest last, at most 1000. HOW says what its network did:
passed (it changed no byte), intercepted (it read the requests, for rules about methods or paths), injected (it put
a secret in), or refused. Refused requests of HTTP have lines of their own. A connection is listed when it has ended.`,
		Example: "  warren net log box\n  warren net log box --refused\n  warren net log box -f\n  warren net log box --json",
		Args:    args(1, 1, "which VM? warren net log NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.netLog(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "print new ones as they end, until ^C")
	f.BoolVar(&o.refused, "refused", false, "only those that were refused")
	f.BoolVar(&o.json, "json", false, "print as JSON; with -f an object a line")
	return cmd
}

func (a *app) netLog(ctx context.Context, o *netLogOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Connections(ctx, o.name)
	if err != nil {
		return err
	}
	shown := o.pick(l)
	switch {
	case o.follow:
		return a.netFollow(ctx, c, o, l)
	case o.json:
		return list(a.io, shown)
	case len(shown) == 0:
		a.io.notef("no connections")
		return nil
	}
	t := &table{head: []string{"TIME", "PROTO", "TO", "HOW", "UP", "DOWN", "RULE", "WHY"}, spare: []string{"DOWN", "UP", "RULE"}}
	for _, k := range shown {
		t.add(k.Time.Local().Format(time.TimeOnly), k.Proto, ledTo(k), how(k), human(k.Up), human(k.Down), or(plain(k.Rule), "-"), plain(k.Reason))
	}
	a.io.print(t)
	return nil
}

// pick filters what was asked for.
func (o *netLogOptions) pick(l []vm.Connection) (out []vm.Connection) {
	for _, k := range l {
		if !o.refused || !k.Allowed {
			out = append(out, k)
		}
	}
	return out
}

// followEvery is how often the server is asked for new connections.
const followEvery = time.Second

// netFollow prints connections, then new ones as they appear.
func (a *app) netFollow(ctx context.Context, c *client.Client, o *netLogOptions, l []vm.Connection) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	var last []vm.Connection
	for {
		for _, k := range o.pick(newer(last, l)) {
			if o.json {
				if err := a.io.line(k); err != nil {
					return err
				}
				continue
			}
			a.io.printf("%s %-5s %-11s %s  %s\n", k.Time.Local().Format(time.TimeOnly), k.Proto, how(k), ledTo(k), plain(k.Reason))
		}
		last = l
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var err error
		if l, err = c.Connections(ctx, o.name); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// newer returns what a list has after the end of an earlier one.
func newer(before, now []vm.Connection) []vm.Connection {
	if len(before) == 0 {
		return now
	}
	end := before[len(before)-1]
	for i := len(now) - 1; i >= 0; i-- {
		if k := now[i]; k.Time.Equal(end.Time) && k.Dest == end.Dest && k.Proto == end.Proto && k.Path == end.Path {
			return now[i+1:]
		}
	}
	return now
}

// how says what the network did with a connection. A server of an older version does not.
func how(k vm.Connection) string {
	switch {
	case k.How != "":
		return plain(k.How)
	case k.Allowed:
		return vm.NetPassed
	}
	return vm.NetRefused
}

// ledTo is where a connection led, for people.
func ledTo(k vm.Connection) string {
	to := leadsTo(k)
	if k.Method != "" || k.Path != "" {
		to = strings.TrimSpace(k.Method + " " + to + k.Path)
	}
	if len(k.Secrets) > 0 {
		to += " with " + strings.Join(k.Secrets, ", ")
	}
	return printable(to)
}
