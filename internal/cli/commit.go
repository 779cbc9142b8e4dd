// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type commitOptions struct {
	name   string
	in     vm.CommitRequest
	gen    string
	allow  []string
	remote string
	yes    bool
	dry    bool
	json   bool
}

func newCommit(a *app) *cobra.Command {
	o := &commitOptions{}
	cmd := &cobra.Command{
		Use:   "commit NAME [PATH]",
		Short: "Commit a directory of a VM to a repository",
		Long: `Commit a directory of a VM to a repository of this server. The commit is built on the host from a frozen state of
the disk: the guest's git, its configuration and its hooks take no part. It holds the files that git would track
there; ignored files, caches and .git are left out and counted. PATH is a directory in the VM; the default is the
working directory, or the git repository in it.

On a terminal it shows what would be committed and asks. It commits exactly that, and refuses when files in the VM
or the branch changed meanwhile, and when changed files hold secrets. The default branch is agent/NAME/main.

With --remote, your own git then pushes the commit to another server, with the credentials of your computer.`,
		Example: "  warren commit app --repo shop -m 'Fix the login'\n  warren commit app /work/app --repo shop --branch agent/app/login --yes\n  warren commit app --repo shop --dry-run --json\n  warren commit app --repo shop --yes --remote git@example.com:shop.git",
		Args:    args(1, 2, "which VM? warren commit NAME [PATH] --repo REPOSITORY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			if len(list) > 1 {
				o.in.Path = vm.GuestPath(list[1])
			}
			return a.commit(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	f := cmd.Flags()
	f.StringVar(&o.in.Repo, "repo", "", "repository, by name or id")
	f.StringVar(&o.in.Branch, "branch", "", "branch of the repository (default agent/NAME/BASE-BRANCH)")
	f.StringVar(&o.in.BaseBranch, "base-branch", "", "branch on which a new branch starts (default: the repository's)")
	f.StringVar(&o.in.Base, "base", "", "commit on which the new one stands, if the branch moved on")
	f.StringVar(&o.in.Prefix, "prefix", "", "directory of the repository that PATH becomes (default: its root)")
	f.StringVarP(&o.in.Message, "message", "m", "", "message of the commit")
	f.StringVar(&o.in.Author, "author", "", "author: \"Name <address>\" (default: the caller)")
	f.StringArrayVar(&o.allow, "allow-secret", nil, "commit this file although a secret was found in it; may repeat")
	f.StringVar(&o.in.From, "from", "", "state with which the diff of --manifest began")
	f.StringVar(&o.gen, "generation", "", "commit this state instead of the present one")
	f.StringVar(&o.in.Manifest, "manifest", "", "refuse unless the commit is the one with this digest, from --dry-run or warren diff")
	f.StringVar(&o.remote, "remote", "", "then push the commit to this address with your own git")
	f.BoolVar(&o.dry, "dry-run", false, "only show what would be committed")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) commit(ctx context.Context, o *commitOptions) error {
	if o.in.Repo == "" {
		return usage("which repository? warren commit %s --repo REPOSITORY", printable(o.name)).WithHint("`warren repo ls` lists them; `warren repo create NAME` makes one")
	}
	o.in.Generation = vm.GenerationID(o.gen)
	for _, p := range o.allow {
		o.in.AllowSecrets = append(o.in.AllowSecrets, vm.GuestPath(p))
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	plan, err := a.commitOnce(ctx, c, o)
	switch {
	case err != nil:
		return err
	case plan.Commit == "": // only shown
		return nil
	}
	if o.remote != "" {
		if err := a.pushOn(ctx, c, plan, o.remote); err != nil {
			return err
		}
	}
	if o.json {
		return a.io.json(plan)
	}
	if a.io.quiet {
		a.io.printf("%s\n", plan.Commit)
		return nil
	}
	a.io.printf("committed %s to %s of %s\n", plan.Commit, printable(plan.Branch), printable(or(plan.RepoName, plan.Repo)))
	a.io.printf("  files     %d changed, %d in all; from state %s\n", plan.Stat.Files(), plan.Total, plan.Generation)
	a.io.printf("  look      warren repo diff %s %s\n", printable(or(plan.RepoName, plan.Repo)), plan.Commit[:12])
	if o.remote != "" {
		a.io.printf("  pushed    %s\n", printable(o.remote))
	}
	return nil
}

// commitOnce shows what would be committed, asks on a terminal, and commits exactly that.
// A plan without a commit was only shown.
func (a *app) commitOnce(ctx context.Context, c *client.Client, o *commitOptions) (vm.CommitPlan, error) {
	if err := checkRemote(o.remote); err != nil {
		return vm.CommitPlan{}, err
	}
	in := o.in
	_, tty := terminal(a.io.in)
	if !o.dry && (o.yes || !tty) {
		if !o.yes && in.Manifest == "" {
			return vm.CommitPlan{}, usage("nobody can be asked: standard input is no terminal").
				WithHint("--yes commits what is there; --dry-run --json shows it, and --manifest commits exactly that")
		}
		p := a.io.doing("committing %s", o.name)
		defer p.done()
		return c.Commit(ctx, o.name, in)
	}
	in.DryRun = true
	p := a.io.doing("reading %s", o.name)
	plan, err := c.Commit(ctx, o.name, in)
	p.done()
	if err != nil {
		return plan, err
	}
	if o.dry && o.json {
		return plan, a.io.json(plan)
	}
	a.showPlan(plan)
	if o.dry {
		return plan, nil
	}
	a.io.askf("commit this to %s? [y/N] ", printable(plan.Branch))
	answer, _ := bufio.NewReader(a.io.in).ReadString('\n') // an end is a no
	if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y") {
		return vm.CommitPlan{}, vm.Errorf(vm.Cancelled, o.name, "nothing was committed")
	}
	in.DryRun, in.Generation, in.Manifest = false, plan.Generation, plan.Manifest
	in.Path, in.Branch = plan.Path, plan.Branch
	p = a.io.doing("committing %s", o.name)
	defer p.done()
	return c.Commit(ctx, o.name, in)
}

// plannedShown is the number of files that are listed for people.
const plannedShown = 40

// showPlan prints a plan like git's diffstat, with what a reviewer must know first.
func (a *app) showPlan(p vm.CommitPlan) {
	for _, s := range p.Secrets {
		a.io.printf("%s\n", a.io.warning(fmt.Sprintf("secret: %s in %s:%d", plain(s.Kind), s.Path, s.Line)))
	}
	for _, f := range p.Flags {
		a.io.printf("%s\n", a.io.warning("note: "+plain(f)))
	}
	marks := map[vm.ChangeVerb]string{vm.FileAdded: "A", vm.FileDeleted: "D", vm.FileModified: "M"}
	for i, f := range p.Files {
		if i == plannedShown {
			a.io.printf("  and %d other files (--json lists them)\n", len(p.Files)+p.More-plannedShown)
			break
		}
		lines := fmt.Sprintf("+%d -%d", f.Additions, f.Deletions)
		if f.Binary {
			lines = "binary"
		}
		a.io.printf("  %s %-12s %s\n", or(marks[f.Verb], "?"), lines, f.Path)
	}
	base := "the first commit"
	if p.Base != "" {
		base = fmt.Sprintf("on %.12s", p.Base)
	}
	a.io.printf("%d files changed, +%d -%d lines; %s of branch %s\n", p.Stat.Files(), p.Stat.LinesAdded, p.Stat.LinesRemoved, base, printable(p.Branch))
	a.io.printf("  from      %s:%s, state %s\n", printable(or(p.VMName, string(p.VM))), p.Path, p.Generation)
	for _, l := range p.LeftOut {
		a.io.printf("  left out  %s\n", plain(l.String()))
	}
	a.io.printf("  manifest  %s\n", p.Manifest)
}

// warning is a line that a terminal shows in yellow.
func (s *streams) warning(text string) string { return paint(s.colour, yellow, text) }
