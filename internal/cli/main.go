// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// app is the state that commands share. Its parts are made when they are
// first needed.
type app struct {
	io      *streams
	getenv  func(string) string
	local   Local
	signals *signals
	data    string // --data
	client  func() (*client.Client, error)

	askFor  time.Duration // --ask-timeout
	trust   string        // --trust
	verbose bool          // ids of audit records too
	verb    string        // the name in the command line
	listed  bool          // changes are printed as JSON at the end
	changes []change      // so far
	gather  *gathered     // collects the output of a command in a guest; nil = the output is passed on
}

// connect returns a client of the server that the environment names, or --data.
func (a *app) connect() (*client.Client, error) {
	c, err := client.FromEnv(func(name string) string {
		if name == "WARREN_DATA" && a.data != "" {
			return a.data
		}
		return a.getenv(name)
	})
	if err == nil {
		c.AskFor(a.askFor)
	}
	return c, err
}

// Main runs one command line, without the program's name, and returns its exit
// status: 0, or that of api.Kinds, or, for exec, run and wait, the status of
// the command in the guest. It handles SIGINT and SIGTERM itself.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string, local Local) int {
	a := &app{io: newStreams(stdin, stdout, stderr, getenv), getenv: getenv, local: local, signals: &signals{}}
	a.client = sync.OnceValues(a.connect)
	ctx, stop := a.signals.watch(ctx)
	defer stop()
	root := newRoot(a)
	a.io.calledBy(local.Program, root)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if a.listed {
		if jerr := list(a.io, a.changes); err == nil {
			err = jerr
		}
	}
	if cause := context.Cause(ctx); cause != nil && vm.KindOf(err) == vm.Cancelled {
		err = cause
	}
	return a.report(err)
}

const firstMinutes = `Warren gives AI agents Linux virtual machines on your own hardware.

The first five minutes, once "warren serve" runs:

  warren up --name box                     a VM, ready to use
  warren exec box -- uname -a              a command in it; its exit status is yours
  warren cp data.csv box:/work/            a file into it (and out of it, the other way round)
  warren run -- python3 -c 'print(6*7)'    one job in a fresh VM, nothing left behind
  warren rm box                            gone, with its disk and logs

"warren help" lists every command, "warren COMMAND --help" explains one.
"warren doctor" says what this machine offers and what it lacks.
`

// Groups of commands in the help.
const (
	groupVM    = "vm"
	groupUse   = "use"
	groupHost  = "host"
	groupAdmin = "admin"
)

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "warren",
		Short:         "Linux virtual machines for AI agents, on hardware you own",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			a.io.printf("%s", a.io.named(firstMinutes))
			return nil
		},
	}
	root.Long = root.Short + ".\n\nEnvironment:\n" + environment + "\nExit status: 0, or the kind of failure:\n" + exitTable() + statusesPassed
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		e := usage("%s", err).WithHint("see `%s --help`", cmd.CommandPath())
		if hasCommandLine(cmd) {
			e = e.WithHint("put -- before the command for the guest; see `%s --help`", cmd.CommandPath())
		}
		if cmd.Annotations[passes] != "" {
			return passing{e}
		}
		return e
	})
	f := root.PersistentFlags()
	f.StringVar(&a.data, "data", "", "data directory of this host's server (default $WARREN_DATA, else by user)")
	f.BoolVarP(&a.io.quiet, "quiet", "q", false, "print no notes, progress or confirmations; listings and new things print only ids")
	f.DurationVar(&a.askFor, "ask-timeout", 0, "how long a call waits for an approval that it needs, at most 1h (default 5m)")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "print ids of audit records too")
	f.Bool("version", false, "print the version of this program")
	root.SetVersionTemplate("{{.Root.Name}} {{.Version}}\n")
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { a.verb = typed(cmd) }
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpFunc(a.help)
	root.AddGroup(
		&cobra.Group{ID: groupVM, Title: "Virtual machines:"},
		&cobra.Group{ID: groupUse, Title: "In a virtual machine:"},
		&cobra.Group{ID: groupHost, Title: "This host:"},
		&cobra.Group{ID: groupAdmin, Title: "Administration:"},
	)
	root.AddCommand(commands(a)...)
	setVersion(root)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.InitDefaultHelpCmd()
	return root
}

// setVersion gives every command --version.
func setVersion(cmd *cobra.Command) {
	cmd.Version = api.Version
	for _, below := range cmd.Commands() {
		setVersion(below)
	}
}

// typed is the verb in the command line, such as "resume" for the command
// "start".
func typed(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	return strings.TrimSpace(typed(cmd.Parent()) + " " + or(cmd.CalledAs(), cmd.Name()))
}

func commands(a *app) []*cobra.Command {
	in := func(group string, list ...*cobra.Command) []*cobra.Command {
		for _, c := range list {
			c.GroupID = group
		}
		return list
	}
	out := in(groupVM, newUp(a), newRun(a), newLs(a), newInspect(a), newStop(a), newStart(a),
		newSuspend(a), newDrain(a), newFork(a), newSnapshot(a), newRollback(a), newDiff(a), newTruth(a), newTurn(a), newTurns(a), newUndo(a), newRestore(a), newCompare(a), newTree(a), newKeep(a), newBundle(a), newResize(a), newRename(a), newLabel(a), newOnBoot(a),
		newKill(a), newRm(a), newDone(a), newUsage(a))
	out = append(out, in(groupUse, newExec(a), newShell(a), newPty(a), newPs(a), newState(a), newTop(a), newDiagnose(a), newIdle(a), newHold(a), newWait(a), newSignal(a), newLogs(a), newCp(a), newSync(a), newClone(a), newRepo(a), newArtifact(a), newBucket(a), newPublish(a), newFetch(a), newWatchFiles(a), newSSH(a), newSSHConfig(a), newSSHProxy(a), newMCP(a), newAgent(a),
		newCommit(a), newApply(a), newMemory(a), newFs(a), newNet(a), newPath(a), newPolicy(a), newService(a), newVolume(a), newSecret(a), newProfile(a), newLint(a), newPreview(a), newScreen(a), newForward(a), newDomain(a))...)
	out = append(out, in(groupHost, newServe(a), newDoctor(a), newImage(a), newTrust(a), newStorage(a), newPrune(a), newConfig(a), newCA(a), newVersion(a), newCompletion(a))...)
	out = append(out, in(groupAdmin, newAccount(a), newKey(a), newIdentity(a), newToken(a), newAsk(a), newApprove(a), newDeny(a), newAudit(a), newReceipt(a), newEvents(a), newBackup(a))...)
	return append(out, newDocs(a))
}

// passes marks commands that return the guest's exit status.
const passes = "passes"

func hasCommandLine(cmd *cobra.Command) bool { return strings.Contains(cmd.Use, "-- CMD") }

// destructive are the verbs that lose or stop something. They are never suggested
// for a typo, because a person may just confirm the suggestion.
var destructive = []string{"rm", "kill", "stop", "down", "drain", "prune", "done", "rollback", "undo", "restore", "keep", "revoke", "lock", "remove", "delete", "unmount", "unmap", "rotate", "close"}

func unknownCommand(cmd *cobra.Command, name string) error {
	e := usage("%s: no such command", printable(name))
	cmd.SuggestionsMinimumDistance = 2
	near := slices.DeleteFunc(cmd.SuggestionsFor(name), func(verb string) bool { return slices.Contains(destructive, verb) })
	slices.SortStableFunc(near, func(a, b string) int { return alike(b, name) - alike(a, name) })
	if len(near) > 0 {
		return e.WithHint("did you mean `%s %s`?", cmd.CommandPath(), near[0])
	}
	return e.WithHint("`%s help` lists the commands", cmd.Root().CommandPath())
}

// alike is the length of the common prefix of two words.
func alike(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// group is a command that only has commands below it.
func group(use, short, example string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(below...)
	return cmd
}

// args wants so many arguments; most < 0 means any number.
func args(least, most int, missing string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, list []string) error {
		switch {
		case len(list) < least:
			return usage("%s", missing).WithHint("see `%s --help`", cmd.CommandPath())
		case most >= 0 && len(list) > most:
			return usage("unexpected argument %s", printable(list[most])).WithHint("see `%s --help`", cmd.CommandPath())
		}
		return nil
	}
}

// environment lists the variables that every command reads.
const environment = `  WARREN_API_URL  the server (default ` + client.DefaultURL + `)
  WARREN_API_KEY  an API key, or an identity's token (default, for a server of
                  this host: what admin.key in its data directory holds; members
                  of the host's group first use ` + client.HostKey + `)
  WARREN_DATA     that data directory (default /var/lib/warren for root, else
                  ~/.local/share/warren); --data overrides it
`

// statusesPassed are the statuses that are not in the table.
const statusesPassed = `
exec, run and wait pass on the status of the command in the guest; 124 says that
it ran out of time, 125 that Warren failed and not the command.
`

// exitTable lists the exit statuses, each once.
func exitTable() string {
	var b strings.Builder
	for i, r := range api.Kinds {
		if i > 0 && api.Kinds[i-1].Exit == r.Exit {
			b.WriteString(", or " + r.Means)
			continue
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("  " + pad(itoa(r.Exit), 5) + r.Means)
	}
	return b.String() + "\n"
}

const usageTemplate = `Usage:
  {{.UseLine}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}{{if .Aliases}}

Other names: {{range $i, $a := .Aliases}}{{if $i}}, {{end}}{{$a}}{{end}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}{{end}}{{if .HasParent}}

Every command has --quiet, --verbose, --data and --version: see "{{.Root.Name}} --help".{{end}}
`

// helpWidth is the width of help: that of an ordinary terminal.
const helpWidth = 80

// help prints what a command is for and how it is used.
func (a *app) help(cmd *cobra.Command, _ []string) {
	a.io.printf("%s\n\n%s", reflow(or(cmd.Long, cmd.Short), helpWidth), cmd.UsageString())
}

// reflow wraps paragraphs to a width. Lines that begin with a space stay
// unchanged if they fit.
func reflow(text string, width int) string {
	var out []string
	open := false // the last line belongs to a paragraph that continues
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if line == "" || line[0] == ' ' {
			out, open = append(out, fold(line, width)), false
			continue
		}
		for _, word := range strings.Fields(line) {
			if last := len(out) - 1; open && utf8.RuneCountInString(out[last])+1+utf8.RuneCountInString(word) <= width {
				out[last] += " " + word
				continue
			}
			out, open = append(out, word), true
		}
	}
	return strings.Join(out, "\n")
}
