// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type keepOptions struct {
	child  string
	over   string
	remove bool
	others bool

	commit bool
	winner commitOptions // if commit
	json   bool
}

func newKeep(a *app) *cobra.Command {
	o := &keepOptions{}
	cmd := &cobra.Command{
		Use:   "keep CHILD --over PARENT",
		Short: "Replace a VM by its better copy",
		Long: `Give a VM, usually a fork, the name of another VM, which it replaces. The other VM keeps running under a new name;
--rm removes it. --rm-others removes the other VMs that were forked from the same state, the candidates that lost.

--commit first commits the work of CHILD to a repository, as "warren commit" does, and with --remote pushes it. If
that fails or is refused, no VM changes.`,
		Example: "  warren keep try-2 --over app\n  warren keep try-2 --over app --rm\n  warren keep try-2 --over app --rm-others\n  warren keep try-2 --over app --commit --repo shop -m fix --yes --rm-others",
		Args:    args(1, 1, "which VM? warren keep CHILD --over PARENT"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.child = list[0]
			if o.over == "" {
				return usage("over which VM?").WithHint("warren keep %s --over PARENT", printable(o.child))
			}
			return a.keep(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	f := cmd.Flags()
	f.StringVar(&o.over, "over", "", "the VM whose name is taken")
	f.BoolVar(&o.remove, "rm", false, "remove that VM")
	f.BoolVar(&o.commit, "commit", false, "first commit the winner's work, as warren commit does")
	f.StringVar(&o.winner.in.Repo, "repo", "", "repository of the commit, by name or id")
	f.StringVar(&o.winner.in.Branch, "branch", "", "branch of the commit (default agent/CHILD/BASE-BRANCH)")
	f.StringVarP(&o.winner.in.Message, "message", "m", "", "message of the commit")
	f.StringVar(&o.winner.remote, "remote", "", "then push the commit to this address with your own git")
	f.BoolVarP(&o.winner.yes, "yes", "y", false, "do not ask before the commit")
	f.BoolVar(&o.others, "rm-others", false, "remove the other VMs that were forked from the same state")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) keep(ctx context.Context, o *keepOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	var plan vm.CommitPlan
	if o.commit {
		if plan, err = a.commitWinner(ctx, c, o); err != nil {
			return err
		}
	}
	k, err := c.Keep(ctx, o.child, api.KeepVM{Over: o.over, Remove: o.remove, RemoveOthers: o.others})
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(keptWinner{KeptVM: k, Commit: plan.Commit, Branch: plan.Branch})
	}
	if plan.Commit != "" {
		a.io.printf("committed %s to %s of %s\n", plan.Commit, printable(plan.Branch), printable(or(plan.RepoName, plan.Repo)))
	}
	a.io.printf("%s is now %s\n", printable(o.child), printable(or(k.VM.Name, string(k.VM.ID))))
	if o.remove {
		a.io.printf("the replaced VM is removed\n")
	} else {
		a.io.printf("the replaced VM is now called %s\n", printable(or(k.Over.Name, string(k.Over.ID))))
	}
	if o.others {
		a.io.printf("removed %s\n", counted(len(k.Removed), "other candidate"))
	}
	return nil
}

// keptWinner is the answer of keep for programs.
type keptWinner struct {
	api.KeptVM
	Commit string `json:"commit,omitempty"`
	Branch string `json:"branch,omitempty"`
}

// commitWinner commits the work of the VM that is kept, and pushes it on.
func (a *app) commitWinner(ctx context.Context, c *client.Client, o *keepOptions) (vm.CommitPlan, error) {
	w := &o.winner
	if w.name = o.child; w.in.Repo == "" {
		return vm.CommitPlan{}, usage("which repository?").WithHint("warren keep %s --over %s --commit --repo REPOSITORY", printable(o.child), printable(o.over))
	}
	if _, tty := terminal(a.io.in); !tty && !w.yes {
		return vm.CommitPlan{}, usage("nobody can be asked: standard input is no terminal").
			WithHint("--yes commits what is there; `warren commit %s --repo %s --dry-run` shows it", printable(o.child), printable(w.in.Repo))
	}
	plan, err := a.commitOnce(ctx, c, w)
	if err == nil && plan.Commit == "" {
		err = vm.Errorf(vm.Cancelled, o.child, "nothing was committed, and no VM was kept")
	}
	if err == nil && w.remote != "" {
		err = a.pushOn(ctx, c, plan, w.remote)
	}
	return plan, err
}
