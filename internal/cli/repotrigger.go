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

func newRepoTrigger(a *app) *cobra.Command {
	return group("trigger", "Call a URL when branches of a repository change",
		"  warren repo trigger add shop https://ci.example.com/hook --branch main\n  warren repo trigger log shop TRIGGER",
		newRepoTriggerAdd(a), newRepoTriggerLs(a), newRepoTriggerRm(a), newRepoTriggerLog(a))
}

func newRepoTriggerAdd(a *app) *cobra.Command {
	in := api.NewTrigger{Trigger: vm.TriggerOn{Event: vm.EventPush}, Action: vm.TriggerDoes{Action: vm.ActionWebhook}}
	asJSON := false
	cmd := &cobra.Command{
		Use: "add REPO URL", Short: "Call a URL at each push",
		Long: `Call a URL at each push. The header X-Warren-Signature-256 is "sha256=" and the HMAC-SHA256 of the body by the
secret, which is printed once. A call that fails is tried again six times, over seven hours.`,
		Example: "  warren repo trigger add shop https://ci.example.com/hook --branch main --glob 'src/**'",
		Args:    args(2, 2, "which repository, and which URL? warren repo trigger add REPO URL"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			in.Action.Endpoint = list[1]
			made, err := c.CreateTrigger(cmd.Context(), list[0], in)
			switch {
			case err != nil:
				return err
			case asJSON:
				return a.io.json(made)
			}
			a.io.printf("%s %s\n", plain(made.TriggerID), plain(made.Secret))
			a.io.notef("keep the secret: it is not shown again")
			return nil
		},
		ValidArgsFunction: a.completeRepo,
	}
	f := cmd.Flags()
	f.StringSliceVar(&in.Trigger.Branches, "branch", nil, "only pushes to this branch or pattern; may repeat (default every branch)")
	f.StringSliceVar(&in.Trigger.Globs, "glob", nil, "only pushes that change a file like this; may repeat (default any file)")
	f.BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func newRepoTriggerLs(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "ls REPO", Short: "List the triggers of a repository", Example: "  warren repo trigger ls shop --json",
		Args: args(1, 1, "which repository? warren repo trigger ls REPO"),
		RunE: func(cmd *cobra.Command, words []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			l, err := c.Triggers(cmd.Context(), words[0])
			switch {
			case err != nil:
				return err
			case asJSON:
				return list(a.io, l)
			}
			t := &table{head: []string{"ID", "BRANCHES", "FILES", "URL"}}
			for _, one := range l {
				t.add(one.ID, plain(or(strings.Join(one.Trigger.Branches, ","), "all")), plain(or(strings.Join(one.Trigger.Globs, ","), "any")), plain(one.Action.Endpoint))
			}
			a.io.print(t)
			return nil
		},
		ValidArgsFunction: a.completeRepo,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// completeTrigger completes a repository, then its triggers.
func (a *app) completeTrigger(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(list) != 1 {
		return a.completeRepo(cmd, list, prefix)
	}
	return a.asked(cmd.Context(), prefix, func(ctx context.Context, c *client.Client) (all []string, err error) {
		l, err := c.Triggers(ctx, list[0])
		for _, one := range l {
			all = append(all, one.ID)
		}
		return all, err
	}), noFiles
}

func newRepoTriggerRm(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "rm REPO TRIGGER...", Short: "Remove triggers; calls that wait are not made", Example: "  warren repo trigger rm shop 6f1c9a2b-0000-4000-8000-000000000000",
		Args: args(2, -1, "which repository, and which trigger? warren repo trigger rm REPO TRIGGER..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.endEach(list[1:], "removed", func(c *client.Client, id string) error { return c.RemoveTrigger(cmd.Context(), list[0], id) })
		},
		ValidArgsFunction: a.completeTrigger,
	})
}

func newRepoTriggerLog(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "log REPO TRIGGER", Short: "List the last calls of a trigger, the newest first", Example: "  warren repo trigger log shop 6f1c9a2b-0000-4000-8000-000000000000",
		Args: args(2, 2, "which repository, and which trigger? warren repo trigger log REPO TRIGGER"),
		RunE: func(cmd *cobra.Command, words []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			l, err := c.Deliveries(cmd.Context(), words[0], words[1])
			switch {
			case err != nil:
				return err
			case asJSON:
				return list(a.io, l)
			}
			t := &table{head: []string{"AGE", "REF", "STATE", "TRIES", "STATUS", "PROBLEM"}}
			for _, d := range l {
				t.add(age(d.CreatedAt), plain(strings.TrimPrefix(d.Change.Ref, "refs/heads/")), d.State, itoa(d.Tries), itoa(d.Status), plain(or(d.Problem, "-")))
			}
			a.io.print(t)
			return nil
		},
		ValidArgsFunction: a.completeTrigger,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}
