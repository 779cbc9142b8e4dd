// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type agentOptions struct {
	name    string
	image   string
	cmd     string
	hosts   []string
	secrets []string
	size    sizeFlags
	fresh   bool
	json    bool
}

func newAgent(a *app) *cobra.Command {
	o := &agentOptions{}
	cmd := &cobra.Command{
		Use:   "agent AGENT [DIR] [-- ARG...]",
		Short: "Let a coding agent work on a repository, in a machine of its own",
		Long: `Run a coding agent, which is claude, codex, gemini or opencode, on the git repository around DIR (default: here), in
a VM. --cmd runs any other program in its place. Words after -- go to the agent.

The first call makes the VM, from the image agents with 2 GiB of memory, and a repository of the server of the same
name. It brings in the working tree by git: what is committed, and changed and new files, without ignored ones. The
VM reaches the provider of the agent and nothing else; --net opens more. The provider's key stays outside: the VM has
a placeholder, which its network replaces. The key is the one that the server keeps ("warren secret"), else that of
the variable here.

Later calls wake the VM, as it was, and bring in what is new, if that is possible without a merge.

Before the agent starts, a turn is marked. When it ends, you see what it changed, and how to look at that, undo it,
commit it and fetch it. Your own files change only when you fetch.`,
		Example: `  warren agent claude .
  warren agent codex ~/src/shop -- exec 'fix the failing test'
  warren agent --cmd ./my-agent --net api.example.com --secret MY_KEY .
  warren agent claude . --name second-try`,
		Annotations: map[string]string{passes: "yes"},
		RunE: func(cmd *cobra.Command, list []string) error {
			own, rest := list, []string(nil)
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				own, rest = list[:n], list[n:]
			}
			return passed(a.agent(cmd.Context(), o, own, rest))
		},
		ValidArgsFunction: func(_ *cobra.Command, list []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) == 0 && o.cmd == "" {
				return agentNames(), noFiles
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the VM (default AGENT and the name of the repository's directory)")
	f.StringVar(&o.image, "image", agentsImage, "image of a new VM")
	f.StringVar(&o.cmd, "cmd", "", "run this command line in place of an agent that is known by name")
	f.StringSliceVar(&o.hosts, "net", nil, "what the VM may reach in addition to the provider: hosts, or packages; may repeat")
	f.StringSliceVar(&o.secrets, "secret", nil, "further secret of the server that the VM may use; may repeat")
	o.size.add(f)
	f.BoolVar(&o.fresh, "fresh", false, "delete the VM of that name first, with what is in it")
	f.BoolVar(&o.json, "json", false, "give the agent no terminal, and print how it ended and what changed as JSON")
	return cmd
}

const (
	agentsImage = "agents"
	agentMemory = 2048 // MiB that the programs of that image need
)

// treeLabel says which directory a VM was made for.
const treeLabel = "agent-tree"

func (a *app) agent(ctx context.Context, o *agentOptions, own, rest []string) error {
	agent, dir := "", "."
	if o.cmd == "" {
		if len(own) == 0 {
			return usage("which agent? warren agent AGENT [DIR]").WithHint("they are %s; any other program runs by --cmd 'PROGRAM ...'", strings.Join(agentNames(), ", "))
		}
		agent, own = own[0], own[1:]
	}
	if len(own) > 1 {
		return usage("unexpected argument %s", printable(own[1])).WithHint("words for the agent come after --")
	}
	if len(own) == 1 {
		dir = own[0]
	}
	if o.cmd == "" && !slices.Contains(agentNames(), agent) {
		_, err := o.choose(agent, rest, a.getenv, nil)
		return err
	}
	t, err := readTree(ctx, dir)
	if err != nil {
		return err
	}
	c, err := a.clientOrServer(ctx)
	if err != nil {
		return err
	}
	kept, err := a.keptSecrets(ctx, c)
	if err != nil {
		return err
	}
	what, err := o.choose(agent, rest, a.getenv, kept)
	if err != nil {
		return err
	}
	r := &agentRun{app: a, c: c, o: o, t: t, what: what, name: o.name}
	if r.name == "" {
		r.name = machineName(what.label + "-" + filepath.Base(t.top))
	}
	if err := vm.CheckName(r.name); err != nil {
		return err
	}
	if p := what.provider; p != nil && !slices.Contains(kept, p.env) {
		if _, err := c.SetSecret(ctx, p.secretOf(a.getenv(p.env))); err != nil {
			return err
		}
		a.io.notef("the key in %s is kept as a secret of the server; the VM gets a placeholder", p.env)
	}
	return r.run(ctx)
}

func (a *app) keptSecrets(ctx context.Context, c *client.Client) (names []string, err error) {
	l, err := c.Secrets(ctx)
	for _, s := range l {
		names = append(names, s.Name)
	}
	return names, err
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// machineName makes a VM's name of a text.
func machineName(text string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		name = "a-" + name
	}
	return strings.TrimRight(name[:min(len(name), 41)], "-")
}

// agentRun is one call.
type agentRun struct {
	*app
	c    *client.Client
	o    *agentOptions
	t    givenTree
	what chosen
	name string // of the VM and of the repository
	turn vm.Turn
}

// dir is where the repository is in the VM.
func (r *agentRun) dir() string { return "/work/" + r.name }

func (r *agentRun) treeOf() string {
	sum := sha256.Sum256([]byte(r.t.top))
	return hex.EncodeToString(sum[:8])
}

func (r *agentRun) run(ctx context.Context) error {
	there, err := r.find(ctx)
	if err != nil {
		return err
	}
	if there && r.o.fresh {
		if err := r.c.Delete(ctx, r.name); err != nil {
			return err
		}
		there = false
	}
	if err := r.bring(ctx); err != nil {
		return err
	}
	if there {
		err = r.wake(ctx)
	} else {
		err = r.make(ctx)
	}
	if err != nil {
		return err
	}
	p := r.io.doing("marking a turn")
	r.turn, err = r.c.Turn(ctx, r.name, api.MarkTurn{Note: "before " + r.what.label})
	p.done()
	if err != nil {
		return err
	}
	if r.what.prepare != "" {
		if out, err := r.inside(ctx, r.what.prepare); err != nil {
			return vm.Errorf(vm.GuestFault, r.name, "%s could not be set up: %w: %s", r.what.label, err, plain(vm.Clip(out, 500)))
		}
	}
	ended := r.work(ctx)
	var status exitStatus
	if ended != nil && !errors.As(ended, &status) {
		return ended
	}
	return errors.Join(ended, r.show(ctx, int(status)))
}

// find looks for the VM, and refuses one that was made for something else.
func (r *agentRun) find(ctx context.Context) (bool, error) {
	v, err := r.c.Get(ctx, r.name)
	switch {
	case errors.Is(err, vm.NotFound):
		return false, nil
	case err != nil:
		return false, err
	case v.Labels[treeLabel] != r.treeOf():
		return false, vm.Errorf(vm.Exists, r.name, "this VM was not made for %s", printable(r.t.top)).WithHint("choose another name with --name")
	}
	return true, nil
}

// bring brings the working tree into the server's repository of that name.
func (r *agentRun) bring(ctx context.Context) error {
	p := r.io.doing("bringing in %s", r.t.top)
	defer p.done()
	prev := ""
	_, err := r.c.Repo(ctx, r.name)
	if errors.Is(err, vm.NotFound) {
		_, err = r.c.CreateRepo(ctx, api.NewRepo{Name: r.name, DefaultBranch: r.t.branch})
	} else if last, no := r.c.RepoCommits(ctx, r.name, r.t.branch, "", 1); no == nil && len(last) > 0 { // else the branch is new
		prev = last[0].SHA
	}
	if err != nil {
		return err
	}
	linear, err := r.t.start(ctx, prev)
	if err == nil {
		err = r.t.push(ctx, r.c, r.name, linear)
	}
	return err
}

// make makes the VM, with the repository in it.
func (r *agentRun) make(ctx context.Context) error {
	in := api.CreateVM{
		Name: r.name, UniqueName: true, Image: r.what.image, Secrets: r.what.secrets, Network: vm.NetworkSpec(strings.Join(r.what.hosts, ",")),
		Labels: map[string]string{treeLabel: r.treeOf()}, Persistence: &vm.Persistence{Type: vm.Persistent},
	}
	if len(r.what.hosts) == 0 {
		in.Network = vm.NetworkSpec(vm.NetClosed)
	}
	var err error
	if in.Sizes, err = r.o.size.sizes(); err != nil {
		return err
	}
	if in.MemSizeMib == 0 && r.what.image == agentsImage {
		in.MemSizeMib = agentMemory
	}
	in.Git, in.Workdir = &api.Git{Repos: []api.Repo{{Repo: r.name, Path: r.dir(), Rev: r.t.branch}}}, r.dir()
	if _, err = r.create(ctx, r.c, in); err == nil {
		r.remote(ctx)
	}
	return err
}

// remote makes the VM a remote of the user's repository. That is a convenience: without it
// the commands that are shown at the end still work, but for the fetch.
func (r *agentRun) remote(ctx context.Context) {
	if _, err := localGit(ctx, r.t.top, nil, "remote", "get-url", r.name); err == nil {
		return
	}
	clone := &cloneOptions{app: r.app, from: place{vm: r.name, path: r.dir()}, dir: r.t.top, user: "root"}
	quiet := r.io.quiet
	r.io.quiet = true
	err := clone.run(ctx)
	r.io.quiet = quiet
	if err != nil {
		r.io.notef("`git fetch %s` is not set up: %s\n  hint: `warren clone %s:%s DIR` clones the VM's repository", r.name, plain(err.Error()), r.name, r.dir())
	}
}

// wake starts the VM, opens what is needed, and brings in what is new.
func (r *agentRun) wake(ctx context.Context) error {
	p := r.io.doing("waking %s", r.name)
	defer p.done()
	if _, err := r.c.Start(ctx, r.name, api.StartVM{}); err != nil {
		return err
	}
	if len(r.what.hosts) > 0 {
		allow := api.ChangeNetwork{}
		for _, h := range r.what.hosts {
			allow.Allow = append(allow.Allow, vm.NetRule{Action: vm.NetAllow, To: h})
		}
		if _, err := r.c.ChangeNetwork(ctx, r.name, allow); err != nil {
			return err
		}
	}
	for _, s := range r.what.secrets {
		if _, err := r.c.GrantSecret(ctx, s, r.name); err != nil && !errors.Is(err, vm.Exists) {
			return err
		}
	}
	line := fmt.Sprintf("git fetch -q origin && git merge -q --ff-only %s", quoteShell("origin/"+r.t.branch))
	if out, err := r.inside(ctx, line); err != nil {
		p.done()
		r.io.notef("the VM keeps its own tree: git cannot bring in yours without a merge\n  it says: %s\n  hint: the agent can merge origin/%s itself; --fresh starts again from your tree", plain(vm.Clip(strings.TrimSpace(out), 200)), r.t.branch)
	}
	return nil
}

// inside runs a command line in the repository of the VM, and returns what it prints.
func (r *agentRun) inside(ctx context.Context, line string) (string, error) {
	e, err := r.c.Exec(ctx, r.name, vm.ExecSpec{Command: line, Cwd: r.dir()})
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	status, err := e.Run(&said, &said)
	if err == nil && status.Code != 0 {
		err = vm.Errorf(vm.GuestFault, r.name, "exit status %d", status.Code)
	}
	return said.String(), err
}

// work runs the agent: on this terminal, else with this program's streams.
func (r *agentRun) work(ctx context.Context) error {
	spec := vm.ExecSpec{Argv: r.what.argv, Cwd: r.dir(), Env: map[string]string{}}
	for _, kv := range r.what.env {
		name, value, _ := strings.Cut(kv, "=")
		spec.Env[name] = value
	}
	_, tty := terminal(r.io.in)
	if r.o.json {
		r.gather = &gathered{}
	} else if tty && r.io.outTTY {
		spec.Stdin = true
		return r.onTerminal(ctx, r.c, r.name, spec)
	}
	return r.attached(ctx, r.c, r.name, spec, r.leave)
}

// agentEnd is the answer for programs.
type agentEnd struct {
	VM       string      `json:"vm"`
	Repo     string      `json:"repo"`
	Branch   string      `json:"branch"` // on which the agent began
	Start    string      `json:"start"`  // the commit
	Turn     int         `json:"turn"`   // the state before the agent
	ExitCode int         `json:"exitCode"`
	Stdout   string      `json:"stdout"`
	Stderr   string      `json:"stderr"`
	Stat     vm.DiffStat `json:"stat"`
	Next     []string    `json:"next"` // commands
}

// next are the commands for what may come now.
func (r *agentRun) next() [][2]string {
	return [][2]string{
		{"look", fmt.Sprintf("warren diff %s --from %d", r.name, r.turn.Number)},
		{"go back", fmt.Sprintf("warren undo %s %d", r.name, r.turn.Number)},
		{"commit", fmt.Sprintf("warren commit %s %s --repo %s --base-branch %s -m MESSAGE", r.name, r.dir(), r.name, quoteShell(r.t.branch))},
		{"fetch", fmt.Sprintf("git fetch %s", r.name)},
	}
}

// show prints what the agent changed, and what may be done with it.
func (r *agentRun) show(ctx context.Context, status int) error {
	p := r.io.doing("comparing")
	d, err := r.c.Diff(ctx, r.name, vm.DiffRequest{From: fmt.Sprint(r.turn.Number)})
	p.done()
	if err != nil {
		return err
	}
	if r.o.json {
		out := agentEnd{
			VM: r.name, Repo: r.name, Branch: r.t.branch, Start: r.t.commit, Turn: r.turn.Number, ExitCode: status, Stat: d.Stat,
			Stdout: strings.ToValidUTF8(r.gather.stdout.String(), "\uFFFD"), Stderr: strings.ToValidUTF8(r.gather.stderr.String(), "\uFFFD"),
		}
		for _, n := range r.next() {
			out.Next = append(out.Next, n[1])
		}
		return r.io.json(out)
	}
	text := fmt.Sprintf("%s has ended; files of %s since turn %d: %s", printable(r.what.label), r.name, r.turn.Number, filesOf(d.Stat))
	for _, alert := range d.Alerts {
		text += "\n  alert     " + plain(alert.Text)
	}
	for _, n := range r.next() {
		text += fmt.Sprintf("\n  %-9s %s", n[0], n[1])
	}
	r.io.notef("%s", text)
	return nil
}
