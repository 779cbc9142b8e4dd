// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
)

func newRepo(a *app) *cobra.Command {
	return group("repo", "Host git repositories: what was accepted, with its history",
		"  warren repo create shop\n  warren repo clone shop\n  warren repo protect shop main",
		newRepoCreate(a), newRepoImport(a), newRepoLs(a), newRepoRm(a), newRepoClone(a), newRepoLog(a), newRepoDiff(a),
		newRepoProtect(a), newRepoUnprotect(a), newRepoGrant(a), newRepoRevoke(a), newRepoTrigger(a), newRepoCredential(a))
}

type repoOptions struct {
	repo    string
	in      api.NewRepo
	source  api.RepoSource
	content api.RepoImport
	json    bool
}

// completeRepo completes the first argument with repositories.
func (a *app) completeRepo(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(list) > 0 {
		return nil, noFiles
	}
	return a.asked(cmd.Context(), prefix, func(ctx context.Context, c *client.Client) (all []string, err error) {
		l, err := c.Repos(ctx, "", 1000, 0)
		for _, r := range l.Repositories {
			all = append(all, or(r.Name, r.ID))
		}
		return all, err
	}), noFiles
}

func newRepoCreate(a *app) *cobra.Command {
	o := &repoOptions{}
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Make an empty repository", Example: "  warren repo create shop\n  warren repo create docs --public --default-branch trunk",
		Args: args(0, 1, "one name at most: warren repo create [NAME]"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.in.Name = strings.Join(list, "")
			return a.repoCreate(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.BoolVar(&o.in.Public, "public", false, "let everybody read it")
	f.StringVar(&o.in.DefaultBranch, "default-branch", "", "branch that a clone checks out (default main)")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// repoCreate makes a repository and says how to use it.
func (a *app) repoCreate(ctx context.Context, o *repoOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("making the repository")
	id, err := c.CreateRepo(ctx, o.in)
	var made api.GitRepo
	if err == nil {
		made, err = c.Repo(ctx, id)
	}
	p.done()
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(made)
	}
	name := printable(or(made.Name, made.ID))
	if a.io.quiet {
		a.io.printf("%s\n", made.ID)
		return nil
	}
	a.io.printf("%s %s\n", made.ID, printable(or(made.Name, "-")))
	a.io.notef("clone it: warren repo clone %s", name)
	return nil
}

func newRepoImport(a *app) *cobra.Command {
	o := &repoOptions{}
	kind := ""
	cmd := &cobra.Command{
		Use: "import URL [NAME]", Short: "Make a repository from another one, or from an archive",
		Long: `Make a repository with the history of a git repository elsewhere. With --as tar, zip or git it gets one commit
with the content of an archive or of a git repository, or of one directory in it (--dir). The server fetches
the URL, by http or https; it connects to private addresses only if its operator allowed them.`,
		Example: "  warren repo import https://github.com/example/shop.git shop\n  warren repo import https://example.com/site.tar.gz site --as tar --dir site-1.0",
		Args:    args(1, 2, "from where? warren repo import URL [NAME]"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.in.Name = strings.Join(list[1:], "")
			switch kind {
			case "":
				if o.content.Dir != "" {
					return usage("--dir needs --as tar, zip or git")
				}
				o.source.URL = list[0]
				o.in.Source = &o.source
			default:
				o.content.Type, o.content.URL, o.content.Rev = kind, list[0], o.source.Rev
				o.content.CommitMessage = "Import " + kind
				o.in.Import = &o.content
			}
			return a.repoCreate(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&kind, "as", "", "tar, zip or git: import the content as one commit (default: the whole history)")
	f.StringVar(&o.content.Dir, "dir", "", "take only this directory of the content")
	f.StringVar(&o.source.Rev, "rev", "", "branch, tag or commit to take (default: the source's default branch)")
	f.IntVar(&o.source.Depth, "depth", 0, "number of commits to take (default all)")
	f.BoolVar(&o.source.AllBranches, "all-branches", false, "take every branch and tag")
	f.BoolVar(&o.in.Public, "public", false, "let everybody read it")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	_ = cmd.RegisterFlagCompletionFunc("as", cobra.FixedCompletions([]cobra.Completion{"tar", "zip", "git"}, noFiles))
	return cmd
}

func newRepoLs(a *app) *cobra.Command {
	o := &repoOptions{}
	search := ""
	cmd := &cobra.Command{
		Use: "ls", Short: "List repositories, the newest first", Example: "  warren repo ls\n  warren repo ls --search shop --json", Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			l, err := c.Repos(cmd.Context(), search, 1000, 0)
			switch {
			case err != nil:
				return err
			case o.json:
				return list(a.io, l.Repositories)
			}
			t := &table{head: []string{"ID", "NAME", "VISIBILITY", "BRANCHES", "SIZE", "AGE"}}
			for _, r := range l.Repositories {
				t.add(r.ID, printable(or(r.Name, "-")), r.Visibility, itoa(len(r.Branches)), human(r.Bytes), age(r.CreatedAt))
			}
			a.io.print(t)
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&search, "search", "", "only names that contain this")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func newRepoRm(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "rm REPO...", Short: "Delete repositories with their history", Example: "  warren repo rm shop",
		Args: args(1, -1, "which repository? warren repo rm REPO..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.endEach(list, "removed", func(c *client.Client, name string) error { return c.RemoveRepo(cmd.Context(), name) })
		},
		ValidArgsFunction: a.completeRepo,
	})
}

// newRepoPattern is protect or unprotect.
func (a *app) newRepoPattern(cmd *cobra.Command, result string, do func(*client.Client) func(context.Context, string, string) ([]string, error)) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, list []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		for _, pattern := range list[1:] {
			if _, err := do(c)(cmd.Context(), list[0], pattern); err != nil {
				return err
			}
			a.changed(change{Name: pattern, Result: result})
		}
		return nil
	}
	cmd.ValidArgsFunction = a.completeRepo
	return a.changing(cmd)
}

func newRepoProtect(a *app) *cobra.Command {
	return a.newRepoPattern(&cobra.Command{
		Use: "protect REPO BRANCH...", Short: "Protect branches: nobody deletes or rewinds them",
		Long: `Protect branches: nobody deletes or rewinds them, and an identity pushes to one only if its permission names it.
BRANCH may be a pattern: * stands for one level, ** for all below.`,
		Example: "  warren repo protect shop main\n  warren repo protect shop 'release/*'",
		Args:    args(2, -1, "which repository, and which branch? warren repo protect REPO BRANCH..."),
	}, "protected", func(c *client.Client) func(context.Context, string, string) ([]string, error) { return c.ProtectBranch })
}

func newRepoUnprotect(a *app) *cobra.Command {
	return a.newRepoPattern(&cobra.Command{
		Use: "unprotect REPO BRANCH...", Short: "End the protection of branches", Example: "  warren repo unprotect shop 'release/*'",
		Args: args(2, -1, "which repository, and which branch? warren repo unprotect REPO BRANCH..."),
	}, "no longer protected", func(c *client.Client) func(context.Context, string, string) ([]string, error) {
		return c.UnprotectBranch
	})
}
