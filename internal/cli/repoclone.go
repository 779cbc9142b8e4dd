// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func newRepoClone(a *app) *cobra.Command {
	o := &repoOptions{}
	cmd := &cobra.Command{
		Use: "clone REPO [DIR] [-- GIT-OPTION...]", Short: "Clone a repository with git",
		Long: `Clone a repository with the git of this computer. git asks this program for the key, so that the key is in no
URL, no file of the clone and no process list; later fetches and pushes in the clone ask the same way.`,
		Example: "  warren repo clone shop\n  warren repo clone shop work/shop -- --depth 1",
		Args:    args(1, -1, "which repository? warren repo clone REPO [DIR]"),
		RunE: func(cmd *cobra.Command, list []string) error {
			own, options := list, []string(nil)
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				own, options = list[:n], list[n:]
			}
			if len(own) == 0 || len(own) > 2 {
				return usage("one repository and one directory at most: warren repo clone REPO [DIR]")
			}
			o.repo = own[0]
			return a.repoClone(cmd.Context(), o, own[1:], options)
		},
		ValidArgsFunction: func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) == 1 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return a.completeRepo(cmd, list, prefix)
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print the repository and the directory as JSON")
	return cmd
}

// clonedView is what `repo clone --json` prints.
type clonedView struct {
	Repo api.GitRepo `json:"repo"`
	Dir  string      `json:"dir"`
	URL  string      `json:"url"`
}

func (a *app) repoClone(ctx context.Context, o *repoOptions, to, options []string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	r, err := c.Repo(ctx, o.repo)
	if err != nil {
		return err
	}
	dir := strings.Join(to, "")
	if dir == "" {
		dir = or(r.Name, r.ID)
	}
	from := c.CloneURL(r.ID)
	helper, err := a.credentialHelper()
	if err != nil {
		return err
	}
	u, err := url.Parse(from)
	if err != nil {
		return err
	}
	scope := "credential." + u.Scheme + "://" + u.Host + ".helper="
	// The empty value drops the helpers of the user, which would store the key.
	line := append([]string{"clone", "-c", scope, "-c", scope + helper}, options...)
	cmd := exec.CommandContext(ctx, "git", append(line, "--", from, dir)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, a.io.err, a.io.err
	if a.io.quiet {
		cmd.Stderr, cmd.Stdout = nil, nil
	}
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return vm.Errorf(vm.Unsupported, "git", "git is not installed on this computer").WithHint("install it: `apt install git`")
		}
		return vm.Errorf(vm.Unavailable, from, "git did not clone the repository: %w", err)
	}
	if o.json {
		return a.io.json(clonedView{Repo: r, Dir: dir, URL: from})
	}
	a.io.notef("%s is in %s", printable(o.repo), printable(path.Clean(dir)))
	return nil
}

// credentialHelper is how git calls this program for the key.
func (a *app) credentialHelper() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", vm.Errorf(vm.Internal, "", "this program does not know its own path: %w", err)
	}
	line := []string{self}
	if a.data != "" {
		line = append(line, "--data", a.data)
	}
	return "!" + joinShell(append(line, "repo", "credential")), nil
}

func newRepoCredential(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "credential get|store|erase", Short: "Answer git's question for the key of this server",
		Long: `Answer git's question for credentials, as git's credential helpers do: only for the address of this server.
"repo clone" names it in the configuration of a clone. To use it in another one:
  git config credential.http://127.0.0.1:8787.helper '!warren repo credential'`,
		Example: "  warren repo credential get",
		Args:    args(1, 1, "git calls this: warren repo credential get"),
		RunE: func(_ *cobra.Command, list []string) error {
			if list[0] != "get" { // nothing is stored
				return nil
			}
			return a.repoCredential(asJSON)
		},
		ValidArgsFunction: cobra.FixedCompletions([]cobra.Completion{"get", "store", "erase"}, noFiles),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func (a *app) repoCredential(asJSON bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	asked := map[string]string{}
	for in := bufio.NewScanner(a.io.in); in.Scan() && in.Text() != ""; {
		if key, value, ok := strings.Cut(in.Text(), "="); ok {
			asked[key] = value
		}
	}
	secret := c.GitCredential(asked["protocol"], asked["host"])
	switch {
	case asJSON:
		return a.io.json(map[string]string{"username": "x-access-token", "password": secret})
	case secret != "": // for another server git asks somebody else
		a.io.printf("username=x-access-token\npassword=%s\n", secret)
	}
	return nil
}

func newRepoLog(a *app) *cobra.Command {
	o := &repoOptions{}
	limit, file := 0, ""
	cmd := &cobra.Command{
		Use: "log REPO [REV]", Short: "List commits, the newest first", Example: "  warren repo log shop\n  warren repo log shop agent/app/main -n 5 --json",
		Args: args(1, 2, "which repository? warren repo log REPO [REV]"),
		RunE: func(cmd *cobra.Command, words []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			commits, err := c.RepoCommits(cmd.Context(), words[0], strings.Join(words[1:], ""), file, limit)
			switch {
			case err != nil:
				return err
			case o.json:
				return list(a.io, commits)
			}
			t := &table{head: []string{"COMMIT", "AGE", "AUTHOR", "MESSAGE"}}
			for _, one := range commits {
				subject, _, _ := strings.Cut(one.Message, "\n")
				t.add(one.SHA[:min(12, len(one.SHA))], age(one.Author.Date), plain(one.Author.Name), plain(subject))
			}
			a.io.print(t)
			return nil
		},
		ValidArgsFunction: a.completeRepo,
	}
	f := cmd.Flags()
	f.IntVarP(&limit, "limit", "n", 20, "number of commits, at most 500")
	f.StringVar(&file, "path", "", "only commits that changed this file or directory")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func newRepoDiff(a *app) *cobra.Command {
	o := &repoOptions{}
	cmd := &cobra.Command{
		Use: "diff REPO [BASE..]REV", Short: "Show the changes of a commit, or from one revision to another",
		Long: `Show what a commit changed, or what REV has that BASE has not, as a patch that "git apply" accepts when it is
written to a file.`,
		Example: "  warren repo diff shop 4f1c9a2b\n  warren repo diff shop main..agent/app/login",
		Args:    args(2, 2, "which repository, and which commit? warren repo diff REPO [BASE..]REV"),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.repoDiff(cmd.Context(), o, list[0], list[1])
		},
		ValidArgsFunction: a.completeRepo,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print the files with the number of their lines as JSON; needs BASE..REV")
	return cmd
}

func (a *app) repoDiff(ctx context.Context, o *repoOptions, repo, revs string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	base, head, both := strings.Cut(revs, "..")
	if !both {
		base, head = "", revs
	}
	if o.json {
		if !both {
			base = head + "^"
		}
		cmp, err := c.CompareRevs(ctx, repo, base, head)
		if err != nil {
			return err
		}
		return a.io.json(cmp)
	}
	if !a.io.outTTY {
		return c.Patch(ctx, repo, base, head, a.io.out)
	}
	var patch bytes.Buffer
	if err := c.Patch(ctx, repo, base, head, &patch); err != nil {
		return err
	}
	var shown bytes.Buffer
	for line := range strings.Lines(patch.String()) {
		shown.WriteString(a.patchLine(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return a.page(ctx, shown.Bytes())
}

// patchLine makes a line of a patch safe for a terminal, and colours it.
func (a *app) patchLine(line string) string {
	text := plain(strings.ReplaceAll(line, "\t", "    "))
	code := ""
	switch {
	case strings.HasPrefix(line, "@@"):
		code = cyan
	case strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "+++ ") || strings.HasPrefix(line, "--- "):
		code = bold
	case strings.HasPrefix(line, "+"):
		code = green
	case strings.HasPrefix(line, "-"):
		code = red
	}
	return paint(a.io.colour, code, text)
}
