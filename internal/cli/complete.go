// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
)

const (
	completeWithin = 2 * time.Second // the shell waits for the names
	noFiles        = cobra.ShellCompDirectiveNoFileComp
)

type completion = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// asked returns the server's names with this prefix, or none if it does not
// answer.
func (a *app) asked(ctx context.Context, prefix string, ask func(context.Context, *client.Client) ([]string, error)) (out []string) {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	c, err := a.client()
	if err != nil {
		return nil
	}
	all, err := ask(ctx, c)
	if err != nil {
		return nil
	}
	for _, name := range all {
		if strings.HasPrefix(name, prefix) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// names asks the server for the names of VMs.
func (a *app) names(ctx context.Context, prefix string) []string {
	return a.asked(ctx, prefix, func(ctx context.Context, c *client.Client) (all []string, err error) {
		l, err := c.List(ctx, false)
		for _, v := range l.VMs {
			all = append(all, ref(v))
		}
		return all, err
	})
}

// completeVM completes the first argument with the names of VMs.
func (a *app) completeVM(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(list) > 0 {
		return nil, noFiles
	}
	return a.names(cmd.Context(), prefix), noFiles
}

// completeVMs completes every argument with the names of VMs not yet given.
func (a *app) completeVMs(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all := a.names(cmd.Context(), prefix)
	return slices.DeleteFunc(all, func(n string) bool { return slices.Contains(list, n) }), noFiles
}

// completePlace completes NAME: and leaves paths to the shell.
func (a *app) completePlace(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.ContainsAny(prefix, ":/") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	all := a.names(cmd.Context(), prefix)
	for i := range all {
		all[i] += ":"
	}
	return all, cobra.ShellCompDirectiveNoSpace
}

// completeImages completes the first argument with images and recipes.
func (a *app) completeImages(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []string
	if len(list) > 0 {
		return nil, noFiles
	}
	if a.local.ImageList != nil {
		if l, err := a.local.ImageList(cmd.Context(), a.data); err == nil {
			for _, i := range l {
				out = append(out, i.Name)
			}
		}
	}
	if a.local.Recipes != nil {
		out = append(out, a.local.Recipes()...)
	}
	slices.Sort(out)
	out = slices.DeleteFunc(slices.Compact(out), func(n string) bool { return !strings.HasPrefix(n, prefix) })
	return out, cobra.ShellCompDirectiveDefault
}

// completeFlag completes a flag with fixed words.
func (a *app) completeFlag(cmd *cobra.Command, flag string, words ...string) {
	var f completion = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return words, noFiles
	}
	// It fails only if the flag does not exist or already has a completion,
	// which is a bug.
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// completeSnapshots completes the first argument with the account's snapshots.
func (a *app) completeSnapshots(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(list) > 0 {
		return nil, noFiles
	}
	return a.asked(cmd.Context(), prefix, func(ctx context.Context, c *client.Client) (all []string, err error) {
		l, err := c.Snapshots(ctx, false)
		for _, s := range l.Snapshots {
			if s.GenerationID != "" {
				all = append(all, or(s.Name, string(s.SnapshotID)))
			}
		}
		return all, err
	}), noFiles
}
