// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type askOptions struct {
	vm     string
	kind   vm.AskKind
	all    bool
	follow bool
	json   bool

	length string
	note   string
}

func newAsk(a *app) *cobra.Command {
	return group("ask", "Show and decide what waits for approval", "  warren ask ls\n  warren ask show ask-k3v9s2x7q1mb\n  warren ask approve ask-k3v9s2x7q1mb",
		newAskLs(a), newAskShow(a), newAskApprove(a, ""), newAskDeny(a))
}

func newAskLs(a *app) *cobra.Command {
	o := &askOptions{}
	cmd := &cobra.Command{
		Use: "ls [VM]", Short: "List what waits for approval",
		Long: `List what waits for approval, the newest first: rules of networks that programs in VMs propose, and calls of
identities. With -f it first lists what waits, then prints each new ask as it comes, until ^C.`,
		Example: "  warren ask ls\n  warren ask ls box --all\n  warren ask ls -f",
		Args:    args(0, 1, "one VM at most: warren ask ls [VM]"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.vm = strings.Join(list, "")
			return a.askLs(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	o.listing(cmd)
	return cmd
}

func (o *askOptions) listing(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.all, "all", false, "list decided ones of the last 7 days, too")
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "print new ones as they come, until ^C")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON; with -f an object a line")
}

func newNetPending(a *app) *cobra.Command {
	o := &askOptions{kind: vm.AskNetwork}
	cmd := &cobra.Command{
		Use: "pending [VM]", Short: "List the hosts that programs in VMs ask for", Example: "  warren net pending\n  warren net pending box -f",
		Args: args(0, 1, "one VM at most: warren net pending [VM]"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.vm = strings.Join(list, "")
			return a.askLs(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	o.listing(cmd)
	return cmd
}

func (a *app) askLs(ctx context.Context, o *askOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if o.follow {
		return a.askFollow(ctx, c, o)
	}
	l, err := c.Asks(ctx, o.state(), o.kind, o.vm)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	case len(l) == 0:
		a.io.notef("nothing waits for a decision")
		return nil
	}
	t := &table{head: []string{"ASK", "VM", "WHO", "STATE", "LEFT", "WHAT"}, spare: []string{"STATE"}}
	for _, k := range l {
		t.add(plain(k.ID), plain(string(k.VM)), who(k), string(k.State), askLeft(k), plain(k.What))
	}
	a.io.print(t)
	if !o.all {
		a.io.notef("look at one: warren ask show ASK")
	}
	return nil
}

func (o *askOptions) state() vm.AskState {
	if o.all {
		return ""
	}
	return vm.AskPending
}

func who(k vm.Ask) string {
	if k.Identity != "" {
		return plain(string(k.Identity))
	}
	return "the VM"
}

func askLeft(k vm.Ask) string {
	if k.State != vm.AskPending {
		return "-"
	}
	return span(max(time.Until(k.Deadline), 0))
}

// askFollow prints what waits, then each new ask. The events are subscribed to first, so
// that none is missed.
func (a *app) askFollow(ctx context.Context, c *client.Client, o *askOptions) error {
	s, err := c.Events(ctx, fromNow, []string{"ask.created"}, o.vm)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	l, err := c.Asks(ctx, o.state(), o.kind, o.vm)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	slices.Reverse(l)
	for _, k := range l {
		seen[k.ID] = true
		if err := a.askLine(k, o.json); err != nil {
			return err
		}
	}
	for {
		e, err := s.Next()
		switch {
		case ctx.Err() != nil:
			return nil // ^C ends it without an error
		case errors.Is(err, io.EOF):
			return vm.Errorf(vm.Unavailable, "events", "the server ended the stream").WithHint("start it again")
		case err != nil:
			return err
		}
		id, _ := e.Data["ask"].(string)
		k, err := c.Ask(ctx, id)
		if vm.KindOf(err) == vm.NotFound || err == nil && (seen[id] || o.kind != "" && k.Kind != o.kind) {
			continue
		}
		if err == nil {
			err = a.askLine(k, o.json)
		}
		if err != nil {
			return err
		}
	}
}

func (a *app) askLine(k vm.Ask, asJSON bool) error {
	if asJSON {
		return a.io.line(k)
	}
	a.io.printf("%s %s %s: %s\n", plain(k.ID), plain(string(k.VM)), who(k), plain(k.What))
	return nil
}

func newAskShow(a *app) *cobra.Command {
	o := &askOptions{}
	cmd := &cobra.Command{
		Use: "show ASK", Short: "Show everything that an approval would let happen", Example: "  warren ask show ask-k3v9s2x7q1mb",
		Long: `Show everything that an approval would let happen. Lines that begin with | are what the asker wrote: characters that
could change the terminal are escaped.`,
		Args: args(1, 1, "which ask? warren ask show ASK"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			k, err := c.Ask(cmd.Context(), list[0])
			switch {
			case err != nil:
				return err
			case o.json:
				return a.io.json(k)
			}
			a.askShow(k)
			return nil
		},
		ValidArgsFunction: a.completeAsk,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) askShow(k vm.Ask) {
	row := func(name, text string) {
		if text != "" {
			a.io.printf("%-10s %s\n", name, text)
		}
	}
	row("ask", plain(k.ID))
	row("state", string(k.State))
	row("vm", plain(string(k.VM)))
	if row("who", who(k)); k.State == vm.AskPending {
		row("deadline", k.Deadline.Local().Format(time.DateTime)+", which counts as no")
	} else {
		row("decided", k.DecidedAt.Local().Format(time.DateTime)+" by "+plain(k.DecidedBy))
		row("note", plain(k.Note))
	}
	row("verb", plain(string(k.Verb)))
	a.block("what", k.What)
	for _, name := range slices.Sorted(maps.Keys(k.Details)) {
		a.block(plain(name), k.Details[name])
	}
	if k.Size > len(k.What) {
		row("size", itoa(k.Size)+" bytes, of which the first are shown")
	}
	row("sha256", plain(k.Digest))
	for _, w := range k.Widens {
		row("widens", plain(w))
	}
	if k.Why != "" {
		a.block("why", k.Why)
	}
}

// block prints a text of somebody else with its lines, each marked, so that no line of it can
// pass for one of Warren's.
func (a *app) block(name, text string) {
	a.io.printf("%s:\n", name)
	for line := range strings.SplitSeq(text, "\n") {
		a.io.printf("  | %s\n", plain(line))
	}
}

// newAskApprove makes the command under its group, or, with a kind, that of net.
func newAskApprove(a *app, kind vm.AskKind) *cobra.Command {
	o := &askOptions{kind: kind}
	cmd := a.changing(&cobra.Command{
		Use: "approve ASK...", Short: "Let what waits happen", Example: "  warren ask approve ask-k3v9s2x7q1mb\n  warren ask approve ask-k3v9s2x7q1mb --for 1h",
		Long: `Let what waits happen. A proposed rule is in force at once, with --for only for that time. A waiting call runs, once.
Look at it first: "warren ask show ASK".`,
		Args:              args(1, -1, "which ask? warren ask approve ASK..."),
		RunE:              func(cmd *cobra.Command, list []string) error { return a.approveAsks(cmd.Context(), list, o) },
		ValidArgsFunction: a.completeAsk,
	})
	if kind == vm.AskNetwork {
		cmd.Short, cmd.Example = "Allow what a program in a VM asks for, at once", "  warren net approve ask-k3v9s2x7q1mb\n  warren net approve ask-k3v9s2x7q1mb --for 1h"
	}
	cmd.Flags().StringVar(&o.length, "for", "", "how long a rule stays in force, such as 30m, 1h, 2d (default until it is removed)")
	cmd.Flags().StringVar(&o.note, "note", "", "a note that is kept with the decision")
	return cmd
}

func (a *app) approveAsks(ctx context.Context, ids []string, o *askOptions) error {
	in := api.ApproveAsk{Note: o.note}
	if o.length != "" {
		d, err := parseSeconds(o.length)
		if err != nil {
			return err
		}
		in.For = vm.Seconds(d)
	}
	return a.endEach(ids, "approved", func(c *client.Client, id string) error {
		_, err := c.ApproveAsk(ctx, id, in)
		return err
	})
}

func newAskDeny(a *app) *cobra.Command {
	o := &askOptions{}
	cmd := a.changing(&cobra.Command{
		Use: "deny ASK...", Short: "Refuse what waits for approval", Example: "  warren ask deny ask-k3v9s2x7q1mb --note 'use the mirror'",
		Args:              args(1, -1, "which ask? warren ask deny ASK..."),
		RunE:              func(cmd *cobra.Command, list []string) error { return a.denyAsks(cmd.Context(), list, o.note) },
		ValidArgsFunction: a.completeAsk,
	})
	cmd.Flags().StringVar(&o.note, "note", "", "why, which the asker is told")
	return cmd
}

// denyAsks refuses asks.
func (a *app) denyAsks(ctx context.Context, ids []string, note string) error {
	return a.endEach(ids, "denied", func(c *client.Client, id string) error {
		_, err := c.DenyAsk(ctx, id, api.DenyAsk{Note: note})
		return err
	})
}

// newApprove and newDeny are short names of ask's commands.
func newApprove(a *app) *cobra.Command {
	cmd := newAskApprove(a, "")
	cmd.Example = "  warren approve ask-k3v9s2x7q1mb"
	return cmd
}

func newDeny(a *app) *cobra.Command {
	cmd := newAskDeny(a)
	cmd.Example = "  warren deny ask-k3v9s2x7q1mb --note 'not on Fridays'"
	return cmd
}

// completeAsk completes ids of asks that wait.
func (a *app) completeAsk(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.asked(cmd.Context(), prefix, func(ctx context.Context, c *client.Client) (all []string, err error) {
		l, err := c.Asks(ctx, vm.AskPending, "", "")
		for _, k := range l {
			all = append(all, k.ID)
		}
		return all, err
	}), noFiles
}
