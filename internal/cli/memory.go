// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type memoryOptions struct {
	json    bool
	repo    string
	message string
	limit   int
}

func newMemory(a *app) *cobra.Command {
	o := &memoryOptions{}
	cmd := &cobra.Command{
		Use:   "memory NAME",
		Short: "Keep an agent's notes in a repository",
		Long: `Keep an agent's notes in a repository: the Markdown and other text files below /memory of a VM. The server commits
them whenever nobody has written there for some seconds, with history and rollback. The repository outlives the VM.
Forks commit to branches of their own.

"warren memory NAME" shows where a VM's notes are kept, and what is not committed: files that are no text, that are
too large, or that hold secrets.`,
		Example: "  warren memory enable app\n  warren memory app\n  warren memory log app\n  warren memory rollback app 3f2a91c",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) > 1 {
				return unknownCommand(cmd, list[0])
			}
			return args(1, 1, "which VM? warren memory NAME")(cmd, list)
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.memory(cmd.Context(), list[0], o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	cmd.AddCommand(newMemoryEnable(a), newMemoryDisable(a), newMemoryCommit(a), newMemoryLog(a), newMemoryShow(a), newMemoryRollback(a))
	return cmd
}

func (a *app) memory(ctx context.Context, name string, o *memoryOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	m, err := c.Memory(ctx, name)
	if err != nil {
		return err
	}
	return a.showMemory(m, o)
}

func (a *app) showMemory(m vm.Memory, o *memoryOptions) error {
	if o.json {
		return a.io.json(m)
	}
	if m.Repo == "" {
		n := printable(or(m.VMName, string(m.VM)))
		a.io.printf("%s has no memory\n  enable    warren memory enable %s\n", n, n)
		return nil
	}
	state := "committed at quiet moments"
	if !m.Enabled {
		state = "not committed any more (`warren memory enable NAME`)"
	}
	a.io.printf("/memory of %s: %s\n", printable(or(m.VMName, string(m.VM))), a.io.named(state))
	a.io.printf("  repository  %s, branch %s\n", printable(or(m.RepoName, m.Repo)), printable(m.Branch))
	if m.Commit != "" {
		a.io.printf("  newest      %.12s, %d files, %s\n", m.Commit, m.Files, human(m.Bytes))
	}
	if m.From != "" {
		a.io.printf("  began with  the memory of VM %s\n", m.From)
	}
	for _, l := range m.LeftOut {
		a.io.printf("  left out    %s\n", plain(l.String()))
	}
	for _, s := range m.Secrets {
		a.io.printf("  %s\n", a.io.warning("secret      "+plain(s.Kind)+" in "+s.Path.String()+": the file is not committed"))
	}
	if m.Error != "" {
		a.io.tellf("the last commit failed: %s", plain(m.Error))
	}
	return nil
}

func newMemoryEnable(a *app) *cobra.Command {
	o := &memoryOptions{}
	cmd := &cobra.Command{
		Use:   "enable NAME",
		Short: "Give a VM a memory",
		Long: `Give a VM a memory: a directory /memory, filled from a repository, whose text files are committed from now on. The
default is a new repository NAME-memory. With --repo, the VM continues with what another one remembered. A VM that
does not run is started.`,
		Example: "  warren memory enable app\n  warren memory enable app2 --repo app-memory",
		Args:    args(1, 1, "which VM? warren memory enable NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.changeMemory(cmd.Context(), o, "preparing /memory", func(ctx context.Context) (vm.Memory, error) {
				c, err := a.client()
				if err != nil {
					return vm.Memory{}, err
				}
				return c.EnableMemory(ctx, list[0], o.repo)
			})
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().StringVar(&o.repo, "repo", "", "repository, by name or id (default: a new one)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func newMemoryDisable(a *app) *cobra.Command {
	o := &memoryOptions{}
	cmd := &cobra.Command{
		Use:     "disable NAME",
		Short:   "Stop committing a VM's notes; repository and files stay",
		Example: "  warren memory disable app",
		Args:    args(1, 1, "which VM? warren memory disable NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.changeMemory(cmd.Context(), o, "ending the commits", func(ctx context.Context) (vm.Memory, error) {
				c, err := a.client()
				if err != nil {
					return vm.Memory{}, err
				}
				return c.DisableMemory(ctx, list[0])
			})
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func newMemoryCommit(a *app) *cobra.Command {
	o := &memoryOptions{}
	cmd := &cobra.Command{
		Use:     "commit NAME",
		Short:   "Commit a VM's notes now",
		Long:    "Commit a VM's notes now. A VM that does not run is not woken: its disk is read.",
		Example: "  warren memory commit app -m 'Before the upgrade'",
		Args:    args(1, 1, "which VM? warren memory commit NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.changeMemory(cmd.Context(), o, "committing /memory", func(ctx context.Context) (vm.Memory, error) {
				c, err := a.client()
				if err != nil {
					return vm.Memory{}, err
				}
				return c.CommitMemory(ctx, list[0], o.message)
			})
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().StringVarP(&o.message, "message", "m", "", "message of the commit")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func newMemoryRollback(a *app) *cobra.Command {
	o := &memoryOptions{}
	cmd := &cobra.Command{
		Use:   "rollback NAME COMMIT",
		Short: "Put a VM's notes back to an earlier commit",
		Long: `Put a VM's notes back to an earlier commit. The present ones are committed first, so that you can undo it with
another rollback. Other files below /memory stay. A VM that does not run is started.`,
		Example: "  warren memory rollback app 3f2a91c",
		Args:    args(2, 2, "which VM, and to which commit? warren memory rollback NAME COMMIT"),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.changeMemory(cmd.Context(), o, "rolling /memory back", func(ctx context.Context) (vm.Memory, error) {
				c, err := a.client()
				if err != nil {
					return vm.Memory{}, err
				}
				return c.RollbackMemory(ctx, list[0], list[1])
			})
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) changeMemory(ctx context.Context, o *memoryOptions, doing string, f func(context.Context) (vm.Memory, error)) error {
	p := a.io.doing("%s", doing)
	m, err := f(ctx)
	p.done()
	if err != nil {
		return err
	}
	if a.io.quiet && !o.json {
		a.io.printf("%s\n", m.Commit)
		return nil
	}
	return a.showMemory(m, o)
}

func newMemoryLog(a *app) *cobra.Command {
	o := &memoryOptions{}
	cmd := &cobra.Command{
		Use:     "log NAME",
		Short:   "List the commits of a VM's notes",
		Example: "  warren memory log app\n  warren memory log app --json",
		Args:    args(1, 1, "which VM? warren memory log NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			commits, err := c.MemoryLog(cmd.Context(), list[0], o.limit)
			switch {
			case err != nil:
				return err
			case o.json:
				return jsonList(a, commits)
			}
			t := &table{head: []string{"COMMIT", "TIME", "MESSAGE"}}
			for _, k := range commits {
				first, _, _ := strings.Cut(k.Message, "\n")
				t.add(k.SHA[:min(len(k.SHA), 12)], k.Committer.Date.Local().Format(time.DateTime), printable(first))
			}
			a.io.print(t)
			return nil
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().IntVarP(&o.limit, "limit", "n", 50, "how many, the newest first")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// jsonList prints a listing as JSON.
func jsonList[T any](a *app, l []T) error { return list(a.io, l) }

func newMemoryShow(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show NAME COMMIT [FILE]",
		Short:   "Show what a commit of a VM's notes changed, or a file as it was",
		Example: "  warren memory show app 3f2a91c\n  warren memory show app 3f2a91c plan.md",
		Args:    args(2, 3, "which VM, and which commit? warren memory show NAME COMMIT [FILE]"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			file := ""
			if len(list) > 2 {
				file = list[2]
			}
			data, err := c.ShowMemory(cmd.Context(), list[0], list[1], file)
			if err != nil {
				return err
			}
			w := a.io.guestWriter(false)
			if _, err := w.Write(data); err != nil {
				return localError("stdout", err)
			}
			return w.Close()
		},
		ValidArgsFunction: a.completeVM,
	}
	return cmd
}
