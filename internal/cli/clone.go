// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

// cloneSuffix is the suffix of host names in the URLs of remotes, as ssh-config has it.
const cloneSuffix = "warren"

type cloneOptions struct {
	app    *app
	from   place
	dir    string // "" = the name of the repository
	user   string
	branch string
	depth  int
	json   bool
}

func newClone(a *app) *cobra.Command {
	o := &cloneOptions{app: a}
	cmd := &cobra.Command{
		Use:   "clone NAME:PATH [DIR]",
		Short: "Clone a git repository out of a VM",
		Long: `Clone a repository that lies in a VM, such as box:/work/repo, to this computer, with this computer's git. The
remote is named after the VM, so later "git fetch box" and "git push box" reach the VM; it wakes if it sleeps.
If DIR is a git repository already, the remote is added to it, and fetched.

No other setup is needed: the repository's core.sshCommand names an ssh configuration of Warren's, which also
includes yours. No key is stored in the repository.

What the VM sends is not trusted: git checks every object, reaches nothing but the VM, fetches no submodules and
downloads no LFS files. Files of the repository are as harmless as other downloads: look before you run them.

The program git must be in the VM. A push to the branch that is checked out there is refused by git; push to
another branch.`,
		Example: `  warren clone box:/work/repo
  warren clone box:/work/repo review --branch agent/fix
  warren clone box-2:/work/repo repo`,
		Args: args(1, 2, "from where? warren clone NAME:PATH"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.from = parsePlace(list[0])
			if len(list) == 2 {
				o.dir = list[1]
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: a.completePlace,
	}
	f := cmd.Flags()
	f.StringVarP(&o.user, "user", "l", "root", "Linux user in the guest")
	f.StringVar(&o.branch, "branch", "", "branch to check out (default the one that is checked out in the VM)")
	f.IntVar(&o.depth, "depth", 0, "number of commits to fetch (default all)")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// cloned is the result of a clone.
type cloned struct {
	Dir    string `json:"dir"`
	Remote string `json:"remote"`
	URL    string `json:"url"`
	Added  bool   `json:"added"` // the directory was a repository already
}

func (o *cloneOptions) run(ctx context.Context) error {
	switch {
	case o.from.vm == "":
		return usage("%s is not in a VM", printable(o.from.path)).WithHint("write it as NAME:/path/of/repository")
	case o.from.path == "" || strings.ContainsAny(o.from.path, "\r\n\x00"):
		return usage("no path in %s", printable(o.from.vm)).WithHint("write `warren clone %s:/path/of/repository`", printable(o.from.vm))
	case vm.CheckName(o.from.vm) != nil && !vm.IsID(o.from.vm):
		return usage("%s is not a VM's name", printable(o.from.vm))
	}
	if _, err := exec.LookPath("git"); err != nil {
		return vm.Errorf(vm.Unsupported, "git", "is not installed").WithHint("install it: `apt-get install git`")
	}
	if o.dir == "" {
		o.dir = strings.TrimSuffix(path.Base(path.Clean(o.from.path)), ".git")
		if o.dir == "." || o.dir == "/" || o.dir == ".." || o.dir == "" || strings.HasPrefix(o.dir, "-") {
			return usage("the repository has no name to clone it to").WithHint("name a directory: `warren clone %s:%s DIR`", o.from.vm, printable(o.from.path))
		}
	}
	c, err := o.app.client()
	if err != nil {
		return err
	}
	if _, err := c.Get(ctx, o.from.vm); err != nil { // a better message than ssh's
		return err
	}
	way, err := o.app.sshWay(ctx, c, "", "")
	if err != nil {
		return err
	}
	ssh, err := o.sshCommand(way)
	if err != nil {
		return err
	}
	done := cloned{Dir: o.dir, Remote: o.from.vm, URL: o.remoteURL()}
	if done.Added = isRepository(ctx, o.dir); done.Added {
		err = o.add(ctx, done, ssh)
	} else {
		err = o.clone(ctx, done, ssh)
	}
	if err != nil {
		return err
	}
	if o.json {
		return o.app.io.json(done)
	}
	o.app.io.notef("the VM is the remote %s of %s: `git fetch %s`", done.Remote, printable(done.Dir), done.Remote)
	return nil
}

// remoteURL is the repository's address for git. A relative path begins in the VM's
// working directory.
func (o *cloneOptions) remoteURL() string {
	host := o.from.vm + "." + cloneSuffix
	if !path.IsAbs(o.from.path) {
		return o.user + "@" + host + ":" + o.from.path
	}
	return (&url.URL{Scheme: "ssh", User: url.User(o.user), Host: host, Path: o.from.path}).String()
}

// sshCommand writes an ssh configuration for the server's VMs, which includes the user's
// own for all other hosts, and returns the ssh command that uses it.
func (o *cloneOptions) sshCommand(way sshWay) (string, error) {
	block := sshConfigOptions{app: o.app, user: o.user, suffix: cloneSuffix}
	text, err := block.block(way)
	if err != nil {
		return "", err
	}
	text = strings.Replace(text, "    User "+o.user+"\n", "", 1) // the URL names the user
	for _, other := range []string{filepath.Join(o.app.getenv("HOME"), ".ssh", "config"), "/etc/ssh/ssh_config"} {
		text += "Match all\nInclude " + quoteSSH(other) + "\n"
	}
	file := filepath.Join(filepath.Dir(way.knownHosts), "ssh_clone_"+way.alias)
	if err := replaceFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	return joinShell([]string{"ssh", "-F", file}), nil
}

// isRepository reports whether a directory is the top of a git repository's work tree.
func isRepository(ctx context.Context, dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
		return false
	}
	return exec.CommandContext(ctx, "git", "-C", dir, "rev-parse", "--git-dir").Run() == nil
}

// careful are the settings of a repository that reads from a VM.
func careful(ssh string) []string {
	return []string{"core.sshCommand=" + ssh, "transfer.fsckObjects=true", "fetch.recurseSubmodules=false"}
}

func (o *cloneOptions) clone(ctx context.Context, to cloned, ssh string) error {
	argv := []string{"clone", "--origin", to.Remote, "--no-recurse-submodules"}
	for _, set := range careful(ssh) {
		argv = append(argv, "--config", set)
	}
	if o.branch != "" {
		argv = append(argv, "--branch="+o.branch)
	}
	return o.git(ctx, append(o.depthOf(argv), "--", to.URL, to.Dir)...)
}

// depthOf adds what both a clone and a fetch may have.
func (o *cloneOptions) depthOf(argv []string) []string {
	if o.app.io.errTTY && !o.app.io.quiet {
		argv = append(argv, "--progress")
	}
	if o.depth > 0 {
		argv = append(argv, "--depth", strconv.Itoa(o.depth))
	}
	return argv
}

// add adds the VM as a remote of a repository and fetches it. If the fetch fails, nothing
// is added.
func (o *cloneOptions) add(ctx context.Context, to cloned, ssh string) error {
	own, _ := exec.CommandContext(ctx, "git", "-C", to.Dir, "config", "--get", "core.sshCommand").Output()
	had := strings.TrimSpace(string(own))
	if had != "" && had != ssh {
		return vm.Errorf(vm.Exists, to.Dir, "the repository has a core.sshCommand of its own").
			WithHint("write `warren ssh-config --write`, then `git remote add %s %s`", to.Remote, to.URL)
	}
	if err := o.git(ctx, "-C", to.Dir, "remote", "add", to.Remote, to.URL); err != nil {
		return err
	}
	argv := []string{"-C", to.Dir}
	for _, set := range careful(ssh) {
		argv = append(argv, "-c", set)
	}
	err := o.git(ctx, append(o.depthOf(append(argv, "fetch", "--no-recurse-submodules")), "--", to.Remote)...)
	if err != nil {
		undo, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer stop()
		_ = o.git(undo, "-C", to.Dir, "remote", "remove", to.Remote) // the fetch's error counts
		return err
	}
	for _, set := range careful(ssh) {
		name, value, _ := strings.Cut(set, "=")
		if err := o.git(ctx, "-C", to.Dir, "config", name, value); err != nil {
			return err
		}
	}
	if o.branch != "" {
		return o.git(ctx, "-C", to.Dir, "checkout", "-b", o.branch, "--track", to.Remote+"/"+o.branch)
	}
	return nil
}

// git runs the user's git. It may reach the VM by ssh and nothing else, and its messages,
// which repeat what the VM says, are shown without control characters.
func (o *cloneOptions) git(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, "git", argv...)
	cmd.Env = append(os.Environ(), "GIT_ALLOW_PROTOCOL=ssh", "GIT_LFS_SKIP_SMUDGE=1", "GIT_TERMINAL_PROMPT=0")
	shown := &plainWriter{to: o.app.io.err}
	cmd.Stdout, cmd.Stderr = shown, shown
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // git removes what it began
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	shown.flush()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return vm.Errorf(vm.GuestFault, o.from.vm, "git did not finish: %v", exit).
				WithHint("is it a repository? `warren exec %s -- git -C %s status`", o.from.vm, quoteShell(o.from.path))
		}
		return vm.Errorf(vm.Internal, "git", "cannot be run: %w", err)
	}
	return nil
}

// plainWriter passes text on without the bytes that a terminal would act on, except the
// end of a line and the return to its start.
type plainWriter struct {
	to   io.Writer
	rest []byte // the beginning of a character
}

func (w *plainWriter) Write(p []byte) (int, error) {
	n := len(p)
	p = append(w.rest, p...)
	w.rest = nil
	var out bytes.Buffer
	for len(p) > 0 {
		if !utf8.FullRune(p) {
			w.rest = bytes.Clone(p)
			break
		}
		r, size := utf8.DecodeRune(p)
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			out.WriteRune(r)
		case r == utf8.RuneError && size == 1, r < ' ', r >= 0x7f && r < 0xa0, isBidi(r):
			out.WriteByte('?')
		default:
			out.WriteRune(r)
		}
		p = p[size:]
	}
	_, _ = w.to.Write(out.Bytes()) // nobody reads the messages if it fails
	return n, nil
}

// flush shows what is left of a character that was cut.
func (w *plainWriter) flush() {
	if len(w.rest) > 0 {
		_, _ = w.to.Write([]byte("?"))
		w.rest = nil
	}
}

// isBidi reports whether a character changes the order in which others are shown.
func isBidi(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f
}
