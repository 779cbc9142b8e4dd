// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// givenTree is a git repository of this computer, as an agent gets it.
type givenTree struct {
	top    string // its directory
	branch string
	head   string // the commit that is checked out
	tree   string // what is in the working tree
	dirty  bool   // the tree is that of no commit of the user
	commit string // what the agent starts on
}

// readTree finds the repository around a directory, and what is in its working tree: changed
// and new files, without ignored ones. Nothing of the repository changes but that it has more
// objects that no branch names.
func readTree(ctx context.Context, dir string) (givenTree, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return givenTree{}, vm.Errorf(vm.Unsupported, "git", "is not installed").WithHint("install it: `apt-get install git`")
	}
	var t givenTree
	top, err := localGit(ctx, dir, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return t, vm.Errorf(vm.Invalid, printable(dir), "is not in a git repository").WithHint("make it one: `git init && git add . && git commit -m start`")
	}
	t.top = top
	if t.head, err = localGit(ctx, top, nil, "rev-parse", "--verify", "HEAD^{commit}"); err != nil {
		return t, vm.Errorf(vm.Invalid, printable(top), "the repository has no commit yet").WithHint("make one: `git add . && git commit -m start`")
	}
	if t.branch, err = localGit(ctx, top, nil, "symbolic-ref", "--short", "HEAD"); err != nil {
		t.branch = "main" // a commit is checked out, not a branch
	}
	scratch, err := os.MkdirTemp("", "warren-agent-")
	if err != nil {
		return t, localError("temporary directory", err)
	}
	defer os.RemoveAll(scratch)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(scratch, "index")}
	if _, err = localGit(ctx, top, env, "read-tree", "HEAD"); err == nil {
		_, err = localGit(ctx, top, env, "add", "--all")
	}
	if err != nil {
		return t, err
	}
	if t.tree, err = localGit(ctx, top, env, "write-tree"); err != nil {
		return t, err
	}
	was, err := localGit(ctx, top, nil, "rev-parse", "HEAD^{tree}")
	if err != nil {
		return t, err
	}
	t.dirty = t.tree != was
	return t, err
}

// start makes the commit on which the agent starts. prev is that of the last call, which a
// machine may have; "" = there is none. The new one is above it, so that the machine gets it
// without a merge. linear is false if prev is not known here any more.
func (t *givenTree) start(ctx context.Context, prev string) (linear bool, err error) {
	is := func(args ...string) bool { _, err := localGit(ctx, t.top, nil, args...); return err == nil }
	if prev != "" && !is("cat-file", "-e", prev+"^{commit}") {
		prev = ""
	}
	linear = prev != ""
	parents := []string{"-p", t.head}
	switch {
	case prev == "" || is("merge-base", "--is-ancestor", prev, t.head):
		if t.commit = t.head; !t.dirty {
			return linear, nil
		}
	case is("merge-base", "--is-ancestor", t.head, prev):
		was, err := localGit(ctx, t.top, nil, "rev-parse", prev+"^{tree}")
		if t.commit = prev; err != nil || was == t.tree {
			return linear, err
		}
		parents = []string{"-p", prev}
	default:
		parents = []string{"-p", prev, "-p", t.head}
	}
	who := []string{"GIT_AUTHOR_NAME=Warren", "GIT_AUTHOR_EMAIL=agent@warren.internal", "GIT_COMMITTER_NAME=Warren", "GIT_COMMITTER_EMAIL=agent@warren.internal"}
	t.commit, err = localGit(ctx, t.top, who, append([]string{"commit-tree", t.tree, "-m", "The working tree as it was given to the agent"}, parents...)...)
	return linear, err
}

// push brings the commit into a repository of the server, with the key in no argument.
func (t *givenTree) push(ctx context.Context, c *client.Client, repo string, linear bool) error {
	to, secret, err := c.GitAddress(repo)
	if err != nil {
		return err
	}
	env := []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http." + to + ".extraHeader", "GIT_CONFIG_VALUE_0=" + secret, "GIT_TERMINAL_PROMPT=0"}
	spec := t.commit + ":refs/heads/" + t.branch
	if !linear {
		spec = "+" + spec
	}
	_, err = localGit(ctx, t.top, env, "push", "--quiet", "--no-verify", to, spec)
	return err
}

// localGit runs the user's git in a directory and returns the first line that it prints.
func localGit(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", vm.Errorf(vm.Invalid, "git "+args[0], "%s", plain(vm.Clip(strings.TrimSpace(errs.String()), 500)))
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	return strings.TrimSpace(line), nil
}
