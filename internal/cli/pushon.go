// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"
	"os/exec"
	"strings"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// checkRemote refuses what git would take for an option or for a program to run.
func checkRemote(remote string) error {
	if strings.HasPrefix(remote, "-") || strings.Contains(remote, "::") {
		return usage("%s is no address of a repository", printable(remote))
	}
	return nil
}

// pushOn pushes a commit of a repository of the server to another server, whose address
// checkRemote has accepted. It uses the git of this computer with its user's configuration
// and credentials: those of the server's host are for no account. The commit goes through
// a bare repository without a working tree, so that no filter or hook of the commit runs.
func (a *app) pushOn(ctx context.Context, c *client.Client, plan vm.CommitPlan, remote string) error {
	dir, err := os.MkdirTemp("", "warren-push-")
	if err != nil {
		return localError("temporary directory", err)
	}
	defer os.RemoveAll(dir)
	from, secret, err := c.GitAddress(plan.Repo)
	if err != nil {
		return err
	}
	p := a.io.doing("pushing to %s", remote)
	defer p.done()
	hidden := []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http." + from + ".extraHeader", "GIT_CONFIG_VALUE_0=" + secret}
	for _, step := range []struct {
		env  []string
		args []string
	}{
		{nil, []string{"init", "--quiet", "--bare", dir}},
		{hidden, []string{"--git-dir", dir, "fetch", "--quiet", "--no-tags", from, "refs/heads/" + plan.Branch}},
		{nil, []string{"--git-dir", dir, "push", "--quiet", remote, plan.Commit + ":refs/heads/" + plan.Branch}},
	} {
		cmd := exec.CommandContext(ctx, "git", step.args...)
		cmd.Env = append(os.Environ(), step.env...)
		cmd.Stdin, cmd.Stderr = a.io.in, a.io.err
		if err := cmd.Run(); err != nil {
			return vm.Errorf(vm.Unavailable, printable(remote), "git could not push; the commit %.12s is in the repository: %w", plan.Commit, err).
				WithHint("try it by hand: `warren repo clone %s`, then in it `git push %s origin/%s:refs/heads/%s`", or(plan.RepoName, plan.Repo), printable(remote), plan.Branch, plan.Branch)
		}
	}
	return nil
}
